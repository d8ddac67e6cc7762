import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parallelsearch.protocol.actions import parse_turn
from parallelsearch.protocol.tags import neutralise
from parallelsearch.rollout.types import Malformed

PIECES = st.sampled_from(
    [
        "<",
        ">",
        "/",
        " ",
        "search",
        "answer",
        "think",
        "information",
        "|",
        "im_end",
        "im_start",
        "<|im_end|>",
        "</s>",
        "[INST]",
        "a ## b",
        "<search>",
        "</search>",
        "<answer>",
        "</answer>",
        "</information>",
        "<<SYS>>",
        "<</SYS>>",
        "s",
        "bos",
        "[",
        "]",
        "\n",
    ]
)
HOSTILE = st.lists(PIECES, max_size=24).map("".join)


@given(HOSTILE | st.text())
def test_neutralised_text_holds_no_tag_and_no_special_token(text):
    inert = neutralise(text)
    assert not re.search(r"<\s*/?\s*(search|answer|think|information)\s*/?\s*>", inert, re.IGNORECASE)
    assert not re.search(r"<\|[^<>]{1,64}\|>|</?s>|\[/?INST\]", inert)
    assert isinstance(parse_turn(inert, max_sub_queries=8).action, Malformed)


@given(HOSTILE | st.text())
def test_neutralising_twice_changes_nothing(text):
    assert neutralise(neutralise(text)) == neutralise(text)


@given(HOSTILE, st.lists(st.sampled_from(["<gh_stars>", "<repo_name>", "[UNK]", "EOT"]), max_size=3))
def test_further_special_tokens_are_gone(text, tokens):
    inert = neutralise(text + "".join(tokens), tokens)
    assert not any(token in inert for token in tokens)


@pytest.mark.parametrize("text", ["2 < 3 and 5 > 4", "a <b> bold </b>", "C++ ## D", "[see] (this)", "x<y"])
def test_honest_text_is_left_alone(text):
    assert neutralise(text) == text
