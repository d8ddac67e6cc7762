"""The platform in containers, under a project name, ports and volumes of its own, with a transcript."""

import json
import os
import shutil
import subprocess
import threading
import time
from collections import Counter
from pathlib import Path

import httpx2
import pytest
from service_stand_ins import free_port

ROOT = Path(__file__).resolve().parents[2]
PROJECT = "parallelsearch-test"
OURS = ("gateway", "retriever", "policy", "trainer")
FOREIGN = ("redis", "prometheus", "grafana")
PORTS = ("GATEWAY", "RETRIEVER", "PROMETHEUS", "GRAFANA")
QUESTION = "Who is older, Claude Monet or Camille Pissarro?"


def require_engine():
    if shutil.which("docker") is None or _quiet("docker", "version") or _quiet("docker", "compose", "version"):
        pytest.skip("SKIPPED, NOT PASSED: this needs a Docker engine that runs, and docker with the compose plugin")


def _quiet(*command) -> int:
    return subprocess.run(command, capture_output=True, check=False).returncode


def docker(*arguments, timeout_s=60) -> str:
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, timeout=timeout_s, check=False)
    assert done.returncode == 0, f"docker {' '.join(arguments)}: {done.stderr}"
    return done.stdout.strip()


class Compose:
    """`docker compose` for this project. Images of others are stand-ins unless PULL_IMAGES is set: stand-ins.yml says which."""

    def __init__(self, **environ):
        files = ["docker-compose.yml"] + ([] if os.environ.get("PULL_IMAGES") else ["tests/compose/stand-ins.yml"])
        self._command = ["docker", "compose", "-p", PROJECT, *(part for file in files for part in ("-f", file))]
        self.ports = {name.lower(): free_port() for name in PORTS}
        settings = {f"{name.upper()}_PORT": str(port) for name, port in self.ports.items()}
        self._env = os.environ | settings | {"COMPOSE_PROGRESS": "plain", "COMPOSE_ANSI": "never"} | environ
        self.gateway = f"http://127.0.0.1:{self.ports['gateway']}"
        self._transcript = os.environ.get("PARALLELSEARCH_TRANSCRIPT")

    def __call__(self, *arguments, timeout_s=600, check=True):
        """What it wrote, and how many seconds it took."""
        started = time.monotonic()
        done = subprocess.run(
            [*self._command, *arguments], cwd=ROOT, env=self._env, capture_output=True, text=True, timeout=timeout_s, check=False
        )
        took_s = time.monotonic() - started
        self.note(f"$ docker compose {' '.join(arguments)}", f"# exit code {done.returncode}, {took_s:.1f} s")
        assert not check or done.returncode == 0, f"{' '.join(arguments)}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout + done.stderr, took_s

    def note(self, *lines):
        """Goes to the file of PARALLELSEARCH_TRANSCRIPT."""
        if self._transcript:
            with open(self._transcript, "a") as file:
                file.write("\n".join(lines) + "\n")

    def container(self, service) -> str:
        return f"{PROJECT}-{service}-1"

    def state(self, service) -> dict:
        """Docker's own word on a service's container."""
        found = json.loads(docker("inspect", self.container(service)))[0]
        return found["State"] | {"RestartCount": found["RestartCount"]}

    def wait_until_healthy(self, service, timeout_s=180) -> float:
        started = time.monotonic()
        while (state := self.state(service))["Status"] != "running" or state["Health"]["Status"] != "healthy":
            assert time.monotonic() - started < timeout_s, state
            time.sleep(0.5)
        return time.monotonic() - started

    def crash(self, service) -> None:
        """Kills all that the container runs but its init, as the kernel would. `docker kill` would be a stop by hand to Docker."""
        docker("exec", self.container(service), "sh", "-c", "kill -9 -1")
        self.note(f"$ docker exec {self.container(service)} sh -c 'kill -9 -1'")


class Load:
    """Asks different questions without a pause, `workers` at a time, until it is left; what came back is told apart by `phase`."""

    def __init__(self, url, questions, workers=4, deadline_s=60):
        self._url, self._questions, self._deadline_s = url, questions, deadline_s
        self._ended = threading.Event()
        self._workers = [threading.Thread(target=self._work, args=(at, workers), daemon=True) for at in range(workers)]
        self.phase, self.seen, self.bodies, self.answers = "", [], [], []

    def __enter__(self):
        for worker in self._workers:
            worker.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        for worker in self._workers:
            worker.join(self._deadline_s + 60)

    def _work(self, at, step):
        with httpx2.Client(timeout=self._deadline_s + 30, trust_env=False) as client:
            while not self._ended.is_set():
                question, phase = self._questions[at % len(self._questions)], self.phase
                at += step
                body = {"question": question, "deadline_s": self._deadline_s}
                try:
                    response = client.post(f"{self._url}/v1/answers", json=body)
                except httpx2.TransportError as error:
                    self.seen.append((phase, type(error).__name__))
                    time.sleep(0.5)
                    continue
                self.seen.append((phase, response.status_code))
                if response.status_code == 200:
                    self.answers.append(response.json())
                else:
                    self.bodies.append((phase, response.status_code, dict(response.headers), response.text))
                    time.sleep(0.5)

    def outcomes(self, phase) -> Counter:
        return Counter(outcome for seen, outcome in self.seen if seen == phase)
