"""Keeps the tokenizer's special tokens out of what users say: vLLM takes `<|im_end|>` in a message for the real one.

Only the contents of messages are touched, on whatever route they come. Prompts of `/v1/completions` are for clients that build the
context themselves.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from servicekit.errors import http_problem, invalid_body

OWN_CONTEXT = ("/v1/completions", "/inference/v1/generate", "/detokenize", "/v1/policy")
"""Where there are no messages; long lists of token ids pass unread."""
FIELDS = ("messages", "tools", "documents", "input", "instructions", "system")


def neutralise(text: str, tokens: Sequence[str]) -> str:
    """`text` with a blank after the first character of every special token, which no tokenizer takes for itself."""
    for token in tokens:
        if token in text:
            text = text.replace(token, f"{token[0]} {token[1:]}")
    return text


def neutralise_body(body: Any, tokens: Sequence[str]) -> Any:
    """The JSON of a chat request with the texts of its messages neutralised."""
    if not isinstance(body, dict):
        return body
    return {name: _texts(value, tokens) if name in FIELDS else value for name, value in body.items()}


def _texts(value: Any, tokens: Sequence[str]) -> Any:
    if isinstance(value, str):
        return neutralise(value, tokens)
    if isinstance(value, list):
        return [_texts(item, tokens) for item in value]
    if isinstance(value, dict):
        return {name: _texts(item, tokens) for name, item in value.items()}
    return value


class SpecialTokenMiddleware:
    """Rewrites the body of requests whose messages hold a special token; all others pass byte for byte."""

    def __init__(self, app: ASGIApp, *, tokens: Sequence[str]) -> None:
        self.app = app
        # Longer ones first, so that none is cut by another that it contains.
        self.tokens = sorted((token for token in tokens if len(token) > 1), key=len, reverse=True)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST" or scope["path"].startswith(OWN_CONTEXT):
            await self.app(scope, receive, send)
            return
        try:
            message = await _whole_body(receive)
        except HTTPException as error:
            await http_problem(error)(scope, receive, send)
            return
        try:
            cleaned = self._clean(message)
        except RecursionError:
            await invalid_body("is nested too deeply")(scope, receive, send)
            return
        await self.app(scope, _replay(cleaned, receive), send)

    def _clean(self, message: Message) -> Message:
        """Raises RecursionError: the body is nested deeper than Python reads; it must not pass, since nobody has looked at it."""
        body = message.get("body", b"")
        try:
            # The parser that vLLM's server uses: what a stricter one refuses would pass as it is.
            parsed = json.loads(body)
        except ValueError:
            return message
        cleaned = neutralise_body(parsed, self.tokens)
        return message if cleaned == parsed else {**message, "body": json.dumps(cleaned).encode()}


async def _whole_body(receive: Receive) -> Message:
    """The request's body as one message, or the disconnect that came before its end."""
    parts: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return message
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return {"type": "http.request", "body": b"".join(parts), "more_body": False}


def _replay(message: Message, receive: Receive) -> Receive:
    waiting = iter([message])

    async def next_message() -> Message:
        return next(waiting, None) or await receive()

    return next_message
