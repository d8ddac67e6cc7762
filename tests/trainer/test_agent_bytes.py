"""One script through the gateway's loop and through OpenRLHF's, of both versions: the same bytes."""

import httpx2
import pytest
from agent_rollouts import AGAIN, ANSWER, MORE, QUESTION, SEARCH, TOKENIZER, Retriever, execute, learnt_text, make_worker
from fastapi import FastAPI, Request

from parallelsearch.clients.policy import PolicyHttp, TokenPolicyClient
from parallelsearch.clients.pools import HttpxPool
from parallelsearch.rollout.runner import RolloutRequest, run_rollout
from parallelsearch.rollout.types import PolicyIdentity
from trainer.episode import training_settings
from trainer.records import Rollouts


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
    await give_the_same_bytes(agent, tmp_path, script, context_tokens=context_tokens, layout=layout)


@pytest.mark.anyio
@pytest.mark.parametrize(
    "limits",
    [
        {"observation_tokens": 40},
        {"observation_tokens": 40, "observation_tokens_further": 0, "passage_words_wide": 5},
        {"passage_words": 3},
        {"observation_tokens": 30, "layout": "paper", "paper_cut": "published"},
    ],
    ids=lambda limits: " ".join(limits),
)
async def test_what_a_run_shows_of_passages_is_what_is_served_under_the_same_settings(agent, tmp_path, limits):
    default = await give_the_same_bytes(agent, tmp_path / "default", [SEARCH, ANSWER], layout=limits.get("layout", "labelled"))
    limited = await give_the_same_bytes(agent, tmp_path / "limited", [SEARCH, ANSWER], **limits)
    assert len(limited[-1]) < len(default[-1])


async def give_the_same_bytes(agent, tmp_path, script, **rollout):
    """Asserts it, and gives the contexts of each turn, in tokens."""
    worker = make_worker(tmp_path, Retriever(), **rollout)
    response, engine = await execute(agent, worker, *script)

    served = []
    policy = TokenPolicyClient(PolicyHttp("http://policy/v1", pool=HttpxPool(httpx2.ASGITransport(app=vllm(script, served)))), "m")
    settings = training_settings(worker.spec.rollout, TOKENIZER.all_special_tokens)
    request = RolloutRequest("q1", QUESTION, settings)
    trajectory = await run_rollout(request, policy, Retriever().client, identity=PolicyIdentity("m"))
    record = Rollouts(tmp_path).new_facts({})[0]

    assert [trained for trained, _ in engine.asked] == served
    assert record.stop_reason is trajectory.stop_reason
    assert record.turns == len(trajectory.turns)
    assert learnt_text(response) == [turn.text for turn in trajectory.turns]
    return served
