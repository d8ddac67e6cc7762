import gzip
import json

import pyarrow
import pyarrow.parquet
import pytest
from shared_data import shared_data
from typer.testing import CliRunner

from parallelsearch.errors import InvalidInput
from parallelsearch.reward.exact_match import normalise
from parallelsearch.rollout.types import Kind
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


UNMARKED = [{name: value for name, value in row.items() if name != "split"} for row in ROWS]


def test_rows_that_name_no_split_are_of_the_one_asked_for_and_are_measured_on_in_an_excluded_file(tmp_path):
    source, measured = write(tmp_path / "q.jsonl", UNMARKED), write(tmp_path / "dev.jsonl", UNMARKED[:2])
    assert run("prompts", source, "--split", "eval", "--all", "--out", tmp_path / "eval.jsonl").exit_code == 0
    assert run("prompts", source, "--exclude", measured, "--out", tmp_path / "train.jsonl").exit_code == 0

    assert {row.unpacked.id for row in read_prompts(tmp_path / "eval.jsonl")} == {"1", "2", "3", "5", "6"}
    assert {row.unpacked.id for row in read_prompts(tmp_path / "train.jsonl")} == {"3", "6"}


@pytest.mark.parametrize("split", ["eval", "dev", "test"])
def test_rows_of_no_training_split_are_not_learnt_wherever_they_stand(tmp_path, split):
    measured = write(tmp_path / "e.jsonl", [{**ROWS[0], "split": split}, {**ROWS[1], "split": "train"}])
    run("prompts", write(tmp_path / "q.jsonl", ROWS), "--exclude", measured, "--out", tmp_path / "train.jsonl")
    run("prompts", measured, write(tmp_path / "more.jsonl", ROWS), "--out", tmp_path / "merged.jsonl")

    for name in ("train", "merged"):
        assert {row.unpacked.id for row in read_prompts(tmp_path / f"{name}.jsonl")} == {"2", "6"}


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


@pytest.mark.parametrize("name", ["q.parquet", "q.jsonl"])
def test_what_a_row_leaves_empty_is_as_if_it_were_not_there(tmp_path, name):
    whole = {**ROWS[0], "dataset": "d", "kind": "hybrid", "answerable": False, "metadata": {"type": "x"}}
    bare = {name: ROWS[1][name] for name in ("id", "question", "golden_answers")}
    rows = [whole, bare | {name: None for name in whole if name not in bare}, {**bare, "split": "", "type": ""}]
    if name == "q.jsonl":
        write(tmp_path / name, rows)
    else:
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / name)
    first, *empty = read_questions(str(tmp_path / name))
    (tmp_path / "q").write_text(json.dumps(bare))

    assert (first.dataset, first.kind, first.answerable, first.split) == ("d", Kind.HYBRID, False, "train")
    assert empty == [*read_questions(str(tmp_path / "q"))] * 2
    assert not empty[0].is_measured_on


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"id": "1"\n', "q.jsonl:1"),
        (json.dumps({"id": "1", "question": " ", "golden_answers": ["x"]}), "q.jsonl:1: question"),
        ("\n \n" + json.dumps({"id": "1", "question": "Q", "golden_answers": [" "]}), "q.jsonl:3: golden_answers.0"),
        (json.dumps({**ROWS[0], "type": 5}), "q.jsonl:1: type"),
        (json.dumps({**ROWS[0], "type": ["comparison"]}), "q.jsonl:1: type"),
        (json.dumps({**ROWS[0], "kind": "odd"}), "q.jsonl:1: kind"),
        (json.dumps({**ROWS[0], "id": 1}), "q.jsonl:1: id"),
    ],
)
def test_a_broken_question_file_is_named_with_its_line(tmp_path, content, words):
    (tmp_path / "q.jsonl").write_text(content)
    result = run("prompts", tmp_path / "q.jsonl", "--out", tmp_path / "train.jsonl")

    assert result.exit_code == 1
    assert words in result.output
    assert not (tmp_path / "train.jsonl").exists()


TRAJECTORY = {
    "question": "Who?",
    "turns": [{"reasoning": "x", "queries": ["a"], "passages": [["c:1"]]}, {"reasoning": "y", "answer": "A"}],
}
NOT_READ = {
    "nothere.jsonl": None,
    "folder.jsonl": "folder",
    "plain.jsonl.gz": b"no gzip",
    "cut.jsonl.gz": gzip.compress(json.dumps(ROWS[0]).encode() * 100)[:-20],
    "none.parquet": b"no parquet",
    "latin.parquet": "latin",
    "latin.jsonl": "é".encode("latin-1"),
    "numbers.jsonl": b"1\n",
}


@pytest.mark.parametrize("name", NOT_READ)
@pytest.mark.parametrize("role", ["prompts", "exclude", "cold-start", "corpus"])
def test_a_file_that_cannot_be_read_is_named_in_a_sentence(tmp_path, role, name):
    match NOT_READ[name]:
        case bytes(content):
            (tmp_path / name).write_bytes(content)
        case "latin":
            texts = pyarrow.array(["é".encode("latin-1")]).view(pyarrow.utf8())
            pyarrow.parquet.write_table(pyarrow.table({"question": texts}), tmp_path / name)
        case "folder":
            (tmp_path / name).mkdir()
    good, trajectories = write(tmp_path / "q.jsonl", ROWS), write(tmp_path / "t.jsonl", [TRAJECTORY])
    arguments = {
        "prompts": ("prompts", tmp_path / name),
        "exclude": ("prompts", good, "--exclude", tmp_path / name),
        "cold-start": ("cold-start", tmp_path / name),
        "corpus": ("cold-start", trajectories, "--corpus", f"c={tmp_path / name}"),
    }
    result = run(*arguments[role], "--out", tmp_path / "out.jsonl")

    assert (result.exit_code, type(result.exception)) == (1, SystemExit), result.output
    assert result.output.startswith("prepare-data: ")
    assert name in result.output
    assert not list(tmp_path.glob("out*"))


@pytest.mark.parametrize("source", ["hf:nobody", "hf:nobody/nothing/x.jsonl", "hf:no body/no thing/x.jsonl"])
def test_what_the_hub_does_not_have_is_told_in_a_sentence(tmp_path, source, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    result = run("prompts", source, "--out", tmp_path / "out.jsonl")

    assert (result.exit_code, type(result.exception)) == (1, SystemExit)
    assert result.output.startswith(f"prepare-data: {source}")


def test_no_file_that_is_read_is_written_over(tmp_path):
    source = write(tmp_path / "q.jsonl", ROWS)
    (tmp_path / "link.jsonl").symlink_to(source)
    before = source.read_bytes()
    for arguments in (
        ("prompts", source),
        ("prompts", write(tmp_path / "o.jsonl", ROWS), "--exclude", source),
        ("cold-start", source),
    ):
        result = run(*arguments, "--out", tmp_path / "link.jsonl")
        assert (result.exit_code, source.read_bytes()) == (1, before)
        assert "one of the files that are read" in result.output


def test_a_manifest_never_describes_another_file(tmp_path):
    source, out, manifest = write(tmp_path / "q.jsonl", ROWS), tmp_path / "train.jsonl", tmp_path / "train.manifest.json"
    run("prompts", source, "--limit", 1, "--kind", "parallel", "--out", out)
    said = json.loads(manifest.read_text())
    assert (said["settings"]["limit"], said["settings"]["kinds"]) == ("1", "parallel")
    before = out.read_bytes()
    manifest.unlink()
    manifest.mkdir()
    result = run("prompts", source, "--out", out)

    assert (result.exit_code, out.read_bytes()) == (1, before)
    assert result.output.startswith("prepare-data: --out: ")


@pytest.mark.parametrize("out", ["taken.jsonl", "q.jsonl/x.jsonl", "out.txt"])
def test_a_target_that_cannot_be_written_is_named(tmp_path, out):
    (tmp_path / "taken.jsonl").mkdir()
    result = run("prompts", write(tmp_path / "q.jsonl", ROWS), "--out", tmp_path / out)

    assert (result.exit_code, type(result.exception)) == (1, SystemExit)
    assert result.output.startswith("prepare-data: --out: ")


def test_nothing_is_written_when_no_row_is_left(tmp_path):
    result = run("prompts", write(tmp_path / "q.jsonl", ROWS), "--type", "none", "--out", tmp_path / "out.jsonl")

    assert result.exit_code == 1
    assert "No row is left to write: 3 of another kind or type" in result.output
    assert not list(tmp_path.glob("out*"))


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


@pytest.mark.parametrize("name", ["marked.jsonl", "marked.jsonl.gz"])
def test_a_byte_order_mark_before_the_first_line_is_taken(name, tmp_path):
    row = b'{"id": "1", "question": "Who?", "golden_answers": ["A"]}'
    path = tmp_path / name
    pack = gzip.compress if name.endswith(".gz") else bytes
    path.write_bytes(pack(b"\xef\xbb\xbf" + row + b"\r\n" + row))
    assert [question.id for question in read_questions(str(path))] == ["1", "1"]
    path.write_bytes(pack(row + b"\n\xef\xbb\xbf" + row))
    with pytest.raises(InvalidInput, match=rf"{name}:2: "):
        list(read_questions(str(path)))
