"""Commands that the documents show can be typed: the command is there, and so is each of its options."""

import re

import pytest
import typer.main
from deployed import ROOT

from parallelsearch.cli.main import create_app
from retriever.commands import app as retriever_index

SHOWN = re.compile(r"parallelsearch ((?:up|down|status|ask|search|index|eval|reward|train|doctor)\b[^\n`|]*)")
DOCUMENTS = sorted([*(ROOT / "docs").rglob("*.md"), *(ROOT / "requirements").glob("*.md"), ROOT / "README.md"])


def commands_of(document):
    text = document.read_text().replace("\\\n", " ")
    return [shown.split() for shown in SHOWN.findall(text)]


def followed(words):
    """The command that the words name, and what is left of them."""
    command, words = typer.main.get_command(create_app()), list(words)
    if words[:1] == ["index"] and len(words) > 1:
        command, words = typer.main.get_command(retriever_index), words[1:]
    while words and words[0] in getattr(command, "commands", ()):
        command = command.commands[words.pop(0)]
    return getattr(command, "commands", {}).get("run", command), words


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_and_options_in_the_documents_exist(document):
    for shown in commands_of(document):
        command, words = followed(shown)
        known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        asked = {match[0] for word in words if (match := re.match(r"--[a-z][a-z-]*", word))}
        assert asked <= known | {"--help"}, f"parallelsearch {' '.join(shown)}"


def test_commands_are_found_in_the_documents():
    assert sum(len(commands_of(document)) for document in DOCUMENTS) > 30
