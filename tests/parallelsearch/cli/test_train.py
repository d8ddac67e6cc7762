import json

import httpx2
import pytest
from live import live
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route
from typer.testing import CliRunner

from parallelsearch.cli.failures import hint
from parallelsearch.cli.main import create_app
from parallelsearch.clients.trainer import TrainerClient
from parallelsearch.errors import InvalidInput, NotFound, ParallelSearchError, UpstreamUnavailable
from parallelsearch.schemas.training import RunState

SPEC = {"kind": "supervised", "name": "small", "model": "base", "data": "cold.jsonl"}
RUN = {"id": "run-1", "state": "queued", "spec": SPEC, "created_at": "2026-11-28T00:00:00"}


def trainer(request):
    """The trainer's answers, as far as the client asks."""
    path, token = request.url.path, request.headers.get("authorization")
    if request.method != "GET" and token != "Bearer t":
        return httpx2.Response(401, json={"detail": "needs the admin token"})
    if path.endswith("/logs"):
        return httpx2.Response(200, text=f"follow={request.url.params['follow']}\n")
    if path.endswith("/nobody"):
        return httpx2.Response(404, json={"detail": "There is no training run nobody."})
    if path.endswith("/dry-run"):
        return httpx2.Response(200, json={"command": ["a"], "environment": {}, "shell": "a"})
    if path.endswith("/metrics"):
        steps = [{"step": step, "values": {"reward": 0.5}} for step in (1, 2) if step > int(request.url.params["since"])]
        return httpx2.Response(200, json={"steps": steps})
    if path.endswith("/checkpoints"):
        return httpx2.Response(200, json={"checkpoints": [{"step": 5, "path": "/p", "bytes": 7, "created_at": "2026-11-28"}]})
    if path.endswith("/promote"):
        return httpx2.Response(200, json={"step": 5, "path": "/p", "version": "2"})
    if request.method == "POST":
        sent = json.loads(request.content)
        if sent != SPEC:
            return httpx2.Response(422, json={"detail": "odd: Extra inputs are not permitted"})
        return httpx2.Response(201, json=RUN | {"detail": request.headers.get("idempotency-key", "")})
    return httpx2.Response(200, json=page(request.url.params) if path.endswith("training-runs") else RUN)


def page(asked):
    """Of 2,500 runs, of which those in another state than `queued` are none."""
    first, limit = int(asked.get("cursor", "run-0").removeprefix("run-")) + 1, int(asked["limit"])
    if "failed" in asked.get_list("state"):
        return {"runs": [], "next": None}
    last = min(first + limit - 1, 2_500)
    runs = [RUN | {"id": f"run-{number}"} for number in range(first, last + 1)]
    return {"runs": runs, "next": f"run-{last}" if last < 2_500 else None}


@pytest.fixture
def client():
    return TrainerClient("http://trainer", token="t", transport=httpx2.MockTransport(trainer))


def test_runs_are_submitted_listed_shown_and_cancelled(client):
    assert client.submit(SPEC, "key").detail == "key"
    assert client.dry_run(SPEC).shell == "a"
    assert [run.id for run in client.list(limit=2).runs] == ["run-1", "run-2"]
    assert client.show("run-1").spec.name == "small"
    assert client.cancel("run-1").id == "run-1"
    assert client.promote("run-1", 5).version == "2"
    assert [step.step for step in client.metrics("run-1", since=1).steps] == [2]
    assert [checkpoint.step for checkpoint in client.checkpoints("run-1").checkpoints] == [5]
    assert "".join(client.logs("run-1", follow=True)) == "follow=true\n"


@pytest.mark.parametrize(("limit", "more"), [(1, True), (1_000, True), (2_001, True), (2_500, False), (9_999, False)])
def test_a_list_takes_as_many_pages_as_it_needs(client, limit, more):
    found = client.list(limit=limit)
    assert [run.id for run in found.runs] == [f"run-{number}" for number in range(1, min(limit, 2_500) + 1)]
    assert (found.next is not None) == more
    assert client.list([RunState.FAILED], limit=limit).runs == []


def test_the_command_lists_by_state_and_says_that_there_are_more_where_no_platform_was_started(tmp_path, monkeypatch):
    monkeypatch.setenv("PARALLELSEARCH_STATE_DIR", str(tmp_path / "none"))
    monkeypatch.delenv("ADMIN_TOKEN", raising=False)

    def answer(request):
        return JSONResponse(page(httpx2.QueryParams(request.url.query)))

    with live(Starlette(routes=[Route("/v1/training-runs", answer)])) as server:
        asked = (["--limit", "3"], ["--state", "failed", "--state", "cancelled"], ["--state", "done"])
        some, none, wrong = (CliRunner().invoke(create_app(), ["train", "list", "--url", server.url, *more]) for more in asked)

    assert [line.split()[0] for line in some.stdout.splitlines()] == ["run-1", "run-2", "run-3"]
    assert "--limit shows more" in some.stderr
    assert (none.stdout, none.stderr) == ("", "There are no runs in that state.\n")
    assert (wrong.exit_code, "'done' is not one of 'queued', 'running'" in wrong.stderr) == (2, True)
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("command", "body", "said"),
    [
        (["list"], {"runs": [], "next": None}, "There are no runs yet.\n"),
        (["metrics", "run-1"], {"steps": []}, "The run has written no metrics of such steps yet.\n"),
        (["checkpoints", "run-1"], {"checkpoints": []}, "The run has no checkpoints yet.\n"),
    ],
)
def test_where_there_is_nothing_to_list_a_person_is_told_so_and_a_script_reads_nothing(tmp_path, monkeypatch, command, body, said):
    monkeypatch.setenv("PARALLELSEARCH_STATE_DIR", str(tmp_path / "none"))
    with live(Starlette(routes=[Route("/{path:path}", lambda _: JSONResponse(body))])) as server:
        done = CliRunner().invoke(create_app(), ["train", *command, "--url", server.url])
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", said)


def test_a_specification_with_a_byte_order_mark_is_submitted(tmp_path, monkeypatch):
    monkeypatch.setenv("PARALLELSEARCH_STATE_DIR", str(tmp_path / "none"))
    monkeypatch.setenv("ADMIN_TOKEN", "t")
    spec = tmp_path / "spec.json"
    spec.write_bytes(b"\xef\xbb\xbf" + json.dumps(SPEC).encode())

    async def answer(request):
        return JSONResponse(RUN | {"spec": await request.json()}, 201)

    with live(Starlette(routes=[Route("/v1/training-runs", answer, methods=["POST"])])) as server:
        submitted = CliRunner().invoke(create_app(), ["train", "submit", str(spec), "--url", server.url])

    assert (submitted.exit_code, submitted.stdout.split()[0]) == (0, "run-1"), submitted.output


def test_what_the_trainer_refuses_is_told_in_its_words(client):
    with pytest.raises(InvalidInput, match="odd"):
        client.submit({"odd": 1})
    with pytest.raises(NotFound, match="nobody"):
        client.show("nobody")
    with pytest.raises(UpstreamUnavailable, match="admin token"):
        TrainerClient("http://trainer", transport=httpx2.MockTransport(trainer)).submit(SPEC)


@pytest.mark.parametrize("status", [429, 503])
def test_a_trainer_that_says_when_to_come_again_is_quoted(status):
    later = httpx2.Response(status, json={"detail": "Weights are being changed."}, headers={"retry-after": "7"})
    client = TrainerClient("http://trainer", transport=httpx2.MockTransport(lambda _: later))
    with pytest.raises(ParallelSearchError) as failure:
        client.promote("run-1", 5)
    assert hint(failure.value) == "Try again in 7 s."


def test_a_trainer_that_is_not_there_is_told_with_its_address_and_what_to_do():
    with pytest.raises(UpstreamUnavailable, match=r"cannot be reached at http://127\.0\.0\.1:9: .*make run"):
        TrainerClient("http://127.0.0.1:9").list()


@pytest.mark.parametrize("run_id", ["", ".", "..", "../x", "run-1/logs", "a b", "a?b", "a\nb", "é", "%2e"])
def test_what_is_no_id_of_a_run_is_said_and_not_asked_for(client, run_id):
    for ask in (
        client.show,
        client.cancel,
        client.metrics,
        client.checkpoints,
        lambda run_id: list(client.logs(run_id, follow=True)),
    ):
        with pytest.raises(InvalidInput, match="no id of a run"):
            ask(run_id)


@pytest.mark.parametrize("key", ["", " ", "é", "a\nb", "a "])
def test_a_key_or_token_that_cannot_be_sent_is_said(client, key):
    with pytest.raises(InvalidInput, match="key"):
        client.submit(SPEC, key)
    if key:
        with pytest.raises(InvalidInput, match="ADMIN_TOKEN"):
            TrainerClient("http://trainer", token=key)


@pytest.mark.parametrize("url", ["http://[::1", "http://a\nb", "http://host:port"])
def test_what_is_no_address_is_said(url):
    with pytest.raises(InvalidInput, match="no address"):
        TrainerClient(url)


@pytest.mark.parametrize("answer", [b"<html>", b"[]", b'{"runs": [{}]}', b'{"status": "ok"}'])
def test_an_answer_that_is_no_trainers_is_said(answer):
    other = httpx2.MockTransport(lambda request: httpx2.Response(200, content=answer))
    with pytest.raises(UpstreamUnavailable, match="http://other/v1/ is no trainer"):
        TrainerClient("http://other", transport=other).list()
