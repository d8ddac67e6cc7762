"""Stand-ins for policy and retriever that cost next to nothing and take a given time; each says how long it really took.

    python benchmarks/standins.py policy|retriever PORT SECONDS

The policy searches twice over in its first turn and answers in its second; the retriever finds three passages of 90 words for
each query. What each held a request for stands in what it answers (`held=…`, in ms), so that a benchmark can take it off.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import uvicorn

Send = Callable[[dict[str, Any]], Awaitable[None]]
FIRST_CONTEXT_TOKENS = 350
TEXT = " ".join(["passage"] * 90)
INDEX = {
    "fingerprint": "stand-in", "encoder": "none", "dimension": 1, "metric": "inner_product",
    "kind": "flat", "passages": 3, "shards": 1, "built_at": "",
}  # fmt: skip


async def answer(send: Send, body: object, status: int = 200) -> None:
    content = json.dumps(body).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})


async def read(receive: Callable[[], Awaitable[dict[str, Any]]]) -> Any:
    parts = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return json.loads(b"".join(parts) or b"null")


def policy(seconds: float) -> Any:
    numbers = itertools.count()

    async def app(scope: dict[str, Any], receive: Any, send: Send) -> None:
        started = time.perf_counter()
        if scope["type"] != "http":
            return
        body = await read(receive)
        match scope["path"]:
            case "/v1/completions":
                await asyncio.sleep(seconds)
                held = f"held={(time.perf_counter() - started) * 1000:.2f}"
                number = next(numbers)
                text = f"<think> {held} </think>\n\n<search> Who was first in {number}? ## Who was second in {number}? </search>"
                if len(body["prompt"]) > FIRST_CONTEXT_TOKENS:
                    text = f"<think> {held} </think>\n\n<answer> nobody </answer>"
                choice = {"index": 0, "text": text, "token_ids": list(range(60)), "finish_reason": "stop"}
                await answer(send, {"choices": [choice], "usage": {"prompt_tokens": 1, "completion_tokens": 60}})
            case "/tokenize":
                text = body["prompt"] if "prompt" in body else body["messages"][0]["content"]
                await answer(send, {"tokens": list(range(len(text) // 5)), "count": len(text) // 5})
            case "/v1/models":
                await answer(send, {"data": [{"id": "stand-in", "max_model_len": 8_192}]})
            case "/v1/policy":
                known = {"model": "stand-in", "version": "1", "context_length": 8_192, "layout": "labelled", "turn_tokens": 200}
                await answer(send, known)
            case _:
                await answer(send, {}, 200 if scope["path"] == "/readyz" else 404)

    return app


def retriever(seconds: float) -> Any:
    searched = 0

    async def app(scope: dict[str, Any], receive: Any, send: Send) -> None:
        nonlocal searched
        started = time.perf_counter()
        if scope["type"] != "http":
            return
        body = await read(receive)
        match scope["path"]:
            case "/v1/retrieve":
                searched += len(body["queries"])
                await asyncio.sleep(seconds)
                held = f"held={(time.perf_counter() - started) * 1000:.2f}"
                row = [{"id": str(i), "title": f"{held} title", "text": TEXT, "score": 0.5, "url": ""} for i in range(3)]
                await answer(send, {"results": [row for _ in body["queries"]], "index": INDEX})
            case "/v1/index":
                await answer(send, INDEX)
            case "/searched":
                await answer(send, searched)
            case _:
                await answer(send, {}, 200 if scope["path"] == "/readyz" else 404)

    return app


if __name__ == "__main__":
    kind, port, seconds = sys.argv[1:]
    app = {"policy": policy, "retriever": retriever}[kind](float(seconds))
    uvicorn.run(app, host="127.0.0.1", port=int(port), log_config=None, access_log=False, lifespan="off", backlog=4_096)
