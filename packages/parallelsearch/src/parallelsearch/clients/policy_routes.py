"""vLLM's routes between text and token ids."""

from __future__ import annotations

from collections.abc import Sequence

from parallelsearch.clients.policy_http import Json, PolicyHttp
from parallelsearch.errors import UpstreamUnavailable

LARGEST_TOKEN_ID = 2**32 - 1
"""No vocabulary is larger."""


async def tokenize_text(http: PolicyHttp, model: str, text: str) -> tuple[int, ...]:
    return await _tokenize(http, {"model": model, "prompt": text, "add_special_tokens": False})


async def tokenize_message(http: PolicyHttp, model: str, text: str) -> tuple[int, ...]:
    """Token ids of one user message through the chat template, up to where the policy goes on."""
    messages = [{"role": "user", "content": text}]
    return await _tokenize(http, {"model": model, "messages": messages, "add_generation_prompt": True})


async def detokenize(http: PolicyHttp, model: str, tokens: Sequence[int]) -> str:
    answer, _ = await http.post("detokenize", {"model": model, "tokens": tokens})
    return str(answer.get("prompt", ""))


def token_ids(tokens: object) -> tuple[int, ...]:
    """What a server gives for token ids.

    Raises:
        UpstreamUnavailable: it is something else.
    """
    if not isinstance(tokens, list) or not set(map(type, tokens)) <= {int} or not _in_bounds(tokens):
        raise UpstreamUnavailable("The policy's answer holds something else for token ids.")
    return tuple(tokens)


def _in_bounds(tokens: list[int]) -> bool:
    return not tokens or 0 <= min(tokens) <= max(tokens) <= LARGEST_TOKEN_ID


async def _tokenize(http: PolicyHttp, body: Json) -> tuple[int, ...]:
    answer, _ = await http.post("tokenize", body)
    return token_ids(answer.get("tokens"))
