"""What a trajectory looks like, at any width, whatever its texts contain."""

import io

import pytest
from gateway_stand_in import QUERIES, trajectory
from rich.console import Console

from parallelsearch.cli import plain, trace


def drawn(subject, width=100):
    console = Console(file=io.StringIO(), width=width, force_terminal=False, color_system=None)
    trace.draw(console, subject)
    return console.file.getvalue()


def line_with(text, needle):
    return next(line for line in text.splitlines() if needle in line)


def test_sub_queries_stand_side_by_side_where_there_is_room():
    line = line_with(drawn(trajectory(), width=100), QUERIES[0])
    assert QUERIES[1] in line


def test_sub_queries_are_stacked_on_a_narrow_terminal():
    text = drawn(trajectory(), width=50)
    assert QUERIES[1] not in line_with(text, QUERIES[0])
    assert QUERIES[1] in text


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_no_line_is_wider_than_the_terminal(width):
    assert max(map(len, drawn(trajectory(), width=width).splitlines())) <= width


def test_what_was_cached_or_failed_says_so():
    assert drawn(trajectory(cached=True)).count("cached · 12 ms") == 2
    assert drawn(trajectory(failed=True)).count("the search failed") == 2


def test_markup_in_texts_is_shown_and_not_interpreted():
    text = drawn(trajectory(title="[red]Monet[/red] [link=http://x]", answer="[bold]Camille[/]"), width=140)
    assert "[red]Monet[/red] [link=http://x]" in text
    assert "[bold]Camille[/]" in text


def test_control_sequences_in_texts_do_nothing():
    text = drawn(trajectory(title="\x1b[2J\x1b]0;owned\x07Monet\u202e\x00\r", answer="Cam\x1b[31mille\x9b2J"))
    assert "\x1b" not in text
    assert "owned" not in text
    assert "\u202e" not in text
    assert "Camille" in text
    assert "\x9b" not in text


def test_a_lone_surrogate_can_be_shown():
    assert plain.clean("a\ud800b") == "a?b"


def test_durations_are_readable():
    assert [trace.milliseconds(value) for value in (0.42, 12.3, 999.0, 4200.0)] == ["0.4 ms", "12 ms", "999 ms", "4.2 s"]
