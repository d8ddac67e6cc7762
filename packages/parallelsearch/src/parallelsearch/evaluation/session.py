"""One evaluation run from plan to finished trajectories: opens or resumes its folder and asks what is still to be asked."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

from pydantic import ValidationError

from parallelsearch.errors import InvalidInput
from parallelsearch.evaluation.asking import Asker
from parallelsearch.evaluation.plan import Cell, Job, Limits, cells, jobs
from parallelsearch.evaluation.progress import Progress
from parallelsearch.evaluation.questions import Question
from parallelsearch.evaluation.running import open_jobs, run_jobs
from parallelsearch.evaluation.selection import Selected
from parallelsearch.evaluation.store import RunFolder, write_durably
from parallelsearch.evaluation.wire import LimitsModel, RunModel, SetModel, StackModel
from parallelsearch.rollout.types import Mode


@dataclass(frozen=True, slots=True)
class Plan:
    """What is asked, how, and what of it all the report says besides."""

    selected: tuple[Selected, ...]
    modes: tuple[Mode, ...]
    models: tuple[str, ...]
    limits: Limits
    stack: StackModel
    concurrency: int = 8
    started_at: str = ""
    commit: str = ""
    machine: str = ""
    note: str = ""

    @property
    def questions(self) -> list[Question]:
        return [question for one in self.selected for question in one.questions]

    @property
    def jobs(self) -> list[Job]:
        return list(jobs(self.questions, self.modes, self.models))


def open_run(folder: RunFolder, plan: Plan) -> RunModel:
    """The manifest of the run in `folder`: the one that is there if it is of the same run, else a new one.

    Of a stack that cannot be asked about itself just now (a service that starts again) it is believed that it is the same.

    Raises:
        InvalidInput: the folder holds another run; says in what it differs.
    """
    wanted = describe(plan)
    there = read_manifest(folder)
    if there is None:
        folder.create(iter(plan.questions))
        write_durably(folder.manifest, wanted.model_dump_json(indent=2).encode() + b"\n")
        return wanted
    stack_agrees = there.stack.agrees(wanted.stack)
    if different := [name for name in there.same_run(wanted) if name != "stack" or not stack_agrees]:
        raise InvalidInput(f"{folder.path} holds a run with other {', '.join(different)}. Name another folder for this one.")
    return there


def read_manifest(folder: RunFolder) -> RunModel | None:
    """None where no run was begun.

    Raises:
        InvalidInput: what is there is no manifest.
    """
    if not folder.manifest.exists():
        return None
    try:
        return RunModel.model_validate_json(folder.manifest.read_bytes())
    except ValidationError as error:
        raise InvalidInput(f"{folder.manifest}: {error.errors(include_url=False)[0]['msg']}") from None


def describe(plan: Plan) -> RunModel:
    """Raises InvalidInput where two sets have one name, or two cells one file."""
    names = [one.source.name for one in plan.selected]
    if twice := {name for name in names if names.count(name) > 1}:
        raise InvalidInput(f"Two files are called {', '.join(sorted(twice))}: a set is named after its file.")
    by_slug: dict[str, Cell] = {}
    for cell in cells(names, plan.modes, plan.models):
        if (other := by_slug.setdefault(cell.slug, cell)) != cell:
            raise InvalidInput(
                f"{other} and {cell} would share one file, {cell.slug}.jsonl: "
                "names of sets and models must differ in letters, digits, dots or dashes of ASCII."
            )
    sets = [
        SetModel(
            name=one.source.name,
            source=one.source.source,
            sha256=one.source.sha256,
            rows=one.source.rows,
            asked=len(one.questions),
            left_out=one.left_out,
            faults=[str(fault) for fault in one.source.faults],
        )
        for one in plan.selected
    ]
    return RunModel(
        started_at=plan.started_at,
        commit=plan.commit,
        sets=sets,
        modes=list(plan.modes),
        models=list(plan.models),
        limits=LimitsModel(**asdict(plan.limits)),
        stack=plan.stack,
        concurrency=plan.concurrency,
        machine=plan.machine,
        note=plan.note,
    )


async def carry_out(folder: RunFolder, plan: Plan, asker: Asker, say: Callable[[str], None]) -> RunModel:
    """Asks all that the folder does not hold yet.

    Raises:
        InvalidInput: the folder holds another run, or is being written to.
        ParallelSearchError: the platform answers no more. The same call goes on from there.
    """
    with folder.held():
        manifest = open_run(folder, plan)
        wanted = plan.jobs
        remaining = open_jobs(folder, wanted)
        progress = Progress(len(wanted), len(wanted) - len(remaining), time.monotonic, say)
        progress.start()
        await run_jobs(remaining, asker, folder, plan.limits, concurrency=plan.concurrency, finished=progress.finished)
        return manifest
