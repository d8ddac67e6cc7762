"""Puts the command line together.

A command group is a module with `register(app)`; what is heavy to import, it imports when a command runs.
"""

from __future__ import annotations

import sys

import typer

from parallelsearch.cli import ask, bench, doctor, evaluate, index, platform, reward, search, train
from parallelsearch.errors import ParallelSearchError

GROUPS = (platform, ask, search, index, reward, evaluate, train, bench, doctor)


def create_app() -> typer.Typer:
    app = typer.Typer(
        name="parallelsearch",
        help="Answers questions by decomposing them into sub-queries and searching these at the same time.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for group in GROUPS:
        group.register(app)
    return app


def run() -> None:
    """The entry point: an error of ours, or of the file system, is a sentence and an exit code, never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        create_app()()
    except ParallelSearchError as error:
        from parallelsearch.cli.failures import report

        sys.exit(report(error))
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(141)
    except OSError as error:
        from parallelsearch.cli.failures import report_file

        sys.exit(report_file(error))
