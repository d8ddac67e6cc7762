"""Two trainers over one folder of runs, as processes of their own."""

import os
import subprocess
import sys

import pytest
from processes import Process, free_port

COMMAND = [sys.executable, "-m", "trainer"]


@pytest.fixture
def environment(platform):
    return {"TRAINER_RUNS_DIR": str(platform.folder / "runs"), "TRAINER_HOST": "127.0.0.1"}


def test_a_second_trainer_over_the_same_runs_refuses_to_start_until_the_first_has_ended_however_it_ends(environment):
    first = Process(COMMAND, port := free_port(), **environment, TRAINER_PORT=str(port))
    try:
        second = subprocess.run(
            COMMAND, env=os.environ | environment | {"TRAINER_PORT": str(free_port())}, capture_output=True, text=True, timeout=60
        )
        assert first.listens()
        first.kill()
        first.start()
    finally:
        first.kill()

    assert second.returncode == 1
    assert "TRAINER_RUNS_DIR: another trainer uses" in second.stderr
