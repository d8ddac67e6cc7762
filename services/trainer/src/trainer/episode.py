"""One training rollout over `SearchEnvironment`: what a turn leads to, its reward at the end, and the record that is kept.

It knows nothing of OpenRLHF; `agent` puts it into OpenRLHF's loop.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from parallelsearch.clients.fast_tokens import Encode, encoder_of
from parallelsearch.protocol.observations import Layout
from parallelsearch.reward.exact_match import VERDICTS, cover_match, normalise
from parallelsearch.reward.scoring import Reward, RewardFunction
from parallelsearch.rollout.environment import SearchEnvironment, Step
from parallelsearch.rollout.interfaces import SearchBackend, TokenCounter
from parallelsearch.rollout.settings import RolloutSettings, observation_settings
from parallelsearch.rollout.types import (
    Malformed,
    PolicyIdentity,
    StopReason,
    SubQueryResult,
    Timings,
    Trajectory,
    Usage,
)
from parallelsearch.schemas.training import RolloutSpec
from trainer.labels import Label


class Tokenizer(Protocol):
    """The part of a Hugging Face tokenizer that is used."""

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]: ...

    def decode(self, token_ids: Sequence[int]) -> str: ...


class TokenizerCounter:
    """Implements `TokenCounter` with the tokenizer that OpenRLHF trains with; a tokenizer in Rust is run as `fast_tokens` can.

    Made once for a tokenizer, since that takes a moment.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        backend = getattr(tokenizer, "backend_tokenizer", None)
        self._encode: Encode = encoder_of(backend) if backend else partial(tokenizer.encode, add_special_tokens=False)
        self._decode = tokenizer.decode

    async def count(self, text: str) -> int:
        return len(self._encode(text))

    async def truncate(self, text: str, max_tokens: int) -> str:
        return self._decode(self._encode(text)[:max_tokens])


def training_settings(spec: RolloutSpec, special_tokens: Sequence[str] = ()) -> RolloutSettings:
    """Rollouts as served, but for two things: the policy must give its last answer itself, and a context is only added to."""
    return RolloutSettings(
        mode=spec.mode,
        top_k=spec.top_k,
        max_turns=spec.max_turns,
        max_sub_queries=spec.max_sub_queries,
        turn_tokens=spec.turn_tokens,
        context_tokens=spec.context_tokens,
        observation=observation_settings(spec, spec.layout, special_tokens),
        open_last_answer=False,
        refuse_repeats=spec.layout is not Layout.PAPER,
        shrink_context=False,
    )


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a rollout ended. An `excluded` one met a fault that was not the policy's: it is data, but must not be learnt from."""

    trajectory: Trajectory
    label: Label
    reward: Reward
    excluded: bool
    evidence_observed: bool
    policy_tokens: int

    @property
    def failed_sub_queries(self) -> int:
        return sum(result.failed for result in _results(self.trajectory))


class Episode:
    """Lives for one rollout; `step` until it gives an outcome."""

    def __init__(
        self,
        label: Label,
        settings: RolloutSettings,
        search: SearchBackend,
        tokens: TokenCounter,
        reward: RewardFunction,
        *,
        prompt_tokens: int,
    ) -> None:
        self.label = label
        self.environment = SearchEnvironment(settings, search, tokens, prompt_tokens=prompt_tokens)
        self.outcome: Outcome | None = None
        self._settings = settings
        self._reward = reward
        self._policy_tokens = 0
        self._started = time.perf_counter()

    async def step(self, text: str, token_ids: tuple[int, ...]) -> Step:
        self._policy_tokens += len(token_ids)
        step = await self.environment.step(text, token_ids=token_ids)
        if step.stop_reason is not None:
            self.finish(step.stop_reason)
        return step

    def finish(self, reason: StopReason) -> Outcome:
        """Scores what there is; every rollout gets a terminal reward, however it ended."""
        trajectory = self._trajectory(reason)
        faults = any(result.failed for result in _results(trajectory))
        reward = self._reward(trajectory, self.label.kind, self.label.golden_answers)
        self.outcome = Outcome(
            trajectory=trajectory,
            label=self.label,
            reward=reward,
            excluded=faults or reason in {StopReason.RETRIEVAL_FAILED, StopReason.POLICY_FAILED},
            evidence_observed=_shows_answer(trajectory, self.label.golden_answers),
            policy_tokens=self._policy_tokens,
        )
        return self.outcome

    def _trajectory(self, reason: StopReason) -> Trajectory:
        turns = tuple(self.environment.turns)
        total_ms = (time.perf_counter() - self._started) * 1000
        search_ms = sum(turn.timings.search_ms for turn in turns)
        trajectory = Trajectory(
            id=self.label.id,
            question=self.label.question,
            mode=self._settings.mode,
            answer=self.environment.answer,
            stop_reason=reason,
            turns=turns,
            timings=Timings(total_ms, max(total_ms - search_ms, 0.0), search_ms),
            policy=PolicyIdentity("training"),
            index_fingerprint=self.environment.fingerprint,
        )
        results = _results(trajectory)
        usage = Usage(
            llm_calls=len(turns),
            search_rounds=sum(bool(turn.observation) for turn in turns),
            sub_queries=len(results),
            completion_tokens=self._policy_tokens,
        )
        return replace(trajectory, usage=usage)


def _shows_answer(trajectory: Trajectory, golden_answers: Sequence[str]) -> bool:
    """Whether a gold answer stood in a passage that the policy was shown; of verdicts that says nothing."""
    if any(normalise(gold) in VERDICTS for gold in golden_answers):
        return False
    passages = (passage for result in _results(trajectory) for passage in result.passages)
    return any(cover_match(f"{passage.title} {passage.text}", golden_answers) for passage in passages)


def count_malformed(trajectory: Trajectory) -> int:
    return sum(isinstance(turn.action, Malformed) for turn in trajectory.turns)


def _results(trajectory: Trajectory) -> list[SubQueryResult]:
    return [result for turn in trajectory.turns for result in turn.observation]
