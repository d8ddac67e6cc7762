"""Where commands find the services of the platform that runs here, whatever their own shell has set."""

import os
import time

import pytest
from typer.testing import CliRunner

from parallelsearch.cli import here
from parallelsearch.cli.main import create_app
from parallelsearch.supervisor import groups, launch, snapshot
from parallelsearch.supervisor.places import StateFolder
from parallelsearch.supervisor.plan import make_plan
from parallelsearch.supervisor.settings import from_environment
from parallelsearch.supervisor.snapshot import Phase, Snapshot

PORTS = {"GATEWAY_PORT": "24101", "RETRIEVER_PORT": "24102", "POLICY_PORT": "24103", "TRAINER_PORT": "24104"}
ELSEWHERE = "http://one.example:8000/v1,http://two.example:8000/v1"


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Writes down a platform that runs (as this process) with these variables, of which the shell has none."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PARALLELSEARCH_STATE_DIR", str(tmp_path / "state"))
    for name in (*PORTS, "POLICY_BASE_URL", "TRAINER_URL", "ADMIN_TOKEN"):
        monkeypatch.delenv(name, raising=False)

    def started(**environ):
        state = StateFolder(tmp_path / "state")
        state.make()
        plan = make_plan(from_environment({**environ, "PARALLELSEARCH_STATE_DIR": str(state.root)}, tmp_path), build_index=False)
        state.plan.write_bytes(launch.PLANS.dump_json(plan))
        snapshot.write(state.snapshot, Snapshot(groups.identify(os.getpid()), Phase.READY, (), time.time(), plan.url))

    return started


def addresses():
    return [here.gateway_url(None), *map(here.service_url, ("retriever", "policy", "trainer"))]


def test_services_are_asked_where_the_platform_that_runs_has_them(start):
    start(**PORTS)
    assert addresses() == [
        "http://127.0.0.1:24101",
        "http://127.0.0.1:24102",
        "http://127.0.0.1:24103/v1",
        "http://127.0.0.1:24104",
    ]
    told = CliRunner().invoke(create_app(), ["train", "list"])
    assert "http://127.0.0.1:24104" in str(told.exception)


def test_without_a_platform_they_are_asked_where_it_would_have_them(start, monkeypatch):
    assert addresses() == [f"http://127.0.0.1:{port}" for port in (8080, 8001, 8002, 8003)]
    monkeypatch.setenv("POLICY_BASE_URL", ELSEWHERE)
    assert here.service_url("policy") == "http://one.example:8000/v1"


def test_a_policy_elsewhere_is_asked_there(start):
    start(**PORTS, POLICY_BASE_URL=ELSEWHERE)
    assert here.service_url("policy") == "http://one.example:8000/v1"


def test_what_the_shell_has_set_goes_before_what_runs(start, monkeypatch):
    start(**PORTS)
    for number, name in enumerate(PORTS):
        monkeypatch.setenv(name, str(24201 + number))
    assert addresses() == [f"http://127.0.0.1:{port}" for port in (24201, 24202, 24203, 24204)]
