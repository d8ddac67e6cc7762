"""Every row of the table of golden values, for each kind and both presets."""

from pathlib import Path

import pytest

from parallelsearch.reward.scoring import Preset, score
from parallelsearch.rollout.types import Kind

ROWS = {
    "no search": (["a:Claude Monet"], 1.0, 0.8, 1.15, 0.65),
    "one search, one query": (["s:x", "a:Claude Monet"], 1.35, 1.15, 1.5, 1.0),
    "one search, two queries": (["s:x ## y", "a:Claude Monet"], 1.8, 1.0, 1.35, 1.45),
    "one search, three queries": (["s:x ## y ## z", "a:Claude Monet"], 1.8, 1.0, 1.35, 1.45),
    "two searches, one query each": (["s:x", "s:y", "a:Claude Monet"], 1.0, 1.5, 1.15, 1.35),
    "one query, then two": (["s:x", "s:y ## z", "a:Claude Monet"], 1.0, 1.5, 1.15, 1.35),
    "two queries, then one": (["s:x ## y", "s:z", "a:Claude Monet"], 1.45, 1.35, 1.0, 1.8),
    "four searches": (["s:w", "s:x", "s:y", "s:z", "a:Claude Monet"], 0.3, 1.5, 0.45, 0.65),
    "two queries, wrong answer": (["s:x ## y", "a:Camille Pissarro"], 0.9, 0.1, 0.45, 0.55),
    "two queries, no answer": (["s:x ## y"], 0.8, 0.0, 0.35, 0.45),
}
KINDS = (Kind.PARALLEL, Kind.SEQUENTIAL, Kind.UNLABELLED)
CASES = [(row, kind, ROWS[row][1 + place]) for row in ROWS for place, kind in enumerate(KINDS)]


@pytest.mark.parametrize("preset", list(Preset))
@pytest.mark.parametrize(("row", "kind", "expected"), CASES)
def test_golden_value(trajectory, row, kind, expected, preset):
    reward = score(trajectory(*ROWS[row][0]), kind, ["Claude Monet"], preset=preset)

    assert reward.value == pytest.approx(expected, abs=1e-12)
    assert reward.value == reward.terms.total


@pytest.mark.parametrize("row", ROWS)
def test_hybrid_is_known_to_strict(trajectory, row):
    reward = score(trajectory(*ROWS[row][0]), Kind.HYBRID, ["Claude Monet"], preset=Preset.STRICT)

    assert reward.value == pytest.approx(ROWS[row][4], abs=1e-12)


@pytest.mark.parametrize("row", ROWS)
def test_hybrid_is_sequential_to_paper(trajectory, row):
    hybrid = score(trajectory(*ROWS[row][0]), Kind.HYBRID, ["Claude Monet"], preset=Preset.PAPER)

    assert hybrid == score(trajectory(*ROWS[row][0]), Kind.SEQUENTIAL, ["Claude Monet"], preset=Preset.PAPER)


@pytest.mark.parametrize(("row", "kind", "_"), CASES)
def test_presets_agree_on_honest_trajectories_to_the_last_bit(trajectory, row, kind, _):
    paper, strict = (score(trajectory(*ROWS[row][0]), kind, ["Claude Monet"], preset=preset) for preset in Preset)

    assert paper.value == strict.value


def published(*, outcome: float, is_comp: int, decomposed: bool, searches: int) -> float:
    """The published function's arithmetic, in its order of operations, with the paper's weights."""
    comp_score, count_score = 0.15, 0.35
    comp = 0.0
    if decomposed and is_comp > 0:
        comp += comp_score * 3
    elif not decomposed and is_comp <= 0:
        comp += comp_score
    distance = abs(searches - 1) if is_comp != 0 else abs(min(searches, 2) - 2)
    return outcome + comp + (count_score - distance * count_score)


@pytest.mark.parametrize(("row", "kind", "_"), CASES)
def test_paper_is_the_published_sum_to_the_last_bit(trajectory, row, kind, _):
    rollout = trajectory(*ROWS[row][0])
    reward = score(rollout, kind, ["Claude Monet"], preset=Preset.PAPER)
    code = {Kind.PARALLEL: 1, Kind.SEQUENTIAL: 0, Kind.UNLABELLED: -1}[kind]

    assert reward.value == published(
        outcome=reward.terms.outcome_and_format, is_comp=code, decomposed=reward.decomposed, searches=reward.searches
    )


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [
        (["a:Claude Monet"], 1.0),
        (["<answer> Claude Monet </answer>"], 0.9),
        (["a:Camille Pissarro"], 0.1),
        (["<answer> Camille Pissarro </answer>"], 0.0),
        (["<think> x </think> so <answer> Claude Monet </answer>"], 0.9),
        (["nothing"], 0.0),
    ],
)
@pytest.mark.parametrize("preset", list(Preset))
def test_outcome_and_format(trajectory, blocks, expected, preset):
    reward = score(trajectory(*blocks), Kind.PARALLEL, ["Claude Monet"], preset=preset)

    assert reward.terms.outcome_and_format == pytest.approx(expected)


@pytest.mark.parametrize("preset", list(Preset))
def test_an_answer_opened_by_the_environment_is_never_well_formed(trajectory, preset):
    reward = score(trajectory("s:x ## y", " Claude Monet </answer>", opened=True), Kind.PARALLEL, ["Claude Monet"], preset=preset)

    assert reward.matched
    assert not reward.well_formed
    assert reward.terms.outcome_and_format == pytest.approx(0.9)


@pytest.mark.parametrize("preset", list(Preset))
def test_an_opened_turn_that_writes_all_tags_itself_is_not_well_formed(trajectory, preset):
    text = "<think> x </think> <answer> Claude Monet </answer>"

    assert not score(trajectory(text, opened=True), Kind.PARALLEL, ["Claude Monet"], preset=preset).well_formed


def test_the_table_of_the_document_has_these_values():
    section = (Path(__file__).resolve().parents[3] / "docs" / "protocol.md").read_text().split("## Reward")[1]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line.startswith("|")]
    order = [["parallel", "sequential", "unlabelled", "hybrid"].index(kind) for kind in rows[0][1:]]
    assert [row[1:] for row in rows[2:]] == [[f"{row[1 + place]:.2f}" for place in order] for row in ROWS.values()]
