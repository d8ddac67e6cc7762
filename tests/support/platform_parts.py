"""What platforms of plain processes are made of, beside the services: a cache, the demo index, and questions."""

import json
import os
import subprocess
import sys

from service_stand_ins import free_port

from parallelsearch.demo import demo_file
from parallelsearch.supervisor.valkey import binary


class Cache:
    """A real Valkey on a port, that keeps nothing on disk."""

    def __init__(self):
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"

    def start(self):
        command = [str(binary()), "--bind", "127.0.0.1", "--port", str(self.port), "--save", "", "--appendonly", "no"]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)

    def end(self, sign):
        self._process.send_signal(sign)
        self._process.wait(30)


def demo_index(folder):
    index = folder / "index"
    build = [sys.executable, "-m", "retriever", "index", "build", str(demo_file("corpus.jsonl")), "--out", str(index)]
    subprocess.run(build, check=True, capture_output=True)
    return index


def demo_questions():
    return [json.loads(line)["question"] for line in demo_file("questions.jsonl").read_text().splitlines()]


def cached(folder):
    """An environment in which prepared models lie in this folder."""
    return os.environ | {"PARALLELSEARCH_CACHE_DIR": str(folder)}
