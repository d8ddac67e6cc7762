"""Wall clock of parallel against sequential search: the same sub-queries, the same passages, a policy of fixed speed.

    python benchmarks/parallel_wall_clock.py [--sub-queries 1 2 4 8 16 32]

The loop that the gateway runs, over a policy that takes a fixed time for each word it reads for the first time and for each that
it writes, and a retriever that takes a fixed time for a batch, however many queries are in it. In parallel the policy asks all at
once, in sequence one a turn; then it answers. The question is how saved calls turn into saved time, and where the rest goes.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import matplotlib
import orjson
from serving import ROOT, markdown, write_report

from parallelsearch.demo import demo_file
from parallelsearch.rollout.interfaces import Generation, OnText, Sampling, SearchBatch, Segment
from parallelsearch.rollout.runner import RolloutRequest, run_rollout
from parallelsearch.rollout.settings import RolloutSettings
from parallelsearch.rollout.types import EVERYWHERE, Mode, Passage, PolicyIdentity, Scope, SubQueryResult
from parallelsearch.testing import WordCounter

READ_S, WRITE_S, BATCH_S = 0.0001, 0.005, 0.02
NAME = "parallel_wall_clock"


@dataclass(frozen=True)
class Row:
    sub_queries: int
    mode: str
    llm_calls: int
    words_written: int
    words_read: int
    policy_s: float
    search_s: float
    own_ms: float
    total_s: float
    of_sequential: float


class PacedPolicy(WordCounter):
    """Asks for `wanted` things, `at_once` a turn, then answers. What it has read once costs nothing again, as in a prefix cache."""

    def __init__(self, wanted: int, at_once: int) -> None:
        self._queries = [f"When was the founder of company number {number} born?" for number in range(wanted)]
        self._at_once = at_once
        self._known = 0
        self.words_read = 0

    async def count_prompt(self, prompt: str) -> int:
        return await self.count(prompt)

    async def generate(
        self, prompt: str, segments: Sequence[Segment], sampling: Sampling, *, on_text: OnText | None = None
    ) -> Generation:
        context = await self.count(prompt + "".join(segment.text for segment in segments))
        asked, self._queries = self._queries[: self._at_once], self._queries[self._at_once :]
        block = f"<search> {' ## '.join(asked)} </search>" if asked else "<answer> the founder of company number 0 </answer>"
        text = f"<think> To say who was born first I need one more look at what is known of them. </think>\n\n{block}"
        written = await self.count(text)
        new = context - self._known
        self.words_read += new
        self._known = context + written
        await asyncio.sleep(new * READ_S + written * WRITE_S)
        return Generation(text, (), context, written, PolicyIdentity("paced", "1"))


class PacedRetriever:
    """The same three passages for the same query, whoever asks with it."""

    def __init__(self) -> None:
        rows = [orjson.loads(line) for line in demo_file("corpus.jsonl").open("rb")]
        self._passages = [Passage(row["id"], row["title"], row["text"], 0.5) for row in rows]

    async def search(self, queries: Sequence[str], top_k: int, scope: Scope = EVERYWHERE) -> SearchBatch:
        await asyncio.sleep(BATCH_S)
        return SearchBatch(tuple(SubQueryResult(query, self._found(query, top_k)) for query in queries), "paced")

    def _found(self, query: str, top_k: int) -> tuple[Passage, ...]:
        start = sum(query.encode()) * 7 % (len(self._passages) - top_k)
        return tuple(self._passages[start : start + top_k])


async def rollout(wanted: int, mode: Mode) -> tuple[Row, set[str]]:
    """One rollout, and the passages that it was shown."""
    policy = PacedPolicy(wanted, wanted if mode is Mode.PARALLEL else 1)
    settings = RolloutSettings(mode=mode, max_turns=wanted, max_sub_queries=wanted, context_tokens=100_000)
    request = RolloutRequest("paced", "Whose founder was born first?", settings, deadline_s=600.0)
    done = await run_rollout(request, policy, PacedRetriever(), identity=PolicyIdentity("paced"))
    shown = {passage.id for turn in done.turns for result in turn.observation for passage in result.passages}
    assert done.usage.sub_queries == wanted, done
    row = Row(
        wanted,
        mode.value,
        done.usage.llm_calls,
        done.usage.completion_tokens,
        policy.words_read,
        round(done.timings.policy_ms / 1000, 3),
        round(done.timings.search_ms / 1000, 3),
        round(done.timings.overhead_ms, 2),
        round(done.timings.total_ms / 1000, 3),
        1.0,
    )
    return row, shown


async def measure(numbers: Sequence[int]) -> list[Row]:
    rows: list[Row] = []
    for wanted in numbers:
        sequential, seen_one_by_one = await rollout(wanted, Mode.SEQUENTIAL)
        parallel, seen_at_once = await rollout(wanted, Mode.PARALLEL)
        assert seen_one_by_one == seen_at_once
        ratio = round(parallel.total_s / sequential.total_s, 3)
        rows += [Row(**asdict(parallel) | {"of_sequential": ratio}), sequential]
    return rows


def plot(rows: Sequence[Row], path: Path) -> None:
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 4.5))
    numbers = sorted({row.sub_queries for row in rows})
    for offset, mode, shade in ((-0.2, "parallel", 1.0), (0.2, "sequential", 0.55)):
        chosen = [next(row for row in rows if (row.sub_queries, row.mode) == (number, mode)) for number in numbers]
        places = [place + offset for place in range(len(numbers))]
        policy, search = [row.policy_s for row in chosen], [row.search_s for row in chosen]
        axes.bar(places, policy, 0.38, color="tab:blue", alpha=shade, label=f"{mode}: policy")
        axes.bar(places, search, 0.38, bottom=policy, color="tab:orange", alpha=shade, label=f"{mode}: search")
    axes.set_xticks(range(len(numbers)), [str(number) for number in numbers])
    axes.set(xlabel="sub-queries", ylabel="seconds of an answer", title="The same sub-queries at once and one by one")
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sub-queries", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32])
    parser.add_argument("--no-report", action="store_true")
    chosen = parser.parse_args()
    rows = asyncio.run(measure(chosen.sub_queries))
    table = markdown(" | ".join(name.replace("_", " ") for name in asdict(rows[0])), rows)
    if chosen.no_report:
        print(table)
        return
    note = (
        f"![]({NAME}.png)\n\nA policy of fixed speed: {READ_S * 1000:g} ms for a word that it reads for the first time, "
        f"{WRITE_S * 1000:g} ms for one that it writes; a batch takes {BATCH_S * 1000:g} ms. Both modes are shown the same "
        "passages, in parallel cut shorter beyond two sub-queries. What remains of the time in parallel is the writing of the "
        "sub-queries and the reading of what they found, which no parallelism saves; what is saved is the thinking before each "
        "search, and its wait. This says what the loop gives to a policy that decomposes, and nothing of how well one answers."
    )
    write_report(NAME, "Parallel against sequential search, a policy of fixed speed", table, [asdict(row) for row in rows], note)
    plot(rows, ROOT / "docs" / "results" / f"{NAME}.png")


if __name__ == "__main__":
    main()
