import hashlib
import re
from importlib.util import find_spec
from pathlib import Path

import httpx2
import pytest
from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from tests.support.loopback import ADDRESS
from tests.support.policy_fakes import FakeEngine, make_checkpoint
from tests.support.traces import read_spans

from parallelsearch.protocol.observations import Layout
from parallelsearch.schemas.weights import PolicyInfo
from policy.candidates import Verifier
from policy.commands import is_command
from policy.engines.interface import Device
from policy.model_shape import read_shape
from policy.serving import add_policy
from policy.settings import PolicySettings
from policy.staging import Staging
from policy.state import PolicyState, Served
from policy.weights import WeightChanger
from servicekit.tracing import Tracing

pytestmark = pytest.mark.anyio


TOKEN = "secret"
ADMIN = {"authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def client(tmp_path: Path) -> httpx2.AsyncClient:
    return client_of(state_of(FakeEngine()), tmp_path)


def client_of(state: PolicyState, folder: Path, token: str | None = TOKEN, tracing: Tracing | None = None) -> httpx2.AsyncClient:
    """An application with a generating route, as vLLM's has, and ours."""
    app = FastAPI()

    @app.post("/v1/completions")
    async def completions() -> StreamingResponse:
        return StreamingResponse(iter([b"data: 1\n\n", b"data: [DONE]\n\n"]), media_type="text/event-stream")

    @app.post("/scale_elastic_ep")
    @app.post("/v1/load_lora_adapter")
    @app.post("/update_weights")
    @app.put("/something_of_the_next_release")
    async def command() -> str:
        return "done"

    @app.post("/tokenize")
    async def tokenize() -> dict[str, int]:
        return {"count": 0}

    initial, runs, staging = make_checkpoint(folder / "initial"), folder / "runs", Staging(folder / "swaps")
    make_checkpoint(runs / "a", "a")
    staging.empty()
    changer = WeightChanger(state, Verifier((runs,), initial, read_shape(initial)), staging, initial)
    add_policy(app, state, changer, PolicySettings(admin_token=token, max_body_bytes=1_000), tracing)
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url=ADDRESS)


def state_of(engine: FakeEngine) -> PolicyState:
    return PolicyState(Served("tiny", Device.CPU, Layout.LABELLED, 200), engine)


async def test_the_policy_says_what_it_is(client: httpx2.AsyncClient) -> None:
    async with client:
        answer = await client.get("/v1/policy")
    assert PolicyInfo.model_validate_json(answer.content) == PolicyInfo(
        model="tiny",
        version="1",
        step=None,
        engine="fake 1",
        device="cpu",
        context_length=128,
        layout=Layout.LABELLED,
        turn_tokens=200,
        special_tokens=["<|im_end|>", "<|im_start|>"],
    )


async def test_the_tokenizer_is_handed_out_under_its_fingerprint(tmp_path: Path) -> None:
    async with client_of(state_of(FakeEngine(tokenizer='{"model": "é"}')), tmp_path) as client:
        described, handed_out = await client.get("/v1/policy"), await client.get("/v1/policy/tokenizer")
    assert handed_out.json() == {"model": "é"}
    assert described.json()["tokenizer"] == hashlib.sha256(handed_out.content).hexdigest()


async def test_a_tokenizer_without_that_form_is_404(client: httpx2.AsyncClient) -> None:
    async with client:
        described, missing = await client.get("/v1/policy"), await client.get("/v1/policy/tokenizer")
    assert (described.json()["tokenizer"], missing.status_code) == ("", 404)


async def test_completions_carry_the_version_and_others_do_not(tmp_path: Path) -> None:
    state = state_of(FakeEngine())
    async with client_of(state, tmp_path) as client:
        first = await client.post("/v1/completions")
        state.version = 2
        second = await client.post("/v1/completions")
        other = await client.post("/tokenize")
    assert [answer.headers.get("x-policy-version") for answer in (first, second, other)] == ["1", "2", None]
    assert second.text.endswith("[DONE]\n\n")


async def test_a_generation_goes_on_with_its_caller_s_trace(tmp_path: Path) -> None:
    tracing = Tracing("policy", file=tmp_path / "traces.jsonl")
    trace, caller = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    async with client_of(state_of(FakeEngine()), tmp_path, tracing=tracing) as client:
        await client.post("/v1/completions", headers={"traceparent": f"00-{trace}-{caller}-01"})
        await client.get("/readyz")
    tracing.close()
    (span,) = read_spans(tmp_path / "traces.jsonl")
    assert (span.service, span.name, span.trace, span.parent) == ("policy", "POST /v1/completions", f"0x{trace}", f"0x{caller}")


async def test_a_healthy_engine_is_alive_and_ready(client: httpx2.AsyncClient) -> None:
    async with client:
        alive, ready = await client.get("/healthz"), await client.get("/readyz")
    assert (alive.status_code, ready.status_code) == (200, 200)
    assert ready.json() == {"status": "ready", "checks": {"engine": "generates", "version": "1"}}


async def test_a_dead_engine_is_neither(tmp_path: Path) -> None:
    async with client_of(state_of(FakeEngine(failure="The engine has died.")), tmp_path) as client:
        alive, ready = await client.get("/healthz"), await client.get("/readyz")
    assert (alive.status_code, ready.status_code) == (503, 503)
    assert ready.json()["checks"]["engine"] == "The engine has died."


async def test_a_stalled_engine_is_neither(tmp_path: Path) -> None:
    state = state_of(FakeEngine())
    state.stalled = True
    async with client_of(state, tmp_path) as client:
        alive = await client.get("/healthz")
    assert (alive.status_code, alive.json()) == (503, {"status": "The engine makes no progress."})


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/policy/weights"])
async def test_a_body_beyond_the_limit_is_refused(client: httpx2.AsyncClient, path: str) -> None:
    async with client:
        answer = await client.post(path, content=b"x" * 2_000, headers=ADMIN)
    assert (answer.status_code, answer.headers["content-type"]) == (413, "application/problem+json")


async def test_weights_change_with_the_admin_token(client: httpx2.AsyncClient) -> None:
    async with client:
        answer = await client.post("/v1/policy/weights", json={"checkpoint": "a", "step": 7}, headers=ADMIN)
        completion = await client.post("/v1/completions")
        exposed = await client.get("/v1/policy")
    assert (answer.status_code, answer.json()["version"], answer.json()["step"]) == (200, "2", 7)
    assert completion.headers["x-policy-version"] == "2"
    assert exposed.json() == answer.json()


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer wrong"}, {"authorization": TOKEN}])
async def test_weights_do_not_change_without_it(client: httpx2.AsyncClient, headers: dict[str, str]) -> None:
    async with client:
        answer = await client.post("/v1/policy/weights", json={"checkpoint": "a"}, headers=headers)
    assert (answer.status_code, answer.headers["content-type"]) == (401, "application/problem+json")


async def test_weights_are_closed_where_no_token_is_set(tmp_path: Path) -> None:
    async with client_of(state_of(FakeEngine()), tmp_path, token=None) as client:
        answer = await client.post("/v1/policy/weights", json={"checkpoint": "a"}, headers=ADMIN)
    assert (answer.status_code, answer.json()["type"]) == (403, "urn:parallelsearch:problem:forbidden")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"{}", "checkpoint"),
        (b'{"checkpoint": ""}', "checkpoint"),
        (b'{"checkpoint": "a\\u0000b"}', "checkpoint"),
        (b'{"checkpoint": "a", "step": -1}', "step"),
        (b'{"checkpoint": "a", "force": true}', "force"),
        (b'{"checkpoint": ', "body"),
    ],
)
async def test_a_bad_request_names_its_field(client: httpx2.AsyncClient, body: bytes, field: str) -> None:
    async with client:
        headers = ADMIN | {"content-type": "application/json"}
        answer = await client.post("/v1/policy/weights", content=body, headers=headers)
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")
    assert answer.json()["errors"][0]["field"] == field


async def test_a_refused_checkpoint_is_a_problem_that_says_why(client: httpx2.AsyncClient) -> None:
    async with client:
        answer = await client.post("/v1/policy/weights", json={"checkpoint": "../initial/.."}, headers=ADMIN)
    assert answer.status_code == 422
    assert "below an allowed root" in answer.json()["detail"]


COMMANDS = ["POST /scale_elastic_ep", "POST /v1/load_lora_adapter", "POST /update_weights", "PUT /something_of_the_next_release"]


@pytest.mark.parametrize("command", COMMANDS)
async def test_vllm_s_own_commands_are_the_admin_s_alone(client: httpx2.AsyncClient, tmp_path: Path, command: str) -> None:
    method, path = command.split()
    for headers, status in (({}, 401), ({"authorization": "Bearer no"}, 401), (ADMIN, 200)):
        answered = await client.request(method, path, headers=headers)
        assert answered.status_code == status
    closed = client_of(state_of(FakeEngine()), tmp_path / "closed", token=None)
    refused = await closed.request(method, path, headers=ADMIN)
    assert (refused.status_code, refused.headers["content-type"]) == (403, "application/problem+json")


async def test_what_generates_needs_no_token(client: httpx2.AsyncClient) -> None:
    for path in ("/v1/completions", "/tokenize"):
        assert (await client.post(path)).status_code == 200


OPENED = {
    *("/v1/completions", "/v1/completions/render", "/v1/completions/derender", "/generative_scoring", "/inference/v1/generate"),
    *(f"/v1/chat/completions{end}" for end in ("", "/batch", "/render", "/derender")),
    *("/v1/responses", "/v1/responses/render", "/v1/responses/{response_id}/cancel", "/v1/systemone"),
    *("/v1/messages", "/v1/messages/render", "/v1/messages/count_tokens", "/cohere/v2/chat", "/cohere/v2/chat/render"),
    *("/tokenize", "/detokenize", "/invocations", "/ping", "/v1/audio/transcriptions", "/v1/audio/translations"),
    *("/v1/embeddings", "/v2/embed", "/v1/rerank", "/v2/rerank", "/rerank", "/v1/score", "/score", "/classify", "/pooling"),
}


def test_what_the_installed_vllm_lets_anybody_call_is_known() -> None:
    """A release that adds a route below an open path has to be looked at: is it a command?"""
    vllm = find_spec("vllm")
    if vllm is None or vllm.origin is None:
        pytest.skip("no vLLM is installed")
    found: set[str] = set()
    for file in (Path(vllm.origin).parent / "entrypoints").rglob("*.py"):
        found |= set(re.findall(r"router\.(?:post|put|delete)\(\s*\"(/[^\"]*)\"", file.read_text()))
    opened = {path for path in found if not is_command({"type": "http", "method": "POST", "path": path})}
    assert "/scale_elastic_ep" in found - opened
    assert opened <= OPENED, sorted(opened - OPENED)


async def test_a_page_that_points_its_name_here_reaches_neither_ours_nor_the_engines_routes(client: httpx2.AsyncClient) -> None:
    async with client:
        for method, path in (("GET", "/v1/policy"), ("POST", "/v1/completions"), ("POST", "/tokenize")):
            refused = await client.request(method, path, headers={"host": "evil.example"})
            assert refused.status_code == 403 and "POLICY_ALLOWED_HOSTS" in refused.text
        assert (await client.get("/healthz", headers={"host": "evil.example"})).status_code == 200
