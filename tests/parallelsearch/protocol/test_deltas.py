import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from parallelsearch.protocol.actions import parse_opened_answer, parse_turn
from parallelsearch.protocol.deltas import TurnReader
from parallelsearch.rollout.types import Answer, Search, Turn

PIECES = st.lists(
    st.sampled_from(
        ["<think>", "</think>", "<search>", "</search>", "<answer>", "</answer>", "<", "##", " ", "\n", "a", "b c", "<se", "arch>"]
    ),
    max_size=12,
)


def read(text, *, opened=False, step=1):
    """What is said of a turn that is written `step` characters at a time and stops at the end of its first block."""
    parsed = parse_opened_answer(text) if opened else parse_turn(text, max_sub_queries=8)
    text = text[: parsed.length]
    reader = TurnReader(opened=opened)
    deltas = [delta for start in range(0, len(text), step) for delta in reader.read(text[start : start + step])]
    deltas += reader.finish(Turn(0, text, parsed.reasoning, parsed.action))
    parts = {part: "".join(delta.text for delta in deltas if delta.part == part) for part in ("reasoning", "answer")}
    assert all(delta.text for delta in deltas)
    return parts["reasoning"], parts["answer"], parsed


@pytest.mark.parametrize("step", [1, 2, 3, 7, 1000])
def test_a_search_is_reasoning_without_its_block(step):
    reasoning, answer, _ = read("<think> both\nof them </think>\n\n<search> a ## b </search>", step=step)
    assert (reasoning, answer) == ("both\nof them", "")


@pytest.mark.parametrize("step", [1, 2, 3, 7, 1000])
def test_an_answer_is_told_apart_from_its_reasoning(step):
    reasoning, answer, _ = read("<think> 1 < 2 </think> so <answer> a <b> c </answer>", step=step)
    assert (reasoning, answer) == ("1 < 2  so", "a <b> c")


def test_an_opened_turn_is_all_answer():
    assert read(" Pissarro </answer>", opened=True)[:2] == ("", "Pissarro")


def test_text_is_said_before_the_turn_ends():
    reader = TurnReader()
    said = [delta.text for piece in ["<th", "ink> I see", " that", "</think>"] for delta in reader.read(piece)]
    assert said == ["I see", " that"]


def test_a_policy_that_does_not_stream_is_said_at_the_end():
    turn = Turn(0, "…", "reason", Answer("yes"))
    assert [(delta.part, delta.text) for delta in TurnReader().finish(turn)] == [("reasoning", "reason"), ("answer", "yes")]


@given(PIECES, st.integers(1, 5))
@example(["<answer>", "a", "<search>", "b", "</search>"], 1)
def test_whatever_is_written_the_deltas_of_an_answer_are_the_answer(pieces, step):
    reasoning, answer, parsed = read("".join(pieces), step=step)
    if isinstance(parsed.action, Answer):
        assert answer == parsed.action.text
    if isinstance(parsed.action, Search) and "<answer>" not in "".join(pieces):
        assert answer == ""
        assert parsed.reasoning.startswith(reasoning)
