import asyncio

import pytest

from parallelsearch.errors import Overloaded
from policy.gate import Gate

pytestmark = pytest.mark.anyio


async def until(condition) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0)


async def test_a_change_waits_for_those_inside_and_newcomers_wait_for_the_change() -> None:
    gate, finish, order = Gate(), asyncio.Event(), []

    async def running() -> None:
        async with gate.passing():
            await finish.wait()
            order.append("running")

    async def newcomer() -> None:
        async with gate.passing():
            order.append("newcomer")

    async def change() -> None:
        async with gate.alone(5):
            order.append("change")

    async with asyncio.TaskGroup() as group:
        group.create_task(running())
        await until(lambda: gate.inside == 1)
        group.create_task(change())
        await until(lambda: gate.closed)
        group.create_task(newcomer())
        await until(lambda: gate.waiting == 1)
        finish.set()
    assert order == ["running", "change", "newcomer"]
    assert (gate.inside, gate.waiting, gate.closed) == (0, 0, False)


async def test_a_generation_without_end_keeps_the_weights_and_opens_the_gate_again() -> None:
    gate = Gate()
    async with gate.passing():
        with pytest.raises(Overloaded, match="did not end within 0 s"):
            async with gate.alone(0.01):
                pytest.fail("a generation was inside")
    async with gate.passing():
        assert gate.inside == 1


async def test_a_second_change_is_refused() -> None:
    gate = Gate()
    async with gate.alone(1):
        with pytest.raises(Overloaded, match="Another change"):
            async with gate.alone(1):
                pytest.fail("two at once")
        assert gate.closed


async def test_the_wait_is_bounded() -> None:
    gate = Gate(max_waiting=0)
    async with gate.alone(1):
        with pytest.raises(Overloaded, match="many requests wait"):
            async with gate.passing():
                pytest.fail("the gate was closed")


async def test_a_cancelled_newcomer_leaves_no_trace() -> None:
    gate = Gate()

    async def newcomer() -> None:
        async with gate.passing():
            pytest.fail("the gate was closed")

    async with gate.alone(1):
        task = asyncio.create_task(newcomer())
        await until(lambda: gate.waiting == 1)
        task.cancel()
        await asyncio.wait([task])
        assert gate.waiting == 0


async def test_an_error_in_a_change_opens_the_gate() -> None:
    gate = Gate()
    with pytest.raises(RuntimeError):
        async with gate.alone(1):
            raise RuntimeError
    assert not gate.closed
