"""What the documents name exists: commands, options, make targets and variables."""

import re
from pathlib import Path

import pytest
import typer.main

from parallelsearch.cli.main import create_app

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("requirements/*.md")])


def names_of(documents, pattern):
    return {name for path in documents for name in re.findall(pattern, path.read_text())}


@pytest.fixture(scope="module")
def commands():
    return typer.main.get_command(create_app()).commands


def test_commands_in_the_documents_exist(commands):
    named = names_of(DOCUMENTS, r"(?:`|/)parallelsearch ([a-z]+)\b")
    assert {"up", "ask"} <= named
    assert named <= set(commands)


def test_every_command_is_documented(commands):
    text = (ROOT / "docs" / "cli.md").read_text()
    for name in commands:
        assert f"`parallelsearch {name}" in text, name


def test_options_in_the_command_line_document_exist(commands):
    known = {option for command in commands.values() for parameter in command.params for option in parameter.opts}
    for option in names_of([ROOT / "docs" / "cli.md"], r"`(--[a-z-]+)`"):
        assert option in known


def test_make_targets_in_the_documents_exist():
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for name in names_of(DOCUMENTS, r"(?:^|`)make ([a-z][a-z0-9-]*)\b"):
        assert name in targets, name


def test_variables_in_the_command_line_document_exist():
    code = "\n".join(path.read_text() for path in (ROOT / "packages").rglob("*.py"))
    for name in names_of([ROOT / "docs" / "cli.md"], r"`([A-Z]+_[A-Z_]+)`"):
        service, _, end = name.partition("_")
        assert name in code or (service.lower() in code and end in {"PORT", "HOST"}), name
