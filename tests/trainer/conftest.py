"""A trainer over real processes: where OpenRLHF would be started, a shell script of the test stands in."""

import json
import os
import time
from contextlib import ExitStack

import pytest
from fastapi.testclient import TestClient

from parallelsearch.rollout.types import Kind
from parallelsearch.schemas.training import LauncherName
from trainer.app import create_app
from trainer.labels import Label, PromptRow
from trainer.launchers.local import LocalLauncher
from trainer.settings import TrainerSettings

TOKEN = "let-me-in"
COLD_ROW = {"prompt": "q", "segments": [{"author": "policy", "text": "<answer> a </answer>"}]}


def prompt_row(split):
    label = Label(id="1", question="q", kind=Kind.PARALLEL, golden_answers=["a"], split=split)
    return PromptRow(prompt="q", label=label.model_dump_json()).model_dump_json() + "\n"


class Platform:
    """What a trainer stands on: roots with a model and a data file, and a script in OpenRLHF's place."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "models" / "small").mkdir(parents=True)
        (folder / "models" / "small" / "config.json").write_text("{}")
        (folder / "data").mkdir()
        (folder / "data" / "cold.jsonl").write_text(json.dumps(COLD_ROW) + "\n")
        (folder / "data" / "eval.jsonl").write_text(prompt_row("eval"))
        (folder / "data" / "train.jsonl").write_text(prompt_row("train"))
        self.script = folder / "python"
        self.does("exit 0")

    def gpu(self, number):
        """Its name. Who uses a GPU is read from all processes of the machine, and tests run in several."""
        return f"gpu-{number}-of-{os.getpid()}"

    def does(self, text):
        self.script.write_text(f"#!/bin/sh\n{text}\n")
        self.script.chmod(0o755)

    def settings(self, **changes):
        values = {
            "runs_dir": self.folder / "runs",
            "model_roots": (self.folder / "models",),
            "data_roots": (self.folder / "data",),
            "openrlhf_python": self.script,
            "admin_token": TOKEN,
            "poll_s": 0.05,
            "cancel_grace_s": 1,
        }
        return TrainerSettings(**{**values, **changes})

    def spec(self, **changes):
        return {"kind": "reinforcement", "name": "small", "model": "small", "data": "train.jsonl", **changes}


class Client(TestClient):
    """Speaks as an administrator."""

    def submit(self, spec, **headers):
        return self.post("/v1/training-runs", json=spec, headers=headers)

    def run(self, run_id):
        return self.get(f"/v1/training-runs/{run_id}").json()

    def wait(self, run_id, *states, timeout_s=20):
        end = time.monotonic() + timeout_s
        while (run := self.run(run_id))["state"] not in states:
            assert time.monotonic() < end, run
            time.sleep(0.02)
        return run


@pytest.fixture
def platform(tmp_path):
    return Platform(tmp_path)


@pytest.fixture
def start_trainer(platform):
    """`start_trainer(gpus=1)` gives a client of a running trainer; each call is a new start over the same state."""
    with ExitStack() as stack:

        def start(*, gpus=1, runs_per_gpu=1, launchers=None, token=TOKEN, max_running=1, runs_dir=None, **arguments):
            names = [platform.gpu(n) for n in range(gpus)]
            local = {LauncherName.LOCAL: LocalLauncher(gpus=lambda: names, grace_s=1, runs_per_gpu=runs_per_gpu)}
            changes = {"runs_dir": runs_dir} if runs_dir else {}
            app = create_app(platform.settings(max_running=max_running, **changes), launchers or local, **arguments)
            headers = {"authorization": f"Bearer {token}"} if token else {}
            return stack.enter_context(Client(app, headers=headers))

        yield start
