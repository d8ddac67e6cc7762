"""What a policy server is, and the client that fits it: any OpenAI-compatible server will do.

vLLM gets `TokenPolicyClient` (token ids in, token ids out); servers that only have chat completions get `ChatPolicyClient`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import httpx2
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from parallelsearch.clients.local_tokens import LocalTokens
from parallelsearch.clients.policy_chat import ChatPolicyClient
from parallelsearch.clients.policy_http import Json, PolicyHttp
from parallelsearch.clients.policy_routes import tokenize_message
from parallelsearch.clients.policy_tokens import TokenPolicyClient
from parallelsearch.errors import NotFound, ParallelSearchError, UpstreamUnavailable
from parallelsearch.protocol.observations import Layout
from parallelsearch.rollout.types import PolicyIdentity

M = TypeVar("M", bound=BaseModel)

__all__ = [
    "ChatPolicyClient",
    "PolicyClient",
    "PolicyDescription",
    "PolicyHttp",
    "TokenPolicyClient",
    "describe_policy",
    "policy_client",
]


@dataclass(frozen=True, slots=True)
class PolicyDescription:
    """What a policy server says of itself; what it leaves out is None."""

    identity: PolicyIdentity
    context_tokens: int | None = None
    turn_tokens: int | None = None
    layout: Layout | None = None
    special_tokens: tuple[str, ...] = ()
    tokenizer: str = ""
    """Fingerprint of the tokenizer that it hands out; empty where it hands out none."""
    message_tokens: tuple[int, ...] = ()
    """What vLLM's `/tokenize` makes of one user message, in which a chat template shows; empty where there is no such route."""


class _Tolerant(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class _Model(_Tolerant):
    id: str
    max_model_len: int | None = Field(default=None, ge=1)


class _Models(_Tolerant):
    data: list[_Model] = []


class _OwnWords(_Tolerant):
    """`GET /v1/policy` as far as it is needed; see `schemas.weights.PolicyInfo`."""

    version: str = ""
    context_length: int | None = Field(default=None, ge=1)
    turn_tokens: int | None = Field(default=None, ge=1)
    layout: Layout | None = None
    special_tokens: list[str] = []
    tokenizer: str = ""


async def describe_policy(http: PolicyHttp, model: str | None) -> PolicyDescription:
    """Asks `GET /v1/policy` (ours), else `GET /v1/models`, and whether texts can be tokenised there.

    Raises:
        UpstreamUnavailable: the server cannot be reached or answers something else, or `model` is not among its models.
    """
    models = {entry.id: entry for entry in _parsed(_Models, "v1/models", await http.get("v1/models")).data}
    if model is not None and model not in models:
        raise UpstreamUnavailable(
            f"The policy serves {', '.join(models) or 'no model'}, not {model}: set POLICY_MODEL to one of them."
        )
    name = model or next(iter(models), "")
    message_tokens = await _message_tokens(http, name)
    try:
        own = _parsed(_OwnWords, "v1/policy", await http.get("v1/policy"))
    except ParallelSearchError as error:
        if isinstance(error.__cause__, httpx2.TransportError):
            raise
        own = _OwnWords(context_length=models[name].max_model_len if name in models else None)
    return PolicyDescription(
        identity=PolicyIdentity(name, own.version),
        context_tokens=own.context_length,
        turn_tokens=own.turn_tokens,
        layout=own.layout,
        special_tokens=tuple(own.special_tokens),
        tokenizer=own.tokenizer,
        message_tokens=message_tokens,
    )


def _parsed(kind: type[M], path: str, body: Json) -> M:
    try:
        return kind.model_validate(body)
    except ValidationError as error:
        raise UpstreamUnavailable(f"The policy's answer to /{path} is not in the form that was expected.") from error


async def _message_tokens(http: PolicyHttp, model: str) -> tuple[int, ...]:
    try:
        return await tokenize_message(http, model, "a")
    except (NotFound, UpstreamUnavailable):
        return ()


PolicyClient = TokenPolicyClient | ChatPolicyClient


def policy_client(http: PolicyHttp, description: PolicyDescription, local: LocalTokens | None = None) -> PolicyClient:
    """The client that fits what the server says of itself; with `local` nothing is sent there to be tokenised."""
    if description.message_tokens:
        return TokenPolicyClient(http, description.identity.model, local)
    return ChatPolicyClient(http, description.identity.model)
