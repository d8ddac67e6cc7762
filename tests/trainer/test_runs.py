import json
import os
import shutil
import signal
import sqlite3
import time

import httpx2
import numpy as np
import psutil
import pytest
from fastapi import FastAPI, Request
from safetensors.numpy import save_file

from trainer.jobs import deal

RUNS = "/v1/training-runs"


def test_a_run_goes_from_queued_to_succeeded_and_its_log_is_kept(start_trainer, platform):
    platform.does("echo hello $0 $2; exit 0")
    trainer = start_trainer()
    answer = trainer.submit(platform.spec())

    assert answer.status_code == 201
    assert answer.json()["state"] == "queued"
    run = trainer.wait(answer.json()["id"], "succeeded")
    assert run["started_at"] <= run["finished_at"]
    assert trainer.get(f"{RUNS}/{run['id']}/logs").text.endswith("openrlhf.cli.train_ppo_ray\n")


def test_a_failed_run_says_why_and_shows_its_last_50_lines(start_trainer, platform):
    platform.does("for i in $(seq 80); do echo line $i; done; echo 'out of memory' >&2; exit 3")
    trainer = start_trainer()
    run = trainer.wait(trainer.submit(platform.spec()).json()["id"], "failed")

    assert "exit code 3" in run["detail"]
    assert len(run["last_log_lines"]) == 50
    assert run["last_log_lines"][-1] == "out of memory"


def test_a_killed_run_is_failed(start_trainer, platform):
    platform.does("sleep 60")
    trainer = start_trainer()
    run_id = trainer.submit(platform.spec()).json()["id"]
    trainer.wait(run_id, "running")
    for process in processes_of(run_id):
        process.kill()

    assert "killed" in trainer.wait(run_id, "failed")["detail"]


def processes_of(run_id):
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("PARALLELSEARCH_RUN_ID") == run_id and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def test_cancelling_ends_every_process_of_the_run(start_trainer, platform):
    platform.does("trap '' TERM; setsid sleep 60 & sleep 60 & sleep 60")
    trainer = start_trainer()
    run_id = trainer.submit(platform.spec()).json()["id"]
    trainer.wait(run_id, "running")
    while len(processes_of(run_id)) < 4:
        pass
    run = trainer.delete(f"{RUNS}/{run_id}").json()

    assert run["state"] == "cancelled"
    assert processes_of(run_id) == []
    assert trainer.delete(f"{RUNS}/{run_id}").json() == run


def test_runs_wait_for_their_turn_and_a_queued_one_can_be_cancelled(start_trainer, platform):
    platform.does("sleep 60")
    trainer = start_trainer()
    first, second = (trainer.submit(platform.spec(name=name)).json()["id"] for name in ("one", "two"))
    trainer.wait(first, "running")

    assert trainer.run(second)["state"] == "queued"
    assert trainer.delete(f"{RUNS}/{second}").json()["state"] == "cancelled"
    assert [run["spec"]["name"] for run in trainer.get(RUNS).json()["runs"]] == ["one", "two"]
    trainer.delete(f"{RUNS}/{first}")


def test_runs_side_by_side_get_gpus_of_their_own(start_trainer, platform):
    platform.does("echo $CUDA_VISIBLE_DEVICES; sleep 60")
    trainer = start_trainer(gpus=3, max_running=4)
    wide = trainer.submit(platform.spec(resources={"gpus_per_node": 2})).json()["id"]
    narrow, waiting = (trainer.submit(platform.spec()).json()["id"] for _ in range(2))
    for run_id in (wide, narrow):
        trainer.wait(run_id, "running")
    logs = [next(trainer.get(f"{RUNS}/{run_id}/logs").iter_lines(), "") for run_id in (wide, narrow)]
    while "" in logs:
        logs = [next(trainer.get(f"{RUNS}/{run_id}/logs").iter_lines(), "") for run_id in (wide, narrow)]

    assert logs == ["gpu-0,gpu-1", "gpu-2"]
    assert trainer.run(waiting)["state"] == "queued"
    trainer.delete(f"{RUNS}/{narrow}")
    assert trainer.wait(waiting, "running")
    for run_id in (wide, waiting):
        trainer.delete(f"{RUNS}/{run_id}")


def test_small_runs_share_gpus_evenly_where_it_is_allowed(start_trainer, platform):
    platform.does("echo $CUDA_VISIBLE_DEVICES; sleep 60")
    trainer = start_trainer(gpus=2, runs_per_gpu=2, max_running=5)
    runs = [trainer.submit(platform.spec()).json()["id"] for _ in range(5)]
    for run_id in runs[:4]:
        trainer.wait(run_id, "running")
    logs = []
    for run_id in runs[:4]:
        while not (lines := list(trainer.get(f"{RUNS}/{run_id}/logs", params={"follow": False}).iter_lines())):
            time.sleep(0.02)
        logs += lines

    assert sorted(logs) == ["gpu-0", "gpu-0", "gpu-1", "gpu-1"]
    assert trainer.run(runs[4])["state"] == "queued"
    for run_id in runs:
        trainer.delete(f"{RUNS}/{run_id}")


def test_a_restarted_trainer_knows_its_running_run(start_trainer, platform):
    gate = platform.folder / "gate"
    platform.does(f"while [ ! -e {gate} ]; do sleep 0.05; done; echo done")
    with start_trainer() as first:
        run_id = first.submit(platform.spec()).json()["id"]
        first.wait(run_id, "running")
    again = start_trainer()

    assert again.run(run_id)["state"] == "running"
    gate.touch()
    assert again.wait(run_id, "succeeded")
    assert again.get(f"{RUNS}/{run_id}/logs").text == "done\n"


def test_a_run_that_ended_while_the_trainer_was_away_is_true_after_the_restart(start_trainer, platform):
    platform.does("sleep 0.3; exit 7")
    with start_trainer() as first:
        run_id = first.submit(platform.spec()).json()["id"]
        first.wait(run_id, "running")
    while processes_of(run_id):
        pass

    assert "exit code 7" in start_trainer().wait(run_id, "failed")["detail"]


def test_a_run_whose_start_was_not_recorded_is_found_and_not_started_twice(start_trainer, platform):
    platform.does("sleep 60")
    trainer = start_trainer()
    run_id = trainer.submit(platform.spec()).json()["id"]
    trainer.wait(run_id, "running")
    with sqlite3.connect(platform.folder / "runs" / "runs.sqlite") as database:
        database.execute("UPDATE training_runs SET state = 'queued', handle = ''")
    trainer.wait(run_id, "running")

    assert len([p for p in processes_of(run_id) if p.name() == "sh"]) == 1
    trainer.delete(f"{RUNS}/{run_id}")


def test_following_a_log_streams_until_the_run_ends(start_trainer, platform):
    gate = platform.folder / "gate"
    platform.does(f"echo one; while [ ! -e {gate} ]; do sleep 0.05; done; echo two")
    trainer = start_trainer()
    run_id = trainer.submit(platform.spec()).json()["id"]
    trainer.wait(run_id, "running")
    gate.touch()

    assert trainer.get(f"{RUNS}/{run_id}/logs", params={"follow": True}).text == "one\ntwo\n"


def test_submitting_twice_with_one_key_gives_one_run(start_trainer, platform):
    trainer = start_trainer()
    first, again = (trainer.submit(platform.spec(), **{"Idempotency-Key": "k"}).json() for _ in range(2))
    other = trainer.submit(platform.spec(name="other"), **{"Idempotency-Key": "k"})

    assert first["id"] == again["id"]
    assert len(trainer.get(RUNS).json()["runs"]) == 1
    assert other.status_code == 422
    assert "Idempotency-Key" in other.json()["detail"]


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
        ({"resources": {"gpus_per_node": 8}}, "resources.gpus_per_node"),
        ({"resources": {"nodes": 2}}, "resources.nodes"),
        ({"launcher": "kubernetes"}, "launcher"),
        ({"reward": {"function": "os; rm"}}, "reward.function"),
        ({"retriever_url": "file:///etc"}, "retriever_url"),
        ({"kind": "other"}, "kind"),
        ({"checkpoints": {"resume_from": "nobody"}}, "checkpoints.resume_from"),
    ],
)
def test_a_bad_specification_is_refused_before_anything_starts(start_trainer, platform, changes, named):
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


def test_metrics_come_from_the_steps_in_the_log(start_trainer, platform):
    head = "(PPOTrainer pid=1) INFO 11-27 ppo_trainer.py:517] ✨ Global step"
    line = head + " {}: {{'kl': {}, 'rollout/reward_mean': np.float64(1.25), 'actor_lr': 1e-06, 'policy_loss': nan}}"
    platform.does(f'cat <<"END"\n{line.format(1, 0.5)}\nnoise\n{line.format(2, "-inf")}\nEND')
    trainer = start_trainer()
    run_id = trainer.submit(platform.spec()).json()["id"]
    trainer.wait(run_id, "succeeded")

    assert trainer.get(f"{RUNS}/{run_id}/metrics").json()["steps"] == [
        {"step": 1, "values": {"kl": 0.5, "rollout/reward_mean": 1.25, "actor_lr": 1e-06}},
        {"step": 2, "values": {"rollout/reward_mean": 1.25, "actor_lr": 1e-06}},
    ]
    assert [step["step"] for step in trainer.get(f"{RUNS}/{run_id}/metrics", params={"since": 1}).json()["steps"]] == [2]


def write_checkpoint(platform, run_id, step, *, whole=True):
    folder = platform.folder / "runs" / run_id / "checkpoints" / f"global_step{step}_hf"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    if whole:
        save_file({"w": np.zeros(4, np.float32)}, folder / "model.safetensors")
    return folder


def test_whole_checkpoints_are_listed_and_promoted_into_the_policy(start_trainer, platform):
    policy, asked = FastAPI(), []

    @policy.post("/v1/policy/weights")
    async def load(request: Request):
        asked.append((await request.json(), request.headers["authorization"]))
        return {"version": "7"}

    trainer = start_trainer(policy_transport=httpx2.ASGITransport(app=policy))
    run_id = trainer.submit(platform.spec()).json()["id"]
    trainer.wait(run_id, "succeeded")
    folder = write_checkpoint(platform, run_id, 20)
    write_checkpoint(platform, run_id, 5)
    write_checkpoint(platform, run_id, 40, whole=False)
    listed = trainer.get(f"{RUNS}/{run_id}/checkpoints").json()["checkpoints"]
    promoted = trainer.post(f"{RUNS}/{run_id}/checkpoints/20/promote").json()

    assert [entry["step"] for entry in listed] == [5, 20]
    assert promoted == {"step": 20, "path": str(folder), "version": "7"}
    assert asked == [({"checkpoint": str(folder), "step": 20}, "Bearer let-me-in")]
    assert trainer.post(f"{RUNS}/{run_id}/checkpoints/40/promote").status_code == 404


def test_a_run_that_goes_on_with_another_shares_its_checkpoints(start_trainer, platform):
    trainer = start_trainer()
    first = trainer.submit(platform.spec()).json()["id"]
    trainer.wait(first, "succeeded")
    write_checkpoint(platform, first, 20)
    second = trainer.submit(platform.spec(checkpoints={"resume_from": first})).json()["id"]
    trainer.wait(second, "succeeded")

    assert [entry["step"] for entry in trainer.get(f"{RUNS}/{second}/checkpoints").json()["checkpoints"]] == [20]


def test_a_run_whose_checkpoints_are_taken_away_fails_alone(start_trainer, platform):
    trainer = start_trainer(gpus=2, max_running=2)
    first = trainer.submit(platform.spec()).json()["id"]
    trainer.wait(first, "succeeded")
    write_checkpoint(platform, first, 20)
    platform.does("sleep 4")
    second = trainer.submit(platform.spec(checkpoints={"resume_from": first})).json()["id"]
    trainer.wait(second, "running")
    platform.does("exit 0")
    shutil.rmtree(platform.folder / "runs" / first / "checkpoints")
    third = trainer.submit(platform.spec()).json()["id"]

    assert trainer.wait(third, "succeeded")
    assert "resume_from" in trainer.wait(second, "failed")["detail"]


def test_a_policy_that_refuses_a_checkpoint_is_named(start_trainer, platform):
    trainer = start_trainer(policy_transport=httpx2.ASGITransport(app=FastAPI()))
    run_id = trainer.submit(platform.spec()).json()["id"]
    trainer.wait(run_id, "succeeded")
    write_checkpoint(platform, run_id, 1)
    answer = trainer.post(f"{RUNS}/{run_id}/checkpoints/1/promote")

    assert answer.status_code == 404
    assert "policy" in answer.json()["detail"]


def test_the_specification_of_a_run_is_kept_beside_it(start_trainer, platform):
    trainer = start_trainer()
    run_id = trainer.submit(platform.spec(steps=7)).json()["id"]
    trainer.wait(run_id, "succeeded")

    assert json.loads((platform.folder / "runs" / run_id / "spec.json").read_text())["steps"] == 7


def test_a_run_is_dealt_exactly_the_questions_of_its_steps(start_trainer, platform):
    trainer = start_trainer()
    run_id = trainer.submit(platform.spec(steps=3, prompts_per_step=4)).json()["id"]
    trainer.wait(run_id, "succeeded")

    assert len((platform.folder / "runs" / run_id / "prompts.jsonl").read_text().splitlines()) == 12


def test_every_pass_over_the_questions_is_whole_and_depends_on_the_seed_alone():
    rows = [bytes([letter]) for letter in b"abcde"]
    dealt = deal(rows, 12, seed=1)

    assert set(dealt[:5]) == set(dealt[5:10]) == set(rows)
    assert dealt == deal(rows, 12, seed=1) != deal(rows, 12, seed=2)


def test_killing_the_trainer_leaves_its_runs_alone(start_trainer, platform):
    platform.does("sleep 60")
    with start_trainer() as trainer:
        run_id = trainer.submit(platform.spec()).json()["id"]
        trainer.wait(run_id, "running")
    leaders = [process for process in processes_of(run_id) if process.name() == "sh"]

    assert leaders
    assert os.getpgid(leaders[0].pid) != os.getpgid(0)
    for process in processes_of(run_id):
        process.send_signal(signal.SIGKILL)
