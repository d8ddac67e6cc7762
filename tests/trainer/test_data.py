import gzip
import json
from collections import Counter

import byte_tokenizer
import pyarrow
import pyarrow.parquet
import pytest
from shared_data import shared_data
from typer.testing import CliRunner

from parallelsearch.reward.exact_match import normalise
from parallelsearch.rollout.types import Kind
from trainer.data.cold_start import ColdStartRow
from trainer.data.encoding import encode
from trainer.data.manifest import Manifest, sha256
from trainer.data.questions import read_questions
from trainer.labels import PromptRow
from trainer.prepare import app

ROWS = [
    {"id": "1", "question": "Who is older?", "golden_answers": ["A"], "type": "comparison", "split": "train"},
    {"id": "2", "question": "who is the younger", "golden_answers": ["A"], "type": "comparison", "split": "train"},
    {"id": "3", "question": "Where was B born?", "golden_answers": ["C"], "type": "single", "split": "eval"},
    {"id": "4", "question": "where was the B born", "golden_answers": ["C"], "type": "single", "split": "train"},
    {"id": "5", "question": "Unknown?", "golden_answers": ["D"], "type": "bridge", "split": "train", "answerable": False},
    {"id": "6", "question": "Whose director?", "golden_answers": ["E"], "type": "bridge_comparison", "split": "train"},
]


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def read_prompts(path):
    return [PromptRow.model_validate_json(line) for line in path.read_text().splitlines()]


def test_questions_become_labelled_prompts_and_those_measured_on_stay_out(tmp_path):
    out = tmp_path / "train.jsonl"
    result = run("prompts", write(tmp_path / "q.jsonl", ROWS), "--out", out)
    rows = {row.unpacked.id: row for row in read_prompts(out)}

    assert result.exit_code == 0
    assert set(rows) == {"1", "2", "6"}
    assert rows["6"].unpacked.kind is Kind.HYBRID
    assert rows["1"].prompt.endswith("Question: Who is older?")
    assert rows["2"].prompt.endswith("who is the younger?")


def test_the_manifest_counts_and_hashes(tmp_path):
    source, out = write(tmp_path / "q.jsonl", [*ROWS, {**ROWS[0], "id": "9"}]), tmp_path / "train.jsonl"
    run("prompts", source, "--out", out)
    manifest = Manifest.model_validate_json((tmp_path / "train.manifest.json").read_text())

    assert manifest.sha256 == sha256(out)
    assert manifest.rows == 3
    assert manifest.counts == {"hybrid": 1, "parallel": 2}
    assert manifest.left_out == {"asked twice": 1, "measured on": 1, "not answerable": 1, "of another split": 1}
    assert manifest.sources[0].sha256 == sha256(source)


def test_eval_rows_of_other_files_are_excluded_and_an_eval_file_can_be_made(tmp_path):
    measured = write(tmp_path / "e.jsonl", [{**ROWS[0], "split": "eval"}])
    run("prompts", write(tmp_path / "q.jsonl", ROWS), "--exclude", measured, "--out", tmp_path / "train.jsonl")
    run("prompts", tmp_path / "q.jsonl", "--split", "eval", "--out", tmp_path / "eval.jsonl")

    assert {row.unpacked.id for row in read_prompts(tmp_path / "train.jsonl")} == {"2", "6"}
    assert [row.unpacked.split for row in read_prompts(tmp_path / "eval.jsonl")] == ["eval"]


def test_kinds_types_and_a_limit_cut_the_rows_and_the_seed_orders_them(tmp_path):
    source = write(tmp_path / "q.jsonl", [{**ROWS[0], "id": str(n), "question": f"Q{n}?"} for n in range(50)] + ROWS)
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        run("prompts", source, "--kind", "parallel", "--limit", 20, "--seed", seed, "--out", tmp_path / f"{name}.jsonl")
    a, b, c = ((tmp_path / f"{name}.jsonl").read_text() for name in "abc")
    run("prompts", source, "--type", "bridge_comparison", "--out", tmp_path / "d.jsonl")

    assert a == b != c
    assert len(a.splitlines()) == 20
    assert [row.unpacked.id for row in read_prompts(tmp_path / "d.jsonl")] == ["6"]


def test_parquet_and_flashrags_shape_are_read(tmp_path):
    rows = [{"id": "f1", "question": "Who?", "golden_answers": ["A"], "metadata": {"type": "comparison", "level": "hard"}}]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "train.parquet")

    assert [question.kind for question in read_questions(str(tmp_path / "train.parquet"))] == [Kind.PARALLEL]


@pytest.mark.parametrize(
    ("content", "words"),
    [('{"id": "1"\n', "q.jsonl:1"), (json.dumps({"id": "1", "question": " ", "golden_answers": ["x"]}), "q.jsonl:1: question")],
)
def test_a_broken_question_file_is_named_with_its_line(tmp_path, content, words):
    (tmp_path / "q.jsonl").write_text(content)
    result = run("prompts", tmp_path / "q.jsonl", "--out", tmp_path / "train.jsonl")

    assert result.exit_code == 1
    assert words in result.output
    assert not (tmp_path / "train.jsonl").exists()


def test_no_eval_question_of_the_shared_sets_reaches_a_training_file(tmp_path):
    sources = sorted(shared_data().glob("*.jsonl"))
    sources = [path for path in sources if "rollout" not in path.name]
    result = run("prompts", *sources, "--all", "--out", tmp_path / "train.jsonl")
    measured = {
        normalise(question.question) for path in sources for question in read_questions(str(path)) if question.split == "eval"
    }
    learnt = {normalise(row.unpacked.question) for row in read_prompts(tmp_path / "train.jsonl")}

    assert result.exit_code == 0
    assert len(measured) > 2000
    assert len(learnt) > 4000
    assert not learnt & measured


COMPACT = {
    "kind": "cmp_born",
    "origin": "syn",
    "question": "Who is older, A or B?",
    "golden_answers": ["A"],
    "weight": 2,
    "turns": [
        {"reasoning": "Both.", "queries": ["A born", "B born"], "passages": [["c:1"], ["c:2"]]},
        {"reasoning": "1 < 2.", "answer": "A"},
    ],
}


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "c.jsonl.gz"
    rows = [{"id": str(n), "contents": f'"Title {n}"\n' + "word " * 200} for n in (1, 2)]
    path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))
    return path


def test_compact_trajectories_become_segments_in_the_trained_format(tmp_path, corpus):
    out = tmp_path / "sft.jsonl"
    result = run("cold-start", write(tmp_path / "t.jsonl", [COMPACT]), "--corpus", f"c={corpus}", "--out", out)
    rows = [ColdStartRow.model_validate_json(line) for line in out.read_text().splitlines()]
    texts = [segment.text for segment in rows[0].segments]
    cut = " ".join(["word"] * 120)

    assert result.exit_code == 0, result.output
    assert rows == [rows[0]] * 2
    assert [segment.author for segment in rows[0].segments] == ["policy", "environment", "policy"]
    assert texts[0] == "<think> Both. </think>\n\n<search> A born ## B born </search>"
    first, second = (f"Query {n}: {name} born\nDoc 1(Title: Title {n}) {cut}" for n, name in ((1, "A"), (2, "B")))
    assert texts[1] == f"\n\n<information>{first}\n{second}</information>\n\n"
    assert texts[2] == "<think> 1 < 2. </think>\n\n<answer> A </answer>"


def test_served_trajectories_are_taken_if_they_were_answered(tmp_path):
    turn = {"index": 0, "action": {"type": "answer", "text": "A"}, "text": "<think> x </think> <answer> A </answer>"}
    served = {"id": "1", "question": "Q?", "stop_reason": "answered", "turns": [turn]}
    source = write(
        tmp_path / "t.jsonl",
        [served, {**served, "stop_reason": "malformed"}, {**served, "kind": "parallel", "golden_answers": ["A"]}],
    )
    result = run("cold-start", source, "--out", tmp_path / "sft.jsonl")

    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["left_out"] == {"not answered": 1}
    assert json.loads(result.stdout)["rows"] == 2


@pytest.mark.parametrize(
    ("row", "words"),
    [({"question": "Q"}, "t.jsonl:1: no trajectory"), (COMPACT, "t.jsonl:1: no corpus has passage c:1")],
)
def test_a_broken_trajectory_is_named_with_its_line(tmp_path, row, words):
    result = run("cold-start", write(tmp_path / "t.jsonl", [row]), "--out", tmp_path / "sft.jsonl")

    assert result.exit_code == 1
    assert words in result.output


def test_segments_are_tokenised_apart_and_only_the_policys_are_learnt():
    tokenizer = byte_tokenizer.make()
    segments = [
        ("policy", "<search> a </search>"),
        ("environment", "\n\n<information>x</information>\n\n"),
        ("policy", "<answer> a </answer>"),
    ]
    row = ColdStartRow(prompt="Q?", segments=[{"author": author, "text": text} for author, text in segments])
    encoded = encode(row, tokenizer)
    learnt = [token for token, is_learnt in zip(encoded.token_ids, encoded.learnt, strict=True) if is_learnt]

    assert tokenizer.decode(encoded.token_ids) == (
        "<|im_start|>user\nQ?<|im_end|>\n<|im_start|>assistant\n" + "".join(text for _, text in segments) + "<|im_end|>"
    )
    assert tokenizer.decode(learnt) == "<search> a </search><answer> a </answer><|im_end|>"
    assert encoded.loss_mask[-1] == 0.0
    assert Counter(encoded.loss_mask)[1.0] == len(learnt)
    assert encoded.loss_mask[:-1] == [float(value) for value in encoded.learnt[1:]]


def test_the_data_set_gives_openrlhf_padded_batches_without_rows_that_are_too_long():
    from trainer.sft import ColdStartDataset

    class Strategy:
        def print(self, text):
            said.append(text)

    said = []
    rows = [{"prompt": "Q?", "segments": [{"author": "policy", "text": text}]} for text in ("a", "abc", "x" * 500)]
    dataset = ColdStartDataset(
        rows, byte_tokenizer.make(), 100, Strategy(), pretrain_mode=False, input_template=None, multiturn=False
    )
    token_ids, attention, loss = dataset.collate_fn([dataset[0], dataset[1]])

    assert "1 left out" in said[0]
    assert token_ids.shape == attention.shape == loss.shape
    assert (attention.sum(1)[1] - attention.sum(1)[0]).item() == 2
    assert loss.sum(1).tolist() == [2.0, 4.0]
