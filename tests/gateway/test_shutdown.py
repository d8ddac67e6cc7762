"""A stream that outlasts the grace of a gateway that is being stopped ends in words."""

import asyncio
import json
import signal
import sys
import threading

import anyio
import httpx2
import pytest
from gateway_fakes import PASSAGES, QUESTION, fake_policy, fake_retriever
from live import live
from processes import Process, free_port

from gateway.streaming import AnswerStream


def test_a_rollout_that_is_stopped_tells_its_reader():
    async def endless(observer):
        observer.turn_started(0, opened=False)
        await asyncio.sleep(60)

    async def scenario():
        stream = await AnswerStream("x", endless).started()
        events = []
        async for numbered in stream.events():
            events.append(numbered.event)
            stream.stop()
        return events

    first, last = asyncio.run(scenario())
    assert (first.event, last.event, last.status) == ("turn.started", "error", 503)
    assert last.type.endswith(":stopping")


@pytest.mark.load
def test_streams_of_a_gateway_that_is_stopped_end_in_an_error():
    inner, port = fake_policy([]), free_port()

    async def hung(scope, receive, send):
        if scope["path"] == "/v1/completions":
            await anyio.sleep(60)
        await inner(scope, receive, send)

    bodies = {
        "answers": {"question": QUESTION},
        "chat/completions": {"model": "parallelsearch", "messages": [{"role": "user", "content": QUESTION}]},
    }
    texts, begun = dict.fromkeys(bodies, ""), threading.Barrier(len(bodies) + 1)

    def read(path):
        request = {"json": bodies[path] | {"stream": True}, "timeout": 30}
        with httpx2.stream("POST", f"http://127.0.0.1:{port}/v1/{path}", **request) as response:
            begun.wait(20)
            for piece in response.iter_text():
                texts[path] += piece

    with live(hung) as policy, live(fake_retriever(PASSAGES)) as retriever:
        urls = {"POLICY_BASE_URL": f"{policy.url}/v1", "RETRIEVER_URL": retriever.url}
        settings = {"GATEWAY_PORT": str(port), "GATEWAY_SHUTDOWN_GRACE_S": "4"}
        gateway = Process([sys.executable, "-m", "gateway"], port, **urls, **settings)
        readers = [threading.Thread(target=read, args=[path]) for path in bodies]
        for reader in readers:
            reader.start()
        begun.wait(20)
        gateway.signal(signal.SIGTERM)
        for reader in readers:
            reader.join(20)
        assert gateway.process.wait(20) in {0, -signal.SIGTERM}
    name, data = texts["answers"].strip().splitlines()[-2:]
    assert (name, json.loads(data.removeprefix("data: "))["status"]) == ("event: error", 503)
    *_, error, done = texts["chat/completions"].strip().split("\n\n")
    assert (json.loads(error.removeprefix("data: "))["error"]["code"], done) == ("stopping", "data: [DONE]")
