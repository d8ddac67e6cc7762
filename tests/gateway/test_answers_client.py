import asyncio
import json
from contextlib import aclosing

import httpx2
import pytest
from gateway_fakes import BOTH, DONE, PASSAGES, QUESTION, fake_policy, fake_retriever

from parallelsearch.clients.answers import AnswersClient, GatewayProblem, GatewayUnreachable
from parallelsearch.schemas.answers import AnswerRequest, SearchRequest
from parallelsearch.schemas.events import Done, SearchResultLanded


def use(url, conversation):
    async def main():
        client = AnswersClient(url)
        try:
            return await conversation(client)
        finally:
            await client.close()

    return asyncio.run(asyncio.wait_for(main(), 30))


async def events(client, **options):
    async with aclosing(client.stream(AnswerRequest(question=QUESTION, **options))) as stream:
        return [event async for event in stream]


def test_an_answer_comes_whole_or_as_it_comes_about(start_live):
    gateway = start_live(fake_policy([BOTH, DONE] * 2), fake_retriever(PASSAGES))
    whole = use(gateway.url, lambda client: client.answer(AnswerRequest(question=QUESTION)))
    seen = use(gateway.url, events)
    assert isinstance(seen[-1], Done)
    assert seen[-1].answer == whole.answer == "Camille Pissarro"
    assert [event.query for event in seen if isinstance(event, SearchResultLanded)] == list(PASSAGES)


def test_searches_go_the_same_way(start_live):
    gateway = start_live(fake_policy([]), fake_retriever(PASSAGES))
    found = use(gateway.url, lambda client: client.search(SearchRequest(queries=list(PASSAGES))))
    assert [row.query for row in found.results] == list(PASSAGES)


def test_a_failed_rollout_raises_with_the_trajectory_so_far(start_live):
    gateway = start_live(fake_policy([BOTH, 500]), fake_retriever(PASSAGES))
    with pytest.raises(GatewayProblem) as raised:
        use(gateway.url, events)
    assert raised.value.answered == 503
    assert len(raised.value.trajectory.turns) == 1


def test_a_refused_request_raises_in_the_gateways_words(start_live):
    gateway = start_live(fake_policy([]), fake_retriever(PASSAGES))
    with pytest.raises(GatewayProblem, match="model"):
        use(gateway.url, lambda client: events(client, model="gpt"))


def test_nobody_there_is_told_apart(free_port=9):
    with pytest.raises(GatewayUnreachable):
        use(f"http://127.0.0.1:{free_port}", events)


def test_what_a_later_gateway_says_besides_is_passed_over():
    later = {"colour": "green"}
    passage = {"id": "1", "title": "", "text": "", "score": 0.5} | later
    row = {"query": "a", "passages": [passage], "cached": False} | later
    turn = {"index": 0, "action": {"type": "search", "queries": ["a"]} | later, "observation": [row]} | later
    trajectory = {"id": "1", "question": "?", "answer": "yes", "stop_reason": "answered", "turns": [turn]} | later
    done = {"event": "done"} | trajectory

    def gateway(request):
        if request.url.path == "/v1/search":
            return httpx2.Response(200, json={"results": [row]} | later)
        if b'"stream":true' in request.content:
            content = f"id: 1\nevent: done\ndata: {json.dumps(done)}\n\n"
            return httpx2.Response(200, text=content, headers={"content-type": "text/event-stream"})
        return httpx2.Response(200, json=trajectory)

    async def conversation():
        client = AnswersClient("http://gateway", transport=httpx2.MockTransport(gateway))
        whole = await client.answer(AnswerRequest(question="?"))
        searched = await client.search(SearchRequest(queries=["a"]))
        return [whole.answer, searched.results[0].query, [event.answer for event in await events(client)]]

    assert asyncio.run(conversation()) == ["yes", "a", ["yes"]]
