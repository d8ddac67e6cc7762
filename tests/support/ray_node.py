"""A one-node Ray on loopback for tests: the program of `.envs/ray` (`make test-ray` puts it there), on ports of its own, with
little memory and its files under a short path in /tmp.

PARALLELSEARCH_RAY_ADDRESS names the dashboard of a running cluster instead. Without either the tests are skipped, and say so.
`ray stop` is never called: it ends every Ray of the machine.
"""

import os
import shutil
import tempfile
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from service_stand_ins import free_port

PROGRAM = Path(__file__).resolve().parents[2] / ".envs" / "ray" / "bin" / "ray"
HOST = "127.0.0.2"
"""Loopback; for 127.0.0.1 Ray would take the machine's address in its network instead."""
PORTS = (
    "--port",
    "--dashboard-agent-listen-port",
    "--dashboard-agent-grpc-port",
    "--runtime-env-agent-port",
    "--metrics-export-port",
    "--node-manager-port",
    "--object-manager-port",
    "--ray-client-server-port",
)
LIMITS = ("--num-cpus", "4", "--num-gpus", "0", "--memory", "1000000000", "--object-store-memory", "80000000")
START_S = 180


@contextmanager
def ray_node():
    """Yields the address of the Jobs API."""
    given = os.environ.get("PARALLELSEARCH_RAY_ADDRESS")
    if given:
        yield given
        return
    if not PROGRAM.exists():
        pytest.skip("SKIPPED, NOT PASSED: `make test-ray` installs a Ray; PARALLELSEARCH_RAY_ADDRESS names a running one")
    folder, dashboard = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp")), free_port()
    ports = [part for name in PORTS for part in (name, str(free_port()))]
    place = ["--node-ip-address", HOST, "--dashboard-host", "127.0.0.1", "--dashboard-port", str(dashboard)]
    command = [str(PROGRAM), "start", "--head", "--block", "--disable-usage-stats", *place, *ports, *LIMITS]
    env = {**os.environ, "RAY_prestart_worker_first_driver": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    said = folder / "output.log"
    with said.open("w") as log:
        node = psutil.Popen([*command, "--temp-dir", str(folder / "ray")], stdout=log, stderr=log, env=env, start_new_session=True)
    try:
        _wait(f"http://127.0.0.1:{dashboard}", node, said)
        yield f"http://127.0.0.1:{dashboard}"
    finally:
        _stop(node)
        shutil.rmtree(folder, ignore_errors=True)


def _wait(address, node, said):
    until = time.monotonic() + START_S
    while True:
        try:
            with urllib.request.urlopen(f"{address}/api/jobs/", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            assert node.poll() is None and time.monotonic() < until, said.read_text()[-2000:]
            time.sleep(0.2)


def _stop(node):
    """Ends the node and what it started, by number."""
    own = [node, *node.children(recursive=True)] if node.is_running() else []
    node.terminate()
    _, alive = psutil.wait_procs(own, timeout=20)
    for process in alive:
        process.kill()
    psutil.wait_procs(alive, timeout=10)
    left = [process.pid for process in own if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]
    assert not left, f"processes of Ray are left: {left}"
