"""Several replicas of the policy, as processes that are killed, stopped and started again under load."""

import asyncio
import re
import signal
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import httpx2
import pytest
from gateway_fakes import BOTH, DONE, PASSAGES, QUESTION, fake_policy, fake_retriever
from live import live
from processes import UPSTREAM, Process, free_port, wait_for

from gateway.addresses import listed, resolved
from gateway.app import create_app
from gateway.settings import GatewaySettings
from servicekit.settings import load


class Fleet:
    """Policies on sockets, a retriever, and a gateway in this process over them."""

    def __init__(self, stack, versions=("1", "1"), **settings):
        self.policies = []
        for version in versions:
            port = free_port()
            self.policies.append(Process([sys.executable, UPSTREAM, "policy", str(port), version], port))
            stack.callback(self.policies[-1].kill)
        self.names = [f"127.0.0.1:{policy.port}" for policy in self.policies]
        retriever = stack.enter_context(live(fake_retriever(PASSAGES)))
        urls = ",".join(f"http://{name}/v1" for name in self.names)
        values = {"policy_base_url": urls, "retriever_url": retriever.url, "redis_url": None, "upstream_refresh_s": 0.2} | settings
        self.gateway = stack.enter_context(live(create_app(GatewaySettings(**values))))
        self.http = stack.enter_context(httpx2.Client(base_url=self.gateway.url, timeout=30))
        wait_for(lambda: self.http.get("/readyz").json()["status"] == "degraded" and not self.left_out())

    def left_out(self):
        return [name for name in self.names if name in self.http.get("/readyz").json()["checks"]["policy"]]

    def ask(self, **body):
        return self.http.post("/v1/answers", json={"question": QUESTION, "deadline_s": 20} | body)

    def replicas(self):
        found = re.findall(
            r'parallelsearch_policy_replica\{replica="([^"]+)",version="([^"]*)"\} (\d)', self.http.get("/metrics").text
        )
        return {(name, version): int(value) for name, version, value in found if name in self.names}


@pytest.fixture
def fleet():
    with ExitStack() as stack:
        yield lambda *arguments, **settings: Fleet(stack, *arguments, **settings)


def test_killed_and_started_again_under_load_no_request_fails(fleet):
    running = fleet()
    first = running.policies[0]
    with ThreadPoolExecutor(8) as pool:
        before = [pool.submit(running.ask) for _ in range(60)]
        first.kill()
        during = [pool.submit(running.ask) for _ in range(60)]
        wait_for(lambda: running.left_out() == running.names[:1])
        first.start()
        wait_for(lambda: not running.left_out())
        after = [pool.submit(running.ask) for _ in range(20)]
        answers = [future.result() for future in before + during + after]
    assert Counter(answer.status_code for answer in answers) == {200: 140}
    assert {answer.json()["answer"] for answer in answers} == {"Camille Pissarro"}


def test_a_hung_replica_loses_its_requests_to_the_other(fleet):
    running = fleet(policy_probe_timeout_s=0.5)
    running.policies[0].signal(signal.SIGSTOP)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: running.ask(), range(16)))
    assert {answer.status_code for answer in answers} == {200}
    assert running.left_out() == running.names[:1]
    running.policies[0].signal(signal.SIGCONT)
    wait_for(lambda: not running.left_out())


def test_with_all_replicas_gone_the_caller_learns_it(fleet):
    running = fleet()
    for policy in running.policies:
        policy.kill()
    assert running.ask().status_code == 503
    wait_for(lambda: running.http.get("/readyz").status_code == 503)
    running.policies[1].start()
    wait_for(lambda: running.ask().status_code == 200)


def test_a_mixed_fleet_shows_in_metrics_and_each_answer_names_its_version(fleet):
    running = fleet(versions=("1", "2"))
    one, two = running.names
    assert running.replicas() == {(one, "1"): 1, (two, "2"): 1}
    seen = Counter(tuple(running.ask().json()["policy"]["versions"]) for _ in range(30))
    assert set(seen) == {("1",), ("2",)}
    running.policies[0].kill()
    wait_for(lambda: running.replicas() == {(one, "1"): 0, (two, "2"): 1})
    running.policies[0].command[-1] = "2"
    running.policies[0].start()
    wait_for(lambda: running.replicas() == {(one, "2"): 1, (two, "2"): 1})


def contexts(policies):
    return [policy.state.contexts for policy in policies]


def test_a_rollout_stays_on_its_replica_and_rollouts_are_spread(valkey):
    policies = [fake_policy([BOTH, DONE] * 40) for _ in range(2)]
    arrived = []

    def once_all_are_there(policy):
        async def app(scope, receive, send):
            if scope["path"] == "/v1/completions":
                arrived.append(1)
                while len(arrived) < 20:
                    await asyncio.sleep(0.005)
            await policy(scope, receive, send)

        return app

    with ExitStack() as stack:
        servers = [stack.enter_context(live(once_all_are_there(policy), lifespan="off")) for policy in policies]
        retriever = stack.enter_context(live(fake_retriever(PASSAGES)))
        urls = ",".join(f"{server.url}/v1" for server in servers)
        settings = GatewaySettings(policy_base_url=urls, retriever_url=retriever.url, redis_url=valkey.url)
        gateway = stack.enter_context(live(create_app(settings)))

        async def crowd():
            async with httpx2.AsyncClient(base_url=gateway.url, timeout=30) as client:
                return await asyncio.gather(*(client.post("/v1/answers", json={"question": QUESTION}) for _ in range(20)))

        assert {answer.status_code for answer in asyncio.run(crowd())} == {200}
    one, two = contexts(policies)
    assert (len(one), len(two)) == (20, 20)


def test_a_version_that_changes_under_a_rollout_is_named_too(start_gateway):
    policy = fake_policy([BOTH, DONE])
    versions = iter(["1", "2"])

    async def changing(scope, receive, send):
        async def tagged(message):
            if message["type"] == "http.response.start":
                headers = [header for header in message["headers"] if header[0] != b"x-policy-version"]
                message = message | {"headers": [*headers, (b"x-policy-version", next(versions).encode())]}
            await send(message)

        await policy(scope, receive, tagged if scope["path"] == "/v1/completions" else send)

    client = start_gateway(changing, fake_retriever(PASSAGES))
    found = client.post("/v1/answers", json={"question": QUESTION}).json()["policy"]
    assert (found["version"], found["versions"]) == ("2", ["1", "2"])


def test_a_password_in_an_address_is_shown_to_nobody(start_gateway, capsys):
    """`/readyz` and `/metrics` are open, and logs are kept."""
    down = fake_policy([DONE])
    down.router.routes.clear()
    for policy in (fake_policy([DONE]), down):
        client = start_gateway(policy, fake_retriever(PASSAGES), policy_base_url="http://me:s3cret@policy:1/v1")
        shown = client.get("/readyz").text + client.get("/metrics").text + "".join(capsys.readouterr())
        assert "policy:1" in shown
        assert "s3cret" not in shown


def test_a_list_of_addresses_is_read_and_repeats_are_dropped():
    assert asyncio.run(listed(" http://a/v1, http://b/v1,http://a/v1,")()) == ("http://a/v1", "http://b/v1")


def test_a_name_is_resolved_to_addresses_and_the_last_known_stay():
    found = asyncio.run(resolved("http://localhost:8002/v1")())
    assert "http://127.0.0.1:8002/v1" in found
    assert all(url.startswith(("http://127.0.0.1:8002", "http://[::1]:8002")) for url in found)
    assert asyncio.run(resolved("http://no-such-host.invalid:8002/v1")()) == ()


def test_a_name_that_resolves_to_nothing_is_said_in_words_and_once_in_the_log(start_gateway, capsys):
    """Also a name that is none in DNS."""
    for host in ("no-such-host.invalid", "x" * 70 + ".invalid"):
        policy, settings = fake_policy([DONE]), {"policy_discovery": "dns", "policy_base_url": f"http://{host}:8002/v1"}
        client = start_gateway(policy, fake_retriever(PASSAGES), **settings)
        refused = client.post("/v1/answers", json={"question": QUESTION})
        assert (refused.status_code, "resolves to no address" in refused.json()["detail"]) == (503, True)
        assert "resolves to no address" in client.get("/readyz").json()["checks"]["policy"]
        time.sleep(1.2)
        assert "".join(capsys.readouterr()).count("policy_not_resolved") == 1


@pytest.mark.parametrize("addresses", ["http://a:8002/v1,http://b:8002/v1", "http://a:8002/v1,"])
def test_a_list_is_not_resolved_as_a_name(monkeypatch, addresses):
    monkeypatch.setenv("POLICY_BASE_URL", addresses)
    assert load(GatewaySettings).policy_base_url == addresses
    monkeypatch.setenv("POLICY_DISCOVERY", "dns")
    with pytest.raises(SystemExit, match=r"POLICY_DISCOVERY=dns resolves one address.*POLICY_BASE_URL"):
        load(GatewaySettings)
