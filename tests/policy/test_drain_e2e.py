"""SIGTERM to a policy that generates: it stops to listen, answers all that it has accepted, and only then ends the engine."""

import signal
import threading
import time

import httpx2
import pytest
from tests.support.policy_server import MODEL, Server, prompt_ids

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]
CALLERS = 6


def test_every_accepted_generation_is_answered(tmp_path):
    server = Server(tmp_path)
    try:
        server.wait_until_ready()
        body = {"model": MODEL, "prompt": prompt_ids(server, "Who wrote Hamlet?"), "max_tokens": 80, "ignore_eos": True}
        statuses, refused = [], []

        def call():
            """One connection, asked again and again, as the gateway's pool does it."""
            with httpx2.Client(base_url=server.url, timeout=120, trust_env=False) as client:
                try:
                    while True:
                        statuses.append(client.post("/v1/completions", json=body).status_code)
                except httpx2.TransportError as error:
                    refused.append(error)

        callers = [threading.Thread(target=call) for _ in range(CALLERS)]
        for caller in callers:
            caller.start()
        while len(statuses) < CALLERS:
            time.sleep(0.1)
        left = server.end(signal.SIGTERM)
        for caller in callers:
            caller.join(60)
        assert set(statuses) == {200}
        assert len(refused) == CALLERS
        assert all(isinstance(error, httpx2.ConnectError | httpx2.RemoteProtocolError) for error in refused), refused
        assert left == []
        assert server.process.returncode in (0, -signal.SIGTERM)
    finally:
        server.close()
