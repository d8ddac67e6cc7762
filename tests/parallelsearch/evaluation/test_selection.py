import pytest

from parallelsearch.errors import ConfigurationError, InvalidInput
from parallelsearch.evaluation.named_sets import load_named_set
from parallelsearch.evaluation.questions import Subset
from parallelsearch.evaluation.reading import read_questions
from parallelsearch.evaluation.selection import Selection, select
from parallelsearch.rollout.types import Kind

ROW = {"question": "Who?", "golden_answers": ["A"], "type": "comparison"}
ROWS = [
    {
        **ROW,
        "id": f"q{n}",
        "split": "eval" if n % 2 else "train",
        "answerable": n % 3 > 0,
        "type": "bridge" if n > 15 else "comparison",
    }
    for n in range(20)
]


def test_what_is_left_out_is_counted_by_reason(write):
    source = read_questions(write(*ROWS, name="hotpotqa.jsonl"))
    chosen = select(source, Selection(split="eval", answerable_only=True, subset=Subset.PARALLEL, limit=3))

    assert len(chosen.questions) == 3
    assert len(chosen.questions) + sum(chosen.left_out.values()) == 20
    assert chosen.left_out["not of the eval split"] == 10


def test_only_rows_labelled_answerable_are_asked_where_a_set_has_the_label(write):
    labels = ({"answerable": True}, {}, {"answerable": False})
    labelled = read_questions(write(*({**ROW, "id": name} | label for name, label in zip("abc", labels, strict=True))))
    without = read_questions(write({**ROW, "id": "a"}, name="other.jsonl"))

    assert [q.id for q in select(labelled, Selection(answerable_only=True)).questions] == ["a"]
    assert [q.id for q in select(without, Selection(answerable_only=True)).questions] == ["a"]


def test_a_sample_goes_by_seed_keeps_the_order_and_does_not_move_when_rows_are_added(write):
    small, large = read_questions(write(*ROWS[:19])), read_questions(write(*ROWS, name="more.jsonl"))
    first = [q.id for q in select(small, Selection(limit=8)).questions]
    again = [q.id for q in select(large, Selection(limit=8)).questions]

    assert first == sorted(first, key=lambda name: int(name[1:]))
    assert len(set(first) & set(again)) >= 7
    assert first != [q.id for q in select(small, Selection(limit=8, seed=1)).questions]


def test_nothing_left_is_an_error_that_says_why(write):
    with pytest.raises(InvalidInput, match="20 not of the dev split"):
        select(read_questions(write(*ROWS)), Selection(split="dev"))


def test_a_named_set_is_taken_from_its_test_split_and_its_types_are_cut_to_ours():
    row = {
        "query": "Did X or Y report it?",
        "answer": "Yes",
        "question_type": "comparison_query",
        "evidence_list": [{"title": "A title"}],
    }
    found = load_named_set("multihoprag", lambda *_, **__: {"train": [row, {**row, "answer": None}]})

    (question,) = found.questions
    assert (question.type, question.kind, question.supporting_titles) == ("comparison", Kind.PARALLEL, ("A title",))
    assert [fault.line for fault in found.faults] == [2]


def test_a_flashrag_set_is_read_with_its_metadata():
    metadata = {"type": "bridge", "supporting_facts": {"title": ["A", "B", "A"], "sent_id": [0, 1, 2]}}
    row = {"id": "dev_1", "question": "Who?", "golden_answers": ["A"], "metadata": metadata}
    found = load_named_set("hotpotqa", lambda *_: {"train": [], "dev": [row]})

    assert found.source == "hotpotqa (dev)"
    assert found.questions[0].kind is Kind.SEQUENTIAL
    assert found.questions[0].supporting_titles == ("A", "B")


def test_an_unknown_name_and_an_unreachable_hub_are_sentences():
    def unreachable(*_):
        raise ConnectionError("no route")

    with pytest.raises(InvalidInput, match="bamboogle"):
        load_named_set("nonsense")
    with pytest.raises(ConfigurationError, match="no route"):
        load_named_set("nq", unreachable)
