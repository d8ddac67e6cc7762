"""Runs a plan of training runs through the trainer's own API, on a host that install.sh has prepared (source env.sh first).

usage: drive.py PLAN[,PLAN…] --minutes M --out FOLDER      ends in time; called again, it finds its runs and goes on

Starts retriever and trainer if they do not answer, submits each run once (its name is the idempotency key), waits, and writes
FOLDER/PLAN.tar.gz with every run's specification, state, metrics, records and the end of its log. Runs whose model another run
learns are submitted when that one has succeeded.
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

from plans import PLANS

TRAIN = Path(os.environ["TRAIN"])
TRAINER, RETRIEVER = f"http://127.0.0.1:{os.environ.get('TRAINER_PORT', '8003')}", os.environ["RETRIEVER_URL"]
LOG_BYTES = 40_000
FINAL = {"succeeded", "failed", "cancelled"}


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


def serve(service, url):
    """Starts `python -m SERVICE` in a session of its own unless it answers already."""
    if is_ready(url):
        return
    with (TRAIN / f"{service}.log").open("ab") as log:
        process = subprocess.Popen([sys.executable, "-m", service], stdout=log, stderr=log, start_new_session=True, cwd=TRAIN)
    for _ in range(240):
        if is_ready(url):
            return
        if process.poll() is not None:
            break
        time.sleep(0.5)
    sys.exit(f"{service} did not start:\n{(TRAIN / f'{service}.log').read_text()[-3000:]}")


def known_runs():
    return {run["spec"]["name"]: run for run in ask("GET", f"{TRAINER}/v1/training-runs")["runs"]}


def model_of(spec, known):
    """The specification with `run:NAME` replaced; None while that run has not succeeded."""
    if not spec["model"].startswith("run:"):
        return spec
    start = known.get(spec["model"].removeprefix("run:"))
    return {**spec, "model": f"{start['id']}/model"} if start and start["state"] == "succeeded" else None


def submit_what_can_be(specs):
    known = known_runs()
    for spec in specs:
        ready = model_of(spec, known)
        if spec["name"] not in known and ready:
            run = ask("POST", f"{TRAINER}/v1/training-runs", ready, **{"idempotency-key": spec["name"]})
            print(f"submitted {spec['name']} as {run['id']}", flush=True)


def show(name, run):
    steps = ask("GET", f"{TRAINER}/v1/training-runs/{run['id']}/metrics")["steps"]
    last = steps[-1] if steps else {"step": 0, "values": {}}
    names = ("reward", "exact_match", "decomposed/parallel", "decomposed/sequential", "searches", "kl", "timing/step_total")
    values = " ".join(f"{key}={last['values'][key]:.3g}" for key in names if key in last["values"])
    print(f"{name}: {run['state']} step {last['step']} {values} {run['detail']} {run['flags'] or ''}", flush=True)
    if run["state"] == "failed":
        print("\n".join(run["last_log_lines"][-25:]), flush=True)


def wait(specs, until):
    names = [spec["name"] for spec in specs]
    while time.monotonic() < until:
        submit_what_can_be(specs)
        known = known_runs()
        waiting = [name for name in names if name not in known or known[name]["state"] not in FINAL]
        for name in names:
            if name in known:
                show(name, known[name])
        if not waiting:
            return
        time.sleep(min(20, max(until - time.monotonic(), 0)))


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
    given = parser.parse_args()
    until = time.monotonic() + given.minutes * 60
    plans = given.plans.split(",")
    serve("retriever", RETRIEVER)
    serve("trainer", TRAINER)
    try:
        wait([spec for plan in plans for spec in PLANS[plan]], until)
    finally:
        for plan in plans:
            collect(plan, PLANS[plan], given.out)


if __name__ == "__main__":
    main()
