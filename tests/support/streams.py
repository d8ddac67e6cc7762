"""What tests of streams share: policies that take their time, and a caller who does not read."""

import json
import socket
import time
from contextlib import contextmanager

import anyio
from fastapi.responses import StreamingResponse
from gateway_fakes import DONE, QUESTION, fake_policy

BODY = {"question": QUESTION, "stream": True}


@contextmanager
def request_sent(gateway, path, body, method="POST", headers=None):
    """A socket on which a request was sent, and from which nobody reads yet."""
    content = json.dumps(body).encode()
    given = {"host": "[::1]", "content-type": "application/json", "content-length": len(content)} | (headers or {})
    head = f"{method} {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in given.items()) + "\r\n"
    with socket.create_connection(("127.0.0.1", gateway.port)) as caller:
        caller.sendall(head.encode() + content)
        yield caller


def wait_for(condition, timeout_s=5):
    until = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def slow_policy(*, pause_s):
    """Writes half of its reasoning, then rests."""
    inner = fake_policy([DONE])

    async def app(scope, receive, send):
        async def paced(message):
            if (
                scope["path"] == "/v1/completions"
                and message["type"] == "http.response.body"
                and b'"8"' in message.get("body", b"")
            ):
                await anyio.sleep(pause_s)
            await send(message)

        await inner(scope, receive, paced)

    return app


def endless_policy():
    """Never ends a generation; `state.open` counts those that run."""
    app = fake_policy([])
    app.router.routes = [route for route in app.router.routes if route.path != "/v1/completions"]
    app.state.open = 0

    async def write():
        app.state.open += 1
        try:
            while True:
                yield 'data: {"choices": [{"index": 0, "text": "a ", "token_ids": [97, 32]}]}\n\n'
                await anyio.sleep(0.02)
        finally:
            app.state.open -= 1

    @app.post("/v1/completions")
    async def completions():
        return StreamingResponse(write(), media_type="text/event-stream")

    return app
