import pytest
from shared_data import shared_data

from parallelsearch.demo import demo_file
from parallelsearch.errors import InvalidInput
from parallelsearch.evaluation.questions import Subset, in_subset
from parallelsearch.evaluation.reading import read_questions
from parallelsearch.rollout.types import Kind

ROW = {"id": "q1", "question": "Who is older, A or B?", "golden_answers": ["A"], "type": "comparison"}


@pytest.mark.parametrize(
    ("broken", "named"),
    [
        ('{"id": "q2", ', "JSON"),
        ({**ROW, "id": "q2", "golden_answers": []}, "golden_answers"),
        ({**ROW, "id": "q2", "golden_answers": [" "]}, "golden_answers.0"),
        ({key: value for key, value in ROW.items() if key != "question"}, "question"),
        ({**ROW, "id": ""}, "id"),
        ({**ROW, "question": "a\x00b", "id": "q2"}, "NUL"),
        ({**ROW}, "line 1"),
        ({**ROW, "id": "q2", "kind": "odd"}, "kind"),
        ({**ROW, "id": "q2", "sub_questions": [{"id": "a", "question": "?", "depends_on": ["a"]}]}, "itself"),
        ({**ROW, "id": "q2", "sub_questions": [{"id": "a", "question": "?", "depends_on": ["z"]}]}, "z"),
        ([1], "object"),
    ],
)
def test_a_row_that_cannot_be_asked_is_a_fault_with_file_line_and_reason(write, broken, named):
    found = read_questions(write(ROW, broken, {**ROW, "id": "q3"}))

    assert [question.id for question in found.questions] == ["q1", "q3"]
    (fault,) = found.faults
    assert str(fault).startswith("set.jsonl:2")
    assert named in str(fault)
    assert "Value error" not in str(fault)
    assert "at line" not in str(fault), "it has the file's own"
    assert found.rows == 3


def test_a_file_without_a_single_good_row_is_refused_with_its_first_fault(write):
    with pytest.raises(InvalidInput, match=r"set\.jsonl:1"):
        read_questions(write("{"))


def test_an_empty_and_a_missing_file_are_refused(write, tmp_path):
    with pytest.raises(InvalidInput, match="empty"):
        read_questions(write())
    with pytest.raises(InvalidInput, match=r"none\.jsonl"):
        read_questions(tmp_path / "none.jsonl")


def test_invalid_utf8_is_a_fault(tmp_path):
    path = tmp_path / "set.jsonl"
    path.write_bytes(b'{"id": "q\xff"}\n{"id": "q1", "question": "Who?", "golden_answers": ["A"]}\n')

    assert [fault.line for fault in read_questions(path).faults] == [1]


def test_a_byte_order_mark_before_the_first_line_changes_nothing(write):
    plain = read_questions(write(ROW, {**ROW, "id": "q2"}))
    path = write(ROW, {**ROW, "id": "q2"})
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))

    assert read_questions(path) == plain
    path.write_bytes(path.read_bytes() + b"\xef\xbb\xbf{}")
    assert [fault.line for fault in read_questions(path).faults] == [3]


@pytest.mark.parametrize(
    ("fields", "kind", "needed", "shape"),
    [
        ({"type": "comparison"}, Kind.PARALLEL, True, None),
        ({"type": "bridge"}, Kind.SEQUENTIAL, False, None),
        ({"type": "bridge_comparison"}, Kind.HYBRID, True, None),
        ({"type": "single"}, Kind.UNLABELLED, False, None),
        ({"type": "temporal"}, Kind.UNLABELLED, None, None),
        ({"type": "single", "kind": "single"}, Kind.UNLABELLED, False, None),
        ({"type": "bridge", "sub_questions": ["A >> b", "#1 >> c", "what of #2 and #1"]}, Kind.SEQUENTIAL, False, (1, 3)),
        ({"type": "bridge", "sub_questions": ["who", "where", "#1 in #2"]}, Kind.SEQUENTIAL, True, (2, 2)),
        ({"type": "compositional", "evidences": [["A", "director", "B"], ["b", "born", "C"]]}, Kind.SEQUENTIAL, False, (1, 2)),
        ({"type": "compositional", "evidences": [["A", "director", "B"], ["Bb", "born", "C"]]}, Kind.SEQUENTIAL, False, None),
        ({"type": "comparison", "evidences": [["A", "born", "1900"], ["B", "born", "1901"]]}, Kind.PARALLEL, True, (2, 1)),
    ],
)
def test_kind_label_and_graph_come_from_the_most_explicit_label(write, fields, kind, needed, shape):
    (question,) = read_questions(write({**ROW, **fields})).questions

    assert (question.kind, question.needs_decomposition) == (kind, needed)
    assert (question.graph and (question.graph.width, question.graph.depth)) == shape


def test_the_demo_questions_are_read_without_a_fault():
    graphs = read_questions(demo_file("graph_questions.jsonl"))

    assert (len(graphs.questions), graphs.faults) == (120, ())
    assert {question.graph.width for question in graphs.questions} >= {1, 2, 3, 4, 5, 6}
    assert {question.graph.depth for question in graphs.questions} >= {1, 2, 3, 4}
    assert sum(question.trap for question in graphs.questions) == 20
    assert all(question.needs_decomposition is False for question in graphs.questions if question.trap)


def test_the_papers_subsets_are_cut_by_each_rows_own_type(write):
    rows = [
        {**ROW, "id": t, "type": t} for t in ("comparison", "bridge", "compositional", "inference", "bridge_comparison", "null")
    ]

    def cut(name, subset):
        return {q.type for q in read_questions(write(*rows, name=f"{name}.jsonl")).questions if in_subset(q, subset)}

    assert cut("hotpotqa", Subset.PARALLEL) == cut("2wikimultihopqa", Subset.PARALLEL) == {"comparison"}
    assert cut("multihoprag", Subset.PARALLEL) == {"comparison"}
    assert cut("hotpotqa", Subset.SEQUENTIAL) == {"bridge"}
    assert cut("2wikimultihopqa", Subset.SEQUENTIAL) == {"compositional", "inference"}
    assert cut("multihoprag", Subset.SEQUENTIAL) == {"inference"}
    assert cut("musique", Subset.PARALLEL) == cut("musique", Subset.SEQUENTIAL) == set()


def test_the_real_sets_are_read_without_a_fault_and_with_their_graphs():
    folder = shared_data()
    sets = {path.stem: read_questions(path) for path in folder.glob("*.jsonl") if path.stem != "rollout_traces"}

    assert len(sets) == 9
    assert not [fault for one in sets.values() for fault in one.faults]
    assert sum(q.kind is Kind.PARALLEL for q in sets["hotpotqa"].questions if q.split == "eval") == 58
    assert all(q.graph for q in sets["musique"].questions)
    shaped = [q for q in sets["2wikimultihopqa"].questions if q.graph]
    assert len(shaped) > 450
    assert all((q.graph.width > 1) == q.needs_decomposition for q in shaped)


def test_a_question_longer_than_the_gateway_takes_is_a_fault_and_the_others_are_asked(write):
    rows = [ROW, {**ROW, "id": "long", "question": "w" * 8_193}, {**ROW, "id": "longest", "question": "w" * 8_192}]
    found = read_questions(write(*rows))
    assert [question.id for question in found.questions] == ["q1", "longest"]
    assert [(fault.line, "question" in fault.reason) for fault in found.faults] == [(2, True)]


@pytest.mark.parametrize("count", [3, 5_000])
@pytest.mark.parametrize("closed", [False, True])
def test_a_chain_of_sub_questions_of_any_length_is_a_graph_or_a_fault(write, count, closed):
    chain = [{"id": str(n), "question": "Who?", "depends_on": [str(n + 1)] if n + 1 < count else []} for n in range(count)]
    if closed:
        chain[-1]["depends_on"] = ["0"]
    found = read_questions(write(ROW, {**ROW, "id": "chain", "sub_questions": chain}))
    if closed:
        assert "depends on itself" in found.faults[0].reason
    else:
        graph = found.questions[1].graph
        assert (graph.depth, graph.width, graph.levels[0]) == (count, 1, count)
