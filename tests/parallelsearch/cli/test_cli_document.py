"""docs/cli.md names every command, and no option or variable that does not exist."""

import re
from pathlib import Path

import pytest
import typer.main

from parallelsearch.cli.main import create_app

ROOT = Path(__file__).resolve().parents[3]


def named_in_the_document(pattern):
    return set(re.findall(pattern, (ROOT / "docs" / "cli.md").read_text()))


@pytest.fixture(scope="module")
def commands():
    return typer.main.get_command(create_app()).commands


def test_every_command_is_documented(commands):
    text = (ROOT / "docs" / "cli.md").read_text()
    for name in commands:
        assert f"`parallelsearch {name}" in text, name


def test_options_in_the_command_line_document_exist(commands):
    known = {option for command in commands.values() for parameter in command.params for option in parameter.opts}
    for option in named_in_the_document(r"`(--[a-z-]+)`"):
        assert option in known


def test_variables_in_the_command_line_document_exist():
    code = "\n".join(path.read_text() for path in (ROOT / "packages").rglob("*.py"))
    for name in named_in_the_document(r"`([A-Z]+_[A-Z_]+)`"):
        service, _, end = name.partition("_")
        # Of a service's own settings the name is made of its prefix and a field.
        assert name in code or (service.lower() in code and f"\n    {end.lower()}: " in code), name
