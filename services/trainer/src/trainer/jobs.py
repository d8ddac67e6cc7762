"""Makes the job of a run: checks its paths, lays out its folder, and names command and environment."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from pydantic import ValidationError

import parallelsearch
from parallelsearch.errors import InvalidInput
from parallelsearch.rollout.settings import least_context
from parallelsearch.schemas.training import SPEC, CheckpointSpec, LauncherName, ReinforcementSpec, RolloutSpec, SupervisedSpec
from trainer.command import RunPaths, most_steps, openrlhf_command
from trainer.data.judge import judge_cold_start, judge_prompts
from trainer.imports import check_function
from trainer.labels import PromptRow
from trainer.launchers.interface import Job, RunFolder
from trainer.roots import resolve, resolve_model
from trainer.settings import TrainerSettings
from trainer.worker_setup import first_of_all

PACKAGE = Path(__file__).resolve().parent
SPEC_FILE = "spec.json"
ROLLOUTS = "rollouts"
PROMPTS = "prompts.jsonl"
KEPT_BY_RESUMED = ("kind", "model", "algorithm", "lora", "prompts_per_step", "samples_per_prompt", "batch")
"""What checkpoints hold, or their steps are counted in."""
LATEST = {"reinforcement": "_actor/latest", "supervised": "latest"}
"""Says among checkpoints which of them OpenRLHF goes on from; where it is missing, it would begin anew among old models."""


@dataclass(frozen=True, slots=True)
class JobBuilder:
    settings: TrainerSettings

    def folder(self, run_id: str) -> Path:
        return self.settings.runs_dir.resolve() / run_id

    def files(self, run_id: str) -> RunFolder:
        return RunFolder(run_id, self.folder(run_id))

    def build(self, run_id: str, spec: ReinforcementSpec | SupervisedSpec) -> Job:
        """The job; nothing is written.

        Raises:
            InvalidInput: a path is not there or not allowed; names the field.
        """
        paths = self._paths(run_id, spec)
        self._check_tracking(spec)
        if isinstance(spec, ReinforcementSpec):
            _check_room(spec.rollout)
        command = openrlhf_command(spec, paths, python=self._python(spec), version=self.settings.openrlhf_version)
        return Job(run_id, tuple(command), self._environment(spec, paths), paths.folder, spec.resources)

    def _check_tracking(self, spec: ReinforcementSpec | SupervisedSpec) -> None:
        """W&B's key stands in no command: a local run has the trainer's, pods have it from a secret, a Ray cluster has its own."""
        if spec.wandb_project is None:
            return
        if spec.launcher is LauncherName.LOCAL and self.settings.wandb_key is None:
            raise InvalidInput("wandb_project: the trainer has no key of W&B. Set WANDB_API_KEY, or leave the field out.")
        kubernetes = self.settings.kubernetes
        if spec.launcher is LauncherName.KUBERNETES and kubernetes is not None and not kubernetes.secrets:
            raise InvalidInput(
                "wandb_project: the run's pods have no key of W&B. Name a secret that holds WANDB_API_KEY in "
                "TRAINER_KUBERNETES__SECRETS, or leave the field out."
            )

    def check_data(self, spec: ReinforcementSpec | SupervisedSpec) -> None:
        """Reads the files that the run is to learn from and be measured on, row by row, for at most `JUDGE_S` each.

        Raises:
            InvalidInput: a row is of another kind, of another split, or asks in another mode; names the field and the line.
        """
        data = self._data(spec.data, "data")
        if isinstance(spec, SupervisedSpec):
            rows, version = judge_cold_start(data, "data"), self.settings.openrlhf_version
            if rows is not None and most_steps(spec, rows, version) == 0:
                raise InvalidInput(
                    f"batch: OpenRLHF {version} would make not one step of {spec.epochs} x {rows} rows of {data.name} with a batch "
                    f"of {spec.batch}, in whole micro batches of {spec.micro_batch}; take a smaller batch or more rows."
                )
            return
        place, field = spec.evaluation.data, "evaluation.data"
        measured = judge_prompts(self._data(place, field), field, "eval", spec.rollout) if place is not None else frozenset()
        judge_prompts(data, "data", "train", spec.rollout, measured=measured)

    def check_reward(self, job: Job, spec: ReinforcementSpec | SupervisedSpec) -> None:
        """Imports a reward of the user's own as the run would. Elsewhere than here, its code lies where the run will be.

        Raises:
            InvalidInput: the run would not find it; names the field.
        """
        if isinstance(spec, ReinforcementSpec) and spec.reward.function is not None and spec.launcher is LauncherName.LOCAL:
            check_function(spec.reward.function, "reward.function", self._python(spec), job.environment)

    def check_resumed(self, spec: ReinforcementSpec | SupervisedSpec) -> None:
        """Raises InvalidInput: the run whose checkpoints are to be gone on with is one that they do not fit; names the field."""
        run_id = spec.checkpoints.resume_from
        if run_id is None or not (path := self.folder(run_id) / SPEC_FILE).is_file():
            return
        was, is_now = _kept(_earlier(path, run_id)), _kept(spec)
        for name in was:
            if was[name] != is_now[name]:
                raise InvalidInput(
                    f"checkpoints.resume_from: run {run_id} has {name} {_said(was[name])}, this one {_said(is_now[name])}; "
                    "a run that goes on with another keeps it."
                )
        if not (self.checkpoints(run_id, spec) / LATEST[spec.kind]).is_file():
            raise InvalidInput(
                f"checkpoints.resume_from: run {run_id} has left no state to go on from, though it may have left models; "
                "name one of these as the model of a new run."
            )

    def prepare(self, job: Job, spec: ReinforcementSpec | SupervisedSpec) -> None:
        """Writes what the run's processes read. What was dealt stays: a run that waits is laid out again and again, and dealing
        takes seconds."""
        (job.folder / ROLLOUTS).mkdir(parents=True, exist_ok=True)
        _write_whole(job.folder / SPEC_FILE, [spec.model_dump_json(indent=2).encode()])
        if isinstance(spec, ReinforcementSpec) and not (job.folder / PROMPTS).is_file():
            rows = [row for row in self._data(spec.data, "data").read_bytes().splitlines() if row.strip()]
            if not rows:
                raise InvalidInput(f"data: {spec.data} has no rows any more.")
            dealt = deal(rows, spec.steps * spec.prompts_per_step, spec.seed)
            _write_whole(job.folder / PROMPTS, (_drawn(row, draw) + b"\n" for draw, row in enumerate(dealt)))

    def _paths(self, run_id: str, spec: ReinforcementSpec | SupervisedSpec) -> RunPaths:
        evaluation = spec.evaluation.data if isinstance(spec, ReinforcementSpec) else None
        folder, given = self.folder(run_id), self._data(spec.data, "data")
        return RunPaths(
            model=resolve_model(spec.model, self.settings.model_roots),
            data=folder / PROMPTS if isinstance(spec, ReinforcementSpec) else given,
            evaluation=self._data(evaluation, "evaluation.data") if evaluation else None,
            folder=folder,
            agent=self._sources(spec)[0] / "trainer" / "agent.py",
            resumed=self._resumed(spec.checkpoints),
        )

    def checkpoints(self, run_id: str, spec: ReinforcementSpec | SupervisedSpec) -> Path:
        return (self._resumed(spec.checkpoints) or self.folder(run_id)) / "checkpoints"

    def _resumed(self, spec: CheckpointSpec) -> Path | None:
        """The folder of the run that wrote the first of the checkpoints; the one named may itself have gone on with another."""
        if spec.resume_from is None:
            return None
        folder = self.folder(spec.resume_from)
        if (folder / SPEC_FILE).is_file():
            earlier = _earlier(folder / SPEC_FILE, spec.resume_from).checkpoints
            if earlier.resume_from is not None:
                return self._resumed(earlier)
        checkpoints = folder / "checkpoints"
        if not checkpoints.is_dir() or not any(checkpoints.iterdir()):
            raise InvalidInput(f"checkpoints.resume_from: run {spec.resume_from} has left no checkpoints.")
        return folder

    def _python(self, spec: ReinforcementSpec | SupervisedSpec) -> str:
        kubernetes = self.settings.kubernetes
        in_image = spec.launcher is LauncherName.KUBERNETES and kubernetes is not None
        return kubernetes.python if in_image and kubernetes else _executable(self.settings.openrlhf_python)

    def _sources(self, spec: ReinforcementSpec | SupervisedSpec) -> list[Path]:
        """Where the run's processes find our code: in the job's image, or where this service has it from."""
        if spec.launcher is LauncherName.KUBERNETES and self.settings.kubernetes is not None:
            root = self.settings.kubernetes.sources
            return [root / "services" / "trainer" / "src", root / "packages" / "parallelsearch" / "src"]
        return [PACKAGE.parent, Path(parallelsearch.__file__).resolve().parent.parent]

    def _data(self, place: str, field: str) -> Path:
        path = resolve(place, self.settings.data_roots, field)
        if not path.is_file() or path.suffix != ".jsonl" or path.stat().st_size == 0:
            raise InvalidInput(f"{field}: {place} is no .jsonl file with rows; `python -m trainer prepare-data` makes one.")
        return path

    def _environment(self, spec: ReinforcementSpec | SupervisedSpec, paths: RunPaths) -> dict[str, str]:
        sources = self._sources(spec)
        given = "" if spec.launcher is LauncherName.KUBERNETES else os.environ.get("PYTHONPATH", "")
        environment = {
            "PYTHONPATH": os.pathsep.join([*map(str, sources), *([given] if given else [])]),
            "TRAINER_RUN_FOLDER": str(paths.folder),
            "TOKENIZERS_PARALLELISM": "false",
            # Else what a run says is in its log some thousand bytes later, and of one that is killed never.
            "PYTHONUNBUFFERED": "1",
        }
        if isinstance(spec, ReinforcementSpec):
            environment["TRAINER_RETRIEVER_URL"] = spec.retriever_url or self.settings.retriever_url
            environment |= first_of_all(spec.seed)
        return environment


def _earlier(path: Path, run_id: str) -> ReinforcementSpec | SupervisedSpec:
    try:
        return SPEC.validate_json(path.read_bytes())
    except ValidationError:
        raise InvalidInput(f"checkpoints.resume_from: run {run_id} was taken by another version of the trainer.") from None


def _kept(spec: ReinforcementSpec | SupervisedSpec) -> dict[str, object]:
    """The state of an optimizer is cut into a part for each GPU."""
    gpus = spec.resources.nodes * spec.resources.gpus_per_node
    return {name: getattr(spec, name, None) for name in KEPT_BY_RESUMED} | {"GPUs": gpus}


def _said(value: object) -> str:
    return "none" if value is None else str(value)


def deal(rows: Sequence[bytes], count: int, seed: int) -> list[bytes]:
    """`count` rows: whole passes over all of them, each shuffled anew, so that a run has exactly the steps it asks for.

    OpenRLHF shuffles them once more, all together and without a seed: a question of two passes may come twice in a step.
    """
    random = Random(seed)
    dealt: list[bytes] = []
    while len(dealt) < count:
        dealt += random.sample(rows, min(len(rows), count - len(dealt)))
    return dealt


def _write_whole(path: Path, parts: Iterable[bytes]) -> None:
    """Whole or not at all, since a run whose start was not recorded may be reading it already."""
    part = path.with_name(f"{path.name}.part")
    with part.open("wb") as file:
        file.writelines(parts)
    part.replace(path)


def _drawn(row: bytes, draw: int) -> bytes:
    try:
        return PromptRow.model_validate_json(row).drawn(draw).model_dump_json().encode()
    except ValidationError:
        raise InvalidInput(f"data: a line is no row of a prompt file: {row[:200].decode(errors='replace')}") from None


def _executable(python: Path) -> str:
    """A bare name is looked up on the path; anything else is a path, kept unresolved because it may be an environment's link."""
    return str(python) if len(python.parts) == 1 else str(Path.cwd() / python)


def _check_room(rollout: RolloutSpec) -> None:
    least = least_context(rollout.turn_tokens, rollout.mode)
    if rollout.context_tokens < least:
        raise InvalidInput(
            f"rollout.context_tokens: {rollout.context_tokens} have no room for the prompt and one turn of rollout.turn_tokens "
            f"({rollout.turn_tokens}), which take {least} at least; raise the one or lower the other."
        )
