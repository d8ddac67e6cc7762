"""`bench` against a stand-in gateway: what is sent, what is counted, and how it ends."""

import json
import threading
import time
from itertools import islice

import pytest
from gateway_stand_in import gateway_stand_in, problem, trajectory
from typer.testing import CliRunner

from parallelsearch.cli.bench import Work
from parallelsearch.cli.benching import bodies
from parallelsearch.cli.main import create_app
from parallelsearch.clients.answers import GatewayProblem

FOUND = 200, {"results": [{"query": "x", "passages": [], "cached": False}]}


@pytest.fixture
def gateway():
    with gateway_stand_in() as stand_in:
        stand_in.answer = FOUND
        yield stand_in


@pytest.fixture
def bench(gateway):
    def run(*arguments):
        done = CliRunner().invoke(create_app(), ["bench", *arguments, "--seconds", "0.3", "--url", gateway.url])
        return done.exit_code, done.stdout

    return run


def test_each_number_of_clients_has_its_row(bench):
    code, shown = bench("--clients", "1", "--clients", "4", "--json")
    rows = json.loads(shown)["rows"]
    assert (code, [row["clients"] for row in rows]) == (0, [1, 4])
    for row in rows:
        assert row["answered"] > 0
        assert row["failed"] == 0
        assert 0 < row["p50_ms"] <= row["p99_ms"]
        assert row["per_s"] == pytest.approx(row["answered"] / 0.3, rel=0.5)


def test_searches_go_past_the_cache(bench, gateway):
    bench("--clients", "2")
    assert {(path, body["cache"]) for path, body, _ in gateway.seen} == {("/v1/search", "bypass")}


def test_past_the_cache_no_two_searches_are_the_same_and_with_it_questions_come_again():
    past, through = ([body.queries[0] for body in islice(bodies(Work.SEARCH, cache), 500)] for cache in ("bypass", "use"))
    assert len(set(past)) == 500
    assert len(set(through)) < 100


def test_answers_are_measured_too(bench, gateway):
    gateway.answer = 200, trajectory().model_dump(mode="json")
    code, shown = bench("ask", "--clients", "2")
    assert (code, "p99 ms" in shown) == (0, True)
    assert {path for path, _, _ in gateway.seen} == {"/v1/answers"}


def test_what_fails_on_the_way_is_counted(bench, gateway):
    def overload():
        while len(gateway.seen) < 3:
            time.sleep(0.001)
        gateway.answer = problem(503, "overloaded", "All places are taken.")

    threading.Thread(target=overload, daemon=True).start()
    code, shown = bench("--clients", "1", "--json")
    row = json.loads(shown)["rows"][0]
    assert (code, row["answered"] > 0, row["failed"] > 0) == (1, True, True)


def test_what_the_first_request_runs_into_is_said_and_nothing_is_measured(gateway):
    gateway.answer = problem(401, "unauthorized", "This API needs a key.")
    done = CliRunner().invoke(create_app(), ["bench", "--url", gateway.url])
    assert isinstance(done.exception, GatewayProblem)
    assert len(gateway.seen) == 1
