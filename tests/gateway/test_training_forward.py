import json
import time

import anyio
import httpx2
import pytest
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, StreamingResponse
from gateway_fakes import PASSAGES, fake_policy, fake_retriever
from live import live

from gateway.auth import new_key


def fake_trainer():
    app = FastAPI()
    app.state.open = 0

    @app.api_route("/v1/training-runs/{path:path}", methods=["GET", "POST", "DELETE"])
    @app.api_route("/v1/training-runs", methods=["GET", "POST", "DELETE"])
    async def echo(request: Request, path: str = ""):
        if path.endswith("logs"):
            return StreamingResponse(write(), media_type="text/plain; charset=utf-8")
        if path == "missing":
            return JSONResponse({"detail": "none"}, 404, media_type="application/problem+json")
        seen = {
            "method": request.method,
            "path": request.url.path,
            "query": request.url.query,
            "body": (await request.body()).decode(),
        }
        return JSONResponse(seen | {"headers": dict(request.headers)}, 201 if request.method == "POST" else 200)

    async def write():
        app.state.open += 1
        try:
            for line in range(1_000):
                yield f"line {line}\n"
                await anyio.sleep(0.05)
        finally:
            app.state.open -= 1

    @app.get("/secret")
    async def secret():
        return "secret"

    return app


@pytest.fixture
def forwarding(start_live):
    trainer = fake_trainer()
    with live(trainer) as server:
        yield start_live(fake_policy([]), fake_retriever(PASSAGES), trainer_url=server.url).url + "/v1/training-runs", trainer


def test_method_path_query_body_and_token_go_through(forwarding):
    url, _ = forwarding
    headers = {"authorization": "Bearer root", "idempotency-key": "k", "cookie": "c=1", "x-request-id": "abc"}
    answer = httpx2.post(f"{url}/r1/checkpoints/5/promote?a=1&b=%20", json={"x": 1}, headers=headers)
    seen = answer.json()
    assert answer.status_code == 201
    assert (seen["method"], seen["path"]) == ("POST", "/v1/training-runs/r1/checkpoints/5/promote")
    assert (seen["query"], json.loads(seen["body"])) == ("a=1&b=%20", {"x": 1})
    assert {name: seen["headers"].get(name) for name in (*headers, "content-type")} == {
        "authorization": "Bearer root",
        "idempotency-key": "k",
        "cookie": None,
        "x-request-id": "abc",
        "content-type": "application/json",
    }
    assert httpx2.delete(f"{url}/r1").json()["method"] == "DELETE"
    assert httpx2.get(url).json()["path"] == "/v1/training-runs"


def test_the_trainers_own_errors_come_back_as_they_are(forwarding):
    url, _ = forwarding
    answer = httpx2.get(f"{url}/missing")
    assert (answer.status_code, answer.json()) == (404, {"detail": "none"})
    assert answer.headers["content-type"] == "application/problem+json"


def test_logs_come_as_they_are_written_and_stop_when_nobody_reads(forwarding):
    url, trainer = forwarding
    started = time.monotonic()
    with httpx2.Client().stream("GET", f"{url}/r1/logs?follow=true") as response:
        first = next(response.iter_lines())
    assert (first, time.monotonic() - started < 2) == ("line 0", True)
    until = time.monotonic() + 5
    while trainer.state.open:
        assert time.monotonic() < until
        time.sleep(0.02)


def test_other_routes_of_the_trainer_stay_out_of_reach(forwarding):
    url, _ = forwarding
    for path in ("/../../secret", "/%2e%2e/%2e%2e/secret", "/a/..%2f..%2fsecret"):
        assert b"secret" not in httpx2.get(httpx2.URL(url).copy_with(raw_path=b"/v1/training-runs" + path.encode())).content


def test_no_trainer_is_a_503_problem(start_gateway):
    client = start_gateway(fake_policy([]), fake_retriever(PASSAGES), trainer_url="http://127.0.0.1:9")
    answer = client.get("/v1/training-runs")
    assert (answer.status_code, answer.json()["type"].endswith("upstream-unavailable")) == (503, True)
    assert "trainer" in answer.json()["detail"]


def test_where_there_are_keys_reading_needs_one(start_gateway, tmp_path):
    path = tmp_path / "keys.json"
    path.write_text(json.dumps([new_key("a")[1].model_dump()]))
    client = start_gateway(fake_policy([]), fake_retriever(PASSAGES), api_keys_file=path, admin_token="root")
    assert client.get("/v1/training-runs").status_code == 401
    assert client.get("/v1/training-runs", headers={"authorization": "Bearer root"}).status_code == 503
