"""How `status` shows the platform."""

from __future__ import annotations

import sys

from pydantic import TypeAdapter
from rich.console import Console
from rich.table import Table
from rich.text import Text

from parallelsearch.cli import here
from parallelsearch.cli.failures import UNREACHABLE
from parallelsearch.cli.plain import plain
from parallelsearch.supervisor.status import Health, PlatformStatus, look

STYLES = {Health.READY: "green", Health.DEGRADED: "yellow", Health.STARTING: "yellow"}


def show(*, as_json: bool) -> int:
    status = look(here.settings().state)
    if as_json:
        sys.stdout.write(TypeAdapter(PlatformStatus).dump_json(status, indent=2).decode() + "\n")
    else:
        draw(Console(), status)
    if status.health is Health.STOPPED:
        return UNREACHABLE
    return 0 if status.health in {Health.READY, Health.DEGRADED} else 1


def draw(console: Console, status: PlatformStatus) -> None:
    if status.health is Health.STOPPED:
        console.print(plain(f"Nothing is running. {status.detail}".strip()), soft_wrap=True)
        console.print(Text("Start the platform with: make run"))
        return
    console.print(Text(f"{status.health} ", STYLES.get(status.health, "red")) + Text(status.url))
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("service", "state", "pid", "address", "says"):
        table.add_column(title, overflow="fold")
    for service in status.services:
        state = Text(service.health, STYLES.get(service.health, "red"))
        table.add_row(service.name, state, str(service.pid or ""), plain(service.url), plain(service.detail))
    console.print(table)
    if status.dead:
        console.print(Text("Start the dead ones again with: parallelsearch up"))
    if status.detail:
        console.print(plain(status.detail), soft_wrap=True)
