"""Names of documents and the patterns for them: a star is anything, the rest is itself, and any name can be meant alone."""

import time
from fnmatch import fnmatchcase

import pytest
from document_uploads import ADMIN, settled
from hypothesis import given
from hypothesis import strategies as st
from live_retriever import live_retriever
from typer.testing import CliRunner

from parallelsearch.rollout.types import Filter
from retriever.commands import app as commands
from retriever.documents.filtering import DocumentFilter
from retriever.documents.patterns import literally, matches
from retriever.documents.records import DocumentRecord

names = st.text("ab*?[]!/-.", max_size=12)


@given(names)
def test_every_name_can_be_meant_alone(name):
    assert matches(name, literally(name))
    assert not matches(f"{name}x", literally(name))


@given(names, names)
def test_a_pattern_that_means_one_name_means_no_other(name, other):
    assert matches(other, literally(name)) == (name == other)


@given(st.text("ab/.", max_size=12), st.text("ab/.*", max_size=12))
def test_a_star_is_what_it_is_everywhere(name, pattern):
    assert matches(name, pattern) == fnmatchcase(name, pattern)


@pytest.mark.parametrize(
    ("pattern", "meant"),
    [
        ("reports [2024]/*", {"reports [2024]/a.md"}),
        ("a[12].md", {"a[12].md"}),
        ("what?.md", {"what?.md"}),
        ("*", {"reports [2024]/a.md", "a[12].md", "a1.md", "what?.md", "whats.md", "a*.md"}),
        ("a[*].md", {"a*.md"}),
    ],
)
def test_brackets_and_question_marks_are_themselves(pattern, meant):
    every = ["reports [2024]/a.md", "a[12].md", "a1.md", "what?.md", "whats.md", "a*.md"]
    documents = DocumentFilter([DocumentRecord(name, "", "indexed", first_row=row, rows=1) for row, name in enumerate(every)])
    assert {every[row] for row in documents.rows(Filter(source=pattern)).tolist()} == meant


def test_a_pattern_of_many_stars_takes_no_time():
    started = time.perf_counter()
    assert not matches("a" * 4_000, "*a" * 500 + "*b")
    assert time.perf_counter() - started < 1


@pytest.mark.timeout(240)
def test_documents_of_odd_names_are_taken_out_one_by_one(tmp_path, index_folder):
    """Over HTTP, by the command: a name is no option and no pattern."""
    folder, index = tmp_path / "docs", tmp_path / "indexes" / "odd"
    folder.mkdir()
    odd = ["--help.txt", "a[12].txt", "what?.txt"]
    for name in [*odd, "a1.txt", "whats.txt"]:
        (folder / name).write_text(f"All about {name}.")
    built = CliRunner().invoke(commands, ["build", str(folder), "--out", str(index), "--encoder", "minilm"])
    assert built.exit_code == 0
    with live_retriever(index=index_folder, indexes=index.parent, ADMIN_TOKEN="secret") as client:
        for name in odd:
            path = f"/v1/indexes/odd/documents/{name.replace('?', '%3F')}"
            assert client.delete(path, headers=ADMIN).status_code == 202, name
        status = settled(client, "odd")
        assert status["work"] == {"state": "done", "detail": ""}
        assert [each["source"] for each in status["documents"]] == ["a1.txt", "whats.txt"]
