"""Which runs may go on with the checkpoints of others."""

import pytest

RUNS = "/v1/training-runs"


def leave(platform, run_id, name):
    path = platform.folder / "runs" / run_id / "checkpoints" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("global_step20")


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({}, ""),
        ({"steps": 200, "learning_rate": 1e-7, "name": "other"}, ""),
        ({"model": "other"}, "has model small, this one other"),
        ({"algorithm": "ppo"}, "has algorithm grpo, this one ppo"),
        ({"resources": {"gpus_per_node": 2}}, "has GPUs 1, this one 2"),
        ({"resources": {"nodes": 2}}, "has GPUs 1, this one 2"),
        ({"prompts_per_step": 32}, "has prompts_per_step 16, this one 32"),
        ({"kind": "supervised", "data": "cold.jsonl", "batch": 1, "micro_batch": 1}, "has kind reinforcement, this one supervised"),
    ],
)
def test_a_run_goes_on_only_with_checkpoints_that_fit_it(start_trainer, platform, changes, named):
    (platform.folder / "models" / "other").mkdir()
    (platform.folder / "models" / "other" / "config.json").write_text("{}")
    trainer = start_trainer()
    run_id = trainer.submit(platform.spec()).json()["id"]
    trainer.wait(run_id, "succeeded")
    leave(platform, run_id, "_actor/latest")
    answer = trainer.post(f"{RUNS}/dry-run", json=platform.spec(checkpoints={"resume_from": run_id}, **changes))

    assert answer.status_code == (422 if named else 200), answer.text
    assert named in answer.text


COLD = {"kind": "supervised", "data": "cold.jsonl", "batch": 1, "micro_batch": 1}


@pytest.mark.parametrize(
    ("kind", "left", "refused"),
    [
        ({}, "_actor/latest", False),
        (COLD, "latest", False),
        ({}, "global_step20_hf/config.json", True),
        (COLD, "global_step20_hf/config.json", True),
        ({}, "_actor/global_step20/torn", True),
        (COLD, "global_step20/torn", True),
        ({}, "_critic/latest", True),
    ],
)
def test_a_run_that_left_no_state_is_not_begun_anew_among_its_models(start_trainer, platform, kind, left, refused):
    trainer = start_trainer()
    run_id = trainer.submit(platform.spec(**kind)).json()["id"]
    trainer.wait(run_id, "succeeded")
    leave(platform, run_id, left)
    answer = trainer.submit(platform.spec(**kind, checkpoints={"resume_from": run_id}))

    assert answer.status_code == (422 if refused else 201), answer.text
    assert not refused or f"run {run_id} has left no state to go on from" in answer.json()["detail"]
