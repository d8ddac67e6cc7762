"""Cold-start files for supervised learning, from trajectories: segments by author, so that only the policy's are learnt.

Two forms are read: trajectories as the API gives them (only answered ones are taken), and compact ones whose passages are
references `corpus:id` into corpus files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Annotated, Any

from pydantic import Field, ValidationError, model_validator

from parallelsearch.errors import InvalidInput
from parallelsearch.protocol import observations
from parallelsearch.protocol.prompt import build_prompt
from parallelsearch.protocol.tags import ANSWER, SEARCH, SEPARATOR, THINK
from parallelsearch.rollout.environment import OPENING
from parallelsearch.rollout.settings import ObservationSettings
from parallelsearch.rollout.types import Answer, Mode, Passage, Search, StopReason, SubQueryResult
from parallelsearch.schemas.answers import TrajectoryModel
from parallelsearch.schemas.base import NonBlankText, WireModel
from parallelsearch.schemas.trajectories import trajectory_from_wire
from trainer.data.manifest import Manifest, keep_sources, nothing_left, write_lines, write_manifest
from trainer.data.prompts import measured_on
from trainer.data.questions import read_json_lines
from trainer.data.rows import ColdStartRow, SegmentRow
from trainer.labels import question_key

MAX_WEIGHT = 1_000


class CompactSearch(WireModel):
    reasoning: str
    queries: list[str] = Field(min_length=1)
    passages: list[list[str]]

    @model_validator(mode="after")
    def _passages_for_each_query(self) -> CompactSearch:
        if len(self.passages) != len(self.queries):
            raise ValueError(f"{len(self.queries)} queries need as many lists of passages, not {len(self.passages)}")
        return self


class CompactAnswer(WireModel):
    reasoning: str
    answer: str


class CompactTrajectory(WireModel):
    """`weight` is how often a row is drawn; a fraction is drawn by chance."""

    kind: str = ""
    origin: str = ""
    question: NonBlankText
    golden_answers: list[str] = []
    weight: Annotated[float, Field(ge=0, le=MAX_WEIGHT)] = 1.0
    turns: list[CompactSearch | CompactAnswer] = Field(min_length=1)


Corpora = Mapping[str, Mapping[str, Passage]]


def prepare_cold_start(
    sources: list[str],
    corpora: Mapping[str, str],
    target: Path,
    *,
    excluded: Sequence[str] = (),
    mode: Mode = Mode.PARALLEL,
    seed: int = 42,
) -> Manifest:
    """Writes a cold-start file with its manifest, shuffled by the seed. Questions of eval rows of `excluded` stay out.

    Raises:
        InvalidInput: a line is no trajectory of either form, or refers to a passage that no corpus has; names file and line.
    """
    keep_sources(target, [*sources, *excluded, *corpora.values()])
    passages, held_out = {name: read_corpus(path) for name, path in corpora.items()}, measured_on(excluded)
    random, counts, left_out = Random(seed), Counter[str](), Counter[str]()
    rows: list[ColdStartRow] = []
    for source in sources:
        for place, trajectory in _read(source):
            if question_key(trajectory.question) in held_out:
                left_out["measured on"] += 1
                continue
            times = _times(trajectory, random)
            if reason := _reason_to_leave_out(trajectory, mode):
                left_out[reason] += 1
                continue
            counts[_group(trajectory)] += times
            rows += [_render(trajectory, passages, mode, place)] * times
    if not rows:
        raise nothing_left(left_out)
    random.shuffle(rows)
    count = write_lines(target, (row.model_dump_json().encode() for row in rows))
    named, settings = [*sources, *corpora.values()], {"mode": str(mode), "seed": str(seed)}
    return write_manifest(target, count, counts, +left_out, named, settings, excluded)


def read_corpus(path: str) -> dict[str, Passage]:
    """Passages by id, from lines `{"id", "contents"}` whose contents are `"Title"`, a newline and the text."""
    found = {}
    for number, row in read_json_lines(Path(path)):
        if not isinstance(row, dict) or "id" not in row or not isinstance(row.get("contents"), str):
            raise InvalidInput(f"{path}:{number}: no passage: a line of a corpus has `id` and `contents`.")
        title, _, text = row["contents"].partition("\n")
        found[str(row["id"])] = Passage(str(row["id"]), title.strip('"'), text)
    return found


def _read(source: str) -> Iterator[tuple[str, CompactTrajectory | TrajectoryModel]]:
    for number, row in read_json_lines(Path(source)):
        form = TrajectoryModel if isinstance(row, dict) and "stop_reason" in row else CompactTrajectory
        place = f"{source}:{number}"
        try:
            trajectory = form.model_validate(_without_scores(row))
        except ValidationError as error:
            raise InvalidInput(f"{place}: no trajectory: {_fault(error)}") from None
        yield place, trajectory


def _fault(error: ValidationError) -> str:
    fault = error.errors(include_url=False)[0]
    where, said = ".".join(map(str, fault["loc"])), fault["msg"].removeprefix("Value error, ")
    return f"{where}: {said}" if where else said


def _without_scores(row: Any) -> Any:
    is_scored = isinstance(row, dict) and "stop_reason" in row
    return {name: value for name, value in row.items() if name not in {"kind", "golden_answers"}} if is_scored else row


def _group(trajectory: CompactTrajectory | TrajectoryModel) -> str:
    return trajectory.kind or "unlabelled" if isinstance(trajectory, CompactTrajectory) else "served"


def _times(trajectory: CompactTrajectory | TrajectoryModel, random: Random) -> int:
    if not isinstance(trajectory, CompactTrajectory):
        return 1
    whole = int(trajectory.weight)
    return whole + (random.random() < trajectory.weight - whole)


def _reason_to_leave_out(trajectory: CompactTrajectory | TrajectoryModel, mode: Mode) -> str:
    if isinstance(trajectory, CompactTrajectory):
        return ""
    if trajectory.stop_reason is not StopReason.ANSWERED:
        return "not answered"
    if trajectory.mode is not mode:
        return "asked in another mode"
    return "with a malformed turn" if any(turn.action.type == "malformed" for turn in trajectory.turns) else ""


def _render(trajectory: CompactTrajectory | TrajectoryModel, corpora: Corpora, mode: Mode, place: str) -> ColdStartRow:
    if isinstance(trajectory, CompactTrajectory):
        segments = list(_compact_segments(trajectory, corpora, place))
    else:
        segments = list(_served_segments(trajectory, place))
    try:
        return ColdStartRow(prompt=build_prompt(trajectory.question, mode), segments=segments)
    except ValidationError as error:
        raise InvalidInput(f"{place}: no row of a cold start comes of it: {_fault(error)}") from None


def _served_segments(model: TrajectoryModel, place: str) -> Iterator[SegmentRow]:
    for number, turn in enumerate(trajectory_from_wire(model).turns):
        if not turn.text.strip():
            raise InvalidInput(f"{place}: turns.{number}.text is empty: what the policy wrote is what a cold start learns.")
        if isinstance(turn.action, Answer) and turn.action.opened:
            yield SegmentRow(author="environment", text=OPENING)
        yield SegmentRow(author="policy", text=turn.text)
        if isinstance(turn.action, Search):
            text = observations.wrap(observations.REPEATED_HINT) if turn.repeated else observation_text(turn.observation)
            yield SegmentRow(author="environment", text=text)


def _compact_segments(trajectory: CompactTrajectory, corpora: Corpora, place: str) -> Iterator[SegmentRow]:
    for turn in trajectory.turns:
        think = f"<{THINK}> {turn.reasoning} </{THINK}>\n\n"
        if isinstance(turn, CompactAnswer):
            yield SegmentRow(author="policy", text=f"{think}<{ANSWER}> {turn.answer} </{ANSWER}>")
            continue
        yield SegmentRow(author="policy", text=f"{think}<{SEARCH}> {f' {SEPARATOR} '.join(turn.queries)} </{SEARCH}>")
        results = [
            SubQueryResult(query, tuple(_passage(reference, corpora, place) for reference in references))
            for query, references in zip(turn.queries, turn.passages, strict=True)
        ]
        yield SegmentRow(author="environment", text=observation_text(results))


def _passage(reference: str, corpora: Corpora, place: str) -> Passage:
    corpus, _, identifier = reference.partition(":")
    try:
        return corpora[corpus][identifier]
    except KeyError:
        raise InvalidInput(f"{place}: no corpus has passage {reference}; name its file with --corpus {corpus}=FILE.") from None


def observation_text(results: tuple[SubQueryResult, ...] | list[SubQueryResult]) -> str:
    """The observation as a rollout within its budget shows it: the labelled layout, cut by words."""
    words, labelled = ObservationSettings().words(len(results)), len(results) > 1
    lines = [
        line
        for number, result in enumerate(results, start=1)
        for line in observations.group_lines(number, result, words, labelled=labelled)
    ]
    return observations.wrap("\n".join(lines))
