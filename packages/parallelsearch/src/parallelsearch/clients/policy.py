"""What a policy server is, and the client that fits it: any OpenAI-compatible server will do.

vLLM gets `TokenPolicyClient` (token ids in, token ids out); servers that only have chat completions get `ChatPolicyClient`.
"""

from __future__ import annotations

from dataclasses import dataclass

from parallelsearch.clients.policy_chat import ChatPolicyClient
from parallelsearch.clients.policy_http import Json, PolicyHttp
from parallelsearch.clients.policy_tokens import TokenPolicyClient
from parallelsearch.errors import NotFound, ParallelSearchError, UpstreamUnavailable
from parallelsearch.protocol.observations import Layout
from parallelsearch.rollout.types import PolicyIdentity

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
    tokenizes: bool = False
    """Whether it has vLLM's `/tokenize`."""
    special_tokens: tuple[str, ...] = ()


async def describe_policy(http: PolicyHttp, model: str | None) -> PolicyDescription:
    """Asks `GET /v1/policy` (ours), else `GET /v1/models`, and whether texts can be tokenised there.

    Raises:
        UpstreamUnavailable: the server cannot be reached, or `model` is not among its models.
    """
    listed = await http.get("v1/models")
    models = {entry["id"]: entry for entry in listed.get("data", []) if isinstance(entry, dict) and "id" in entry}
    if model is not None and model not in models:
        raise UpstreamUnavailable(
            f"The policy serves {', '.join(models) or 'no model'}, not {model}: set POLICY_MODEL to one of them."
        )
    name = model or next(iter(models), "")
    tokenizes = await _answers(http, "tokenize", {"model": name, "prompt": "a"})
    try:
        own = await http.get("v1/policy")
    except ParallelSearchError:
        return PolicyDescription(PolicyIdentity(name), models.get(name, {}).get("max_model_len"), tokenizes=tokenizes)
    return PolicyDescription(
        PolicyIdentity(name, str(own.get("version", ""))),
        own.get("context_length"),
        own.get("turn_tokens"),
        Layout(own["layout"]) if own.get("layout") else None,
        tokenizes,
        tuple(own.get("special_tokens") or ()),
    )


async def _answers(http: PolicyHttp, path: str, body: Json) -> bool:
    try:
        await http.post(path, body)
    except (NotFound, UpstreamUnavailable):
        return False
    return True


PolicyClient = TokenPolicyClient | ChatPolicyClient


def policy_client(http: PolicyHttp, description: PolicyDescription) -> PolicyClient:
    """The client that fits what the server says of itself."""
    kind = TokenPolicyClient if description.tokenizes else ChatPolicyClient
    return kind(http, description.identity.model)
