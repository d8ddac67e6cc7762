"""What the rollouts of one process share: the retriever within bounds, the reward, the groups in flight, the records.

While the retriever is down no rollout starts: those that met the fault are excluded, the others wait, and the run goes on after.
"""

from __future__ import annotations

import asyncio
import importlib
import math
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from parallelsearch.clients.retriever import RetrieverClient
from parallelsearch.errors import UpstreamUnavailable
from parallelsearch.reward.scoring import Reward, RewardFunction, score
from parallelsearch.reward.terms import RewardWeights
from parallelsearch.rollout.interfaces import SearchBackend, SearchBatch
from parallelsearch.rollout.types import Kind, Trajectory
from parallelsearch.schemas.training import ReinforcementSpec, RewardSpec
from trainer.episode import Episode, Outcome, Tokenizer, TokenizerCounter, training_settings
from trainer.groups import Groups, Member
from trainer.labels import Label
from trainer.records import Recorder

RETRIEVER_TIMEOUT_S = 30.0
WAIT_FOR_RETRIEVER_S = 900.0
PROBE_EVERY_S = 2.0


class BoundedSearch:
    """At most `concurrency` searches in flight; the others wait their turn."""

    def __init__(self, search: SearchBackend, concurrency: int) -> None:
        self._search = search
        self._slots = asyncio.Semaphore(concurrency)

    async def search(self, queries: Sequence[str], top_k: int) -> SearchBatch:
        async with self._slots:
            return await self._search.search(queries, top_k)


class RetrieverGate:
    """Closed from a fault until the retriever answers again, at most `WAIT_FOR_RETRIEVER_S`."""

    def __init__(
        self, retriever: RetrieverClient, *, probe_every_s: float = PROBE_EVERY_S, wait_s: float = WAIT_FOR_RETRIEVER_S
    ) -> None:
        self._retriever = retriever
        self._probe_every_s = probe_every_s
        self._wait_s = wait_s
        self._lock = asyncio.Lock()
        self._closed = False
        self._last_fault = ""

    def close(self) -> None:
        self._closed = True

    async def pass_through(self) -> None:
        """Raises TimeoutError if the retriever stays away, which fails the run."""
        async with self._lock:
            try:
                async with asyncio.timeout(self._wait_s):
                    await self._wait()
            except TimeoutError:
                raise TimeoutError(f"The retriever has not answered for {self._wait_s:g} s. {self._last_fault}".strip()) from None

    async def _wait(self) -> None:
        while self._closed:
            try:
                await self._retriever.index()
                self._closed = False
            except UpstreamUnavailable as error:
                self._last_fault = error.detail
                await asyncio.sleep(self._probe_every_s)


class Worker:
    """Made once per process from the run's folder."""

    def __init__(
        self, spec: ReinforcementSpec, run_folder: Path, retriever: RetrieverClient, gate: RetrieverGate | None = None
    ) -> None:
        self.spec = spec
        self._gate = gate or RetrieverGate(retriever)
        self._search = BoundedSearch(retriever, spec.rollout.concurrency)
        self._reward = reward_function(spec.reward)
        self._recorder = Recorder(run_folder)
        self._groups = Groups()
        self._counter: TokenizerCounter | None = None

    @asynccontextmanager
    async def rollout(self, label: Label) -> AsyncIterator[Place]:
        """The time of one rollout, from when it may start; it leaves its group however it ends."""
        with self._groups.member(label.group) as member:
            await self._gate.pass_through()
            yield Place(self, member)

    def episode(self, label: Label, tokenizer: Tokenizer, special_tokens: Sequence[str], *, prompt_tokens: int) -> Episode:
        """`tokenizer` is the run's, of which OpenRLHF hands each rollout a copy: the first one counts for all of them."""
        settings = training_settings(self.spec.rollout, special_tokens)
        self._counter = self._counter or TokenizerCounter(tokenizer)
        return Episode(label, settings, self._search, self._counter, self._reward, prompt_tokens=prompt_tokens)

    async def settle(self, outcome: Outcome, member: Member) -> float:
        if outcome.failed_sub_queries:
            self._gate.close()
        if outcome.label.split == "eval":
            learnt = float(outcome.reward.matched)
        else:
            learnt = await member.learn(None if outcome.excluded else outcome.reward.value)
        self._recorder.write(outcome, learnt)
        return learnt


@dataclass(frozen=True, slots=True)
class Place:
    """One rollout's place among those of its worker."""

    worker: Worker
    member: Member

    async def settle(self, outcome: Outcome) -> float:
        """Records the rollout and gives back the reward to learn from; of evaluation rows, exact match."""
        return await self.worker.settle(outcome, self.member)


def reward_function(spec: RewardSpec) -> RewardFunction:
    """The run's own function by import path, else the preset with its weights."""
    if spec.function is not None:
        module, _, name = spec.function.partition(":")
        return checked(spec.function, getattr(importlib.import_module(module), name))
    weights = RewardWeights(**spec.weights.model_dump())
    return partial(score, preset=spec.preset, weights=weights)


def checked(name: str, function: Callable[..., Any]) -> RewardFunction:
    """The user's own function, whose first answer that nothing can be learnt from ends the run with a sentence about it."""

    def reward(trajectory: Trajectory, kind: Kind, golden_answers: Sequence[str]) -> Reward:
        found = function(trajectory, kind, golden_answers)
        if not isinstance(found, Reward):
            raise TypeError(f"reward.function {name} gave {found!r}; give a Reward (parallelsearch.reward.scoring)")
        if not math.isfinite(found.value):
            raise ValueError(f"reward.function {name} gave the value {found.value}; give a finite number")
        return found

    return reward


def worker_from_environment() -> Worker:
    """Reads what the trainer service laid out for the run (`TRAINER_RUN_FOLDER`, `TRAINER_RETRIEVER_URL`)."""
    folder = Path(os.environ["TRAINER_RUN_FOLDER"])
    spec = ReinforcementSpec.model_validate_json((folder / "spec.json").read_bytes())
    retriever = RetrieverClient(os.environ["TRAINER_RETRIEVER_URL"], timeout_s=RETRIEVER_TIMEOUT_S)
    return Worker(spec, folder, retriever)
