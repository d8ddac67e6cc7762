"""Rollouts of a training run's worker in OpenRLHF's loop: a retriever of two passages a query, and a scripted engine."""

import asyncio

import byte_tokenizer
import httpx2
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from openrlhf_agent import SamplingParams, ScriptedEngine
from pydantic import ValidationError

from parallelsearch.clients.pools import HttpxPool
from parallelsearch.clients.retriever import RetrieverClient
from parallelsearch.protocol.prompt import build_prompt
from parallelsearch.rollout.types import Kind, Mode
from parallelsearch.schemas.retrieval import RetrieveRequest
from parallelsearch.schemas.training import ReinforcementSpec
from trainer.labels import Label
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
            try:
                queries = RetrieveRequest.model_validate_json(await request.body()).queries
            except ValidationError as error:
                return JSONResponse({"detail": str(error)}, 422)
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
