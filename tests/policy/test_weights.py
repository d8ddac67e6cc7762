import asyncio
import shutil
from pathlib import Path

import pytest
from tests.support.policy_fakes import FakeEngine, make_checkpoint

from parallelsearch.errors import InvalidInput, Overloaded, UpstreamUnavailable
from parallelsearch.protocol.observations import Layout
from parallelsearch.schemas.weights import WeightsRequest
from policy.candidates import Verifier
from policy.engines.interface import Device
from policy.model_shape import read_shape
from policy.staging import Staging
from policy.state import PolicyState, Served
from policy.weights import Limits, WeightChanger

pytestmark = pytest.mark.anyio


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def changer(tmp_path: Path, engine: FakeEngine) -> WeightChanger:
    initial, runs = make_checkpoint(tmp_path / "initial", "initial"), tmp_path / "runs"
    for mark in ("a", "b"):
        make_checkpoint(runs / mark, mark)
    staging = Staging(tmp_path / "swaps")
    staging.empty()
    state = PolicyState(Served("tiny", Device.CPU, Layout.LABELLED, 200), engine)
    return WeightChanger(state, Verifier((runs,), initial, read_shape(initial)), staging, initial, Limits(drain_s=0.2, load_s=0.2))


def request(checkpoint: str, step: int | None = None) -> WeightsRequest:
    return WeightsRequest(checkpoint=checkpoint, step=step)


async def test_a_change_loads_proves_and_counts_up(changer: WeightChanger, engine: FakeEngine) -> None:
    info = await changer.change(request("a", step=30))
    assert (info.version, info.step, engine.loaded, engine.probes) == ("2", 30, ["a"], 1)
    info = await changer.change(request("b"))
    assert (info.version, info.step, engine.loaded) == ("3", None, ["a", "b"])


async def test_a_refused_checkpoint_never_reaches_the_engine(changer: WeightChanger, engine: FakeEngine) -> None:
    with pytest.raises(InvalidInput):
        await changer.change(request("nowhere"))
    assert (changer.state.version, engine.loaded, engine.probes) == (1, [], 0)


async def test_weights_that_the_engine_rejects_are_rolled_back(changer: WeightChanger, engine: FakeEngine) -> None:
    await changer.change(request("a", step=1))
    engine.rejects = {"b"}
    with pytest.raises(UpstreamUnavailable, match="The old ones serve on"):
        await changer.change(request("b"))
    assert (changer.state.version, changer.state.step, engine.loaded) == (2, 1, ["a", "a"])
    assert changer.state.failure() is None and not changer.state.gate.closed


async def test_weights_that_cannot_generate_are_rolled_back(changer: WeightChanger, engine: FakeEngine) -> None:
    engine.wedged = True
    with pytest.raises(UpstreamUnavailable):
        await changer.change(request("a"))
    assert changer.state.version == 1
    assert engine.loaded == ["a", "initial"]


async def test_a_rollback_that_fails_is_a_failure_of_the_policy(changer: WeightChanger, engine: FakeEngine) -> None:
    engine.rejects = {"a", "initial"}
    with pytest.raises(UpstreamUnavailable):
        await changer.change(request("a"))
    assert "could not be loaded again" in (changer.state.failure() or "")


async def test_a_rollback_survives_the_deletion_of_what_was_served(
    changer: WeightChanger, engine: FakeEngine, tmp_path: Path
) -> None:
    await changer.change(request("a"))
    shutil.rmtree(tmp_path / "runs" / "a")
    engine.rejects = {"b"}
    with pytest.raises(UpstreamUnavailable):
        await changer.change(request("b"))
    assert engine.loaded == ["a", "a"]


async def test_only_the_served_weights_stay_staged(changer: WeightChanger, engine: FakeEngine) -> None:
    await changer.change(request("a"))
    await changer.change(request("b"))
    engine.rejects = {"a"}
    with pytest.raises(UpstreamUnavailable):
        await changer.change(request("a"))
    assert [path.name for path in changer.staging.folder.iterdir()] == ["3"] == [changer.current.name]


async def test_one_change_at_a_time(changer: WeightChanger) -> None:
    first = asyncio.create_task(changer.change(request("a")))
    await asyncio.sleep(0)
    with pytest.raises(Overloaded, match="Another change"):
        await changer.change(request("b"))
    assert (await first).version == "2"


async def test_a_generation_that_does_not_end_keeps_the_weights(changer: WeightChanger, engine: FakeEngine) -> None:
    async with changer.state.gate.passing():
        with pytest.raises(Overloaded, match="did not end"):
            await changer.change(request("a"))
    assert (changer.state.version, engine.loaded) == (1, [])


async def test_versions_under_load_are_those_of_the_weights(changer: WeightChanger, engine: FakeEngine) -> None:
    """Generations see the weights that the engine held when they began, and still holds when they end."""
    seen: list[tuple[int, str]] = []

    async def generate() -> None:
        async with changer.state.gate.passing():
            version, mark = changer.state.version, engine.loaded[-1] if engine.loaded else "initial"
            await asyncio.sleep(0.005)
            assert (version, mark) == (changer.state.version, engine.loaded[-1] if engine.loaded else "initial")
            seen.append((version, mark))

    async def load() -> None:
        for _ in range(20):
            await asyncio.gather(*(generate() for _ in range(4)))

    async with asyncio.TaskGroup() as group:
        group.create_task(load())
        for mark in ("a", "b", "a"):
            await changer.change(request(mark))
    assert set(seen) <= {(1, "initial"), (2, "a"), (3, "b"), (4, "a")}
    assert [version for version, _ in seen] == sorted(version for version, _ in seen)
    assert len(seen) == 80


async def test_weights_that_cannot_be_copied_leave_the_old_ones(changer: WeightChanger, engine: FakeEngine) -> None:
    shutil.rmtree(changer.staging.folder)
    changer.staging.folder.write_text("a file in the place of the folder, as a full disk in the place of room")
    with pytest.raises(UpstreamUnavailable, match=r"cannot be copied to .*\. The old weights serve on\.$"):
        await changer.change(request("a"))
    assert (changer.state.version, engine.loaded) == (1, [])
