"""`up` and `down` as a user runs them, over stand-ins that go by the services' names."""

import os
import signal
import subprocess
import sys
import textwrap
from contextlib import suppress

import psutil
import pytest
from service_stand_ins import SERVER, eventually, free_port

from parallelsearch.supervisor import launch, snapshot
from parallelsearch.supervisor.places import MAX_SOCKET_PATH_BYTES, StateFolder
from parallelsearch.supervisor.snapshot import Phase

SERVICES = ("retriever", "trainer", "gateway")
STAND_IN = 'import os, sys\nsys.argv[1:] = [os.environ["{name}_PORT"], *os.environ.get("STAND_IN", "").split()]\n'


class Platform:
    def __init__(self, folder, root):
        (folder / "services").mkdir()
        for name in SERVICES:
            code = STAND_IN.format(name=name.upper()) + textwrap.dedent(SERVER)
            (folder / "services" / f"{name}.py").write_text(code)
        self.state = StateFolder(root)
        self.folder = folder
        self.environ = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(folder / "services"), os.environ.get("PYTHONPATH", "")]),
            "PARALLELSEARCH_STATE_DIR": str(root),
            "REDIS_URL": "redis://127.0.0.1:9/0",
            "POLICY_BASE_URL": "http://127.0.0.1:9/v1",
            "RETRIEVER_INDEX": str(folder),
            **{f"{name.upper()}_PORT": str(free_port()) for name in SERVICES},
        }

    def begin(self, *arguments, **environ):
        command = [sys.executable, "-m", "parallelsearch", *arguments]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=self.environ | environ, cwd=self.folder)

    def run(self, *arguments, **environ):
        return self.begin(*arguments, **environ).communicate(timeout=60)[1]

    def processes(self):
        """All that were started for this state folder and still run."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.environ().get("PARALLELSEARCH_STATE_DIR") == str(self.state.root):
                    found.append(process.pid)
        return found


@pytest.fixture
def platform(tmp_path):
    platform = Platform(tmp_path, tmp_path / "state")
    yield platform
    launch.stop(platform.state, lambda _: None)


def test_of_several_that_start_at_once_one_starts_and_the_others_wait_with_it(platform):
    begun = [platform.begin("up", STAND_IN="late=1.5") for _ in range(3)]
    said = [process.communicate(timeout=60)[1] for process in begun]
    assert [process.returncode for process in begun] == [0, 0, 0], said
    assert sorted("Starting ParallelSearch" in text for text in said) == [False, False, True]
    found = launch.running(platform.state)
    assert not found.dead
    assert len([pid for pid in platform.processes() if pid == found.supervisor.pid]) == 1
    assert "runs out of" not in platform.state.log("supervisor").read_text()
    assert "Stopped: " in platform.run("down")
    assert platform.processes() == []


@pytest.mark.parametrize("name", ["-with blank #1, per%41cent: $HOME?", "наш çøde 莫", "l" * 200])
def test_a_state_folder_may_have_any_name(tmp_path, name):
    platform = Platform(tmp_path, tmp_path / name / "state")
    has_socket = len(str(platform.state.valkey_socket).encode()) <= MAX_SOCKET_PATH_BYTES
    cache = {"REDIS_URL": ""} | ({} if has_socket else {"REDIS_PORT": str(free_port())})
    try:
        said = platform.run("up", **cache)
        found = launch.running(platform.state)
        assert "Ready after" in said
        assert {step.name for step in found.steps} == {"valkey", *SERVICES}
        assert found.ready_after_s < 15
        assert "Already up" in platform.run("up", **cache)
        assert "valkey" in platform.run("down")
        assert platform.processes() == []
    finally:
        launch.stop(platform.state, lambda _: None)


def test_a_running_platform_is_not_taken_for_one_with_other_settings(platform):
    """Whoever sets something and starts again would else believe that it holds."""
    platform.run("up", GATEWAY_MAX_IN_FLIGHT="8", RETRIEVER_WEB_KEY="secret")
    token = platform.state.read_admin_token()
    same = {"GATEWAY_MAX_IN_FLIGHT": "8", "RETRIEVER_WEB_KEY": "secret", "ADMIN_TOKEN": token, "POLICY_LAYOUT": ""}
    assert "Already up" in platform.run("up", **same)
    assert "(GATEWAY_MAX_IN_FLIGHT)" in platform.run("up", **same | {"GATEWAY_MAX_IN_FLIGHT": "9"})
    assert "(GATEWAY_MAX_IN_FLIGHT, RETRIEVER_WEB_KEY)" in platform.run("up")
    assert "(GATEWAY_STORE_PATH)" in platform.run("up", **same, GATEWAY_STORE_PATH="answers.sqlite")
    assert "secret" not in platform.state.plan.read_text()


def test_a_running_platform_says_that_its_code_is_of_before(platform):
    """Whoever fetches a new version and starts again would else believe that it runs."""
    platform.run("up")
    assert "code has changed" not in platform.run("up")
    later = launch.running(platform.state).started_at + 1
    os.utime(platform.folder / "services" / "gateway.py", (later, later))
    said = platform.run("up")
    assert "code has changed" in said
    assert "Already up" in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_start_that_is_interrupted_leaves_nothing_behind(platform, number):
    process = platform.begin("up", STAND_IN="late=60")
    assert eventually(lambda: (found := launch.running(platform.state)) and all(step.group for step in found.steps))
    process.send_signal(number)
    assert "Interrupted" in process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert platform.processes() == []


def test_one_that_is_killed_while_it_starts_is_no_obstacle_to_the_next(platform):
    process = platform.begin("up", STAND_IN="late=2")
    assert eventually(platform.state.turn.exists)
    process.kill()
    process.communicate()
    assert "Ready after" in platform.run("up")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_in_the_foreground_all_is_ended_though_nobody_reads_what_it_says(platform, number):
    process = platform.begin("up", "--foreground")
    assert eventually(lambda: (found := launch.running(platform.state)) and found.ready_after_s)
    process.stderr.close()
    process.stdout.close()
    process.send_signal(number)
    process.wait(30)
    assert platform.processes() == []
    assert snapshot.read(platform.state.snapshot).phase is Phase.STOPPED


def test_in_the_foreground_a_start_that_nobody_reads_leaves_nothing_behind(platform):
    process = platform.begin("up", "--foreground", STAND_IN="late=3")
    process.stderr.readline()
    process.stderr.close()
    process.stdout.close()
    process.wait(60)
    assert platform.processes() == []
