"""What evaluating adds to the time that policy and retriever need, and what 10,000 trajectories take in memory.

Policy and retriever are stand-ins that wait (a policy call 400 ms, a search 20 ms by default): the same rollouts are run bare, and
as an evaluation that writes every trajectory to disk. The memory is that of summarising 10,000 trajectories of real size.

usage: python benchmarks/evaluation_overhead.py [--questions 400] [--report 10000]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import tempfile
import time
from pathlib import Path

from parallelsearch.evaluation.asking import DirectAsker
from parallelsearch.evaluation.plan import Limits
from parallelsearch.evaluation.reading import read_questions
from parallelsearch.evaluation.selection import Selection, select
from parallelsearch.evaluation.session import Plan, carry_out
from parallelsearch.evaluation.store import RunFolder
from parallelsearch.evaluation.summary import summarise
from parallelsearch.evaluation.wire import StackModel
from parallelsearch.rollout.interfaces import Generation, SearchBatch
from parallelsearch.rollout.settings import RolloutSettings
from parallelsearch.rollout.types import Mode, Passage, PolicyIdentity, SubQueryResult
from parallelsearch.testing import WordCounter

CONCURRENCY = 32
PASSAGE = " ".join(["word"] * 100)


class WaitingPolicy(WordCounter):
    def __init__(self, wait_s):
        self.wait_s = wait_s

    async def count_prompt(self, prompt):
        return await self.count(prompt)

    async def generate(self, prompt, segments, sampling, on_text=None):
        await asyncio.sleep(self.wait_s)
        answer = "<think> Known. </think>\n\n<answer> Ann </answer>"
        search = "<think> I look. </think>\n\n<search> age of Ann ## age of Bob </search>"
        return Generation(answer if segments else search, (), 300, 40, PolicyIdentity("stand-in", "1"))


class WaitingSearch:
    def __init__(self, wait_s):
        self.wait_s = wait_s

    async def search(self, queries, top_k):
        await asyncio.sleep(self.wait_s)
        passages = tuple(Passage(f"p{place}", f"Title {place}", PASSAGE, 0.5) for place in range(top_k))
        return SearchBatch(tuple(SubQueryResult(query, passages) for query in queries), "stand-in")


def plan(folder, count):
    row = {"question": "Who is older, Ann or Bob?", "golden_answers": ["Ann"], "supporting_titles": ["Title 1"]}
    path = folder / "questions.jsonl"
    path.write_text("".join(json.dumps({**row, "id": f"q{number}"}) + "\n" for number in range(count)))
    selected = (select(read_questions(path), Selection()),)
    return Plan(selected, (Mode.PARALLEL,), (), Limits(), StackModel(through="stand-ins"), CONCURRENCY)


async def bare(asker, jobs, limits):
    remaining = iter(jobs)

    async def work():
        for job in remaining:
            await asker.ask(job, limits)

    await asyncio.gather(*(work() for _ in range(CONCURRENCY)))


def asker(policy_s, search_s):
    return DirectAsker(WaitingPolicy(policy_s), WaitingSearch(search_s), RolloutSettings(), PolicyIdentity("stand-in"))


def timed(coroutine):
    begun, cpu = time.perf_counter(), time.process_time()
    asyncio.run(coroutine)
    return time.perf_counter() - begun, time.process_time() - cpu


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=400)
    parser.add_argument("--report", type=int, default=10_000)
    parser.add_argument("--policy-s", type=float, default=0.4)
    parser.add_argument("--search-s", type=float, default=0.02)
    options = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wanted = plan(folder, options.questions)
        waiting = asker(options.policy_s, options.search_s)
        found["bare_s"], found["bare_cpu_s"] = timed(bare(waiting, wanted.jobs, wanted.limits))
        evaluation = carry_out(RunFolder(folder / "run"), wanted, waiting, lambda _: None)
        found["evaluated_s"], found["evaluated_cpu_s"] = timed(evaluation)
        found["added"] = found["evaluated_s"] / found["bare_s"] - 1
    with tempfile.TemporaryDirectory() as name:
        for count in (options.report // 10, options.report):
            folder = Path(name) / str(count)
            folder.mkdir()
            run = RunFolder(folder / "run")
            manifest = asyncio.run(carry_out(run, plan(folder, count), asker(0, 0), lambda _: None))
            begun = time.perf_counter()
            summarise(run, manifest)
            found[f"summary_of_{count}_s"] = time.perf_counter() - begun
            found[f"peak_mb_after_{count}"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            found[f"trajectories_mb_of_{count}"] = sum(p.stat().st_size for p in (folder / "run" / "trajectories").iterdir()) / 1e6
    print(json.dumps({key: round(value, 3) for key, value in found.items()}, indent=2))


if __name__ == "__main__":
    main()
