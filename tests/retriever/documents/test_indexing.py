"""From a folder to an index and on: what changed is read and encoded, what did not is kept, and nothing is ever half published."""

import os

import pytest
from document_files import write_bomb, write_docx, write_pdf
from typer.testing import CliRunner

from parallelsearch.errors import ConfigurationError, CorpusError
from retriever.command_arguments import refusals
from retriever.commands import app
from retriever.documents.changes import Add, Delete, Replace, Sync
from retriever.documents.records import read_records
from retriever.index.build import build
from retriever.index.manifest import DocumentRules, read_manifest
from retriever.index.opened import open_index
from retriever.index.plan import BuildPlan
from retriever.index.versions import roll_back

RULES = DocumentRules(64, 8)
LAKES = {
    "baikal.md": "# Lake Baikal\nBaikal is the deepest lake.\n## Water\nIts water is fresh.",
    "assal.txt": "Lake Assal lies in Djibouti and is very salty.",
    "sub/victoria.html": "<title>Victoria</title><p>Lake Victoria is the largest lake of Africa.</p>",
}


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "docs"
    for name, text in LAKES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.fixture
def apply(tmp_path, minilm):
    """Makes a change to the index; gives its manifest."""

    def applying(change, **options):
        options = {"keep": 3, **options}
        return build(BuildPlan((), tmp_path / "index", minilm, documents=RULES, change=change, **options))

    return applying


@pytest.fixture
def index(tmp_path):
    return tmp_path / "index"


def records(index):
    return {record.source: record for record in read_records(index / read_manifest(index).version)}


def sources(index):
    with_close = open_index(index)
    found = [str(passage.metadata["source"]) for passage in with_close.corpus]
    with_close.close()
    return found


def test_a_folder_becomes_an_index_whose_passages_say_where_they_are_from(folder, apply, index):
    write_pdf(folder / "report.pdf", ["First page.", "Second page."])
    write_docx(folder / "notes.docx")
    (folder / "lakes.csv").write_text("name,depth\nBaikal,1642\nTanganyika,1470\n")
    manifest = apply(Replace((folder,), {"team": "water"}))
    assert manifest.documents.documents == 6
    opened = open_index(index)
    found = {passage.id: passage for passage in opened.corpus}
    assert found["report.pdf#1"].metadata["page"] == 2
    assert found["report.pdf#1"].metadata["source"] == "report.pdf"
    assert found["baikal.md#1"].metadata | {"date": ""} == {
        "source": "baikal.md",
        "section": "Water",
        "team": "water",
        "date": "",
    }
    assert found["baikal.md#1"].title == "Lake Baikal › Water"
    assert found["lakes.csv#0"].text == "name: Baikal\ndepth: 1642"
    opened.close()


def test_addresses_lead_to_file_and_page(folder, tmp_path, minilm, index):
    write_pdf(folder / "a report.pdf", ["First page.", "Second page."])
    rules = DocumentRules(64, 8, "https://example.org/docs/")
    build(BuildPlan((), index, minilm, documents=rules, change=Replace((folder,))))
    opened = open_index(index)
    urls = {passage.id: passage.url for passage in opened.corpus}
    opened.close()
    assert urls["a report.pdf#1"] == "https://example.org/docs/a%20report.pdf#page=2"
    assert urls["sub/victoria.html#0"] == "https://example.org/docs/sub/victoria.html"


def test_what_cannot_be_read_is_listed_with_its_reason_and_the_build_goes_on(folder, apply, index, tmp_path, capsys):
    write_pdf(folder / "locked.pdf", ["secret"], password="x")
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7 nothing")
    write_bomb(folder / "bomb.docx")
    (tmp_path / "outside.txt").write_text("outside")
    (folder / "link.txt").symlink_to(tmp_path / "outside.txt")
    (folder / "picture.png").write_bytes(b"x")
    apply(Replace((folder,)))
    said = capsys.readouterr().err
    for line in (
        "locked.pdf: it is password-protected",
        "broken.pdf: it is a broken pdf",
        "bomb.docx: it unpacks to",
        "link.txt: it is",
    ):
        assert said.count(f"cannot read {line}") == 1
    assert "passed over files of other types: 1 .png" in said
    states = {source: record.state for source, record in records(index).items()}
    assert {source for source, state in states.items() if state == "unreadable"} == {
        "locked.pdf",
        "broken.pdf",
        "bomb.docx",
        "link.txt",
    }
    assert set(sources(index)) == set(LAKES)


def test_what_is_added_again_and_cannot_be_read_is_told_again(folder, apply, index, capsys):
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7 nothing")
    (folder / "same.md").write_text(LAKES["baikal.md"])
    apply(Sync(folder))
    capsys.readouterr()
    apply(Add((folder / "broken.pdf", folder / "same.md")))
    said = capsys.readouterr().err
    assert "cannot read broken.pdf: it is a broken pdf file" in said
    assert "same.md nearly repeats baikal.md: kept once" in said
    assert "Nothing to do" in said


def test_near_duplicates_are_named_and_kept_once_and_come_back_when_the_first_goes(folder, apply, index, capsys):
    text = " ".join(f"Sentence {number} is about lakes and rivers." for number in range(60))
    (folder / "copy.txt").write_text(text)
    (folder / "other copy.md").write_text(text.replace("Sentence 7 ", "Sentence seven "))
    apply(Sync(folder))
    assert "other copy.md nearly repeats copy.txt: kept once" in capsys.readouterr().err
    assert records(index)["other copy.md"].reason == "copy.txt"
    assert "other copy.md" not in sources(index)
    (folder / "copy.txt").unlink()
    apply(Sync(folder))
    assert records(index)["other copy.md"].state == "indexed"
    assert "other copy.md" in sources(index)


def test_a_sync_encodes_what_changed_and_nothing_else(folder, apply, index, capsys):
    apply(Sync(folder))
    (folder / "baikal.md").write_text(LAKES["baikal.md"] + "\nIt is clear.")
    (folder / "new.md").write_text("A new lake.")
    (folder / "assal.txt").unlink()
    apply(Sync(folder))
    assert "2 of 4 passages were encoded before and are the same" in capsys.readouterr().err
    assert set(sources(index)) == {"baikal.md", "new.md", "sub/victoria.html"}
    opened = open_index(index)
    fresh = opened.encoder.encode_passages([passage.contents for passage in opened.corpus])
    queries = opened.search.search(fresh, 1)[1][:, 0]
    assert queries.tolist() == list(range(len(opened.corpus)))
    opened.close()


def test_a_sync_of_nothing_new_publishes_nothing(folder, apply, index, capsys):
    first = apply(Sync(folder))
    os.utime(folder / "baikal.md", (1, 1))
    capsys.readouterr()
    assert apply(Sync(folder)) == first
    assert "up to date" in capsys.readouterr().err


def test_documents_are_added_replaced_and_deleted_by_name(folder, apply, index, tmp_path):
    apply(Sync(folder))
    (tmp_path / "assal.txt").write_text("Assal again, from elsewhere.")
    apply(Add((tmp_path / "assal.txt",), {"by": "hand"}))
    assert records(index)["assal.txt"].metadata == {"by": "hand"}
    assert sorted(set(sources(index))) == sorted(LAKES)
    apply(Delete(("sub/*", "baikal.md")))
    assert sources(index) == ["assal.txt"]
    with pytest.raises(CorpusError, match=r"No document is called nothing\.md"):
        apply(Delete(("nothing.md",)))


@pytest.mark.parametrize(("kind", "lexical"), [("flat", True), ("hnsw", False), ("ivf_sq8", False)])
def test_the_last_document_can_go_and_others_can_come(folder, apply, index, kind, lexical, capsys):
    options = {"kind": kind, "lexical": lexical}
    apply(Sync(folder), **options)
    emptied = apply(Delete(("*",)), **options)
    assert (emptied.passages, emptied.documents.documents) == (0, 0)
    assert "has no passage now; parallelsearch index rollback" in capsys.readouterr().err
    assert sources(index) == []
    for arguments, said in ((("list", "--index", index), "0 passages"), (("inspect", index), "every sha256 as recorded")):
        done = CliRunner().invoke(app, [*map(str, arguments)])
        assert (done.exit_code, said in done.output) == (0, True)
    assert apply(Sync(folder), **options).passages == 4
    apply(Delete(("*",)), **options)
    (folder / "other").mkdir()
    (folder / "other" / "new.txt").write_text("A lake that is new.")
    assert apply(Add((folder / "other" / "new.txt",)), **options).passages == 1
    assert roll_back(index).passages == 0
    assert roll_back(index).passages == 4


def test_a_folder_without_a_document_that_can_be_read_is_no_index(folder, apply, index):
    for path in folder.rglob("*.*"):
        path.unlink()
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7 nothing")
    with pytest.raises(CorpusError, match="nothing to publish"):
        apply(Replace((folder,)))
    assert not (index / "manifest.json").exists()


def test_a_sync_leaves_what_came_from_elsewhere_and_refuses_a_name_twice(folder, apply, index, tmp_path):
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "x.txt").write_text("From elsewhere.")
    apply(Sync(folder))
    apply(Sync(tmp_path / "more"))
    assert sorted(records(index)) == sorted([*LAKES, "x.txt"])
    (tmp_path / "more" / "assal.txt").write_text("Another Assal.")
    with pytest.raises(CorpusError, match=r"assal\.txt is in the index already"):
        apply(Sync(tmp_path / "more"))


def test_a_rollback_serves_the_version_before_and_keeps_no_more_than_asked(folder, apply, index):
    versions = [apply(Sync(folder)).version]
    for number in range(3):
        (folder / f"{number}.txt").write_text(f"Text number {number} about nothing else at all.")
        versions.append(apply(Sync(folder)).version)
    assert sorted(path.name for path in index.iterdir() if len(path.name) == 16) == sorted(versions[1:])
    assert roll_back(index).version == versions[2]
    assert roll_back(index).version == versions[1]
    assert "1.txt" not in sources(index)
    with pytest.raises(ConfigurationError, match="keeps no version before"):
        roll_back(index)


@pytest.mark.parametrize("kind", ["hnsw", "ivf_sq8"])
def test_approximate_kinds_follow_a_folder_too(folder, apply, index, kind, capsys):
    apply(Sync(folder), kind=kind)
    (folder / "new.md").write_text("A new lake.")
    apply(Sync(folder), kind=kind)
    assert "4 of 5 passages were encoded before" in capsys.readouterr().err
    assert len(set(sources(index))) == 4


def test_commands_refuse_in_one_line(folder, tmp_path, index, write_corpus, rows):
    corpus = write_corpus(rows[:2])
    picture, link = tmp_path / "picture.png", tmp_path / "link.md"
    picture.write_bytes(b"\x89PNG")
    link.symlink_to(folder / "baikal.md")
    for arguments, said in (
        (("build", picture, "--out", index), "picture.png is not read. Documents end in .txt"),
        (("build", folder, picture, "--out", index), "picture.png is not read. Documents end in .txt"),
        (("add", picture, "--index", index), "picture.png is not read. Documents end in .txt"),
        (("add", link, "--index", index), "link.md is a symbolic link, and links are not followed"),
        (("add", folder / "nothing.md", "--index", index), "nothing.md: there is no such file or folder"),
        (("build", folder, corpus, "--out", index), "is a file of passages"),
        (("build", folder), "--out FOLDER, or --index NAME"),
        (("build", folder, "--out", index, "--chunk-tokens", "3"), "--chunk-tokens must be at least"),
        (("build", folder, "--index", "bad name"), "is no name for an index"),
        (("build", folder, "--out", index, "--metadata", "x"), "must be NAME=VALUE"),
        (("sync", folder / "nothing", "--index", index), "is no folder"),
        (("rollback", "--index", tmp_path), "holds no index"),
    ):
        done = CliRunner().invoke(app, [*map(str, arguments)])
        assert done.exit_code == 1, arguments
        assert said in str(done.exception.code if isinstance(done.exception, SystemExit) else done.output)


def test_ctrl_c_is_one_line_and_its_own_exit_code(capsys):
    with pytest.raises(SystemExit) as ended, refusals():
        raise KeyboardInterrupt
    assert ended.value.code == 130
    assert capsys.readouterr().err.startswith("[index] interrupted: ")


def test_a_folder_without_indexes_is_said_to_have_none(tmp_path, monkeypatch):
    monkeypatch.setenv("RETRIEVER_INDEXES", str(tmp_path))
    listed = CliRunner().invoke(app, ["list"])
    assert (listed.exit_code, "There are no indexes in" in listed.output) == (0, True)
