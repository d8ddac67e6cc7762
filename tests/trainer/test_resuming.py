"""Which runs may go on with the checkpoints of others."""

import pytest

RUNS = "/v1/training-runs"


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
    (platform.folder / "runs" / run_id / "checkpoints" / "_actor").mkdir(parents=True)
    answer = trainer.post(f"{RUNS}/dry-run", json=platform.spec(checkpoints={"resume_from": run_id}, **changes))

    assert answer.status_code == (422 if named else 200), answer.text
    assert named in answer.text
