"""Rollouts that meet a fault, in the loop of OpenRLHF's real `MultiTurnAgentExecutor`, of both versions."""

import asyncio

import pytest
from agent_rollouts import ANSWER, LABEL, SEARCH, TOKENIZER, Retriever, execute, make_worker, prompt_of
from openrlhf_agent import SamplingParams, ScriptedEngine

from parallelsearch.rollout.types import StopReason
from trainer.records import Rollouts


@pytest.mark.anyio
async def test_a_retriever_fault_is_data_is_excluded_and_says_nothing_to_the_policy(agent, tmp_path):
    retriever = Retriever(down=1_000)
    worker = make_worker(tmp_path, retriever)
    response, _engine = await execute(agent, worker, SEARCH)
    record = Rollouts(tmp_path).new_facts({})[0]

    assert record.stop_reason is StopReason.RETRIEVAL_FAILED
    assert record.excluded
    assert sum(end - start for start, end in response["action_ranges"]) == 1
    assert "secret" not in TOKENIZER.decode(response["observation_tokens"])
    assert response["extra_logs"]["excluded"] == 1.0


@pytest.mark.anyio
@pytest.mark.parametrize("query", ["x" * 9_000, "Monet\0born", "\0", "Monet ## " + "y " * 5_000])
async def test_whatever_a_policy_asks_is_no_fault_of_the_retriever(agent, tmp_path, query):
    """Else it would be left out of the update, and nothing be learnt from it."""
    worker = make_worker(tmp_path, Retriever(), context_tokens=40_000, turn_tokens=12_000)
    search = f"<think> x </think>\n\n<search> {query} </search>"
    response, _ = await execute(agent, worker, search, ANSWER, params=SamplingParams(max_tokens=12_000))
    record = Rollouts(tmp_path).new_facts({})[0]

    assert (record.stop_reason, record.searches, record.excluded) == (StopReason.ANSWERED, 1, False)
    assert response["reward"] == pytest.approx(record.reward, rel=1e-4)


@pytest.mark.anyio
async def test_an_excluded_rollout_takes_the_mean_of_its_group_and_the_run_goes_on(agent, tmp_path):
    retriever = Retriever()
    worker = make_worker(tmp_path, retriever)
    executor = agent.AgentExecutor(worker)

    async def one(*script):
        engine = ScriptedEngine(TOKENIZER, *script)
        params = SamplingParams(max_tokens=300)
        return await executor.execute(prompt_of(), LABEL.model_dump_json(), params, 4000, TOKENIZER, engine)

    retriever.down = 9  # three attempts together, then three for each of the two queries
    broken = asyncio.create_task(one(SEARCH))
    await asyncio.sleep(0)
    whole = [asyncio.create_task(one(ANSWER)), asyncio.create_task(one("<think> x </think> <answer> Monet </answer>"))]
    rewards = [response["reward"] for response in await asyncio.gather(broken, *whole)]
    after = await one(SEARCH, ANSWER)

    assert rewards[0] == pytest.approx((rewards[1] + rewards[2]) / 2, rel=1e-4)
    assert retriever.probes >= 1
    assert after["reward"] == pytest.approx(1.8, rel=1e-4)


@pytest.mark.anyio
async def test_two_draws_of_a_question_in_flight_are_two_groups(agent, tmp_path):
    retriever = Retriever(down=9)
    worker = make_worker(tmp_path, retriever)
    first, second = (LABEL.model_copy(update={"draw": draw}) for draw in (3, 17))

    broken = asyncio.create_task(execute(agent, worker, SEARCH, label=first))
    await asyncio.sleep(0)
    others = [execute(agent, worker, ANSWER, label=first), execute(agent, worker, "no", "no", "no", "no", "no", label=second)]
    (excluded, _), (right, _), (wrong, _) = await asyncio.gather(broken, *others)

    assert excluded["reward"] == right["reward"] != wrong["reward"]
    assert {record.draw for record in Rollouts(tmp_path).new_facts({})} == {3, 17}


@pytest.mark.anyio
async def test_a_rollout_that_breaks_off_keeps_its_group_from_waiting(agent, tmp_path):
    retriever = Retriever(down=1_000)
    worker = make_worker(tmp_path, retriever)
    results = await asyncio.wait_for(
        asyncio.gather(execute(agent, worker, RuntimeError("engine gone")), execute(agent, worker, SEARCH), return_exceptions=True),
        timeout=10,
    )

    assert isinstance(results[0], RuntimeError)
    assert results[1][0]["reward"] == 0.0
