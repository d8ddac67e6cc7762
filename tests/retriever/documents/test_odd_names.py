"""Names that are no UTF-8 text, on the command line: one sentence, before anything is read."""

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from retriever.commands import app

BAD = os.fsdecode(b"\xfc")
SAID = "\\udcfc"


@pytest.fixture
def place(tmp_path):
    """A folder of one document, the same under a bad name, and a file of passages under one."""
    for folder in ("good", f"bad{BAD}"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.txt").write_text("Lake Assal is salty.")
    (tmp_path / f"corpus{BAD}.jsonl").write_text('{"id": "1", "title": "Assal", "text": "It is salty."}')
    (tmp_path / "link").symlink_to(tmp_path / f"bad{BAD}")
    return tmp_path


def refused(*arguments):
    done = CliRunner().invoke(app, [*map(str, arguments)])
    assert isinstance(done.exception, SystemExit), done.exception
    told = str(done.exception.code)
    assert done.exit_code == 1
    assert "is not UTF-8, in which an index notes names down." in told
    assert SAID in told
    assert "reading" not in done.output
    return True


def test_a_name_that_is_no_text_is_refused_wherever_it_is_given(place):
    good, out = place / "good", place / "index"
    for corpus in (place / f"bad{BAD}", place / f"corpus{BAD}.jsonl", place / f"bad{BAD}" / "a.txt", place / "link"):
        assert refused("build", corpus, "--out", out, "--encoder", "minilm")
    assert refused("build", good, "--out", place / f"index{BAD}", "--encoder", "minilm")
    assert refused("build", good, "--out", out, "--encoder", "minilm", "--metadata", f"team={BAD}")
    assert not out.exists()
    for change in (("add", place / f"bad{BAD}"), ("sync", place / f"bad{BAD}"), ("add", good, "--metadata", f"team={BAD}")):
        assert refused(*change, "--index", out)
    assert refused("sync", good, "--index", place / f"index{BAD}")
    assert not Path(out).exists()
