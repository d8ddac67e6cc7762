"""`doctor`: what this machine lacks, line by line."""

from __future__ import annotations

import typer


def register(app: typer.Typer) -> None:
    app.command()(doctor)


def doctor() -> None:
    """Looks at Python, disk, memory, ports, installed parts, models, index and services. Exit code 1 on a problem."""
    from rich.console import Console
    from rich.text import Text

    from parallelsearch.cli import here
    from parallelsearch.cli.plain import plain
    from parallelsearch.supervisor.doctor import examine
    from parallelsearch.supervisor.findings import Level

    marks = {Level.OK: ("OK      ", "green"), Level.NOTE: ("note    ", "yellow"), Level.PROBLEM: ("PROBLEM ", "red")}
    console, found = Console(), examine(here.settings())
    for one in found:
        mark, style = marks[one.level]
        console.print(Text(mark, style) + plain(f"{one.name:<9} {one.text}"), soft_wrap=True)
        if one.remedy and one.level is not Level.OK:
            console.print(plain(f"{'':<18} {one.remedy}"), soft_wrap=True)
    raise typer.Exit(any(one.level is Level.PROBLEM for one in found))
