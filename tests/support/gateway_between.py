"""A gateway between a policy, a retriever and a Redis, each a process of its own that can be killed, stopped and replaced."""

import sys

import httpx2
from gateway_fakes import QUESTION
from processes import UPSTREAM, Process, free_port, wait_for


class Platform:
    def __init__(self, stack, valkey, settings, *, log=None):
        self.valkey = valkey
        self.policy, self.retriever = (self.run(stack, kind) for kind in ("policy", "retriever"))
        port = free_port()
        environment = {
            "GATEWAY_PORT": str(port),
            "POLICY_BASE_URL": f"http://127.0.0.1:{self.policy.port}/v1",
            "RETRIEVER_URL": f"http://127.0.0.1:{self.retriever.port}",
            "REDIS_URL": valkey.url,
            "GATEWAY_UPSTREAM_REFRESH_S": "0.3",
        }
        self.gateway = Process([sys.executable, "-m", "gateway"], port, log=log, **environment | settings)
        stack.callback(self.gateway.kill)
        self.url = f"http://127.0.0.1:{port}"
        wait_for(lambda: httpx2.get(f"{self.url}/readyz").status_code == 200, 30)

    @staticmethod
    def run(stack, kind, *options):
        port = free_port()
        process = Process([sys.executable, UPSTREAM, kind, str(port), *options], port)
        stack.callback(process.kill)
        return process

    def put_in_place_of(self, stack, upstream, kind, *options):
        """Another process on the port of one that is killed."""
        upstream.kill()
        other = Process([sys.executable, UPSTREAM, kind, str(upstream.port), *options], upstream.port)
        stack.callback(other.kill)
        return other

    def metric(self, name):
        lines = httpx2.get(f"{self.url}/metrics").text.splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))

    def ask(self, **body):
        body = {"question": QUESTION, "cache": "bypass", "deadline_s": 10} | body
        return httpx2.post(f"{self.url}/v1/answers", json=body, timeout=60)

    def answers_again(self):
        return self.ask().status_code == 200
