"""An index is read whole once; after that a look at its files is enough, until one of them is another."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from parallelsearch.errors import IndexMismatch
from retriever.index import verified
from retriever.index.manifest import read_manifest
from retriever.index.verified import STAMP_FILE, verify_once


@pytest.fixture
def index(tmp_path, index_folder):
    return shutil.copytree(index_folder, tmp_path / "index")


@pytest.fixture
def reads(monkeypatch):
    """How often all files were compared."""
    seen = []
    compare = verified.verify_files
    monkeypatch.setattr(verified, "verify_files", lambda folder, manifest: (seen.append(folder), compare(folder, manifest)))
    return seen


def check(index):
    verify_once(index, read_manifest(index))


def test_the_bytes_are_compared_once(index, reads):
    check(index)
    check(index)
    assert len(reads) == 1


@pytest.mark.parametrize("name", ["passages.jsonl", "vectors.npy", "offsets.u64"])
def test_a_file_changed_after_it_was_compared_is_found(index, name):
    check(index)
    path = index / read_manifest(index).version / name
    path.write_bytes(path.read_bytes()[:-1] + b"\x07")
    with pytest.raises(IndexMismatch, match=rf"{name}.*sha256"):
        check(index)


def test_a_file_put_in_its_place_is_found_even_with_the_same_size_and_time(index):
    check(index)
    path = index / read_manifest(index).version / "vectors.npy"
    was = path.stat()
    other = path.with_suffix(".other")
    other.write_bytes(bytes(was.st_size))
    os.utime(other, ns=(was.st_atime_ns, was.st_mtime_ns))
    other.replace(path)
    with pytest.raises(IndexMismatch, match=r"vectors\.npy.*sha256"):
        check(index)


def test_a_missing_file_is_found(index):
    check(index)
    (index / read_manifest(index).version / "offsets.u64").unlink()
    with pytest.raises(IndexMismatch, match=r"offsets\.u64 is missing"):
        check(index)


def test_a_copy_is_compared_anew(index, tmp_path, reads):
    check(index)
    copy = shutil.copytree(index, tmp_path / "copy")
    check(copy)
    check(copy)
    assert reads == [index, copy]


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff", b'{"files": {}}', b'{"fingerprint": "x", "files": {}}'])
def test_a_stamp_that_says_nothing_is_no_stamp(index, reads, content):
    (index / read_manifest(index).version / STAMP_FILE).write_bytes(content)
    check(index)
    check(index)
    assert len(reads) == 1


def test_a_folder_that_cannot_be_written_is_compared_each_time(index, reads, monkeypatch):
    monkeypatch.setattr(verified, "STAMP_FILE", "no/such/folder")
    check(index)
    check(index)
    assert len(reads) == 2


@pytest.fixture
def within_reach(index_folder):
    """A copy that everybody can go to, looked at by a user who is not root: root reads every file."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        copy = shutil.copytree(index_folder, Path(folder) / "index")
        check(copy)
        (copy / read_manifest(copy).version / "vectors.npy").chmod(0)
        was = os.geteuid()
        if was == 0:
            os.seteuid(65_534)
        yield copy
        os.seteuid(was)


def test_a_file_that_may_not_be_read_is_named_also_if_it_was_compared_before(within_reach):
    with pytest.raises(IndexMismatch, match=r"vectors\.npy cannot be read \(Permission denied\)"):
        check(within_reach)


def test_a_file_of_another_length_is_told_without_reading_it(index):
    path = index / read_manifest(index).version / "vectors.npy"
    whole = path.stat().st_size
    os.truncate(path, 100 << 30)  # a hole: to read it would take a minute
    with pytest.raises(IndexMismatch, match=rf"vectors\.npy has {100 << 30} bytes; the manifest says {whole}\."):
        check(index)
