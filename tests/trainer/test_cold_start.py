"""Cold-start files: trajectories in the trained format, and what is learnt of them."""

import gzip
import json
from collections import Counter

import byte_tokenizer
import pytest
from shared_data import shared_data
from typer.testing import CliRunner

from trainer.data.encoding import encode
from trainer.data.prompts import measured_on
from trainer.data.questions import read_json_lines
from trainer.data.rows import ColdStartRow
from trainer.labels import question_key
from trainer.prepare import app


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


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


def served(**changes):
    turn = {"index": 0, "action": {"type": "answer", "text": "A"}, "text": "<think> x </think> <answer> A </answer>"}
    return {"id": "1", "question": "Q?", "stop_reason": "answered", "turns": [turn], **changes}


def test_served_trajectories_teach_what_the_policy_wrote_itself_and_wrote_well(tmp_path):
    malformed = {"index": 0, "action": {"type": "malformed"}, "text": "x"}
    opened = {"index": 0, "action": {"type": "answer", "text": "A", "opened": True}, "text": " A </answer>"}
    source = write(
        tmp_path / "t.jsonl",
        [served(turns=[opened]), served(turns=[malformed, opened]), served(mode="sequential"), served(mode="no_search")],
    )
    result = run("cold-start", source, "--out", tmp_path / "sft.jsonl")
    row = ColdStartRow.model_validate_json((tmp_path / "sft.jsonl").read_text())

    assert json.loads(result.stdout)["left_out"] == {"asked in another mode": 2, "with a malformed turn": 1}
    assert [(segment.author, segment.text) for segment in row.segments] == [("environment", "<answer>"), ("policy", " A </answer>")]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (served(turns=[{"index": 0, "action": {"type": "answer", "text": "A"}}]), "t.jsonl:1: turns.0.text is empty"),
        (served(turns=[{"index": 0, "action": {"type": "odd"}}]), "t.jsonl:1: no trajectory: turns.0.action"),
        (served(turns=[]), "t.jsonl:1: no row of a cold start comes of it: segments"),
        (served(question="a\x00b"), "t.jsonl:1: no row of a cold start comes of it: prompt"),
        (served(stop_reason="odd"), "t.jsonl:1: no trajectory: stop_reason"),
        ({**COMPACT, "weight": float("inf")}, "t.jsonl:1"),
        ({**COMPACT, "weight": 1e18}, "t.jsonl:1: no trajectory: weight"),
        ({**COMPACT, "question": ""}, "t.jsonl:1: no trajectory: question"),
        ({"question": "Q"}, "t.jsonl:1: no trajectory"),
        (COMPACT, "t.jsonl:1: no corpus has passage c:1"),
        ({**COMPACT, "turns": [{"reasoning": "", "queries": ["a", "b"], "passages": [[]]}]}, "t.jsonl:1: no trajectory"),
    ],
)
def test_a_broken_trajectory_is_named_with_its_line(tmp_path, row, words):
    result = run("cold-start", write(tmp_path / "t.jsonl", [row]), "--out", tmp_path / "sft.jsonl")

    assert (result.exit_code, type(result.exception)) == (1, SystemExit)
    assert words in result.output


def test_questions_that_are_measured_on_are_in_no_cold_start(tmp_path, corpus):
    measured = write(
        tmp_path / "e.jsonl", [{"id": "1", "question": COMPACT["question"].lower(), "golden_answers": ["A"], "split": "eval"}]
    )
    other = {**COMPACT, "question": "Who is younger?"}
    source = write(tmp_path / "t.jsonl", [COMPACT, other])
    result = run("cold-start", source, "--corpus", f"c={corpus}", "--exclude", measured, "--out", tmp_path / "sft.jsonl")

    assert json.loads(result.stdout)["left_out"] == {"measured on": 1}
    assert json.loads(result.stdout)["rows"] == 2
    assert COMPACT["question"] not in (tmp_path / "sft.jsonl").read_text()


def test_no_eval_question_of_the_shared_sets_reaches_a_cold_start():
    names = [path for path in sorted(shared_data().glob("*.jsonl")) if "rollout" not in path.name]
    measured = measured_on(map(str, names))
    for path in shared_data().glob("sft_*.jsonl.gz"):
        learnt = {question_key(row["question"]) for _, row in read_json_lines(path)}
        assert len(learnt) > 4000
        assert not learnt & measured


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


@pytest.mark.parametrize("version", ["0.11.2", "0.10.4"])
def test_the_steps_of_a_cold_start_are_counted_where_openrlhf_says_them(openrlhf_sources, version):
    from trainer.sft import counting

    class Trainer:
        """As far as it is used."""

        def fit(self, steps):
            for global_step in range(1, steps + 1):
                self.save_logs_and_checkpoints({}, global_step, "bar", {}, client_states={})
            return "done"

        def save_logs_and_checkpoints(self, args, global_step, step_bar, logs_dict=None, client_states=None):
            return None

    steps = []
    assert counting(Trainer, steps)().fit(3) == "done"
    assert steps == [1, 2, 3]

    sources = openrlhf_sources(version) / "openrlhf"
    assert "from openrlhf.trainer.sft_trainer import SFTTrainer\n" in (sources / "cli" / "train_sft.py").read_text()
    trainer = (sources / "trainer" / "sft_trainer.py").read_text()
    assert "def save_logs_and_checkpoints(self, args, global_step, step_bar, logs_dict=None, client_states=None):" in trainer
    assert trainer.count("self.save_logs_and_checkpoints(args, ") == 1
