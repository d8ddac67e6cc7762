"""`index …`: handed to the retriever, which owns indexes. Those with a name lie in the state folder."""

from __future__ import annotations

import os
import sys

import typer

PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
COMMANDS = {
    "build": "Builds an index of documents, or of passages: index build FOLDER --index NAME [--encoder NAME].",
    "add": "Adds documents: index add FILE… --index NAME.",
    "delete": "Takes documents out: index delete DOCUMENT… --index NAME.",
    "sync": "Makes an index follow a folder: index sync FOLDER --index NAME.",
    "list": "Shows the indexes there are; with --index NAME, the documents of one.",
    "rollback": "Publishes the version before again: index rollback --index NAME.",
    "inspect": "Says what an index holds: index inspect FOLDER [--json].",
}


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Builds, changes and inspects indexes.", no_args_is_help=True)
    for name, says in COMMANDS.items():
        group.command(name, context_settings=PASSED_ON, help=says)(passed_on)
    app.add_typer(group, name="index")


def passed_on(context: typer.Context) -> None:
    hand_over(str(context.info_name), context.args)


def hand_over(command: str, arguments: list[str]) -> None:
    """Becomes the retriever's own command with the same arguments, so that what ends this process ends the work."""
    from parallelsearch.cli import here

    environment = os.environ | {"RETRIEVER_INDEXES": str(here.settings().indexes)} | here.running_retriever()
    os.execve(sys.executable, [sys.executable, "-m", "retriever", "index", command, *arguments], environment)
