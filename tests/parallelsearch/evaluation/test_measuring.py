import pytest
from evaluation_fakes import a_question, a_trajectory, answer, search

from parallelsearch.evaluation.graphs import SubQuestion, build_graph
from parallelsearch.evaluation.measuring import measure
from parallelsearch.evaluation.metrics import BY_NAME, METRICS
from parallelsearch.rollout.types import Kind, Mode, StopReason


def value(name, *pairs):
    """The metric over pairs of question and trajectory, None where it is over nothing."""
    metric = BY_NAME[name]
    rows = [measure(question, trajectory) for question, trajectory in pairs]
    sums = [(metric.numerator(row), metric.denominator(row)) for row in rows]
    counted = [(top, bottom) for top, bottom in sums if top is not None and bottom]
    tops = [top for top, bottom in sums if top is not None and bottom is not None]
    return sum(tops) / sum(bottom for _, bottom in counted) if counted else None


RIGHT = a_trajectory(search("a", "b"), answer("the Ann."), found=("Ann", "Bob"))
WRONG = a_trajectory(search("a"), search("b"), answer("Bob or Ann"), found=("Ann",))


def test_answers_are_compared_as_squad_does():
    pairs = [(a_question(), RIGHT), (a_question(golden_answers=("E C",)), a_trajectory(answer("C D")))]

    assert value("exact_match", *pairs) == 0.5
    assert value("f1", pairs[1]) == pytest.approx(0.5)
    assert value("cover_match", (a_question(golden_answers=("Monet",)), a_trajectory(answer("It was Monet, surely")))) == 1.0


def test_effort_is_what_the_trajectory_says():
    assert value("llm_calls", (a_question(), RIGHT), (a_question(), WRONG)) == 2.5
    assert value("search_rounds", (a_question(), WRONG)) == 2
    assert value("sub_queries", (a_question(), RIGHT)) == 2


def test_cost_is_all_that_was_spent_over_what_was_right():
    pairs = [(a_question(), RIGHT), (a_question(), WRONG)]

    assert value("calls_per_correct", *pairs) == 5
    assert value("tokens_per_correct", *pairs) == 20 + 10 + 30 + 10
    assert value("calls_per_correct", (a_question(), WRONG)) is None


@pytest.mark.parametrize(
    ("question", "recall", "found"),
    [
        (a_question(supporting_titles=("Ann", "Bob")), 0.5, 0.0),
        (a_question(supporting_titles=("the ann",)), 1.0, 1.0),
        (a_question(golden_answers=("passage",)), None, 1.0),
        (a_question(golden_answers=("pass",)), None, 0.0),
        (a_question(golden_answers=("yes",)), None, None),
    ],
)
def test_evidence_is_found_by_titles_else_by_the_answer(question, recall, found):
    assert value("title_recall", (question, WRONG)) == recall
    assert value("evidence_found", (question, WRONG)) == found


def test_wrong_although_evidence_is_taken_over_those_whose_evidence_was_found():
    with_titles = a_question(supporting_titles=("Ann",))
    without = a_question(supporting_titles=("Z",))

    assert value("wrong_although_evidence", (with_titles, WRONG), (with_titles, RIGHT), (without, WRONG)) == 0.5
    assert value("right_without_evidence", (without, RIGHT), (with_titles, RIGHT)) == 1.0


def graph(*dependencies):
    return build_graph([SubQuestion(name, name, tuple(needs)) for name, needs in dependencies])


def test_decomposing_is_judged_apart_from_the_answer():
    single = a_question(kind=Kind.SEQUENTIAL, needs_decomposition=False)
    unlabelled = a_question(kind=Kind.UNLABELLED, needs_decomposition=None)
    pairs = [(a_question(), RIGHT), (a_question(), WRONG), (single, RIGHT), (single, WRONG), (unlabelled, RIGHT)]

    assert value("decomposition_precision", *pairs) == 0.5
    assert value("decomposition_recall", *pairs) == 0.5
    assert value("decomposition_accuracy", *pairs) == 0.5
    assert value("decomposed", *pairs) == 0.6


def test_a_repeated_or_blank_sub_query_is_no_decomposition_and_a_dropped_one_is():
    assert value("decomposed", (a_question(), a_trajectory(search("a", " A ", ""), answer("Ann")))) == 0
    assert value("decomposed", (a_question(), a_trajectory(search("a", "b"), answer("Ann"), mode=Mode.SEQUENTIAL))) == 1


def test_the_shape_is_judged_against_the_graph():
    flat = a_question(graph=graph(("a", ""), ("b", "")))
    chain = a_question(graph=graph(("a", ""), ("b", "a")))

    assert value("shape_right", (flat, RIGHT)) == 1.0
    assert value("width_right", (chain, WRONG)) == value("depth_right", (chain, WRONG)) == value("shape_right", (chain, WRONG)) == 1
    assert value("width_right", (chain, RIGHT)) == value("depth_right", (flat, WRONG)) == 0
    assert value("sub_query_excess", (flat, a_trajectory(search("a", "b", "c"), answer("Ann")))) == 1
    assert value("shape_right", (a_question(), RIGHT)) is None


def test_what_happened_to_a_rollout_is_counted_and_leaves_it_wrong():
    failed = a_trajectory(search("a"), "I ramble", stop=StopReason.POLICY_FAILED)

    assert value("exact_match", (a_question(), failed)) == 0
    assert value("malformed", (a_question(), failed)) == 0.5
    assert value("answered", (a_question(), failed), (a_question(), RIGHT)) == 0.5


def test_the_reward_and_its_terms_add_up():
    terms = [name for name in BY_NAME if name.startswith("reward_")]

    assert value("reward", (a_question(), RIGHT)) == pytest.approx(1.8)
    assert sum(value(name, (a_question(), WRONG)) for name in terms) == pytest.approx(value("reward", (a_question(), WRONG)))


def test_an_empty_trajectory_is_measured_too():
    row = measure(a_question(), a_trajectory(stop=StopReason.DEADLINE))

    assert all(metric.numerator(row) is None or metric.denominator(row) is not None for metric in METRICS)


def test_every_metric_has_its_own_name_a_definition_and_a_source():
    assert len(BY_NAME) == len(METRICS)
    assert all(metric.definition.endswith(".") and metric.source for metric in METRICS)
