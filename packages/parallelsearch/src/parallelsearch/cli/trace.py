"""Draws a trajectory: reasoning, the sub-queries of a turn side by side, the answer, its sources, and what it took."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from parallelsearch.cli.plain import clean, one_line, plain
from parallelsearch.rollout.types import StopReason
from parallelsearch.schemas.answers import (
    AnswerActionModel,
    Citation,
    ObservationModel,
    SearchActionModel,
    SearchResult,
    TrajectoryModel,
    TurnModel,
)
from parallelsearch.schemas.retrieval import PassageModel

COLUMN_WIDTH = 38
"""Narrower than this, sub-queries are stacked."""
EXCERPT_CHARACTERS = 160
REMEDIES = {
    StopReason.TURN_LIMIT: "The policy searched until its limit. Allow more with --max-turns, or ask in smaller parts.",
    StopReason.CONTEXT_LIMIT: "The policy's context is full. Lower --top-k or --max-turns.",
    StopReason.MALFORMED: "The policy did not keep to its format. Ask again in other words.",
    StopReason.RETRIEVAL_FAILED: "Nothing could be searched. See: parallelsearch status",
    StopReason.POLICY_FAILED: "The policy failed. See: parallelsearch status",
    StopReason.DEADLINE: "Time ran out. Allow more with --deadline-s.",
    StopReason.CANCELLED: "The request was cancelled.",
}


def draw(console: Console, trajectory: TrajectoryModel) -> None:
    console.print(plain(trajectory.question, "bold"))
    for turn in trajectory.turns:
        draw_turn(console, turn)
    console.print()
    if trajectory.answer is not None and trajectory.stop_reason is StopReason.ANSWERED:
        console.print(Text("Answer  ", "bold green") + plain(trajectory.answer.strip(), "bold"))
    else:
        console.print(
            Text(f"No answer ({trajectory.stop_reason.value}). ", "bold red") + Text(REMEDIES.get(trajectory.stop_reason, ""))
        )
        if trajectory.detail:
            console.print(plain(trajectory.detail, "dim"))
    draw_sources(console, trajectory)
    console.print(Text(totals(trajectory), "dim"))


def draw_turn(console: Console, turn: TurnModel) -> None:
    search = f" · search {milliseconds(turn.timings.search_ms)}" if turn.observation else ""
    console.print()
    console.print(
        Text(f"Turn {turn.index + 1}", "bold cyan") + Text(f" · policy {milliseconds(turn.timings.policy_ms)}{search}", "dim")
    )
    if turn.reasoning.strip():
        console.print(Padding(plain(turn.reasoning.strip(), "italic"), (0, 2)))
    if isinstance(turn.action, SearchActionModel):
        draw_search(console, turn, turn.action)
    elif not isinstance(turn.action, AnswerActionModel):
        console.print(Padding(plain(f"no search and no answer: {turn.action.reason}", "yellow"), (0, 2)))


def draw_search(console: Console, turn: TurnModel, action: SearchActionModel) -> None:
    if turn.repeated:
        queries = " ## ".join(action.queries)
        console.print(Padding(plain(f"asked before, not searched again: {queries}", "yellow"), (0, 2)))
    side_by_side(console, [observed(number, one) for number, one in enumerate(turn.observation, 1)])
    if action.dropped:
        console.print(Padding(Text(f"{action.dropped} more sub-queries were dropped (over the limit)", "yellow"), (0, 2)))


def side_by_side(console: Console, panels: Sequence[RenderableType]) -> None:
    """As many columns as the terminal has room for."""
    columns = max(1, min(len(panels), (console.width - 2) // COLUMN_WIDTH))
    grid = Table.grid(expand=True, padding=(0, 1, 0, 0))
    for _ in range(columns):
        grid.add_column(ratio=1)
    for first in range(0, len(panels), columns):
        grid.add_row(*panels[first : first + columns])
    console.print(Padding(grid, (0, 0, 0, 2)))


def observed(number: int, one: ObservationModel) -> Panel:
    return result_panel(f"{number}  {one.query}", one.passages, one.failed, facts(one))


def facts(one: ObservationModel) -> str:
    """Where it came from and how long it took."""
    if one.failed:
        return "failed"
    return f"cached · {milliseconds(one.latency_ms)}" if one.cached else milliseconds(one.latency_ms)


def result_panel(title: str, passages: Sequence[PassageModel], failed: bool, footer: str) -> Panel:
    """One query and what it found; scores first, so that they line up."""
    rows: list[RenderableType] = [passage_row(passage) for passage in passages]
    if failed:
        rows = [Text("the search failed", "red")]
    elif not rows:
        rows = [Text("nothing found", "yellow")]
    body = Group(plain(title, "bold"), *rows)
    return Panel(body, subtitle=Text(footer), subtitle_align="right", border_style="red" if failed else "blue")


def passage_row(passage: PassageModel) -> Text:
    return Text(f"{passage.score:.2f} ", "cyan") + Text(one_line(passage.title or passage.id, 80))


def draw_sources(console: Console, trajectory: TrajectoryModel) -> None:
    if not trajectory.citations:
        return
    console.print(Text("Sources", "bold"))
    for citation in trajectory.citations:
        found_by = Text(f"  turn {citation.turn + 1}, {one_line(citation.query, 60)}", "dim")
        console.print(Text(f"  • {clean(citation.title)} [{one_line(place(citation), 200)}]") + found_by)
        if citation.url:
            console.print(Text(f"    {one_line(citation.url, 2_000)}", "dim"), soft_wrap=True)


def place(citation: Citation) -> str:
    """File and page, where the passage is of a document; else its id."""
    page = f", page {citation.page}" if citation.page else ""
    return f"{citation.source}{page}" if citation.source else citation.passage_id


def totals(trajectory: TrajectoryModel) -> str:
    usage, timings = trajectory.usage, trajectory.timings
    counts = [
        counted(usage.llm_calls, "LLM call"),
        counted(usage.search_rounds, "search round"),
        counted(usage.sub_queries, "sub-query", "sub-queries"),
        f"{usage.cache_hits} from the cache",
    ]
    stages = [
        f"policy {milliseconds(timings.policy_ms)}",
        f"search {milliseconds(timings.search_ms)}",
        f"own {milliseconds(timings.overhead_ms)}",
    ]
    return f"{', '.join(counts)} · {milliseconds(timings.total_ms)} ({', '.join(stages)})"


def counted(number: int, singular: str, plural: str = "") -> str:
    return f"{number} {singular}" if number == 1 else f"{number} {plural or singular + 's'}"


def milliseconds(value: float) -> str:
    if value >= 1000:
        return f"{value / 1000:.1f} s"
    return f"{value:.0f} ms" if value >= 10 else f"{value:.1f} ms"


def draw_results(console: Console, results: Sequence[SearchResult]) -> None:
    """What `search` found, with the beginning of each passage."""
    for number, result in enumerate(results, 1):
        console.print(
            Text(f"{number}  ", "bold cyan") + plain(result.query, "bold") + Text("  cached" if result.cached else "", "dim")
        )
        if result.failed:
            console.print(Text("   the search failed", "red"))
        elif not result.passages:
            console.print(Text("   nothing found", "yellow"))
        for passage in result.passages:
            console.print(Text("   ") + passage_row(passage) + Text(f" [{clean(passage.id)}]", "dim"))
            console.print(Padding(Text(one_line(passage.text, EXCERPT_CHARACTERS), "dim"), (0, 0, 0, 8)))
