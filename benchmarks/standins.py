"""Stand-ins for policy and retriever that cost next to nothing and take a given time; each says how long it really took.

    python benchmarks/standins.py policy|retriever PORT SECONDS [keep]

The policy searches twice over in its first turn and answers in its second; the retriever finds three passages of 90 words of
English (the demo corpus) for each query. The policy tokenises as the bundled one does and hands its tokenizer out;
with `keep` it does not, so that `/tokenize` has to be asked. What each held a request for stands in what it answers (`held=…`, in
ms, from the first bytes of the request that reach its process), so that a benchmark can take it off.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import random
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
import uvicorn
from tokenizers import Tokenizer
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from parallelsearch.demo import demo_file
from policy.bundle import bundled_policy
from policy.preparation import prepared_dir
from policy.settings import CacheSettings

Send = Callable[[dict[str, Any]], Awaitable[None]]
FIRST_CONTEXT_TOKENS, PASSAGE_WORDS = 350, 90
CHAT = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
INDEX = {
    "fingerprint": "stand-in", "encoder": "none", "dimension": 1, "metric": "inner_product",
    "kind": "flat", "passages": 3, "shards": 1, "built_at": "",
}  # fmt: skip


async def answer(send: Send, body: object, status: int = 200) -> None:
    content = body if isinstance(body, bytes) else orjson.dumps(body)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})


class Timed(HttpToolsProtocol):
    """Notes when a request's first bytes came in, so that what reading it takes counts as the stand-in's time."""

    def data_received(self, data: bytes) -> None:
        self.came = time.perf_counter()
        super().data_received(data)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["came"] = self.came


async def read(receive: Callable[[], Awaitable[dict[str, Any]]]) -> Any:
    parts = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return orjson.loads(b"".join(parts) or b"null")


def tokenizer_file() -> bytes:
    """The bundled policy's tokenizer."""
    path = prepared_dir(bundled_policy(), CacheSettings().models_dir) / "tokenizer.json"
    if not path.exists():
        raise SystemExit(f"{path} is missing; make it with: python -m policy prepare")
    return path.read_bytes()


def policy(seconds: float, *, keep: bool = False) -> Any:
    numbers = itertools.count()
    content = tokenizer_file()
    tokenizer = Tokenizer.from_buffer(content)
    known = {"model": "stand-in", "version": "1", "context_length": 8_192, "layout": "labelled", "turn_tokens": 200}
    known |= {} if keep else {"tokenizer": hashlib.sha256(content).hexdigest()}

    async def app(scope: dict[str, Any], receive: Any, send: Send) -> None:
        if scope["type"] != "http":
            return
        started = scope["came"]
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
                text = body["prompt"] if "prompt" in body else CHAT.format(body["messages"][0]["content"])
                tokens = tokenizer.encode_batch_fast([text], add_special_tokens=False)[0].ids
                await answer(send, {"tokens": tokens, "count": len(tokens)})
            case "/v1/models":
                await answer(send, {"data": [{"id": "stand-in", "max_model_len": 8_192}]})
            case "/v1/policy":
                await answer(send, known)
            case "/v1/policy/tokenizer" if not keep:
                await answer(send, content)
            case _:
                await answer(send, {}, 200 if scope["path"] == "/readyz" else 404)

    return app


def retriever(seconds: float) -> Any:
    searched = 0
    words = " ".join(orjson.loads(line)["text"] for line in demo_file("corpus.jsonl").open("rb")).split()

    def passage() -> str:
        start = random.randrange(len(words) - PASSAGE_WORDS)
        return " ".join(words[start : start + PASSAGE_WORDS])

    async def app(scope: dict[str, Any], receive: Any, send: Send) -> None:
        nonlocal searched
        if scope["type"] != "http":
            return
        started = scope["came"]
        body = await read(receive)
        match scope["path"]:
            case "/v1/retrieve":
                searched += len(body["queries"])
                await asyncio.sleep(seconds)
                held = f"held={(time.perf_counter() - started) * 1000:.2f}"
                rows = [
                    [{"id": str(i), "title": f"{held} title", "text": passage(), "score": 0.5, "url": ""} for i in range(3)]
                    for _ in body["queries"]
                ]
                await answer(send, {"results": rows, "index": INDEX})
            case "/v1/index":
                await answer(send, INDEX)
            case "/searched":
                await answer(send, searched)
            case _:
                await answer(send, {}, 200 if scope["path"] == "/readyz" else 404)

    return app


if __name__ == "__main__":
    kind, port, seconds, *keep = sys.argv[1:]
    app = policy(float(seconds), keep=bool(keep)) if kind == "policy" else retriever(float(seconds))
    uvicorn.run(app, host="127.0.0.1", port=int(port), log_config=None, access_log=False, lifespan="off", backlog=4_096, http=Timed)
