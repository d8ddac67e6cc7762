"""What a run is asked of: connects to it, and finds out what a report should say of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from parallelsearch.clients.answers import AnswersClient
from parallelsearch.clients.policy import PolicyDescription, PolicyHttp, describe_policy, policy_client
from parallelsearch.clients.retriever import RetrieverClient
from parallelsearch.errors import ParallelSearchError
from parallelsearch.evaluation.asking import Asker, DirectAsker, GatewayAsker
from parallelsearch.evaluation.wire import StackModel
from parallelsearch.protocol.observations import Layout
from parallelsearch.rollout.settings import ObservationSettings, RolloutSettings
from parallelsearch.schemas.answers import CacheUse
from parallelsearch.schemas.retrieval import IndexModel

DEFAULT_CONTEXT_TOKENS = 4_096
DEFAULT_TURN_TOKENS = 500


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where the services are; `direct` leaves the gateway out."""

    gateway: str
    policy: str
    retriever: str
    direct: bool = False
    api_key: str = ""
    policy_api_key: str = ""


@dataclass(frozen=True, slots=True)
class Connected:
    asker: Asker
    stack: StackModel


@asynccontextmanager
async def connect(
    addresses: Addresses, *, model: str | None, cache: CacheUse, corpus: str, timeout_s: float, layout: Layout | None = None
) -> AsyncIterator[Connected]:
    """The stack behind the addresses; asked straight, `layout` takes the place of the policy's own.

    Raises:
        UpstreamUnavailable: asked straight, policy or retriever cannot be reached.
    """
    policy = PolicyHttp(addresses.policy, timeout_s=timeout_s, api_key=addresses.policy_api_key)
    retriever = RetrieverClient(addresses.retriever)
    gateway = AnswersClient(addresses.gateway, api_key=addresses.api_key)
    try:
        if addresses.direct:
            description, index = await describe_policy(policy, model), await retriever.index()
            description = replace(description, layout=layout or description.layout)
            settings = rollout_settings(description)
            asker: Asker = DirectAsker(policy_client(policy, description), retriever, settings, description.identity)
            yield Connected(asker, describe("policy and retriever, straight", description, index, corpus=corpus, cache="none"))
        else:
            asker = GatewayAsker(gateway, cache=cache)
            known = await _known(policy, retriever)
            yield Connected(asker, describe("the gateway", *known, corpus=corpus, cache=cache))
    finally:
        await policy.close()
        await retriever.close()
        await gateway.close()


def rollout_settings(description: PolicyDescription) -> RolloutSettings:
    """Limits, layout and special tokens as the policy's own description has them, as the gateway takes them too."""
    observation = ObservationSettings(special_tokens=description.special_tokens)
    if description.layout is not None:
        observation = replace(observation, layout=description.layout)
    return RolloutSettings(
        turn_tokens=description.turn_tokens or DEFAULT_TURN_TOKENS,
        context_tokens=description.context_tokens or DEFAULT_CONTEXT_TOKENS,
        observation=observation,
    ).as_published()


async def _known(policy: PolicyHttp, retriever: RetrieverClient) -> tuple[PolicyDescription | None, IndexModel | None]:
    """What the services behind the gateway say of themselves, where they can be reached from here too."""
    description: PolicyDescription | None = None
    index: IndexModel | None = None
    try:
        description = await describe_policy(policy, None)
        index = await retriever.index()
    except ParallelSearchError:
        pass
    return description, index


def describe(through: str, policy: PolicyDescription | None, index: IndexModel | None, *, corpus: str, cache: str) -> StackModel:
    fields: dict[str, object] = {"through": through, "corpus": corpus, "cache": cache}
    if policy is not None:
        fields |= {
            "model": policy.identity.model,
            "version": policy.identity.version,
            "layout": (policy.layout or ObservationSettings().layout).value,
            "context_tokens": policy.context_tokens,
            "turn_tokens": policy.turn_tokens,
        }
    if index is not None:
        fields |= {"index": index.fingerprint, "encoder": index.encoder, "passages": index.passages}
    return StackModel.model_validate(fields)
