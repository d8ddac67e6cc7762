"""The loop of serving: generate, step, until done. All decisions are the environment's."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field, replace

from parallelsearch.errors import ParallelSearchError
from parallelsearch.protocol.observations import Layout
from parallelsearch.protocol.prompt import build_prompt
from parallelsearch.protocol.tags import CLOSING_TAGS
from parallelsearch.rollout.environment import SearchEnvironment
from parallelsearch.rollout.interfaces import Policy, Sampling, SearchBackend
from parallelsearch.rollout.observer import RolloutObserver
from parallelsearch.rollout.settings import RolloutSettings
from parallelsearch.rollout.types import PolicyIdentity, StopReason, Timings, Trajectory, Usage

TURNS_KEPT = 2
"""When the deadline leaves less time than this many turns as long as the longest so far, the next one has to answer."""


@dataclass(frozen=True, slots=True)
class RolloutRequest:
    """One question and how to run it. `deadline_s` bounds the whole rollout."""

    id: str
    question: str
    settings: RolloutSettings
    temperature: float = 0.0
    seed: int | None = None
    deadline_s: float = 60.0


@dataclass(slots=True)
class _Progress:
    """What is known so far, kept outside of the loop so that a deadline does not lose it."""

    environment: SearchEnvironment | None = None
    identity: PolicyIdentity | None = None
    versions: dict[str, None] = field(default_factory=dict)
    """Of the policy, in order of their first generation."""
    usage: Usage = field(default_factory=Usage)
    policy_ms: float = 0.0
    policy_since: float | None = None
    """Since when the policy is waited for; None while it is not."""

    def policy_waited(self) -> float:
        """Counts the milliseconds of a wait that is over, or broken off, and gives them."""
        if self.policy_since is None:
            return 0.0
        waited_ms, self.policy_since = (time.perf_counter() - self.policy_since) * 1000, None
        self.policy_ms += waited_ms
        return waited_ms


async def run_rollout(
    request: RolloutRequest,
    policy: Policy,
    search: SearchBackend,
    *,
    identity: PolicyIdentity,
    observer: RolloutObserver | None = None,
) -> Trajectory:
    """Runs one rollout to its end. A failure of policy or retriever and a passed deadline are stop reasons, not exceptions.

    Of one that is cancelled the observer is told, with the turns so far.
    `identity` names the policy until a generation tells the version it was sampled from.
    """
    observer = observer or RolloutObserver()
    progress = _Progress(identity=identity)
    started = time.perf_counter()
    stop_reason, detail = StopReason.CANCELLED, ""
    try:
        async with asyncio.timeout(request.deadline_s):
            stop_reason = await _loop(request, policy, search, observer, progress)
            environment = progress.environment
            if stop_reason is StopReason.CONTEXT_LIMIT and environment is not None and not environment.turns:
                detail = environment.overflow
    except TimeoutError:
        stop_reason, detail = StopReason.DEADLINE, f"The deadline of {request.deadline_s:g} s passed."
    except ParallelSearchError as error:
        stop_reason, detail = StopReason.POLICY_FAILED, error.detail
    except asyncio.CancelledError:
        observer.finished(_record(request, progress, stop_reason, detail, started))
        raise
    trajectory = _record(request, progress, stop_reason, detail, started)
    observer.finished(trajectory)
    return trajectory


async def _loop(
    request: RolloutRequest, policy: Policy, search: SearchBackend, observer: RolloutObserver, progress: _Progress
) -> StopReason:
    settings = request.settings
    observation = settings.observation
    prompt = build_prompt(
        request.question,
        settings.mode,
        final_newline=observation.layout is Layout.PAPER,
        special_tokens=observation.special_tokens,
    )
    begin = started = progress.policy_since = time.perf_counter()
    longest_s = 0.0
    prompt_tokens = await policy.count_prompt(prompt)
    environment = SearchEnvironment(settings, search, policy, prompt_tokens=prompt_tokens, observer=observer)
    progress.environment = environment
    if not environment.fits:
        return StopReason.CONTEXT_LIMIT
    on_text = observer.text_written if observer.watches_text else None
    sampling = Sampling(settings.turn_tokens, request.temperature, request.seed, CLOSING_TAGS)
    while True:
        observer.turn_started(len(environment.turns), opened=bool(environment.opening))
        generation = await policy.generate(prompt, environment.segments(), sampling, on_text=on_text)
        policy_ms = progress.policy_waited()
        if generation.identity is not None:
            progress.identity = generation.identity
            progress.versions[generation.identity.version] = None
        progress.usage = replace(
            progress.usage,
            llm_calls=progress.usage.llm_calls + 1,
            prompt_tokens=progress.usage.prompt_tokens + generation.prompt_tokens,
            completion_tokens=progress.usage.completion_tokens + generation.completion_tokens,
        )
        step = await environment.step(
            generation.text,
            token_ids=generation.token_ids or None,
            tokens=generation.completion_tokens or None,
            policy_ms=policy_ms,
        )
        if step.stop_reason is not None:
            return step.stop_reason
        now = time.perf_counter()
        longest_s = max(longest_s, now - started)
        started = progress.policy_since = now
        if now - begin + TURNS_KEPT * longest_s > request.deadline_s:
            environment.stop_searching()


def _record(request: RolloutRequest, progress: _Progress, stop_reason: StopReason, detail: str, started: float) -> Trajectory:
    progress.policy_waited()
    total_ms = (time.perf_counter() - started) * 1000
    environment = progress.environment
    turns = tuple(environment.turns) if environment else ()
    results = [result for turn in turns for result in turn.observation]
    search_ms = sum(turn.timings.search_ms for turn in turns)
    usage = replace(
        progress.usage,
        search_rounds=sum(bool(turn.observation) for turn in turns),
        sub_queries=len(results),
        cache_hits=sum(result.cached for result in results),
    )
    overhead_ms = max(total_ms - progress.policy_ms - search_ms, 0.0)
    return Trajectory(
        id=request.id,
        question=request.question,
        mode=request.settings.mode,
        answer=environment.answer if environment else None,
        stop_reason=stop_reason,
        turns=turns,
        usage=usage,
        timings=Timings(total_ms, progress.policy_ms, search_ms, overhead_ms),
        policy=progress.identity or PolicyIdentity(""),
        policy_versions=tuple(progress.versions),
        index_fingerprint=environment.fingerprint if environment else "",
        detail=detail,
    )
