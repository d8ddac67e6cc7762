"""A service on loopback is for those who ask this machine by its own names: a page's name may point here too."""

import pytest
from fastapi import FastAPI
from loopback import LoopbackClient

from gateway.settings import GatewaySettings
from parallelsearch.errors import ParallelSearchError
from policy.settings import PolicySettings
from retriever.settings import RetrieverSettings
from servicekit.app import create_app
from servicekit.hosts import Hosts
from trainer.settings import TrainerSettings

SERVICES = {"GATEWAY": GatewaySettings, "RETRIEVER": RetrieverSettings, "POLICY": PolicySettings, "TRAINER": TrainerSettings}
PAGE = {"host": "evil.example:8001"}


@pytest.mark.parametrize(
    "name", ["localhost", "LOCALHOST:8080", "127.0.0.1:8080", "127.9.9.9", "[::1]:8080", "[::1]", "app.localhost:1"]
)
def test_the_names_of_loopback_are_known(name):
    assert Hosts(frozenset(), "").know(name)


@pytest.mark.parametrize(
    "name", ["", "evil.example", "evil.example:8080", "localhost.evil.example", "10.0.0.1", "127.0.0.1.evil.example"]
)
def test_no_other_name_is_but_those_that_are_given(name):
    assert not Hosts(frozenset(), "").know(name)
    assert not Hosts(frozenset({"other.example"}), "").know(name)
    assert Hosts(frozenset({"*"}), "").know(name)
    assert Hosts(frozenset({"proxy.example"}), "").know("Proxy.example:443")


@pytest.mark.parametrize(("prefix", "kind"), SERVICES.items())
def test_every_service_on_loopback_names_the_setting_that_lets_others_in(prefix, kind):
    required = {"index": "index"} if prefix == "RETRIEVER" else {}
    hosts = kind(**required).hosts
    assert f"{prefix}_ALLOWED_HOSTS" in hosts.refusal("evil.example") and not hosts.know("evil.example")
    assert kind(**required, allowed_hosts=["Proxy.example"]).hosts.know("proxy.example:8443")
    assert kind(**required, host="0.0.0.0", **({"auth": "off"} if prefix == "GATEWAY" else {})).hosts is None


def test_what_is_asked_by_the_name_of_another_never_reaches_a_route_and_probes_do():
    reached = []
    app: FastAPI = create_app("test", errors=ParallelSearchError, hosts=Hosts(frozenset(), "THING_ALLOWED_HOSTS"))

    @app.post("/read")
    async def read() -> str:
        reached.append("read")
        return "words"

    client = LoopbackClient(app)
    for path in ("/read", "/docs", "/openapi.json", "/nothing"):
        refused = client.request("POST" if path == "/read" else "GET", path, headers=PAGE)
        assert refused.status_code == 403 and refused.headers["content-type"] == "application/problem+json"
        assert "evil.example" in refused.json()["detail"] and "THING_ALLOWED_HOSTS" in refused.json()["detail"]
    assert not reached
    assert [client.get(path, headers=PAGE).status_code for path in ("/healthz", "/readyz", "/metrics")] == [200] * 3
    assert client.post("/read").json() == "words" and reached == ["read"]
