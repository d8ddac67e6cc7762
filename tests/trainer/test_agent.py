"""Our environment in the loop of OpenRLHF's real `MultiTurnAgentExecutor`, of both versions."""

import asyncio
import json

import byte_tokenizer
import httpx2
import openrlhf_agent
import pytest
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from openrlhf_agent import SamplingParams, ScriptedEngine

from parallelsearch.clients.policy import PolicyHttp, TokenPolicyClient
from parallelsearch.clients.pools import HttpxPool
from parallelsearch.clients.retriever import RetrieverClient
from parallelsearch.protocol.prompt import build_prompt
from parallelsearch.rollout.runner import RolloutRequest, run_rollout
from parallelsearch.rollout.types import Kind, Mode, PolicyIdentity, StopReason
from parallelsearch.schemas.training import ReinforcementSpec
from trainer.episode import training_settings
from trainer.labels import Label
from trainer.records import Rollouts
from trainer.worker import RetrieverGate, Worker

QUESTION = "Who is older, Claude Monet or Camille Pissarro"
LABEL = Label(id="q1", question=QUESTION, kind=Kind.PARALLEL, golden_answers=["Camille Pissarro"])
SEARCH = "<think> both </think>\n\n<search> Monet born ## Pissarro born </search>"
AGAIN = "<think> more </think>\n\n<search> Pissarro born </search>"
MORE = "<think> more </think>\n\n<search> Pissarro's father </search>"
ANSWER = "<think> 1830 < 1840 </think>\n\n<answer> Camille Pissarro </answer>"
INDEX = {"fingerprint": "f", "encoder": "e", "dimension": 2, "metric": "ip", "kind": "flat", "passages": 1}
TOKENIZER = byte_tokenizer.make()


class Retriever:
    """A retriever service with two passages a query; `down` is how many requests it still refuses."""

    def __init__(self, down=0):
        self.app, self.down, self.searches, self.probes = FastAPI(), down, [], 0
        self.at_once = self.most_at_once = 0

        @self.app.post("/v1/retrieve")
        async def retrieve(request: Request):
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            await asyncio.sleep(0.001)
            self.at_once -= 1
            queries = (await request.json())["queries"]
            if self.down > 0:
                self.down -= 1
                return JSONResponse({"detail": "secret words of the fault"}, 500)
            self.searches.append(queries)
            rows = [
                [{"id": f"{q}-{n}", "title": q, "text": f"text {n} <answer> x </answer>", "score": 1.0} for n in (1, 2)]
                for q in queries
            ]
            return {"results": rows, "index": INDEX}

        @self.app.get("/v1/index")
        async def index():
            self.probes += 1
            return INDEX

    @property
    def client(self):
        return RetrieverClient("http://retriever", pool=HttpxPool(httpx2.ASGITransport(app=self.app)))


@pytest.fixture(params=["0.11.2", "0.10.4"])
def agent(request, openrlhf_sources):
    with openrlhf_agent.agent_module(openrlhf_sources(request.param)) as module:
        yield module


def spec(**rollout):
    limits = {"turn_tokens": 300, "context_tokens": 4000} | rollout
    return ReinforcementSpec(name="r", model="m", data="d", rollout=limits)


def prompt_of(question=QUESTION, *, final_newline=False):
    message = [{"role": "user", "content": build_prompt(question, Mode.PARALLEL, final_newline=final_newline)}]
    return TOKENIZER.apply_chat_template(message, tokenize=False, add_generation_prompt=True)


def make_worker(tmp_path, retriever, **rollout):
    gate = RetrieverGate(retriever.client, probe_every_s=0.01)
    return Worker(spec(**rollout), tmp_path, retriever.client, gate)


async def execute(agent, worker, *script, label=LABEL, params=None, question=QUESTION):
    engine = ScriptedEngine(TOKENIZER, *script)
    executor = agent.AgentExecutor(worker)
    limit = worker.spec.rollout.context_tokens
    given = params or SamplingParams(max_tokens=300, logprobs=1)
    prompt = prompt_of(question, final_newline=worker.spec.rollout.layout == "paper")
    response = await executor.execute(prompt, label.model_dump_json(), given, limit, TOKENIZER, engine)
    return response, engine


def learnt_text(response):
    return [TOKENIZER.decode(response["observation_tokens"][start:end]) for start, end in response["action_ranges"]]


@pytest.mark.anyio
async def test_a_rollout_is_scored_and_only_the_policys_tokens_are_learnt(agent, tmp_path):
    retriever = Retriever()
    response, _engine = await execute(agent, make_worker(tmp_path, retriever), SEARCH, ANSWER)

    assert response["reward"] == pytest.approx(1.8)
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


def vllm(script, asked):
    """vLLM's routes for tokens, over the same tokenizer and script."""
    app = FastAPI()

    @app.post("/tokenize")
    async def tokenize(request: Request):
        body = await request.json()
        if "messages" in body:
            text = TOKENIZER.apply_chat_template(body["messages"], tokenize=False, add_generation_prompt=True)
        else:
            text = body["prompt"]
        return {"tokens": TOKENIZER.encode(text, add_special_tokens=False)}

    @app.post("/detokenize")
    async def detokenize(request: Request):
        return {"prompt": TOKENIZER.decode((await request.json())["tokens"])}

    @app.post("/v1/completions")
    async def completions(request: Request):
        body = await request.json()
        line = script[len(asked)]
        asked.append(body["prompt"])
        token_ids = TOKENIZER.encode(line, add_special_tokens=False)
        return {"choices": [{"text": line, "token_ids": token_ids}], "usage": {"completion_tokens": len(token_ids)}}

    return app


SCRIPTS = {
    "answers after one round": [SEARCH, ANSWER],
    "answers at once": [ANSWER],
    "is malformed, then answers": ["nothing of use", ANSWER],
    "repeats itself": [SEARCH, AGAIN, ANSWER],
    "searches to the limit": [SEARCH, MORE, "<search> c </search>", "<search> d </search>", "<search> e </search>"],
    "ends malformed": [SEARCH, MORE, "<search> c </search>", "<search> d </search>", "no"],
    "has odd letters": ["<think> é🙂 </think> <search> Łódź 🙂 ## # </search>", ANSWER],
}


@pytest.mark.anyio
@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
@pytest.mark.parametrize("context_tokens", [4000, 1900])
@pytest.mark.parametrize("layout", ["labelled", "compact", "paper"])
async def test_the_gateways_loop_and_openrlhfs_give_the_same_bytes(agent, tmp_path, script, context_tokens, layout):
    worker = make_worker(tmp_path, Retriever(), context_tokens=context_tokens, layout=layout)
    response, engine = await execute(agent, worker, *script)

    served = []
    policy = TokenPolicyClient(PolicyHttp("http://policy/v1", pool=HttpxPool(httpx2.ASGITransport(app=vllm(script, served)))), "m")
    settings = training_settings(worker.spec.rollout, TOKENIZER.all_special_tokens)
    request = RolloutRequest("q1", QUESTION, settings)
    trajectory = await run_rollout(request, policy, Retriever().client, identity=PolicyIdentity("m"))
    record = Rollouts(tmp_path).facts()[0]

    assert [trained for trained, _ in engine.asked] == served
    assert record.stop_reason is trajectory.stop_reason
    assert record.turns == len(trajectory.turns)
    assert learnt_text(response) == [turn.text for turn in trajectory.turns]


@pytest.mark.anyio
async def test_a_context_that_is_full_ends_the_rollout_with_a_reward(agent, tmp_path):
    room = len(TOKENIZER.encode(prompt_of(), add_special_tokens=False)) + 300 + len(SEARCH) + 50
    worker = make_worker(tmp_path, Retriever(), context_tokens=room)
    response, engine = await execute(agent, worker, SEARCH)
    record = Rollouts(tmp_path).facts()[0]

    assert record.stop_reason is StopReason.CONTEXT_LIMIT
    assert response["reward"] == pytest.approx(0.8)
    assert len(response["observation_tokens"]) <= room
    assert len(engine.asked) == 1


@pytest.mark.anyio
async def test_a_prompt_without_room_is_not_cut_and_nothing_is_generated(agent, tmp_path):
    worker = make_worker(tmp_path, Retriever(), context_tokens=1400)
    question = "Why " * 300
    response, engine = await execute(agent, worker, question=question, label=LABEL.model_copy(update={"question": question}))

    assert engine.asked == []
    assert len(response["action_ranges"]) == 1
    assert Rollouts(tmp_path).facts()[0].stop_reason is StopReason.CONTEXT_LIMIT


@pytest.mark.anyio
async def test_a_retriever_fault_is_data_is_excluded_and_says_nothing_to_the_policy(agent, tmp_path):
    retriever = Retriever(down=1_000)
    worker = make_worker(tmp_path, retriever)
    response, _engine = await execute(agent, worker, SEARCH)
    record = Rollouts(tmp_path).facts()[0]

    assert record.stop_reason is StopReason.RETRIEVAL_FAILED
    assert record.excluded
    assert sum(end - start for start, end in response["action_ranges"]) == 1
    assert "secret" not in TOKENIZER.decode(response["observation_tokens"])
    assert response["extra_logs"]["excluded"] == 1.0


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

    assert rewards[0] == pytest.approx((rewards[1] + rewards[2]) / 2)
    assert retriever.probes >= 1
    assert after["reward"] == pytest.approx(1.8)


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
    assert Rollouts(tmp_path).facts()[0].split == "eval"


@pytest.mark.anyio
async def test_records_hold_the_facts_and_a_sample_can_be_scored_again(agent, tmp_path):
    await execute(agent, make_worker(tmp_path, Retriever()), SEARCH, AGAIN, ANSWER)
    record = Rollouts(tmp_path).facts()[0]
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
