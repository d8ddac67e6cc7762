import httpx2
import pytest
from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from tests.support.policy_fakes import FakeEngine

from parallelsearch.protocol.observations import Layout
from parallelsearch.schemas.weights import PolicyInfo
from policy.engines.interface import Device
from policy.serving import add_policy
from policy.state import PolicyState, Served

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def client_of(state: PolicyState) -> httpx2.AsyncClient:
    """An application with a generating route, as vLLM's has, and ours."""
    app = FastAPI()

    @app.post("/v1/completions")
    async def completions() -> StreamingResponse:
        return StreamingResponse(iter([b"data: 1\n\n", b"data: [DONE]\n\n"]), media_type="text/event-stream")

    @app.post("/tokenize")
    async def tokenize() -> dict[str, int]:
        return {"count": 0}

    add_policy(app, state, max_body_bytes=1_000)
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://policy")


def state_of(engine: FakeEngine) -> PolicyState:
    return PolicyState(Served("tiny", Device.CPU, Layout.LABELLED, 200), engine)


async def test_the_policy_says_what_it_is() -> None:
    async with client_of(state_of(FakeEngine())) as client:
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
        special_tokens=["<|im_end|>"],
    )


async def test_completions_carry_the_version_and_others_do_not() -> None:
    state = state_of(FakeEngine())
    async with client_of(state) as client:
        first = await client.post("/v1/completions")
        state.version = 2
        second = await client.post("/v1/completions")
        other = await client.post("/tokenize")
    assert [answer.headers.get("x-policy-version") for answer in (first, second, other)] == ["1", "2", None]
    assert second.text.endswith("[DONE]\n\n")


async def test_a_healthy_engine_is_alive_and_ready() -> None:
    async with client_of(state_of(FakeEngine())) as client:
        alive, ready = await client.get("/healthz"), await client.get("/readyz")
    assert (alive.status_code, ready.status_code) == (200, 200)
    assert ready.json() == {"status": "ready", "checks": {"engine": "generates", "version": "1"}}


async def test_a_dead_engine_is_neither() -> None:
    async with client_of(state_of(FakeEngine(failure="The engine has died."))) as client:
        alive, ready = await client.get("/healthz"), await client.get("/readyz")
    assert (alive.status_code, ready.status_code) == (503, 503)
    assert ready.json()["checks"]["engine"] == "The engine has died."


async def test_a_stalled_engine_is_neither() -> None:
    state = state_of(FakeEngine())
    state.stalled = True
    async with client_of(state) as client:
        alive = await client.get("/healthz")
    assert (alive.status_code, alive.json()) == (503, {"status": "The engine makes no progress."})
