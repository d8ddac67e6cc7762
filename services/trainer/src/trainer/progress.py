"""How a run is getting on: the records of its rollouts and OpenRLHF's own metrics out of its log, one set per step."""

from __future__ import annotations

import math
import re
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from parallelsearch.schemas.training import ReinforcementSpec, StepMetrics, TrainingMetrics
from trainer.health import NOT_FINITE
from trainer.jobs import JobBuilder
from trainer.launchers.interface import LOG
from trainer.records import RolloutRecord, Rollouts
from trainer.step_metrics import by_time, steps_of
from trainer.store import Run
from trainer.tail import Tail

_STEP = re.compile(rb"Global step (\d+): \{(.*)\}")
_VALUE = re.compile(r"'([^']+)': (?:np\.float\d+\()?(-?(?:\d[\d.]*(?:e[-+]?\d+)?|inf|nan))")
OWN_NAMES = frozenset({"kl", "policy_loss", "actor_grad_norm", "actor_lr", "critic_loss", "ppo_kl", "vllm_kl"})
LEARNING = frozenset({"kl", "policy_loss", "actor_grad_norm", "critic_loss"})
MAX_READERS = 32
Values = dict[str, float]


@dataclass(frozen=True)
class Progress:
    """Of OpenRLHF's metrics those that the records do not tell: losses, KL, learning rate and timings.

    What was read of a run is kept, of the last `MAX_READERS` runs asked for, so that each look reads only what is new.
    """

    jobs: JobBuilder
    _readers: OrderedDict[str, Reader] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def metrics(self, run: Run, since: int = 0) -> TrainingMetrics:
        """Every step after `since`. Values that are no number any more (nan, inf) are left out; `not_finite` is 1 where one of
        those is that the policy learns by."""
        return TrainingMetrics(steps=[step for step in self.steps(run) if step.step > since])

    def steps(self, run: Run) -> list[StepMetrics]:
        """Of a run that goes on with another, numbered on from there, as its log says once the first step is made."""
        reader = self._reader(run)
        with reader.lock:
            if reader.is_cut:
                reader.begin_anew()
            reader.read_on()
            values = {step: dict(found) for step, found in reader.logged.items()}
            resumed = run.spec.checkpoints.resume_from is not None
            if values or not resumed:
                before = min(values) - 1 if resumed else 0
                for step, found in enumerate(reader.steps, start=before + 1):
                    values.setdefault(step, {}).update(found)
        return [StepMetrics(step=step, values=values[step]) for step in sorted(values)]

    def _reader(self, run: Run) -> Reader:
        with self._lock:
            if run.id not in self._readers:
                spec = run.spec
                rollouts = spec.prompts_per_step * spec.samples_per_prompt if isinstance(spec, ReinforcementSpec) else 0
                self._readers[run.id] = Reader(self.jobs.folder(run.id), rollouts)
            self._readers.move_to_end(run.id)
            while len(self._readers) > MAX_READERS:
                self._readers.popitem(last=False)
            return self._readers[run.id]


@dataclass
class Reader:
    """What is known of one run. `rollouts` are those of a step; 0 where there are none.

    A step's values stay open until those of the next are whole: workers write files of their own, of which one may be read a
    moment before another.
    """

    folder: Path
    rollouts: int
    lock: Lock = field(default_factory=Lock)
    logged: dict[int, Values] = field(default_factory=dict)
    _closed: list[Values] = field(default_factory=list)
    _open: list[RolloutRecord] = field(default_factory=list)
    _last: list[Values] = field(default_factory=list)
    _facts: dict[Path, Tail] = field(default_factory=dict)
    _log: Tail | None = None

    @property
    def steps(self) -> list[Values]:
        """Of every whole step, in order."""
        return [*self._closed, *self._last]

    @property
    def is_cut(self) -> bool:
        return any(tail.is_cut for tail in (*self._facts.values(), *([self._log] if self._log else [])))

    def begin_anew(self) -> None:
        self.logged, self._closed, self._open, self._last, self._facts, self._log = {}, [], [], [], {}, None

    def read_on(self) -> None:
        self._log = self._log or Tail(self.folder / LOG)
        for line in self._log.lines():
            for step, found in log_metrics(line):
                self.logged.setdefault(step, {}).update(found)
        if self.rollouts:
            self._read_facts()

    def _read_facts(self) -> None:
        new = [record for record in Rollouts(self.folder).new_facts(self._facts) if record.split == "train"]
        if not new:
            return
        self._open = by_time([*self._open, *new])
        values = [step.values for step in steps_of(self._open, self.rollouts)]
        self._closed += values[:-1]
        self._last = values[-1:]
        self._open = self._open[max(len(values) - 1, 0) * self.rollouts :]


def log_metrics(line: bytes) -> list[tuple[int, Values]]:
    """The step and the metrics that OpenRLHF tells in this line, if it does."""
    match = _STEP.search(line)
    if match is None:
        return []
    numbers = {name: float(value) for name, value in _VALUE.findall(match[2].decode(errors="replace"))}
    found = {name: value for name, value in numbers.items() if math.isfinite(value) and _is_its_own(name)}
    if any(name in LEARNING and not math.isfinite(value) for name, value in numbers.items()):
        found[NOT_FINITE] = 1.0
    return [(int(match[1]), found)]


def _is_its_own(name: str) -> bool:
    return name in OWN_NAMES or name.startswith(("timing/", "rollout/"))
