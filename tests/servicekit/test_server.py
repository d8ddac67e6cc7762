"""A served application while it is being stopped."""

import http.client
import signal
import subprocess
import sys
import threading
import time

import pytest
from processes import free_port

SERVICE = """
import asyncio, sys
from parallelsearch.errors import ParallelSearchError
from servicekit.app import create_app
from servicekit.server import serve
from servicekit.settings import ServiceSettings

app = create_app("test", errors=ParallelSearchError)

@app.get("/slow")
async def slow(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "done"

serve(app, ServiceSettings(port=int(sys.argv[1]), shutdown_grace_s=float(sys.argv[2])))
"""


@pytest.fixture
def start():
    started = []

    def begin(grace_s):
        port = free_port()
        process = subprocess.Popen([sys.executable, "-c", SERVICE, str(port), str(grace_s)], stderr=subprocess.DEVNULL)
        started.append(process)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            try:
                if get(port, "/healthz")[0] == 200:
                    return process, port
            except OSError:
                time.sleep(0.05)
        raise AssertionError("the service did not come up")

    yield begin
    for process in started:
        process.kill()
        process.wait()


def get(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("GET", path)
    response = connection.getresponse()
    return response.status, response.read()


@pytest.mark.parametrize(("grace_s", "seconds", "status"), [(0.9, 0.4, 200), (1.5, 1.5, 200), (0.5, 8, 503)])
def test_what_was_accepted_is_answered_within_the_grace_and_then_told(start, grace_s, seconds, status):
    process, port = start(grace_s)
    answers = []
    asking = threading.Thread(target=lambda: answers.append(get(port, f"/slow?seconds={seconds}")))
    asking.start()
    time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    began = time.monotonic()
    asking.join(20)
    assert [answer[0] for answer in answers] == [status]
    process.wait(20)
    assert time.monotonic() - began < grace_s + 3
