"""What a folder holds, and nothing but that: no links, no pipes, no half-written states."""

import os
import threading

import pytest

from parallelsearch.errors import CorpusError
from retriever.documents.document import Unreadable
from retriever.documents.files import MAX_DEPTH, MAX_FILE_BYTES, content_of, find_documents


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "docs"
    (root / "sub").mkdir(parents=True)
    (root / "b.md").write_text("b")
    (root / "a.txt").write_text("a")
    (root / "sub" / "c.pdf").write_bytes(b"%PDF-")
    return root


def found(listing):
    return [file.source for file in listing.files]


def test_documents_are_found_by_their_names_and_the_rest_is_counted(folder):
    (folder / "picture.png").write_bytes(b"")
    (folder / ".git").mkdir()
    (folder / ".git" / "hidden.md").write_text("hidden")
    (folder / ".hidden.md").write_text("hidden")
    listing = find_documents([folder])
    assert found(listing) == ["a.txt", "b.md", "sub/c.pdf"]
    assert listing.other == {".png": 1}
    assert not listing.refused


def test_links_are_named_and_never_followed(folder, tmp_path):
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "out.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "away").symlink_to(tmp_path)
    (folder / "loop").symlink_to(folder)
    listing = find_documents([folder])
    assert found(listing) == ["a.txt", "b.md", "sub/c.pdf"]
    assert {one.source for one in listing.refused} == {"out.txt", "away", "loop"}
    with pytest.raises(CorpusError, match="not followed"):
        find_documents([folder / "out.txt"])


def test_a_file_or_folder_that_becomes_a_link_after_it_was_found_is_not_followed(folder, tmp_path):
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "c.pdf").write_text("secret")
    (tmp_path / "secret.txt").write_text("secret")
    files = {file.source: file for file in find_documents([folder]).files}
    (folder / "a.txt").unlink()
    (folder / "a.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "sub").rename(tmp_path / "moved")
    (folder / "sub").symlink_to(tmp_path / "secret")
    for source in ("a.txt", "sub/c.pdf"):
        with pytest.raises(Unreadable, match="cannot be read"):
            content_of(files[source], tmp_path / "copy")


def test_a_pipe_is_no_document_and_holds_nothing_up(folder):
    os.mkfifo(folder / "pipe.txt")
    pipe = next(file for file in find_documents([folder]).files if file.source == "pipe.txt")
    with pytest.raises(Unreadable, match="no regular file"):
        content_of(pipe)


def test_a_file_of_two_gigabytes_is_refused_by_its_size(folder, tmp_path):
    with (folder / "a.txt").open("wb") as file:
        file.truncate(2 << 30)
    with pytest.raises(Unreadable, match=f"2,147,483,648 bytes, more than the {MAX_FILE_BYTES:,}"):
        content_of(find_documents([folder]).files[0], tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_a_file_that_is_written_to_all_the_time_is_refused_and_never_read_half(folder, tmp_path):
    path = folder / "a.txt"
    path.write_bytes(b"x" * 90_000_000)
    begun, done = threading.Event(), threading.Event()

    def writer():
        with path.open("ab", buffering=0) as file:
            while not done.is_set():
                file.write(b"y")
                begun.set()

    thread = threading.Thread(target=writer)
    thread.start()
    begun.wait(30)
    try:
        with pytest.raises(Unreadable, match="changes while it is read"):
            content_of(find_documents([folder]).files[0], tmp_path / "copy")
    finally:
        done.set()
        thread.join()


def test_a_file_that_has_gone_or_is_not_permitted_is_told(folder):
    file = find_documents([folder]).files[0]
    (folder / "a.txt").unlink()
    with pytest.raises(Unreadable, match="No such file"):
        content_of(file)


def test_two_documents_of_one_name_are_refused(folder, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a.txt").write_text("other")
    with pytest.raises(CorpusError, match=r"would both be called a\.txt"):
        find_documents([folder, tmp_path / "other"])


def test_names_that_are_no_text_are_told(folder):
    descriptor = os.open(os.fsencode(folder) + b"/bad\xff.txt", os.O_CREAT | os.O_WRONLY)
    os.close(descriptor)
    (folder / "line\nbreak.txt").write_text("x")
    assert sorted(one.source for one in find_documents([folder]).refused) == ["bad?.txt", "line?break.txt"]


def test_folders_beyond_a_depth_are_told_and_not_walked(tmp_path):
    deep = tmp_path / "docs"
    deep.mkdir()
    (deep / "a.txt").write_text("x")
    for _ in range(MAX_DEPTH):
        deep = deep / "d"
    deep.mkdir(parents=True)
    (deep / "b.txt").write_text("x")
    (deep / "d" / "d").mkdir(parents=True)
    (deep / "d" / "c.txt").write_text("x")
    found = find_documents([tmp_path / "docs"])
    assert [file.path.name for file in found.files] == ["a.txt", "b.txt"]
    assert [one.reason for one in found.refused] == [f"lies below {MAX_DEPTH} folders"]
