"""The policy's replicas: each is asked who it is, rollouts are spread by load and stay on one, and what fails is left out.

A replica that fails a request or a probe takes no new rollouts until a probe succeeds; its rollouts move to another one that is
like it. Where all fail, the least loaded is tried, so that callers see the policy's own error.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

import httpx2
import structlog

from gateway import metrics
from gateway.tokenizers import Tokenizers
from parallelsearch.clients.local_tokens import LocalTokens
from parallelsearch.clients.policy import PolicyClient, PolicyDescription, PolicyHttp, describe_policy, policy_client
from parallelsearch.clients.policy_http import Patience
from parallelsearch.errors import Overloaded, ParallelSearchError, UpstreamUnavailable
from parallelsearch.rollout.interfaces import Generation, OnText, Sampling, Segment
from parallelsearch.rollout.settings import RolloutSettings, least_context
from parallelsearch.rollout.types import PolicyIdentity

log = structlog.get_logger(__name__)
T = TypeVar("T")

MOVES = 3
"""So often at most a request goes on to another replica."""
DEFAULTS = RolloutSettings()
NOT_ASKED = "not asked yet"
NO_ROOM = (
    "Its context of {context} tokens has no room for the prompt and one turn of {turn}, which take {least} at least. "
    "Serve it with a longer context (POLICY_MAX_MODEL_LEN), or set GATEWAY_TURN_TOKENS to less."
)
NO_ADDRESS = "its host resolves to no address."


class Replica:
    """One server of the policy. `connect` makes its pool, which is its own, so that it can be given up."""

    def __init__(self, url: str, connect: Callable[[str], PolicyHttp]) -> None:
        self.name = str(httpx2.URL(url).copy_with(userinfo=b""))
        """Its address as it may be shown: without a password that stands in it."""
        self.http = connect(url)
        self.description: PolicyDescription | None = None
        self.fault = NOT_ASKED
        self.rollouts = 0
        self._client: PolicyClient | None = None
        self._tokenizer_settled = False
        self._labels: tuple[str, str] | None = None

    @property
    def client(self) -> PolicyClient:
        assert self._client is not None, "a replica that was never connected takes no rollouts"
        return self._client

    @property
    def takes_rollouts(self) -> bool:
        return self.description is not None and not self.fault

    async def probe(self, model: str | None, tokenizers: Tokenizers, timeout_s: float, turn_tokens: int | None) -> None:
        """Asks who it is; the answer, or the fault, is kept."""
        try:
            async with asyncio.timeout(timeout_s):
                description = await describe_policy(self.http, model)
        except (ParallelSearchError, TimeoutError) as error:
            self.failed(error.detail if isinstance(error, ParallelSearchError) else "It did not say in time who it is.")
            return
        if fault := _without_room(description, turn_tokens):
            self.failed(fault)
            return
        if description != self.description or not self._tokenizer_settled:
            self._client = policy_client(self.http, description, await self._local_tokens(description, tokenizers))
        if description != self.description:
            log.info("policy_connected", replica=self.name, model=description.identity.model, version=description.identity.version)
            self.description = description
        self.fault = ""
        self._show()

    async def _local_tokens(self, description: PolicyDescription, tokenizers: Tokenizers) -> LocalTokens | None:
        try:
            local = await tokenizers.agreeing(self.http, description)
        except (UpstreamUnavailable, Overloaded):
            self._tokenizer_settled = False
            return None
        self._tokenizer_settled = True
        return local

    def failed(self, fault: str) -> None:
        """Takes no new rollouts until the next probe that succeeds."""
        if not self.fault:
            log.warning("policy_left_out", replica=self.name, fault=fault)
        self.fault = fault
        self._show()

    def is_like(self, other: Replica) -> bool:
        """Whether a rollout can go on there: all but the version is the same."""
        return _kin(self.description) == _kin(other.description)

    def vanish(self) -> None:
        """Leaves no metric behind."""
        if self._labels is not None:
            metrics.POLICY_REPLICA.remove(*self._labels)
            self._labels = None

    def _show(self) -> None:
        version = self.description.identity.version if self.description else ""
        labels = (httpx2.URL(self.name).netloc.decode(), version)
        if self._labels not in {None, labels}:
            self.vanish()
        self._labels = labels
        metrics.POLICY_REPLICA.labels(*labels).set(1 if self.takes_rollouts else 0)


def _kin(description: PolicyDescription | None) -> PolicyDescription | None:
    return description and replace(description, identity=PolicyIdentity(description.identity.model))


class PolicyReplicas:
    """All replicas behind the policy's name. `addresses` says where they are now; `connect` makes the pool to one."""

    def __init__(
        self,
        addresses: Callable[[], Awaitable[Sequence[str]]],
        connect: Callable[[str], PolicyHttp],
        *,
        model: str | None,
        probe_timeout_s: float,
        turn_tokens: int | None = None,
    ) -> None:
        self._addresses = addresses
        self._connect = connect
        self._model = model
        self._probe_timeout_s = probe_timeout_s
        self._turn_tokens = turn_tokens
        self._tokenizers = Tokenizers()
        self._replicas: dict[str, Replica] = {}
        self._leaving: list[Replica] = []

    async def refresh(self) -> None:
        """Looks where the replicas are and asks each who it is. A hung one gives its requests up if another can take them."""
        self._follow(await self._addresses())
        asked = self._model, self._tokenizers, self._probe_timeout_s, self._turn_tokens
        await asyncio.gather(*(replica.probe(*asked) for replica in self._replicas.values()))
        for replica in [*self._replicas.values(), *self._leaving]:
            if replica.fault and replica.rollouts and self._ready():
                await replica.http.close()
        for replica in [replica for replica in self._leaving if not replica.rollouts]:
            self._leaving.remove(replica)
            await replica.http.close()

    async def close(self) -> None:
        await asyncio.gather(*(replica.http.close() for replica in [*self._replicas.values(), *self._leaving]))

    @property
    def faults(self) -> dict[str, str]:
        """The replicas that take no rollouts, and why; without any, that there is none."""
        if not self._replicas:
            return {"POLICY_BASE_URL": NO_ADDRESS}
        return {replica.name: replica.fault for replica in self._replicas.values() if replica.fault}

    @property
    def is_connected(self) -> bool:
        return any(replica.description for replica in self._replicas.values())

    @property
    def is_ready(self) -> bool:
        return bool(self._ready())

    @contextmanager
    def rollout(self) -> Iterator[PinnedPolicy]:
        """The policy for one rollout, on the replica with the fewest.

        Raises:
            UpstreamUnavailable: none has answered yet.
        """
        policy = PinnedPolicy(self, self._pick())
        try:
            yield policy
        finally:
            policy.leave()

    def other(self, failed: Replica, tried: set[Replica]) -> Replica | None:
        """The least loaded replica that can go on with what failed."""
        able = [replica for replica in self._ready() if replica not in tried and replica.is_like(failed)]
        return _least_loaded(able) if able else None

    def _pick(self) -> Replica:
        candidates = self._ready() or [replica for replica in self._replicas.values() if replica.description]
        if not candidates:
            raise UpstreamUnavailable(f"The policy is not ready: {_joined(self.faults)}", retry_after_s=5)
        return _least_loaded(candidates)

    def _ready(self) -> list[Replica]:
        return [replica for replica in self._replicas.values() if replica.takes_rollouts]

    def _follow(self, urls: Sequence[str]) -> None:
        for url in urls:
            if url not in self._replicas:
                self._replicas[url] = Replica(url, self._connect)
        for url in self._replicas.keys() - set(urls):
            gone = self._replicas.pop(url)
            gone.failed("It is gone.")
            gone.vanish()
            self._leaving.append(gone)


class PinnedPolicy:
    """Implements `Policy` for one rollout. It stays on its replica, and moves when that fails before anything was said."""

    def __init__(self, replicas: PolicyReplicas, replica: Replica) -> None:
        self._replicas = replicas
        self._replica = replica
        replica.rollouts += 1

    @property
    def description(self) -> PolicyDescription:
        assert self._replica.description is not None
        return self._replica.description

    @property
    def http(self) -> PolicyHttp:
        return self._replica.http

    def leave(self) -> None:
        self._replica.rollouts -= 1

    async def count(self, text: str) -> int:
        return await self._tried(lambda policy: policy.count(text))

    async def truncate(self, text: str, max_tokens: int) -> str:
        return await self._tried(lambda policy: policy.truncate(text, max_tokens))

    async def count_prompt(self, prompt: str) -> int:
        return await self._tried(lambda policy: policy.count_prompt(prompt))

    async def generate(
        self, prompt: str, segments: Sequence[Segment], sampling: Sampling, *, on_text: OnText | None = None
    ) -> Generation:
        said = False

        def heard(text: str) -> None:
            nonlocal said
            said = True
            assert on_text is not None
            on_text(text)

        if not self._replica.takes_rollouts and (other := self._replicas.other(self._replica, {self._replica})):
            self._move(other)
        on_heard = heard if on_text is not None else None
        return await self._tried(
            lambda policy: policy.generate(prompt, segments, sampling, on_text=on_heard), may_move=lambda: not said
        )

    async def _tried(self, work: Callable[[PolicyClient], Awaitable[T]], may_move: Callable[[], bool] = lambda: True) -> T:
        """What `work` gives here, later if that is asked for and there is no other, or on another: sampling anew harms nobody."""
        tried: set[Replica] = set()
        patience = Patience()
        while True:
            try:
                return await work(self._replica.client)
            except (UpstreamUnavailable, Overloaded) as error:
                tried.add(self._replica)
                other = self._replicas.other(self._replica, tried)
                if other and isinstance(error.__cause__, httpx2.TransportError):
                    self._replica.failed(error.detail)
                if other is None and may_move() and await patience.waited(error):
                    continue
                if other is None or not may_move() or len(tried) > MOVES:
                    raise
            metrics.POLICY_MOVES.inc()
            self._move(other)

    def _move(self, other: Replica) -> None:
        self._replica.rollouts -= 1
        other.rollouts += 1
        self._replica = other


def _least_loaded(replicas: Sequence[Replica]) -> Replica:
    """By chance among equals, so that several gateways do not all choose the first."""
    return min(replicas, key=lambda replica: (replica.rollouts, random.random()))


def _without_room(description: PolicyDescription, turn_tokens: int | None) -> str:
    """Why no rollout can begin there, whatever is asked; empty where one can."""
    turn = turn_tokens or description.turn_tokens or DEFAULTS.turn_tokens
    context = description.context_tokens or DEFAULTS.context_tokens
    least = least_context(turn)
    return "" if context >= least else NO_ROOM.format(context=context, turn=turn, least=least)


def _joined(faults: dict[str, str]) -> str:
    return " ".join(dict.fromkeys(faults.values()))
