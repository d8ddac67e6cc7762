"""Answers a question: turns a request into a rollout, and a rollout that failed into the error the caller should see."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Coroutine
from typing import Any

from gateway import metrics
from gateway.answer_cache import AnswerCache
from gateway.chat import MODES
from gateway.citations import cite
from gateway.condense import condense
from gateway.places import Places
from gateway.replicas import PinnedPolicy
from gateway.resuming import AnswerStreams
from gateway.search import CachedSearch
from gateway.settings import GatewaySettings
from gateway.store import TrajectoryStore
from gateway.streaming import AnswerStream
from gateway.tracing import TracingObserver
from gateway.upstreams import Upstreams
from parallelsearch.errors import (
    DeadlineExceeded,
    InvalidInput,
    ParallelSearchError,
    RetrievalFailed,
    UpstreamUnavailable,
)
from parallelsearch.rollout.observer import ObserverGroup, RolloutObserver, retell
from parallelsearch.rollout.runner import RolloutRequest, run_rollout
from parallelsearch.rollout.settings import ObservationSettings, RolloutSettings, observation_settings
from parallelsearch.rollout.types import Mode, Scope, StopReason, Trajectory
from parallelsearch.schemas.answers import AnswerRequest, SearchRequest, SearchResponse, SearchResult, TrajectoryModel
from parallelsearch.schemas.chat import ChatRequest
from parallelsearch.schemas.retrieval import scope_of
from parallelsearch.schemas.trajectories import passage_to_wire, trajectory_from_wire, trajectory_to_wire
from servicekit.tracing import Tracing

FROM_CACHE = "This answer is from the cache of answers."
DEFAULT_CONTEXT_TOKENS = 4_096
DEFAULT_TURN_TOKENS = 500


class AnswerService:
    """One per process. Bounded: beyond `max_in_flight` a request is refused at once."""

    def __init__(
        self, settings: GatewaySettings, upstreams: Upstreams, store: TrajectoryStore | None = None, tracing: Tracing | None = None
    ) -> None:
        self._store = store
        self._tracing = tracing
        self._settings = settings
        self._upstreams = upstreams
        self._search = CachedSearch(upstreams.flights, upstreams.retriever, upstreams.versions)
        self._answers = AnswerCache(upstreams.redis, ttl_s=settings.answer_cache_ttl_s)
        self.streams = AnswerStreams(settings.stream_grace_s)
        metrics.IN_FLIGHT_LIMIT.set(settings.max_in_flight)
        self._places = Places(settings.max_in_flight, "answers", metrics.IN_FLIGHT)
        self._search_places = Places(settings.max_in_flight, "searches", metrics.SEARCHES_IN_FLIGHT)

    def stream(self, request: AnswerRequest, owner: str, *, resumable: bool = False) -> AnswerStream:
        """Runs the rollout and tells what happens; it is the same rollout. One that is not `resumable` ends with its reader."""
        answer_id = new_id()

        def run(observer: RolloutObserver) -> Coroutine[None, None, TrajectoryModel]:
            return self.answer(request, owner, observer, answer_id)

        return self.streams.start(answer_id, owner, run) if resumable else AnswerStream(answer_id, run)

    async def answer(
        self, request: AnswerRequest, owner: str, observer: RolloutObserver | None = None, answer_id: str | None = None
    ) -> TrajectoryModel:
        """Runs the rollout; `owner` is who may read it later, where answers are stored.

        Raises:
            InvalidInput: the model or the index is not served here.
            Overloaded: too many answers are being worked on.
            RetrievalFailed, UpstreamUnavailable, DeadlineExceeded: the rollout failed; the trajectory so far is in the extensions.
        """
        with self._upstreams.policies.rollout() as policy:
            return await self._answer(request, owner, policy, observer, answer_id or new_id())

    async def _answer(
        self, request: AnswerRequest, owner: str, policy: PinnedPolicy, observer: RolloutObserver | None, answer_id: str
    ) -> TrajectoryModel:
        identity = policy.description.identity
        _check_model(request, identity.model)
        scope = await self._scope(request)
        settings = self._rollout_settings(request, policy)
        version = self._upstreams.versions.searched(scope)
        key = self._answers.key(request, settings, identity, version)
        if key is not None and (known := await self._answers.get(key)) is not None:
            return await self._again(known.model_copy(update={"id": answer_id, "detail": FROM_CACHE}), owner, observer)
        trajectory = await self._run(request, settings, scope, policy, self._observed(observer), answer_id)
        metrics.record(trajectory)
        wire = trajectory_to_wire(trajectory, cite(trajectory))
        if self._store is not None:
            await self._store.put(owner, wire)
        raise_for_failure(trajectory, wire)
        still = self._upstreams.versions.searched(scope) == version and wire.index.fingerprint in {"", version.fingerprint}
        if key is not None and still and set(wire.policy.versions) <= {identity.version}:
            await self._answers.put(key, wire, settings)
        return wire

    async def _again(self, known: TrajectoryModel, owner: str, observer: RolloutObserver | None) -> TrajectoryModel:
        """An answer from the cache, told and kept as one that was just found."""
        if observer is not None:
            retell(trajectory_from_wire(known), observer)
        if self._store is not None:
            await self._store.put(owner, known)
        return known

    async def _run(
        self,
        request: AnswerRequest,
        settings: RolloutSettings,
        scope: Scope,
        policy: PinnedPolicy,
        observer: RolloutObserver | None,
        answer_id: str,
    ) -> Trajectory:
        rollout = RolloutRequest(
            id=answer_id,
            question=request.question,
            settings=settings,
            temperature=request.temperature,
            seed=request.seed,
            deadline_s=request.deadline_s,
        )
        search = self._search.for_request(request.cache, observer, scope)
        with self._places.one():
            try:
                return await run_rollout(rollout, policy, search, identity=policy.description.identity, observer=observer)
            except asyncio.CancelledError:
                metrics.ANSWERS.labels(settings.mode.value, StopReason.CANCELLED.value).inc()
                raise

    async def standalone_question(self, chat: ChatRequest) -> str | None:
        """The conversation as one question, where that is asked for and works."""
        if not self._settings.condense_chats or not chat.is_follow_up:
            return None
        with self._places.one(), self._upstreams.policies.rollout() as policy:
            description = policy.description
            return await condense(chat, policy.http, description.identity.model, description.special_tokens)

    async def search(self, request: SearchRequest) -> SearchResponse:
        """The same batch search without a policy; an empty list of queries gives an empty list."""
        scope = await self._scope(request)
        with self._search_places.one():
            batch = await self._search.for_request(request.cache, scope=scope).search(request.queries, request.top_k)
        results = [
            SearchResult(
                query=result.query,
                passages=[passage_to_wire(passage) for passage in result.passages],
                cached=result.cached,
                failed=result.failed,
            )
            for result in batch.results
        ]
        return SearchResponse(results=results)

    def _observed(self, observer: RolloutObserver | None) -> RolloutObserver | None:
        """The caller's observer, and one that traces where traces are on."""
        if self._tracing is None or not self._tracing.is_on:
            return observer
        traced = TracingObserver(self._tracing.tracer, with_text=self._settings.trace_text)
        return ObserverGroup([traced, observer]) if observer else traced

    async def _scope(self, request: AnswerRequest | SearchRequest) -> Scope:
        """Raises InvalidInput for an index that is not served, or a method or a filter by which it is not searched."""
        index = await self._upstreams.index_named(request.index)
        scope = self._upstreams.as_searched(scope_of(index or None, request.filter, request.method))
        self._upstreams.check_scope(scope)
        return scope

    @property
    def indexes(self) -> tuple[str, ...]:
        """The names of the indexes beside the default one."""
        return tuple(name for name in self._upstreams.versions.names if name)

    def _rollout_settings(self, request: AnswerRequest, policy: PinnedPolicy) -> RolloutSettings:
        description = policy.description
        layout = self._settings.policy_layout or description.layout or ObservationSettings().layout
        return RolloutSettings(
            mode=_mode(request),
            top_k=request.top_k,
            max_turns=request.max_turns,
            max_sub_queries=request.max_sub_queries,
            turn_tokens=self._settings.turn_tokens or description.turn_tokens or DEFAULT_TURN_TOKENS,
            context_tokens=description.context_tokens or DEFAULT_CONTEXT_TOKENS,
            observation=observation_settings(self._settings, layout, description.special_tokens),
        ).as_published()


def new_id() -> str:
    return uuid.uuid4().hex


def _check_model(request: AnswerRequest, model: str) -> None:
    served = (*MODES, model)
    if request.model is not None and request.model not in served:
        names = ", ".join(name for name in served if name)
        raise InvalidInput(f"model: {request.model!r} is not served here; there are: {names}")


def _mode(request: AnswerRequest) -> Mode:
    """The mode asked for; a model that is a way to search decides where the request leaves it open."""
    return MODES.get(request.model or "", Mode.PARALLEL) if request.mode is Mode.PARALLEL else request.mode


FAILURES: dict[StopReason, tuple[type[ParallelSearchError], str]] = {
    StopReason.RETRIEVAL_FAILED: (RetrievalFailed, "No sub-query could be searched. Is the retriever up?"),
    StopReason.POLICY_FAILED: (UpstreamUnavailable, "The policy failed."),
    StopReason.DEADLINE: (DeadlineExceeded, "The deadline passed. Raise deadline_s or ask for fewer turns."),
}


def raise_for_failure(trajectory: Trajectory, wire: TrajectoryModel) -> None:
    """Raises the error for a rollout that something outside of the policy ended, with the trajectory so far."""
    if trajectory.stop_reason not in FAILURES:
        return
    kind, sentence = FAILURES[trajectory.stop_reason]
    extensions: dict[str, Any] = {"stop_reason": trajectory.stop_reason.value, "trajectory": wire.model_dump(mode="json")}
    detail = f"{sentence} {trajectory.detail}".strip()
    raise kind(detail, retry_after_s=2 if kind.retryable else None, extensions=extensions)
