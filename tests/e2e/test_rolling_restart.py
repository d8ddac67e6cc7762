"""Two replicas of gateway, retriever and policy, replaced one at a time under 16 answers in flight: no request fails.

All are real: the policy's two engines take 3.5 GB each. Each service's replicas stand behind a balancer that gives connections to
those that are ready, as a Kubernetes Service does.
"""

import shutil
import signal
import subprocess
import sys
import time

import httpx2
import pytest
from compose_platform import QUESTION, Load
from platform_parts import Cache, cached, demo_index, demo_questions
from replicas import Balancer, Replica

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1200)]
IN_FLIGHT = 16


class Platform:
    def __init__(self, folder):
        self.cache = Cache()
        index = demo_index(folder)
        self.replicas = {
            "policy": [self._policy(folder, name) for name in "ab"],
            "retriever": [Replica("retriever", folder, RETRIEVER_INDEX=str(index)) for _ in range(2)],
        }
        self.balancers = {service: Balancer(*replicas) for service, replicas in self.replicas.items()}
        upstreams = {
            "RETRIEVER_URL": self.balancers["retriever"].url,
            "POLICY_BASE_URL": f"{self.balancers['policy'].url}/v1",
            "REDIS_URL": self.cache.url,
            "GATEWAY_SHUTDOWN_GRACE_S": "140",
        }
        stores = [{"GATEWAY_STORE_PATH": str(folder / f"answers-{name}.sqlite")} for name in "ab"]
        self.replicas["gateway"] = [Replica("gateway", folder, **upstreams, **store) for store in stores]
        self.balancers["gateway"] = Balancer(*self.replicas["gateway"])
        self.gateway = self.balancers["gateway"].url

    def _policy(self, folder, name):
        """Prepared models of its own, as the manifests give each pod: a change of weights is staged there."""
        own = folder / f"policy-{name}"
        if name == "a":
            subprocess.run([sys.executable, "-m", "policy", "prepare"], env=cached(own), check=True, capture_output=True)
        else:
            shutil.copytree(folder / "policy-a", own)
        return Replica("policy", folder, PARALLELSEARCH_CACHE_DIR=str(own), POLICY_SHUTDOWN_GRACE_S="90")

    def start(self):
        self.cache.start()
        for service in ("retriever", "policy", "gateway"):
            for replica in self.replicas[service]:
                replica.start()
            for replica in self.replicas[service]:
                replica.wait_until_ready()

    def close(self):
        for replicas in self.replicas.values():
            for replica in replicas:
                replica.close()
        for balancer in self.balancers.values():
            balancer.close()
        self.cache.end(signal.SIGKILL)


@pytest.fixture(scope="module")
def platform(tmp_path_factory):
    platform = Platform(tmp_path_factory.mktemp("rolling"))
    try:
        platform.start()
        yield platform
    finally:
        platform.close()


@pytest.fixture(scope="module")
def questions():
    return demo_questions()


@pytest.mark.parametrize("service", ["gateway", "retriever", "policy"])
def test_replicas_are_replaced_one_at_a_time_and_no_request_fails(platform, questions, service):
    with Load(platform.gateway, questions, workers=IN_FLIGHT, deadline_s=120) as load:
        time.sleep(5)
        times = [platform.balancers[service].replace(replica) for replica in platform.replicas[service]]
        time.sleep(5)
    outcomes = load.outcomes("")
    note = [f"ended in {ended_s:.1f} s, ready {ready_s:.1f} s later" for ended_s, ready_s in times]
    sys.stderr.write(f"{service}: {dict(outcomes)}; {'; '.join(note)}\n")
    assert set(outcomes) == {200}, load.bodies[:2]
    assert outcomes[200] >= IN_FLIGHT
    assert {answer["stop_reason"] for answer in load.answers} & {"policy_failed", "retrieval_failed", "deadline"} == set()
    failed = [found for answer in load.answers for turn in answer["turns"] for found in turn["observation"] if found["failed"]]
    assert failed == []


def test_a_redis_restart_loses_the_cache_and_nothing_else(platform, questions):
    def hits():
        response = httpx2.post(f"{platform.gateway}/v1/answers", json={"question": QUESTION}, timeout=90, trust_env=False)
        assert response.status_code == 200, response.text
        return response.json()["id"], response.json()["usage"]["cache_hits"]

    hits()
    kept, before = hits()
    assert before == 2
    with Load(platform.gateway, questions, workers=4) as load:
        time.sleep(2)
        platform.cache.end(signal.SIGTERM)
        time.sleep(2)
        platform.cache.start()
        time.sleep(3)
    assert set(load.outcomes("")) == {200}
    for replica in platform.replicas["gateway"]:
        replica.wait_until_ready()
    after = [hits()[1] for _ in range(3)]
    assert after[0] == 0 and after[-1] == 2, after
    stored = [httpx2.get(f"{replica.url}/v1/answers/{kept}", trust_env=False) for replica in platform.replicas["gateway"]]
    assert 200 in {response.status_code for response in stored}
