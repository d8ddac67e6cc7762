"""Checkpoints of runs: listed, promoted into the policy, gone on with."""

import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import numpy as np
import pytest
from fastapi import FastAPI, Request
from safetensors.numpy import save_file
from training_platform import until

from parallelsearch.schemas.training import SPEC, RunState
from trainer.checkpoints import Checkpoints
from trainer.imports import FOUND
from trainer.jobs import JobBuilder
from trainer.store import Run, now

RUNS = "/v1/training-runs"


def write_checkpoint(platform, run_id, step, *, whole=True):
    folder = platform.folder / "runs" / run_id / "checkpoints" / f"global_step{step}_hf"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    states = folder.parent / "_actor"
    states.mkdir(exist_ok=True)
    (states / "latest").write_text(f"global_step{step}")
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


def test_what_is_left_of_a_run_whose_forerunner_was_removed_is_listed(start_trainer, platform):
    platform.does("sleep 0.3")
    trainer = start_trainer()
    first = trainer.submit(platform.spec()).json()["id"]
    trainer.wait(first, "succeeded")
    write_checkpoint(platform, first, 2)
    run_id = trainer.submit(platform.spec(checkpoints={"resume_from": first})).json()["id"]
    trainer.wait(run_id, "running")
    shutil.rmtree(platform.folder / "runs" / first)
    trainer.wait(run_id, "succeeded")
    assert trainer.get(f"{RUNS}/{run_id}/checkpoints").json() == {"checkpoints": []}
    write_checkpoint(platform, run_id, 100).rename(platform.folder / "runs" / run_id / "model")

    assert [entry["step"] for entry in trainer.get(f"{RUNS}/{run_id}/checkpoints").json()["checkpoints"]] == [100]


def test_what_a_run_ended_with_is_the_checkpoint_of_its_last_step(start_trainer, platform):
    trainer = start_trainer()
    run_id = trainer.submit(platform.spec(steps=3)).json()["id"]
    trainer.wait(run_id, "succeeded")
    write_checkpoint(platform, run_id, 2)
    write_checkpoint(platform, run_id, 3)
    steps = [entry["step"] for entry in trainer.get(f"{RUNS}/{run_id}/checkpoints").json()["checkpoints"]]
    model = write_checkpoint(platform, run_id, 9)
    model = model.rename(platform.folder / "runs" / run_id / "model")
    listed = trainer.get(f"{RUNS}/{run_id}/checkpoints").json()["checkpoints"]

    assert steps == [2, 3]
    assert [(entry["step"], entry["path"].endswith("model")) for entry in listed] == [(2, False), (3, True)]
    assert listed[-1]["path"] == str(model)


def test_what_a_cold_start_ended_with_is_the_checkpoint_of_the_last_step_that_it_says(start_trainer, platform):
    platform.does('echo 7 > "$TRAINER_RUN_FOLDER/last_step"')
    trainer = start_trainer()
    spec = {"kind": "supervised", "name": "cold", "model": "small", "data": "cold.jsonl", "batch": 1, "micro_batch": 1}
    run_id = trainer.submit(spec).json()["id"]
    trainer.wait(run_id, "succeeded")
    write_checkpoint(platform, run_id, 5)
    model = write_checkpoint(platform, run_id, 9).rename(platform.folder / "runs" / run_id / "model")
    listed = trainer.get(f"{RUNS}/{run_id}/checkpoints").json()["checkpoints"]

    assert [entry["step"] for entry in listed] == [5, 7]
    assert listed[-1]["path"] == str(model)


def test_a_run_that_goes_on_with_another_shares_its_checkpoints(start_trainer, platform):
    trainer = start_trainer()
    first = trainer.submit(platform.spec()).json()["id"]
    trainer.wait(first, "succeeded")
    write_checkpoint(platform, first, 20)
    second = trainer.submit(platform.spec(checkpoints={"resume_from": first})).json()["id"]
    trainer.wait(second, "succeeded")

    assert [entry["step"] for entry in trainer.get(f"{RUNS}/{second}/checkpoints").json()["checkpoints"]] == [20]


def test_a_run_that_broke_off_twice_goes_on_by_the_name_of_the_last(start_trainer, platform):
    trainer = start_trainer()
    run_id = trainer.submit(platform.spec()).json()["id"]
    trainer.wait(run_id, "succeeded")
    write_checkpoint(platform, run_id, 20)
    for _ in range(2):
        run_id = trainer.submit(platform.spec(checkpoints={"resume_from": run_id})).json()["id"]
        trainer.wait(run_id, "succeeded")

    assert [entry["step"] for entry in trainer.get(f"{RUNS}/{run_id}/checkpoints").json()["checkpoints"]] == [20]


def test_checkpoints_have_one_writer_at_a_time(start_trainer, platform):
    trainer = start_trainer()
    first = trainer.submit(platform.spec()).json()["id"]
    trainer.wait(first, "succeeded")
    write_checkpoint(platform, first, 20)
    platform.does("sleep 60")
    spec = platform.spec(checkpoints={"resume_from": first})
    second = trainer.submit(spec, **{"Idempotency-Key": "k"}).json()["id"]
    refused = [trainer.submit(platform.spec(checkpoints={"resume_from": name})) for name in (first, second)]

    assert [answer.status_code for answer in refused] == [422, 422]
    assert all(second in answer.json()["detail"] for answer in refused)
    assert trainer.submit(spec, **{"Idempotency-Key": "k"}).json()["id"] == second
    trainer.delete(f"{RUNS}/{second}")
    assert trainer.submit(spec).status_code == 201


@pytest.mark.parametrize("key", [{}, {"Idempotency-Key": "k"}])
def test_checkpoints_have_one_writer_whoever_asks_at_once(start_trainer, platform, key):
    trainer = start_trainer()
    first = trainer.submit(platform.spec()).json()["id"]
    trainer.wait(first, "succeeded")
    write_checkpoint(platform, first, 20)
    # A reward of one's own takes a while to be looked at.
    platform.does(f'[ "$1" = -c ] && sleep 0.5 && exit {FOUND}; sleep 60')
    spec = platform.spec(checkpoints={"resume_from": first}, reward={"function": "mine:reward"})
    with ThreadPoolExecutor(4) as clients:
        answers = list(clients.map(lambda _: trainer.submit(spec, **key), range(4)))

    assert sorted(answer.status_code for answer in answers) == ([201] * 4 if key else [201, 422, 422, 422])
    assert len({answer.json()["id"] for answer in answers if answer.status_code == 201}) == 1


@pytest.mark.parametrize("max_running", [1, 2], ids=["not tried", "tried"])
def test_a_run_that_never_started_takes_no_model_of_the_one_that_it_goes_on_with(start_trainer, platform, max_running):
    trainer = start_trainer(max_running=max_running)
    first = trainer.submit(platform.spec()).json()["id"]
    trainer.wait(first, "succeeded")
    steps = [10, 20, 30, 40]
    for step in steps:
        write_checkpoint(platform, first, step)
    platform.does("sleep 60")
    trainer.wait(trainer.submit(platform.spec()).json()["id"], "running")
    second = trainer.submit(platform.spec(checkpoints={"resume_from": first, "keep": 2})).json()["id"]
    if max_running == 2:
        until(lambda: "GPUs are needed" in trainer.run(second)["detail"])

    assert trainer.delete(f"{RUNS}/{second}").json()["state"] == "cancelled"
    assert [entry["step"] for entry in trainer.get(f"{RUNS}/{first}/checkpoints").json()["checkpoints"]][:4] == steps


@pytest.mark.parametrize("gone", ["models", "data", "checkpoints"])
def test_a_running_run_whose_inputs_are_taken_away_goes_on(start_trainer, platform, gone):
    gate = platform.folder / "gate"
    trainer = start_trainer()
    first = trainer.submit(platform.spec()).json()["id"]
    trainer.wait(first, "succeeded")
    write_checkpoint(platform, first, 20)
    platform.does(f"while [ ! -e {gate} ]; do sleep 0.05; done; echo over")
    run_id = trainer.submit(platform.spec(checkpoints={"resume_from": first})).json()["id"]
    trainer.wait(run_id, "running")
    shutil.rmtree(platform.folder / "runs" / first / "checkpoints" if gone == "checkpoints" else platform.folder / gone)
    time.sleep(0.3)

    assert trainer.run(run_id)["state"] == "running"
    gate.touch()
    assert trainer.wait(run_id, "succeeded")
    assert trainer.get(f"{RUNS}/{run_id}/logs").text == "over\n"


def test_a_policy_that_refuses_a_checkpoint_is_named(start_trainer, platform):
    trainer = start_trainer(policy_transport=httpx2.ASGITransport(app=FastAPI()))
    run_id = trainer.submit(platform.spec()).json()["id"]
    trainer.wait(run_id, "succeeded")
    write_checkpoint(platform, run_id, 1)
    answer = trainer.post(f"{RUNS}/{run_id}/checkpoints/1/promote")

    assert answer.status_code == 404
    assert "policy" in answer.json()["detail"]


@pytest.mark.parametrize("said", [b"<html>", b"", b"\xff", b"[1]", b"null", b'{"status": "ok"}'])
def test_what_is_no_policy_has_loaded_nothing(start_trainer, platform, said):
    trainer = start_trainer(policy_transport=httpx2.MockTransport(lambda _: httpx2.Response(200, content=said)))
    run_id = trainer.submit(platform.spec()).json()["id"]
    trainer.wait(run_id, "succeeded")
    write_checkpoint(platform, run_id, 1)
    answer = trainer.post(f"{RUNS}/{run_id}/checkpoints/1/promote")

    assert answer.status_code == 503
    assert "POLICY_URL" in answer.json()["detail"]


def test_a_checkpoint_that_is_removed_while_it_is_listed_is_listed_whole_or_not_at_all(platform):
    """Removed before each look at a file in turn, until a whole listing has fewer looks than that."""
    looks = 0

    class Watched(type(Path())):
        def stat(self, **how):
            nonlocal looks
            looks += 1
            if looks == removed_at:
                shutil.rmtree(folder)
            return super().stat(**how)

    settings = platform.settings().model_copy(update={"runs_dir": Watched(platform.folder / "runs")})
    checkpoints = Checkpoints(settings, JobBuilder(settings))
    run = Run("run-1", RunState.RUNNING, SPEC.validate_python(platform.spec()), now())
    for number in range(1, 100):
        removed_at, looks, folder = number, 0, write_checkpoint(platform, run.id, 20)
        size = sum(path.stat().st_size for path in folder.iterdir())
        listed = [(found.step, found.bytes) for found in checkpoints.list(run)]
        assert listed in ([], [(20, size)])
        if folder.exists():
            break

    assert removed_at > 5
    assert listed == [(20, size)]
