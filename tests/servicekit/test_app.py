import asyncio
import json
import re
import resource
from enum import StrEnum
from typing import Annotated, Literal

import pytest
from fastapi import Depends, FastAPI, HTTPException, Request, UploadFile
from fastapi.testclient import TestClient
from pydantic import BaseModel, Field, SecretStr, model_validator

from parallelsearch.errors import InvalidInput, Overloaded, ParallelSearchError
from servicekit.app import create_app
from servicekit.auth import require_admin
from servicekit.bodies import read_body
from servicekit.errors import error_headers
from servicekit.health import Readiness


class Body(BaseModel):
    name: str


class Colour(StrEnum):
    RED = "red"


class Circle(BaseModel):
    form: Literal["circle"]
    paint: dict[str, Literal[Colour.RED]] = {}
    inside: list[Body] = []


class Square(BaseModel):
    form: Literal["square"]
    side: int

    @model_validator(mode="after")
    def _has_a_side(self):
        assert self.side > 0
        return self


@pytest.fixture
def client():
    async def ready() -> Readiness:
        return Readiness("starting", {"index": "loading"})

    app: FastAPI = create_app("test", errors=ParallelSearchError, ready=ready, max_body_bytes=100)

    @app.post("/echo")
    async def echo(body: Body) -> str:
        return body.name

    @app.post("/read")
    async def read(request: Request) -> str:
        return (await read_body(request, Body)).name

    @app.post("/draw")
    async def draw(shape: Annotated[Circle | Square, Field(discriminator="form")]) -> str:
        return shape.form

    @app.get("/overloaded")
    async def overloaded() -> None:
        raise Overloaded("The queue is full.", retry_after_s=0.2, extensions={"queue": 7})

    @app.get("/bad")
    async def bad() -> None:
        raise InvalidInput("index: no such index")

    @app.get("/refused/{status}")
    async def refused(status: int) -> None:
        raise HTTPException(status, "Say it otherwise.")

    @app.get("/bug")
    async def bug() -> None:
        raise KeyError("secret words")

    def admin(request: Request) -> None:
        require_admin(request, SecretStr("s3cret"))

    @app.post("/admin", dependencies=[Depends(admin)])
    async def administer() -> str:
        return "done"

    return TestClient(app)


def test_own_errors_are_problems_with_stable_type_and_retry_after(client):
    response = client.get("/overloaded", headers={"x-request-id": "mine"})
    assert (response.status_code, response.headers["retry-after"]) == (503, "1")
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json() == {
        "type": "urn:parallelsearch:problem:overloaded",
        "title": "Overloaded",
        "status": 503,
        "detail": "The queue is full.",
        "request_id": "mine",
        "queue": 7,
    }


def test_an_unexpected_error_is_a_500_problem_without_its_words(client):
    response = client.get("/bug")
    assert response.status_code == 500
    assert "secret words" not in response.text
    assert response.json()["request_id"] == response.headers["x-request-id"]


def test_validation_names_the_field(client):
    assert client.post("/echo", json={"name": 3}).json()["errors"][0]["field"] == "name"
    assert client.post("/echo", content=b"{", headers={"content-type": "application/json"}).json()["errors"][0]["field"] == "body"


@pytest.mark.parametrize(
    ("body", "field", "words"),
    [
        ({"form": "circle", "paint": {"rim": "blue"}}, "paint.rim", "Input should be 'red'"),
        ({"form": "circle", "inside": [{"name": "a"}, {"name": 3}]}, "inside.1.name", "valid string"),
        ({"form": "circle", "inside": [{}]}, "inside.0.name", "Field required"),
        ({"form": "square"}, "side", "Field required"),
        ({"form": "square", "side": "x"}, "side", "valid integer"),
        ({"form": "square", "side": 0}, "body", "Assertion failed"),
        ({"form": "line"}, "form", "must be one of 'circle', 'square'"),
        ({"form": ["circle"]}, "form", "must be one of"),
        ({}, "form", "Field required"),
    ],
)
def test_the_field_is_named_as_the_body_has_it_whatever_form_it_went_by(client, body, field, words):
    fault = client.post("/draw", json=body).json()["errors"][0]
    assert fault["field"] == field
    assert words in fault["message"]


def test_a_body_over_the_limit_is_413_with_and_without_content_length(client):
    big = json.dumps({"name": "x" * 200}).encode()
    assert client.post("/echo", content=big).status_code == 413
    assert client.post("/echo", content=iter([big[:50], big[50:]])).status_code == 413


@pytest.mark.parametrize("given", ["", "with space", "x" * 65, "<script>"])
def test_a_strange_request_id_is_replaced(client, given):
    assert client.get("/bad", headers={"x-request-id": given}).headers["x-request-id"] != given


def test_a_refusal_of_ours_names_its_field_as_validation_does(client):
    problem = client.get("/bad").json()
    assert problem["detail"] == "index: no such index"
    assert problem["errors"] == [{"field": "index", "message": "no such index"}]


def test_unknown_routes_and_methods_are_problems_that_say_what_to_do(client):
    unknown, wrong = client.get("/nope"), client.get("/echo")
    assert unknown.json()["type"].endswith("not-found")
    assert "/docs" in unknown.json()["detail"]
    assert (wrong.json()["status"], wrong.headers["allow"]) == (405, "POST")
    assert "Allow" in wrong.json()["detail"]


@pytest.mark.parametrize(
    ("status", "code"),
    [(401, "unauthorized"), (409, "conflict"), (413, "content-too-large"), (415, "unsupported-media-type"), (599, "http-error")],
)
def test_each_status_has_a_type_of_its_own(client, status, code):
    problem = client.get(f"/refused/{status}").json()
    assert (problem["status"], problem["type"], problem["detail"]) == (
        status,
        f"urn:parallelsearch:problem:{code}",
        "Say it otherwise.",
    )


def test_health_and_readiness_differ(client):
    assert client.get("/healthz").status_code == 200
    response = client.get("/readyz")
    assert (response.status_code, response.json()) == (503, {"status": "starting", "checks": {"index": "loading"}})


def test_metrics_count_requests_by_route_and_not_by_path(client):
    client.get("/bad")
    client.get("/no/such/1")
    text = client.get("/metrics").text
    assert 'parallelsearch_http_requests_total{method="GET",path="/bad",status="422"}' in text
    assert "/no/such/1" not in text


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ({}, 401),
        ({"authorization": "Bearer wrong"}, 401),
        ({"authorization": "Basic s3cret"}, 401),
        ({"authorization": "Bearer s3cret"}, 200),
    ],
)
def test_admin_routes_need_the_token(client, header, status):
    assert client.post("/admin", headers=header).status_code == status


def test_the_documentation_loads_nothing_from_another_host(client):
    page = client.get("/docs")
    loaded = re.findall(r'(?:src|href)="([^"]+)"', page.text) + re.findall(r"url: '([^']+)'", page.text)
    assert {path.rpartition(".")[2] for path in loaded} >= {"js", "css", "json"}
    for path in loaded:
        assert path.startswith("/"), path
        assert client.get(path).status_code == 200, path
    assert client.get("/redoc").status_code == 404


async def hung_up():
    return {"type": "http.disconnect"}


@pytest.mark.anyio
async def test_a_caller_who_hangs_up_with_its_body_is_no_error_of_ours(client, capsys):
    sent = []

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/read", "raw_path": b"/read", "query_string": b"", "headers": []}
    await client.app(scope, hung_up, send)
    assert sent == []
    assert "unexpected_error" not in "".join(capsys.readouterr())
    assert 'requests_total{method="POST",path="/read",status="499"}' in client.get("/metrics").text


@pytest.mark.anyio
async def test_what_is_not_done_when_the_service_ends_is_answered_503():
    app, begun, sent = create_app("test", errors=ParallelSearchError), asyncio.Event(), []

    @app.get("/slow")
    async def slow() -> None:
        begun.set()
        await asyncio.sleep(60)

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": "/slow", "raw_path": b"/slow", "query_string": b"", "headers": []}
    serving = asyncio.create_task(app(scope, receive, send))
    await begun.wait()
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
    start, body = sent
    assert (start["status"], dict(start["headers"])[b"retry-after"]) == (503, b"1")
    assert json.loads(body["body"])["type"].endswith(":stopping")


@pytest.mark.parametrize(("wait_s", "header"), [(0, "1"), (0.2, "1"), (1, "1"), (1.4, "2"), (59.01, "60")])
def test_whoever_waits_as_long_as_retry_after_says_has_waited_long_enough(wait_s, header):
    assert error_headers(503, wait_s) == {"Retry-After": header}


def test_a_form_for_which_there_is_no_room_is_no_fault_of_its_sender():
    app = create_app("t", errors=ValueError, max_body_bytes=10_000_000)

    @app.post("/files")
    async def take(files: list[UploadFile]) -> int:
        return len(files)

    client = TestClient(app)
    large = [("files", ("a.txt", b"x" * 3_000_000))]
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, most))
    try:
        refused = client.post("/files", files=large)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    assert refused.status_code == 507, refused.text
    assert refused.headers["content-type"] == "application/problem+json"
    assert "File too large" in refused.json()["detail"]
    assert client.post("/files", files=large).json() == 1
