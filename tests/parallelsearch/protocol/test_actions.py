import pytest
from hypothesis import given
from hypothesis import strategies as st

from parallelsearch.protocol.actions import parse_opened_answer, parse_turn, query_key
from parallelsearch.rollout.types import Answer, Malformed, Search


def action(text, max_sub_queries=8):
    return parse_turn(text, max_sub_queries=max_sub_queries).action


def test_a_search_is_split_trimmed_and_deduplicated():
    parsed = action("<think> t </think>\n\n<search> When was A born? ## ## when  was a BORN? ## B </search>")
    assert isinstance(parsed, Search)
    assert parsed.queries == ("When was A born?", "B")
    assert parsed.dropped == 0
    assert parsed.raw_queries == ("When was A born?", "", "when  was a BORN?", "B")


def test_queries_over_the_limit_are_counted_as_dropped():
    parsed = action("<search> a ## b ## c ## d </search>", max_sub_queries=2)
    assert parsed == Search(("a", "b"), dropped=2, raw_queries=("a", "b", "c", "d"))


@pytest.mark.parametrize("text", ["<search></search>", "<search> ## </search>", "<search> \n ##  ## </search>"])
def test_a_search_without_sub_query_is_malformed(text):
    assert isinstance(action(text), Malformed)


@pytest.mark.parametrize(
    "text", ["", "no tags", "<search> open", "<answer> open", "</search>", "<search> a </answer>", "<answer> </answer>"]
)
def test_an_incomplete_block_is_malformed(text):
    assert isinstance(action(text), Malformed)


def test_the_first_complete_block_wins():
    parsed = parse_turn("r <answer> A </answer> <search> b </search>", max_sub_queries=8)
    assert parsed.action == Answer("A")
    assert parsed.length == len("r <answer> A </answer>")
    assert action("<answer> never closed <search> b </search>").queries == ("b",)


def test_reasoning_is_what_stands_before_the_block_without_its_tags():
    assert parse_turn("<think> so it is </think>\n\n<answer> A </answer>", max_sub_queries=8).reasoning == "so it is"


@pytest.mark.parametrize(
    ("text", "answer", "length"), [(" Paris </answer>", "Paris", 16), ("Paris", "Paris", 5), (" A </answer> B", "A", 12)]
)
def test_an_opened_answer_is_what_comes_before_the_closing_tag(text, answer, length):
    parsed = parse_opened_answer(text)
    assert (parsed.action, parsed.length) == (Answer(answer, opened=True), length)


def test_an_opened_answer_may_not_be_empty():
    assert isinstance(parse_opened_answer("  </answer>").action, Malformed)


@given(st.lists(st.text(alphabet="aB #\n", max_size=6), max_size=12), st.integers(1, 8))
def test_kept_queries_are_distinct_trimmed_bounded_and_in_order(parts, limit):
    parsed = action("<search>" + "##".join(parts) + "</search>", max_sub_queries=limit)
    if isinstance(parsed, Malformed):
        assert not any(part.strip() for part in "##".join(parts).split("##"))
        return
    keys = [query_key(query) for query in parsed.queries]
    assert len(set(keys)) == len(keys) <= limit
    assert all(query == query.strip() != "" for query in parsed.queries)
    distinct = {query_key(part) for part in "##".join(parts).split("##") if part.strip()}
    assert len(distinct) == len(keys) + parsed.dropped


@given(st.text())
def test_any_text_parses_and_never_past_its_end(text):
    assert 0 <= parse_turn(text, max_sub_queries=3).length <= len(text)
