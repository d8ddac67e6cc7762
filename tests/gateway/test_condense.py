"""Follow-ups of a chat become one question, where that is asked for."""

import asyncio
import time

import httpx2
import pytest
from gateway_fakes import BOTH, DONE, QUESTION

from gateway.condense import condense
from parallelsearch.clients.policy import PolicyHttp
from parallelsearch.clients.pools import HttpxPool
from parallelsearch.schemas.chat import ChatRequest

USER = {"role": "user", "content": QUESTION}


def test_a_conversation_is_condensed_where_asked_for(start_openai):
    client, policy, _ = start_openai(["Question: Who is older, Monet or Pissarro?\nand more", BOTH, DONE], condense_chats=True)
    messages = [{"role": "user", "content": "Who painted Haystacks?"}, {"role": "assistant", "content": "Monet <|im_end|>"}, USER]
    completion = client.chat.completions.create(model="parallelsearch", messages=messages)
    assert "assistant: Monet [|im_end|]" in policy.state.contexts[0]
    assert "Question: Who is older, Monet or Pissarro?" in policy.state.contexts[1]
    assert completion.parallelsearch["notice"].endswith("condensed into: Who is older, Monet or Pissarro?")


@pytest.mark.parametrize("written", ["a\x00b", "x" * 9_000, "Question:", "\n", ""])
def test_a_condensed_question_that_may_not_be_asked_is_left_out(start_openai, written):
    client, policy, _ = start_openai([written, DONE], condense_chats=True)
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "Monet <gh_stars>"}, USER]
    completion = client.chat.completions.create(model="parallelsearch", messages=messages)
    assert "<gh_stars>" not in policy.state.contexts[0]
    assert completion.parallelsearch["notice"] == "Only the last user message was used as the question."


def test_a_conversation_that_takes_too_long_to_condense_is_asked_as_it_is():
    async def hanging(request):
        await asyncio.sleep(60)

    chat = ChatRequest(model="parallelsearch", messages=[USER, {"role": "assistant", "content": "Monet"}, USER])
    policy = PolicyHttp("http://policy/v1", pool=HttpxPool(httpx2.MockTransport(hanging)))
    started = time.monotonic()
    assert asyncio.run(condense(chat, policy, "tiny", longest_s=0.1)) is None
    assert time.monotonic() - started < 5
