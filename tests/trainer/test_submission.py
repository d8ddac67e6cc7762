"""What a trainer takes as a run, what it refuses before anything starts, and what it lays out for one."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from training_platform import COLD_ROW, prompt_row

from parallelsearch.errors import InvalidInput
from parallelsearch.protocol.prompt import build_prompt
from parallelsearch.rollout.types import Mode
from parallelsearch.schemas.training import RolloutSpec
from trainer.data.judge import judge_prompts
from trainer.jobs import deal
from trainer.labels import PromptRow

RUNS = "/v1/training-runs"


def test_submitting_twice_with_one_key_gives_one_run(start_trainer, platform):
    trainer = start_trainer()
    first, again = (trainer.submit(platform.spec(), **{"Idempotency-Key": "k"}).json() for _ in range(2))
    other = trainer.submit(platform.spec(name="other"), **{"Idempotency-Key": "k"})

    assert first["id"] == again["id"]
    assert len(trainer.get(RUNS).json()["runs"]) == 1
    assert other.status_code == 422
    assert "Idempotency-Key" in other.json()["detail"]


@pytest.mark.parametrize("key", ["", "k" * 201])
def test_a_key_of_no_or_too_many_letters_is_refused(start_trainer, platform, key):
    trainer = start_trainer()

    assert trainer.submit(platform.spec(), **{"Idempotency-Key": key}).status_code == 422
    assert trainer.get(RUNS).json()["runs"] == []


def test_a_key_still_gives_its_run_when_the_files_have_gone(start_trainer, platform):
    trainer = start_trainer()
    first = trainer.submit(platform.spec(), **{"Idempotency-Key": "k"}).json()["id"]
    trainer.wait(first, "succeeded")
    (platform.folder / "data" / "train.jsonl").unlink()

    assert trainer.submit(platform.spec(), **{"Idempotency-Key": "k"}).json()["id"] == first


def test_clients_that_submit_at_once_with_one_key_get_one_run(start_trainer, platform):
    trainer = start_trainer()
    with ThreadPoolExecutor(8) as clients:
        answers = list(clients.map(lambda _: trainer.submit(platform.spec(), **{"Idempotency-Key": "k"}), range(16)))

    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["id"] for answer in answers}) == len(trainer.get(RUNS).json()["runs"]) == 1


def test_without_a_gpu_the_local_launcher_refuses_in_a_sentence_and_a_dry_run_prints_the_command(start_trainer, platform):
    trainer = start_trainer(gpus=0)
    refused = trainer.submit(platform.spec())
    shown = trainer.post(f"{RUNS}/dry-run", json=platform.spec()).json()

    assert refused.status_code == 422
    assert "no NVIDIA GPU" in refused.json()["detail"]
    assert trainer.get(RUNS).json()["runs"] == []
    assert shown["command"][:3] == [str(platform.script), "-m", "openrlhf.cli.train_ppo_ray"]
    assert "TRAINER_RETRIEVER_URL=" in shown["shell"]
    assert not (platform.folder / "runs" / "dry-run").exists()


def lay_out_files_with_faults(folder):
    row, data = json.loads(prompt_row("train")), folder / "data"
    torn = json.dumps(row | {"label": row["label"].replace("golden", "silver")})
    (data / "torn.jsonl").write_text(prompt_row("train") + "\n" + torn + "\n")
    (data / "mixed.jsonl").write_text(prompt_row("train") + prompt_row("eval"))
    (data / "torn-cold.jsonl").write_text(json.dumps(COLD_ROW) + "\n" + json.dumps(COLD_ROW | {"segments": []}) + "\n")
    (data / "blank.jsonl").write_text("\n \n")
    (data / "cut.jsonl").write_text(prompt_row("train") * 2 + prompt_row("train")[:50] + "\n" + prompt_row("train"))
    (data / "latin.jsonl").write_bytes(prompt_row("train").encode() + "é\n".encode("latin-1"))
    (data / "no-answer.jsonl").write_text(json.dumps(row | {"label": row["label"].replace('"a"', '" "')}) + "\n")
    (data / "measured.jsonl").write_text(prompt_row("eval") + prompt_row("eval").replace("asked to measure", "The Q!"))
    (data / "nothing-learnt.jsonl").write_text(json.dumps(COLD_ROW | {"segments": [{"author": "environment", "text": "x"}]}))
    (folder / "models" / "torn").mkdir()
    (folder / "models" / "torn" / "config.json").write_text('{"torn"')
    earlier = folder / "runs" / "of-another-version"
    (earlier / "checkpoints" / "_actor").mkdir(parents=True)
    (earlier / "spec.json").write_text('{"kind": "reinforcement", "of": "old"}')


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"odd": 1}, "odd"),
        ({"model": "none"}, "model"),
        ({"model": "/etc"}, "model"),
        ({"model": "../data"}, "model"),
        ({"data": "none.jsonl"}, "data"),
        ({"data": "/etc/passwd"}, "data"),
        ({"evaluation": {"data": "none.jsonl"}}, "evaluation.data"),
        ({"steps": 0}, "steps"),
        ({"algorithm": "dqn"}, "algorithm"),
        ({"samples_per_prompt": 1}, "samples_per_prompt"),
        ({"micro_batch": 5}, "micro batches"),
        ({"rollout": {"turn_tokens": 9000}}, "turn_tokens"),
        ({"rollout": {"turn_tokens": 4000}}, "rollout.context_tokens"),
        ({"rollout": {"context_tokens": 256, "turn_tokens": 200}}, "rollout.context_tokens"),
        ({"resources": {"gpus_per_node": 8}}, "resources.gpus_per_node"),
        ({"resources": {"nodes": 2}}, "resources.nodes"),
        ({"launcher": "kubernetes"}, "launcher"),
        ({"reward": {"function": "os; rm"}}, "reward.function"),
        ({"retriever_url": "file:///etc"}, "retriever_url"),
        ({"kind": "other"}, "kind"),
        ({"checkpoints": {"resume_from": "nobody"}}, "checkpoints.resume_from"),
        ({"lora": {}}, "lora"),
        ({"steps": "three"}, "steps"),
        ({"learning_rate": -1}, "learning_rate"),
        ({"seed": True}, "seed"),
        ({"model": None}, "model"),
        ({"model": "HuggingFaceTB/SmolLM2-135M"}, "model"),
        ({"model": "x" * 300}, "model"),
        ({"model": "in-a-circle"}, "model"),
        ({"data": "in-a-circle.jsonl"}, "data"),
        ({"data": "hf:nobody/nothing/train.jsonl"}, "data"),
        ({"data": "x" * 300 + ".jsonl"}, "data"),
        ({"data": "cold.jsonl"}, "data"),
        ({"data": "eval.jsonl"}, "data"),
        ({"evaluation": {"data": "train.jsonl"}}, "evaluation.data"),
        ({"kind": "supervised"}, "data"),
        ({"kind": "supervised", "data": "cold.jsonl", "resources": {"nodes": 2}}, "resources.nodes"),
        ({"steps": 100_000, "prompts_per_step": 10**9}, "prompts_per_step"),
        ({"resources": {"vllm_memory": 0}}, "resources.vllm_memory"),
        ({"retriever_url": "http://\0"}, "retriever_url"),
        ({"reward": {"function": "a..b:reward"}}, "reward.function"),
        ({"reward": {"weights": {"alpha": "inf"}}}, "reward.weights.alpha"),
        ({"health": {"max_kl": "inf"}}, "health.max_kl"),
        ({"kl_coefficient": "nan"}, "kl_coefficient"),
        ({"data": "torn.jsonl"}, "data: torn.jsonl:3 is no row for such a run (label"),
        ({"data": "mixed.jsonl"}, "data: mixed.jsonl:2 holds eval rows, train rows are needed"),
        ({"evaluation": {"data": "mixed.jsonl"}}, "evaluation.data: mixed.jsonl:1 holds train rows"),
        ({"kind": "supervised", "data": "torn-cold.jsonl"}, "data: torn-cold.jsonl:2 is no row for such a run (segments"),
        ({"data": "blank.jsonl"}, "data: blank.jsonl has no rows"),
        ({"checkpoints": {"resume_from": "of-another-version"}}, "checkpoints.resume_from"),
        ({"data": "cut.jsonl"}, "data: cut.jsonl:3 is no row for such a run (the line: Invalid JSON"),
        ({"data": "latin.jsonl"}, "data: latin.jsonl:2 is no row for such a run (the line: Invalid JSON"),
        ({"data": "no-answer.jsonl"}, "data: no-answer.jsonl:1 is no row for such a run (label"),
        ({"evaluation": {"data": "measured.jsonl"}}, "data: train.jsonl:1 asks a question that evaluation.data asks too"),
        ({"kind": "supervised", "data": "nothing-learnt.jsonl"}, "nothing to learn"),
        ({"kind": "supervised", "data": "cold.jsonl"}, "not one step of 1 x 1 rows of cold.jsonl with a batch of 64"),
        ({"model": "torn"}, "model: the config.json of torn"),
        ({"model": "small\nmodel"}, "model: must be on one line"),
        ({"retriever_url": "http://[:80"}, "retriever_url: is no address"),
        ({"retriever_url": "http://host:99999"}, "retriever_url: is no address"),
        ({"reward": {"weights": {"decomposition": 1e300}}}, '"reward.weights.decomposition"'),
        ({"evaluation": {"samples": 10**9}}, '"evaluation.samples"'),
        ({"kind": None}, '"kind"'),
    ],
)
def test_a_bad_specification_is_refused_before_anything_starts(start_trainer, platform, changes, named):
    for name, folder in (("in-a-circle", "models"), ("in-a-circle.jsonl", "data")):
        (platform.folder / folder / name).symlink_to(name)
    lay_out_files_with_faults(platform.folder)
    trainer = start_trainer()
    answer = trainer.submit(platform.spec(**changes))

    assert answer.status_code == 422
    assert named in answer.text
    assert trainer.get(RUNS).json()["runs"] == []


def test_a_link_out_of_the_roots_is_refused(start_trainer, platform):
    (platform.folder / "data" / "link.jsonl").symlink_to("/etc/passwd")

    assert start_trainer().submit(platform.spec(data="link.jsonl")).status_code == 422


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", RUNS), ("POST", f"{RUNS}/dry-run"), ("DELETE", f"{RUNS}/x"), ("POST", f"{RUNS}/x/checkpoints/1/promote")],
)
def test_writing_needs_the_admin_token(start_trainer, platform, method, path):
    body = platform.spec() if method == "POST" and path.startswith(RUNS) and "checkpoints" not in path else None

    assert start_trainer(token=None).request(method, path, json=body).status_code == 401
    assert start_trainer(token="wrong").request(method, path, json=body).status_code == 401


@pytest.mark.parametrize("path", ["", "/logs", "/metrics", "/checkpoints"])
def test_an_unknown_run_is_not_found(start_trainer, path):
    assert start_trainer(token=None).get(f"{RUNS}/nobody{path}").status_code == 404


def test_the_specification_of_a_run_is_kept_beside_it(start_trainer, platform):
    trainer = start_trainer()
    run_id = trainer.submit(platform.spec(steps=7)).json()["id"]
    trainer.wait(run_id, "succeeded")

    assert json.loads((platform.folder / "runs" / run_id / "spec.json").read_text())["steps"] == 7


def test_a_run_is_dealt_exactly_the_questions_of_its_steps(start_trainer, platform):
    trainer = start_trainer()
    run_id = trainer.submit(platform.spec(steps=3, prompts_per_step=4)).json()["id"]
    trainer.wait(run_id, "succeeded")

    lines = (platform.folder / "runs" / run_id / "prompts.jsonl").read_text().splitlines()
    given = PromptRow.model_validate_json((platform.folder / "data" / "train.jsonl").read_text())
    assert [PromptRow.model_validate_json(line) for line in lines] == [given.drawn(draw) for draw in range(12)]
    assert [PromptRow.model_validate_json(line).unpacked.draw for line in lines] == list(range(12))


def test_rows_that_are_none_any_more_when_a_run_starts_fail_it_with_a_sentence(start_trainer, platform):
    platform.does("sleep 60")
    trainer = start_trainer()
    first, second = (trainer.submit(platform.spec(name=name)).json()["id"] for name in ("one", "two"))
    trainer.wait(first, "running")
    (platform.folder / "data" / "train.jsonl").write_text("nonsense\n")
    trainer.delete(f"{RUNS}/{first}")

    assert trainer.wait(second, "failed")["detail"] == "data: a line is no row of a prompt file: nonsense"


def test_every_pass_over_the_questions_is_whole_and_depends_on_the_seed_alone():
    rows = [bytes([letter]) for letter in b"abcde"]
    dealt = deal(rows, 12, seed=1)

    assert set(dealt[:5]) == set(dealt[5:10]) == set(rows)
    assert dealt == deal(rows, 12, seed=1) != deal(rows, 12, seed=2)


def test_a_file_is_judged_for_so_long_and_its_first_rows_in_any_case(tmp_path):
    huge = tmp_path / "huge.jsonl"
    huge.write_text(prompt_row("train") * 5_000 + "nonsense\n")
    judge_prompts(huge, "data", "train", RolloutSpec(), limit_s=0)
    with pytest.raises(InvalidInput, match=r"data: huge\.jsonl:5001 is no row"):
        judge_prompts(huge, "data", "train", RolloutSpec())
    huge.write_text("nonsense\n" + prompt_row("train") * 5_000)
    with pytest.raises(InvalidInput, match=r"huge\.jsonl:1 is no row"):
        judge_prompts(huge, "data", "train", RolloutSpec(), limit_s=0)


@pytest.mark.parametrize(
    ("made", "asks", "refused"),
    [
        ({}, {}, False),
        ({}, {"layout": "compact"}, False),
        ({"mode": "sequential"}, {"mode": "sequential"}, False),
        ({"final_newline": True}, {"layout": "paper"}, False),
        ({"mode": "sequential"}, {}, True),
        ({}, {"mode": "sequential"}, True),
        ({}, {"layout": "paper"}, True),
        ({"final_newline": True}, {}, True),
    ],
)
def test_questions_that_are_asked_in_another_way_than_the_run_serves_are_refused(start_trainer, platform, made, asks, refused):
    row = PromptRow.model_validate_json(prompt_row("train"))
    prompt = build_prompt(row.unpacked.question, **{"mode": Mode.PARALLEL, **made})
    data = platform.folder / "data" / "train.jsonl"
    data.write_text(prompt_row("train") + row.model_copy(update={"prompt": prompt}).model_dump_json() + "\n")
    answer = start_trainer().post(f"{RUNS}/dry-run", json=platform.spec(rollout=asks))

    assert answer.status_code == (422 if refused else 200)
    if refused:
        assert "data: train.jsonl:2 asks in another mode or layout" in answer.json()["detail"]


def test_a_data_file_that_was_emptied_meanwhile_fails_the_run_and_holds_up_no_other(start_trainer, platform):
    platform.does("sleep 60")
    trainer = start_trainer()
    first, second = (trainer.submit(platform.spec(name=name)).json()["id"] for name in ("one", "two"))
    trainer.wait(first, "running")
    (platform.folder / "data" / "train.jsonl").write_text("\n")
    trainer.delete(f"{RUNS}/{first}")

    assert trainer.wait(second, "failed")["detail"] == "data: train.jsonl has no rows any more."
    (platform.folder / "data" / "train.jsonl").write_text(prompt_row("train"))
    platform.does("exit 0")
    trainer.wait(trainer.submit(platform.spec()).json()["id"], "succeeded")
