"""Runs a plan of training runs through the trainer's own API, on a host that install.sh has prepared (source env.sh first).

usage: drive.py PLAN[,PLAN…] --minutes M --out FOLDER      ends in time; called again, it finds its runs and goes on
       a plan is one of plans.py, or the name of a single run

Starts retriever and trainer if they do not answer, submits each run once (its name is the idempotency key), waits, and writes
FOLDER/PLAN.tar.gz with every run's specification, state, metrics, records and the end of its log. Runs whose model another run
learns are submitted when that one has succeeded; one that fails is tried once more.
"""

import argparse
import io
import json
import os
import subprocess
import sys
import tarfile
import time
import urllib.error
import urllib.request
from pathlib import Path

from plans import specs_of

from trainer.launchers.local import visible_gpus

TRAIN = Path(os.environ["TRAIN"])
TRAINER, RETRIEVER = f"http://127.0.0.1:{os.environ.get('TRAINER_PORT', '8003')}", os.environ["RETRIEVER_URL"]
LOG_BYTES = 40_000
FINAL = {"succeeded", "failed", "cancelled"}
TRIES = 3


def ask(method, url, body=None, **headers):
    headers |= {"authorization": f"Bearer {os.environ['ADMIN_TOKEN']}", "content-type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode() if body else None, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        sys.exit(f"{method} {url}: {error.code} {error.read().decode()}")


def is_ready(url):
    try:
        with urllib.request.urlopen(f"{url}/readyz", timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


def serve(service, url, **environment):
    """Starts `python -m SERVICE` in a session of its own unless it answers already."""
    if is_ready(url):
        return
    with (TRAIN / f"{service}.log").open("ab") as log:
        command, environment = [sys.executable, "-m", service], {**os.environ, **environment}
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, cwd=TRAIN, env=environment)
    for _ in range(240):
        if is_ready(url):
            return
        if process.poll() is not None:
            break
        time.sleep(0.5)
    sys.exit(f"{service} did not start:\n{(TRAIN / f'{service}.log').read_text()[-3000:]}")


def serve_both():
    """The cards are the runs'; the retriever encodes on the processor."""
    serve("retriever", RETRIEVER, CUDA_VISIBLE_DEVICES="")
    serve("trainer", TRAINER)


def known_runs():
    """The last run of each name."""
    runs = sorted(ask("GET", f"{TRAINER}/v1/training-runs")["runs"], key=lambda run: run["created_at"])
    return {run["spec"]["name"]: run for run in runs}


def steps_of(run):
    return ask("GET", f"{TRAINER}/v1/training-runs/{run['id']}/metrics")["steps"]


def is_starting(run):
    """Not through its first step yet: the time in which its vLLM measures how much memory is free."""
    if run["spec"]["kind"] == "supervised" or run["state"] in FINAL:
        return False
    return run["state"] == "queued" or not steps_of(run)


class Plan:
    """Submits each specification once, again after a failure (TRIES), and no more at a time than may start side by side."""

    def __init__(self, specs, starting):
        self.specs, self.starting = {spec["name"]: spec for spec in specs}, starting

    def tries(self, name):
        return sum(run["spec"]["name"] == name for run in ask("GET", f"{TRAINER}/v1/training-runs")["runs"])

    def is_over(self, name, known):
        """Ended for good, or can never start because the run whose model it needs has failed for good."""
        run, model = known.get(name), self.specs[name]["model"]
        if run is not None and run["state"] == "failed":
            return self.tries(name) >= TRIES
        if run is not None:
            return run["state"] in FINAL
        before = model.removeprefix("run:")
        return model.startswith("run:") and before in self.specs and known.get(before, {}).get("state") in {"failed", "cancelled"}

    def submit_what_can_be(self):
        known = known_runs()
        room = self.starting - sum(is_starting(run) for run in known.values())
        for name, spec in self.specs.items():
            again = name in known and known[name]["state"] == "failed" and self.tries(name) < TRIES
            ready = model_of(spec, known)
            if room > 0 and ready and (name not in known or again):
                if again:
                    show(name, known[name])
                key = f"{name}-{self.tries(name)}"
                run = ask("POST", f"{TRAINER}/v1/training-runs", ready, **{"idempotency-key": key})
                print(f"submitted {name} as {run['id']}", flush=True)
                room -= 1

    def waits_for(self):
        known = known_runs()
        return [name for name in self.specs if not self.is_over(name, known)]


def model_of(spec, known):
    """The specification with `run:NAME` replaced; None while that run has not succeeded."""
    if not spec["model"].startswith("run:"):
        return spec
    start = known.get(spec["model"].removeprefix("run:"))
    return {**spec, "model": f"{start['id']}/model"} if start and start["state"] == "succeeded" else None


def show(name, run):
    steps = steps_of(run)
    last = steps[-1] if steps else {"step": 0, "values": {}}
    names = ("reward", "exact_match", "decomposed/parallel", "decomposed/sequential", "searches", "kl", "timing/step_total")
    values = " ".join(f"{key}={last['values'][key]:.3g}" for key in names if key in last["values"])
    print(f"{name}: {run['state']} step {last['step']} {values} {run['detail']} {run['flags'] or ''}", flush=True)
    if run["state"] == "failed":
        print("\n".join(run["last_log_lines"][-25:]), flush=True)


def wait(plan, until):
    shown = {}
    while time.monotonic() < until:
        plan.submit_what_can_be()
        known = known_runs()
        for name in plan.specs:
            if name in known and (known[name]["state"] == "running" or shown.get(name) != known[name]["state"]):
                show(name, known[name])
                shown[name] = known[name]["state"]
        if not plan.waits_for():
            return
        time.sleep(min(8, max(until - time.monotonic(), 0)))


def collect(plan, specs, out):
    known = known_runs()
    with tarfile.open(out / f"{plan}.tar.gz", "w:gz") as archive:
        for run in (known[spec["name"]] for spec in specs if spec["name"] in known):
            folder, name = TRAIN / "runs" / run["id"], run["spec"]["name"]
            metrics = ask("GET", f"{TRAINER}/v1/training-runs/{run['id']}/metrics")
            add(archive, f"{name}/run.json", json.dumps(run).encode())
            add(archive, f"{name}/metrics.json", json.dumps(metrics).encode())
            for records in sorted((folder / "rollouts").glob("*.jsonl")):
                add(archive, f"{name}/{records.name}", records.read_bytes())
            if (folder / "output.log").is_file():
                add(archive, f"{name}/log.txt", (folder / "output.log").read_bytes()[-LOG_BYTES:])


def add(archive, name, content):
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("plans")
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--starting", type=int, default=len(visible_gpus()), help="runs that may start at a time")
    given = parser.parse_args()
    until = time.monotonic() + given.minutes * 60
    plans = given.plans.split(",")
    specs = [spec for plan in plans for spec in specs_of(plan)]
    if any(spec["kind"] == "reinforcement" for spec in specs):
        serve_both()
    else:
        serve("trainer", TRAINER)
    try:
        wait(Plan(specs, given.starting), until)
    finally:
        for plan in plans:
            collect(plan, specs_of(plan), given.out)


if __name__ == "__main__":
    main()
