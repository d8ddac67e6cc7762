"""Steps per second of the training environment in one process, against a retriever that answers at once (target: 2,000).

usage: environment_steps.py [MODEL_FOLDER]     with a folder, tokens are counted by its real tokenizer; without, by words
"""

import asyncio
import json
import sys
import time

from parallelsearch.reward.scoring import score
from parallelsearch.rollout.interfaces import SearchBatch
from parallelsearch.rollout.types import Kind, Passage, SubQueryResult
from parallelsearch.schemas.training import RolloutSpec
from trainer.episode import Episode, training_settings
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


def tokenizer():
    if len(sys.argv) == 1:
        return Words()
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(sys.argv[1])


async def rollout(counter, settings, search):
    episode = Episode(LABEL, settings, search, counter, score, prompt_tokens=200)
    for text in TURNS:
        await episode.step(text, tuple(range(40)))
    return episode.outcome


async def main():
    counter, settings, search = tokenizer(), training_settings(RolloutSpec(context_tokens=4096)), Instant()
    await rollout(counter, settings, search)
    started = time.perf_counter()
    for _ in range(ROLLOUTS):
        outcome = await rollout(counter, settings, search)
    seconds = time.perf_counter() - started
    assert outcome.reward.matched
    steps = ROLLOUTS * len(TURNS)
    print(json.dumps({"counter": type(counter).__name__, "steps": steps, "steps_per_s": round(steps / seconds)}))


if __name__ == "__main__":
    asyncio.run(main())
