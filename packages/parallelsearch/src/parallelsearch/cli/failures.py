"""How a command ends: exit codes, and an error of ours as one sentence on standard error.

0 done or answered · 1 not answered, or something is wrong · 2 wrong input · 3 the platform cannot be reached
"""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from parallelsearch.cli.plain import plain
from parallelsearch.clients.answers import GatewayProblem, GatewayUnreachable
from parallelsearch.errors import ConfigurationError, CorpusError, InvalidInput, ParallelSearchError

NOT_ANSWERED, WRONG_INPUT, UNREACHABLE = 1, 2, 3
HINTS = {
    401: "Set PARALLELSEARCH_API_KEY to a key of this gateway.",
    403: "This key may not do that.",
    503: "See how the services are: parallelsearch status",
}


def exit_code(error: ParallelSearchError) -> int:
    if isinstance(error, GatewayUnreachable):
        return UNREACHABLE
    if isinstance(error, GatewayProblem):
        return WRONG_INPUT if error.answered == 422 else NOT_ANSWERED
    return WRONG_INPUT if isinstance(error, InvalidInput | CorpusError | ConfigurationError) else NOT_ANSWERED


def hint(error: ParallelSearchError) -> str:
    """What to do, where the error does not say it itself."""
    if isinstance(error, GatewayUnreachable):
        return "Start the platform with: make run"
    if isinstance(error, GatewayProblem):
        retry = f"Try again in {error.retry_after_s:.0f} s. " if error.retry_after_s else ""
        return retry + HINTS.get(error.answered, "")
    return f"Try again in {error.retry_after_s:.0f} s." if error.asked_to_wait and error.retry_after_s else ""


def report(error: ParallelSearchError) -> int:
    """Prints the error and gives the exit code."""
    console = Console(stderr=True)
    console.print(Text("✗ ", "red") + plain(error.detail), soft_wrap=True)
    if advice := hint(error):
        console.print(Text(f"  {advice.strip()}"), soft_wrap=True)
    if isinstance(error, GatewayProblem) and error.request_id:
        console.print(Text(f"  request id {error.request_id}", "dim"), soft_wrap=True)
    return exit_code(error)


def report_file(error: OSError) -> int:
    """The same for a file or a folder that cannot be used."""
    place = f"{error.filename}: " if error.filename else ""
    Console(stderr=True).print(Text("✗ ", "red") + plain(f"{place}{error.strerror or error}"), soft_wrap=True)
    return WRONG_INPUT
