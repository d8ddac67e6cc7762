"""The life of a run: its states, its processes, its log, and what a restarted trainer knows of it."""

import os
import shutil
import signal
import sqlite3
from pathlib import Path

import pytest
from training_platform import processes_of, until

from parallelsearch.schemas.training import LauncherName, RunState
from trainer.jobs import JobBuilder
from trainer.launchers.local import LocalLauncher
from trainer.service import TrainingRuns
from trainer.store import Store

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


def test_cancelling_ends_every_process_of_the_run(start_trainer, platform):
    platform.does("trap '' TERM; setsid sleep 60 & sleep 60 & sleep 60")
    trainer = start_trainer()
    run_id = trainer.submit(platform.spec()).json()["id"]
    trainer.wait(run_id, "running")
    until(lambda: len(processes_of(run_id)) >= 4)
    run = trainer.delete(f"{RUNS}/{run_id}").json()

    assert run["state"] == "cancelled"
    assert processes_of(run_id) == []
    assert trainer.delete(f"{RUNS}/{run_id}").json() == run


def test_what_a_run_left_behind_is_ended_with_it_and_frees_its_gpu(start_trainer, platform):
    platform.does("trap '' TERM; setsid sleep 60 & setsid sleep 60 & exit 3")
    trainer = start_trainer(max_running=2)
    run_id = trainer.submit(platform.spec()).json()["id"]
    run = trainer.wait(run_id, "failed")

    assert "exit code 3" in run["detail"]
    assert processes_of(run_id) == []
    platform.does("exit 0")
    assert trainer.wait(trainer.submit(platform.spec()).json()["id"], "succeeded")


@pytest.mark.parametrize(
    ("ends", "state", "stays"), [("exit 0", "succeeded", False), ("exit 3", "failed", True), ("sleep 60", "cancelled", False)]
)
def test_what_rays_processes_wrote_is_kept_only_of_a_run_that_failed(start_trainer, platform, ends, state, stays):
    platform.does(f'mkdir -p "$RAY_TMPDIR/session"; echo $RAY_TMPDIR > ray; {ends}')
    trainer = start_trainer()
    run_id = trainer.submit(platform.spec()).json()["id"]
    noted = platform.folder / "runs" / run_id / "ray"
    folder = Path(until(lambda: noted.exists() and noted.read_text().strip()))
    if state == "cancelled":
        trainer.delete(f"{RUNS}/{run_id}")
    trainer.wait(run_id, state)

    assert folder.exists() is stays
    shutil.rmtree(folder, ignore_errors=True)


def test_runs_wait_for_their_turn_and_a_queued_one_can_be_cancelled(start_trainer, platform):
    platform.does("sleep 60")
    trainer = start_trainer()
    first, second = (trainer.submit(platform.spec(name=name)).json()["id"] for name in ("one", "two"))
    trainer.wait(first, "running")

    assert trainer.run(second)["state"] == "queued"
    until(lambda: "TRAINER_MAX_RUNNING" in trainer.run(second)["detail"])
    assert trainer.delete(f"{RUNS}/{second}").json()["state"] == "cancelled"
    assert [run["spec"]["name"] for run in trainer.get(RUNS).json()["runs"]] == ["two", "one"]
    trainer.delete(f"{RUNS}/{first}")


def test_runs_side_by_side_get_gpus_of_their_own(start_trainer, platform):
    platform.does("echo $CUDA_VISIBLE_DEVICES; sleep 60")
    trainer = start_trainer(gpus=3, max_running=4)
    wide = trainer.submit(platform.spec(resources={"gpus_per_node": 2})).json()["id"]
    narrow, waiting = (trainer.submit(platform.spec()).json()["id"] for _ in range(2))
    for run_id in (wide, narrow):
        trainer.wait(run_id, "running")
    logs = [until(lambda run_id=run_id: trainer.get(f"{RUNS}/{run_id}/logs").text).strip() for run_id in (wide, narrow)]

    assert logs == [f"{platform.gpu(0)},{platform.gpu(1)}", platform.gpu(2)]
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
    logs = [until(lambda run_id=run_id: trainer.get(f"{RUNS}/{run_id}/logs").text).strip() for run_id in runs[:4]]

    assert sorted(logs) == [platform.gpu(0)] * 2 + [platform.gpu(1)] * 2
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
    until(lambda: not processes_of(run_id))

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


def test_a_run_that_was_over_before_its_start_was_recorded_is_not_run_again(start_trainer, platform):
    platform.does("echo once; exit 5")
    with start_trainer() as first:
        run_id = first.submit(platform.spec()).json()["id"]
        first.wait(run_id, "failed")
    with sqlite3.connect(platform.folder / "runs" / "runs.sqlite") as database:
        database.execute("UPDATE training_runs SET state = 'queued', handle = '', detail = ''")
    again = start_trainer()

    assert "exit code 5" in again.wait(run_id, "failed")["detail"]
    assert again.get(f"{RUNS}/{run_id}/logs").text == "once\n"


def test_a_run_of_another_version_hides_no_other(start_trainer, platform):
    with start_trainer() as trainer:
        old = trainer.submit(platform.spec()).json()["id"]
        trainer.wait(old, "succeeded")
    with sqlite3.connect(platform.folder / "runs" / "runs.sqlite") as database:
        database.execute("UPDATE training_runs SET spec = json_set(spec, '$.steps', 0)")
    again = start_trainer()
    run_id = again.submit(platform.spec()).json()["id"]

    assert again.wait(run_id, "succeeded")
    assert [run["id"] for run in again.get(RUNS).json()["runs"]] == [run_id]
    assert again.get(f"{RUNS}/{old}").status_code == 410
    assert "steps" in again.get(f"{RUNS}/{old}").json()["detail"]


def test_following_a_log_streams_until_the_run_ends(start_trainer, platform):
    gate = platform.folder / "gate"
    platform.does(f"echo one; while [ ! -e {gate} ]; do sleep 0.05; done; echo two")
    trainer = start_trainer()
    run_id = trainer.submit(platform.spec()).json()["id"]
    trainer.wait(run_id, "running")
    gate.touch()

    assert trainer.get(f"{RUNS}/{run_id}/logs", params={"follow": True}).text == "one\ntwo\n"


def test_a_log_that_was_cut_is_followed_from_its_new_beginning(start_trainer, platform):
    gate = platform.folder / "gate"
    platform.does(f"echo 'a long first line'; while [ ! -e {gate} ]; do sleep 0.05; done; echo two")
    trainer = start_trainer()
    run_id = trainer.submit(platform.spec()).json()["id"]
    trainer.wait(run_id, "running")
    log = platform.folder / "runs" / run_id / "output.log"
    with trainer.stream("GET", f"{RUNS}/{run_id}/logs", params={"follow": True}) as answer:
        lines = answer.iter_lines()
        found = [next(lines)]
        os.truncate(log, 0)
        gate.touch()
        found += lines

    assert found == ["a long first line", "two"]


def test_code_of_a_run_does_not_see_the_services_token(start_trainer, platform, monkeypatch):
    monkeypatch.setenv("ADMIN_TOKEN", "secret")
    platform.does("env")
    trainer = start_trainer()
    run_id = trainer.submit(platform.spec()).json()["id"]
    trainer.wait(run_id, "succeeded")
    log = trainer.get(f"{RUNS}/{run_id}/logs").text

    assert f"PARALLELSEARCH_RUN_ID={run_id}" in log
    assert "ADMIN_TOKEN" not in log


def test_a_run_whose_start_was_not_recorded_is_ended_with_its_processes(start_trainer, platform):
    platform.does("sleep 60")
    with start_trainer() as trainer:
        run_id = trainer.submit(platform.spec()).json()["id"]
        trainer.wait(run_id, "running")
    with sqlite3.connect(platform.folder / "runs" / "runs.sqlite") as database:
        database.execute("UPDATE training_runs SET state = 'queued', handle = ''")
    store = Store(platform.folder / "runs" / "runs.sqlite")
    runs = TrainingRuns(store, JobBuilder(platform.settings()), {LauncherName.LOCAL: LocalLauncher(grace_s=1)})

    assert runs.cancel(run_id).state is RunState.CANCELLED
    assert processes_of(run_id) == []
    store.close()


def test_metrics_come_from_the_steps_in_the_log(start_trainer, platform):
    head = "(PPOTrainer pid=1) INFO 11-27 ppo_trainer.py:517] ✨ Global step"
    line = head + " {}: {{'kl': {}, 'rollout/reward_mean': np.float64(1.25), 'actor_lr': 1e-06, 'policy_loss': nan}}"
    platform.does(f'cat <<"END"\n{line.format(1, 0.5)}\nnoise\n{line.format(2, "-inf")}\nEND')
    trainer = start_trainer()
    run_id = trainer.submit(platform.spec()).json()["id"]
    trainer.wait(run_id, "succeeded")

    assert trainer.get(f"{RUNS}/{run_id}/metrics").json()["steps"] == [
        {"step": 1, "values": {"kl": 0.5, "rollout/reward_mean": 1.25, "actor_lr": 1e-06, "not_finite": 1.0}},
        {"step": 2, "values": {"rollout/reward_mean": 1.25, "actor_lr": 1e-06, "not_finite": 1.0}},
    ]
    assert [step["step"] for step in trainer.get(f"{RUNS}/{run_id}/metrics", params={"since": 1}).json()["steps"]] == [2]


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
