"""What a trainer stands on in tests: roots with a model and data files, and a script in OpenRLHF's place."""

import json
import os
import time
from contextlib import suppress
from pathlib import Path

import psutil
from loopback import LoopbackClient

from parallelsearch.rollout.types import Kind
from trainer.labels import Label, PromptRow
from trainer.settings import TrainerSettings

TOKEN = "let-me-in"
COLD_ROW = {"prompt": "q", "segments": [{"author": "policy", "text": "<answer> a </answer>"}]}


def prompt_row(split):
    label = Label(
        id="1", question="q" if split == "train" else "asked to measure", kind=Kind.PARALLEL, golden_answers=["a"], split=split
    )
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

    def end_runs(self):
        """Runs outlive a trainer, and one that still runs would keep its GPU from the next test."""
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if Path(process.environ().get("TRAINER_RUN_FOLDER", "/")).is_relative_to(self.folder):
                    process.kill()

    def spec(self, **changes):
        return {"kind": "reinforcement", "name": "small", "model": "small", "data": "train.jsonl", **changes}


class Client(LoopbackClient):
    """Speaks as an administrator."""

    def submit(self, spec, **headers):
        return self.post("/v1/training-runs", json=spec, headers=headers)

    def run(self, run_id):
        return self.get(f"/v1/training-runs/{run_id}").json()

    def wait(self, run_id, *states, timeout_s=60):
        end = time.monotonic() + timeout_s
        while (run := self.run(run_id))["state"] not in states:
            assert time.monotonic() < end, run
            time.sleep(0.02)
        return run


def until(holds, timeout_s=60):
    """Waits until it holds; what it gives then."""
    end = time.monotonic() + timeout_s
    while not (found := holds()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return found


def processes_of(run_id):
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("PARALLELSEARCH_RUN_ID") == run_id and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found
