import pytest

from parallelsearch.clients.policy_chat import close_block
from parallelsearch.protocol.actions import parse_turn
from parallelsearch.rollout.types import Answer, Search

ANSWER, SEARCH = "<answer> Paris </answer>", "<search> a ## b </search>"


@pytest.mark.parametrize(
    "said", ["", "<think> so </think>\n\n", "<think> first <search> then </think>", "<think> an <answer> soon </think>"]
)
@pytest.mark.parametrize("block", [ANSWER, SEARCH])
def test_the_block_that_was_opened_last_is_closed_again(said, block):
    cut = (said + block).rpartition("</")[0]
    assert close_block(cut) == said + block
    assert close_block(said + block) == said + block


@pytest.mark.parametrize(("block", "kind"), [(ANSWER, Answer), (SEARCH, Search)])
def test_a_tag_that_is_only_spoken_of_does_not_turn_one_action_into_the_other(block, kind):
    other = "<search>" if kind is Answer else "<answer>"
    cut = f"<think> no {other} now </think> {block}".rpartition("</")[0]
    assert isinstance(parse_turn(close_block(cut), max_sub_queries=8).action, kind)


@pytest.mark.parametrize("text", ["", "plain", "</search>", "<think> x </think>", f"{SEARCH} more"])
def test_text_without_an_open_block_is_left_as_it_is(text):
    assert close_block(text) == text
