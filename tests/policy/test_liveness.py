import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from tests.support.policy_fakes import FakeEngine

from parallelsearch.protocol.observations import Layout
from policy.engines.interface import Device
from policy.liveness import watch
from policy.state import PolicyState, Served

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def watched(engine: FakeEngine) -> AsyncIterator[PolicyState]:
    state = PolicyState(Served("tiny", Device.CPU, Layout.LABELLED, 200), engine)
    task = asyncio.create_task(watch(state, beat_s=0.005, patience_s=0.05))
    yield state
    task.cancel()
    await asyncio.wait([task])


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.002)


async def test_an_idle_engine_is_asked_and_is_fine() -> None:
    engine = FakeEngine()
    async with watched(engine) as state:
        await until(lambda: engine.probes > 3)
        assert state.failure() is None


async def test_a_wedged_engine_is_noticed_and_so_is_its_recovery() -> None:
    engine = FakeEngine(wedged=True)
    async with watched(engine) as state:
        await until(lambda: state.stalled)
        assert state.failure() == "The engine makes no progress."
        engine.wedged = False
        await until(lambda: not state.stalled)


async def test_a_busy_engine_that_has_no_time_for_us_is_fine() -> None:
    engine = FakeEngine(wedged=True)
    async with watched(engine) as state:
        for _ in range(50):
            engine.tokens += 1
            await asyncio.sleep(0.002)
            assert not state.stalled


async def test_a_long_change_of_weights_is_no_stall() -> None:
    engine = FakeEngine(wedged=True)
    async with watched(engine) as state, state.gate.alone(1):
        await asyncio.sleep(0.15)
        assert not state.stalled
