"""Our environment in the loop of OpenRLHF's real `MultiTurnAgentExecutor`, of both versions."""

import asyncio
import json

import pytest
from agent_rollouts import (
    AGAIN,
    ANSWER,
    LABEL,
    SEARCH,
    TOKENIZER,
    Retriever,
    execute,
    learnt_text,
    make_worker,
    prompt_of,
    spec,
)
from openrlhf_agent import SamplingParams

from parallelsearch.rollout.types import StopReason
from trainer.records import Rollouts
from trainer.worker import Worker


@pytest.mark.anyio
async def test_a_rollout_is_scored_and_only_the_policys_tokens_are_learnt(agent, tmp_path):
    retriever = Retriever()
    response, _engine = await execute(agent, make_worker(tmp_path, retriever), SEARCH, ANSWER)

    assert response["reward"] == pytest.approx(1.8, rel=1e-4)
    assert response["scores"] == 1.0
    assert learnt_text(response) == [SEARCH, ANSWER]
    assert len(response["rollout_log_probs"]) == len(response["observation_tokens"])
    assert retriever.searches == [["Monet born", "Pissarro born"]]
    assert all(isinstance(value, float) for value in response["extra_logs"].values())


@pytest.mark.anyio
async def test_each_generation_is_one_turn_with_stop_strings_and_a_cap(agent, tmp_path):
    given = SamplingParams(max_tokens=300, logprobs=None)
    _, engine = await execute(agent, make_worker(tmp_path, Retriever(), turn_tokens=200), SEARCH, ANSWER, params=given)

    for _, params in engine.asked:
        assert params.stop == ["</search>", "</answer>"]
        assert params.include_stop_str_in_output
        assert params.max_tokens == 200
    assert given == SamplingParams(max_tokens=300, logprobs=None)


@pytest.mark.anyio
async def test_a_context_that_is_full_ends_the_rollout_with_a_reward(agent, tmp_path):
    room = len(TOKENIZER.encode(prompt_of(), add_special_tokens=False)) + 300 + len(SEARCH) + 50
    worker = make_worker(tmp_path, Retriever(), context_tokens=room)
    response, engine = await execute(agent, worker, SEARCH)
    record = Rollouts(tmp_path).new_facts({})[0]

    assert record.stop_reason is StopReason.CONTEXT_LIMIT
    assert response["reward"] == pytest.approx(0.8, rel=1e-4)
    assert len(response["observation_tokens"]) <= room
    assert len(engine.asked) == 1


@pytest.mark.anyio
async def test_a_prompt_without_room_is_not_cut_and_nothing_is_generated(agent, tmp_path):
    worker = make_worker(tmp_path, Retriever(), context_tokens=1400)
    question = "Why " * 300
    response, engine = await execute(agent, worker, question=question, label=LABEL.model_copy(update={"question": question}))

    assert engine.asked == []
    assert len(response["action_ranges"]) == 1
    assert Rollouts(tmp_path).new_facts({})[0].stop_reason is StopReason.CONTEXT_LIMIT


@pytest.mark.anyio
async def test_searches_in_flight_are_bounded(agent, tmp_path):
    retriever = Retriever()
    worker = make_worker(tmp_path, retriever, concurrency=2)
    await asyncio.gather(*(execute(agent, worker, SEARCH, ANSWER) for _ in range(8)))

    assert retriever.most_at_once == 2


@pytest.mark.anyio
async def test_evaluation_rows_give_exact_match(agent, tmp_path):
    label = LABEL.model_copy(update={"split": "eval"})
    response, _ = await execute(agent, make_worker(tmp_path, Retriever()), SEARCH, ANSWER, label=label)

    assert response["reward"] == 1.0
    assert Rollouts(tmp_path).new_facts({})[0].split == "eval"


@pytest.mark.anyio
async def test_records_hold_the_facts_and_a_sample_can_be_scored_again(agent, tmp_path):
    await execute(agent, make_worker(tmp_path, Retriever()), SEARCH, AGAIN, ANSWER)
    record = Rollouts(tmp_path).new_facts({})[0]
    sample = json.loads(next((tmp_path / "rollouts").glob("samples-*")).read_text())

    assert (record.searches, record.repeated_searches, record.decomposed, record.matched) == (1, 1, True, True)
    assert record.reward == pytest.approx(1.8 - 0.35)
    assert sample["kind"] == "parallel"
    assert sample["turns"][1]["repeated"] is True


@pytest.mark.anyio
async def test_a_reward_of_ones_own_is_found_by_its_import_path(agent, tmp_path, monkeypatch):
    (tmp_path / "my_reward.py").write_text(
        "from dataclasses import replace\nfrom parallelsearch.reward.scoring import score\n\n"
        "def reward(trajectory, kind, golden):\n    return replace(score(trajectory, kind, golden), value=42.0)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    run = spec().model_copy(update={"reward": spec().reward.model_copy(update={"function": "my_reward:reward"})})
    worker = Worker(run, tmp_path, Retriever().client)
    response, _ = await execute(agent, worker, ANSWER)

    assert response["reward"] == 42.0
