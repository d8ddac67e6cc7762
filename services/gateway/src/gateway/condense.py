"""Turns a conversation into one question that stands alone, by asking the policy's server; an option of the chat API."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import structlog
from pydantic import TypeAdapter, ValidationError

from parallelsearch.clients.policy import PolicyHttp
from parallelsearch.clients.policy_http import first_choice
from parallelsearch.errors import ParallelSearchError
from parallelsearch.protocol.tags import neutralise
from parallelsearch.schemas.answers import Question
from parallelsearch.schemas.chat import ChatRequest

log = structlog.get_logger(__name__)

INSTRUCTION = (
    "Rewrite the last question of this conversation as one question that can be understood without it. "
    "Write the question and nothing else.\n\n{conversation}\n\nQuestion:"
)
LAST_MESSAGES = 12
MAX_MESSAGE_CHARACTERS = 2_000
MAX_TOKENS = 128
LONGEST_S = 20.0
"""A conversation that is not condensed by then is answered by its last message, in the time that an answer has."""


_QUESTION: TypeAdapter[str] = TypeAdapter(Question)


async def condense(
    chat: ChatRequest, policy: PolicyHttp, model: str, special_tokens: Sequence[str] = (), *, longest_s: float = LONGEST_S
) -> str | None:
    """The question, or None where the server fails, takes longer or writes nothing that may be asked."""
    spoken = [message for message in chat.messages if message.role in {"user", "assistant"}][-LAST_MESSAGES:]
    lines = [f"{message.role}: {neutralise(message.text[:MAX_MESSAGE_CHARACTERS], special_tokens)}" for message in spoken]
    message = {"role": "user", "content": INSTRUCTION.format(conversation="\n".join(lines))}
    body = {"model": model, "messages": [message], "max_tokens": MAX_TOKENS, "temperature": 0}
    try:
        async with asyncio.timeout(longest_s):
            answer, _ = await policy.post("v1/chat/completions", body)
        written = first_choice(answer).get("message")
    except (ParallelSearchError, TimeoutError) as error:
        log.warning("not_condensed", error=error.detail if isinstance(error, ParallelSearchError) else "It took too long.")
        return None
    text = str(written.get("content") or "").strip() if isinstance(written, dict) else ""
    question = text.splitlines()[0].removeprefix("Question:").strip() if text else ""
    try:
        return _QUESTION.validate_python(question)
    except ValidationError as error:
        log.warning("not_condensed", error=error.errors()[0]["msg"])
        return None
