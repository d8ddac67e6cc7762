"""Two ways to have a question answered: through the gateway, or straight against policy and retriever."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import stamina
from pydantic import ValidationError

from parallelsearch.clients.answers import AnswersClient, GatewayProblem
from parallelsearch.errors import InvalidInput, UpstreamUnavailable
from parallelsearch.evaluation.plan import Job, Limits
from parallelsearch.rollout.interfaces import Policy, SearchBackend
from parallelsearch.rollout.runner import RolloutRequest, run_rollout
from parallelsearch.rollout.settings import RolloutSettings
from parallelsearch.rollout.types import PolicyIdentity
from parallelsearch.schemas.answers import AnswerRequest, CacheUse, TrajectoryModel
from parallelsearch.schemas.trajectories import trajectory_to_wire

ATTEMPTS = 5
LOADED = (429, 503)


class Asker(Protocol):
    async def ask(self, job: Job, limits: Limits) -> TrajectoryModel:
        """The trajectory, a failed one too.

        Raises:
            ParallelSearchError: nothing can be answered there; the run should stop and be resumed when it can.
        """
        ...


class GatewayAsker:
    """Asks `POST /v1/answers`. Load and restarts are waited for; a rollout that failed is the trajectory it got to."""

    def __init__(self, client: AnswersClient, *, cache: CacheUse = "bypass", wait_initial_s: float = 1.0) -> None:
        self._client = client
        self._cache = cache
        self._wait_initial_s = wait_initial_s

    async def ask(self, job: Job, limits: Limits) -> TrajectoryModel:
        request = _request(job, limits, self._cache)
        wait_s = self._wait_initial_s
        retrying = stamina.retry_context(
            on=_is_worth_waiting, attempts=ATTEMPTS, wait_initial=wait_s, wait_jitter=wait_s, timeout=None
        )
        async for attempt in retrying:
            with attempt:
                try:
                    return await self._client.answer(request)
                except GatewayProblem as problem:
                    if problem.trajectory is not None:
                        return problem.trajectory
                    raise
        raise AssertionError("unreachable: the last attempt raises")


def _request(job: Job, limits: Limits, cache: CacheUse) -> AnswerRequest:
    """Raises InvalidInput: a limit of the run is none that the gateway takes."""
    try:
        return AnswerRequest(
            question=job.question.question,
            top_k=limits.top_k,
            max_turns=limits.max_turns,
            max_sub_queries=limits.max_sub_queries,
            mode=job.cell.mode,
            model=job.cell.model or None,
            temperature=limits.temperature,
            seed=limits.seed,
            deadline_s=limits.deadline_s,
            cache=cache,
        )
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        raise InvalidInput(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']} (question {job.question.id})") from None


def _is_worth_waiting(error: Exception) -> bool | float:
    """True, or for how many seconds the gateway asks to wait."""
    if isinstance(error, GatewayProblem):
        return error.answered in LOADED and (error.retry_after_s or True)
    return isinstance(error, UpstreamUnavailable)


class DirectAsker:
    """Runs the rollout here. One model only: the one that `policy` was made for."""

    def __init__(self, policy: Policy, search: SearchBackend, settings: RolloutSettings, identity: PolicyIdentity) -> None:
        self._policy = policy
        self._search = search
        self._settings = settings
        self._identity = identity

    async def ask(self, job: Job, limits: Limits) -> TrajectoryModel:
        settings = replace(
            self._settings,
            mode=job.cell.mode,
            top_k=limits.top_k,
            max_turns=limits.max_turns,
            max_sub_queries=limits.max_sub_queries,
        )
        request = RolloutRequest(
            job.question.id, job.question.question, settings, limits.temperature, limits.seed, limits.deadline_s
        )
        return trajectory_to_wire(await run_rollout(request, self._policy, self._search, identity=self._identity))
