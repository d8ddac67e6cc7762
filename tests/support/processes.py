"""Processes that tests kill, stop and start again."""

import os
import socket
import subprocess
import time
from pathlib import Path

UPSTREAM = str(Path(__file__).parent / "upstream_process.py")


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def wait_for(condition, timeout_s=20):
    until = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


class Process:
    """A server that is started again on its port after `kill`, which is a SIGKILL."""

    def __init__(self, command, port, *, log=None, **environment):
        self.command, self.port, self.environment, self.log = command, port, environment, log
        self.start()

    def start(self):
        environment = os.environ | self.environment
        with open(self.log or os.devnull, "ab") as log:
            self.process = subprocess.Popen(self.command, env=environment, stdout=log, stderr=log)
        wait_for(self.listens, 60)

    def listens(self):
        with socket.socket() as tried:
            return tried.connect_ex(("127.0.0.1", self.port)) == 0

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        self.process.kill()
        self.process.wait()
