"""Coalescing, bounds and faults of the batcher, over work that can be held up."""

import asyncio
import threading
import time
from contextlib import asynccontextmanager

import pytest

from parallelsearch.errors import DeadlineExceeded, InvalidInput, Overloaded
from parallelsearch.rollout.types import Passage
from retriever import metrics
from retriever.batcher import Batcher, BatchLimits, CallerGone, Pace
from retriever.searcher import Ask, BatchResult, BatchTimings


class Work:
    """Gives `top_k` passages named after each query; waits while `gate` is closed."""

    def __init__(self):
        self.batches, self.threads = [], set()
        self.gate = threading.Event()
        self.gate.set()
        self.takes_s = 0.0

    def __call__(self, asks, top_k):
        queries = [ask.text for ask in asks]
        self.batches.append(list(queries))
        self.threads.add(threading.get_ident())
        self.gate.wait(5)
        time.sleep(self.takes_s)
        if "poison" in queries:
            raise RuntimeError("poisoned")
        rows = [tuple(Passage(f"{query}-{rank}", "", "") for rank in range(top_k)) for query in queries]
        failed = {ask: InvalidInput("no words here") for ask in asks if ask.method == "bm25"}
        return BatchResult(rows, BatchTimings(), [""] * len(rows), failed)


def submit(batcher, queries, top_k, **more):
    return batcher.submit([Ask(query) for query in queries], top_k, **more)


@asynccontextmanager
async def running(work, **limits):
    batcher = Batcher(work, BatchLimits(**limits))
    batcher.start()
    try:
        yield batcher
    finally:
        work.gate.set()
        await batcher.stop()


async def held_up(batcher, work):
    """One query runs and waits, so that what follows queues."""
    work.gate.clear()
    first = asyncio.create_task(submit(batcher, ["first"], 1))
    while not work.batches or work.batches[-1] != ["first"]:
        await asyncio.sleep(0.001)
    return first


async def test_what_arrives_while_a_batch_runs_is_one_batch_of_distinct_queries():
    work = Work()
    async with running(work) as batcher:
        first = await held_up(batcher, work)
        others = [asyncio.create_task(submit(batcher, [f"q{n % 3}"], 1)) for n in range(9)]
        await asyncio.sleep(0.01)
        work.gate.set()
        answers = await asyncio.gather(first, *others)
    assert work.batches == [["first"], ["q0", "q1", "q2"]]
    assert [answer.rows[0][0].id for answer in answers[1:]] == [f"q{n % 3}-0" for n in range(9)]
    assert len(work.threads) == 1


async def test_a_lone_caller_waits_for_no_company():
    work = Work()
    async with running(work, window_s=5.0) as batcher:
        for turn in range(3):
            answered = await submit(batcher, [f"turn {turn}"], 1)
            assert answered.timings.queue_s < 0.5


async def test_callers_that_were_answered_together_are_gathered_again():
    work = Work()
    work.takes_s = 0.4  # a batch is held back for a quarter of what the last one took, and no longer than the window

    async def caller(number, batcher):
        await submit(batcher, [f"first of {number}"], 1)
        await asyncio.sleep(0.01 * number)
        await submit(batcher, [f"second of {number}"], 1)

    async with running(work, window_s=5.0) as batcher:
        await asyncio.gather(*(caller(number, batcher) for number in range(4)))
    assert [len(batch) for batch in work.batches] == [4, 4]


def test_a_start_is_held_back_behind_many_only_and_for_the_window_at_most():
    pace = Pace()
    assert pace.hold(0.05) == (0.0, 0)
    for took_s, at_most_s in ((10.0, 0.05), (0.04, 0.01)):
        pace.ran(8, took_s)
        until, enough = pace.hold(0.05)
        assert until <= time.perf_counter() + at_most_s
        assert enough == 8
    pace.ran(1, 10.0)
    assert pace.hold(0.05) == (0.0, 0)


async def test_a_query_that_runs_already_is_not_run_again_unless_more_passages_are_wanted():
    work = Work()
    async with running(work) as batcher:
        first = await held_up(batcher, work)
        same, more = asyncio.create_task(submit(batcher, ["first"], 1)), asyncio.create_task(submit(batcher, ["first"], 2))
        await asyncio.sleep(0)
        work.gate.set()
        assert [len((await each).rows[0]) for each in (first, same, more)] == [1, 1, 2]
    assert work.batches == [["first"], ["first"]]


async def test_a_small_request_is_not_held_up_by_a_large_one_that_came_before():
    work = Work()
    async with running(work, max_batch=8) as batcher:
        await held_up(batcher, work)
        large = asyncio.create_task(submit(batcher, [f"large{n}" for n in range(100)], 1))
        await asyncio.sleep(0)
        small = asyncio.create_task(submit(batcher, ["small"], 1))
        await asyncio.sleep(0)
        work.gate.set()
        await asyncio.gather(large, small)
    assert "small" in [query for batch in work.batches[:4] for query in batch]


async def test_a_request_the_queue_would_not_reach_in_time_is_refused_at_once():
    work = Work()
    async with running(work) as batcher:
        work.takes_s = 0.3
        await submit(batcher, ["measured"], 1)
        await held_up(batcher, work)
        waiting = asyncio.create_task(submit(batcher, ["a", "b"], 1))
        await asyncio.sleep(0)
        with pytest.raises(Overloaded):
            await submit(batcher, ["c"], 1, deadline_s=0.4)
        work.gate.set()
        await waiting


async def test_queries_of_a_caller_that_hung_up_are_not_searched():
    async def gone():
        return True

    work = Work()
    async with running(work) as batcher:
        await held_up(batcher, work)
        with pytest.raises(CallerGone):
            await submit(batcher, ["nobody listens"], 1, gone=gone)
    assert work.batches == [["first"]]


async def test_each_request_gets_its_own_top_k_from_a_shared_query():
    work = Work()
    async with running(work) as batcher:
        await held_up(batcher, work)
        one, five = asyncio.create_task(submit(batcher, ["q"], 1)), asyncio.create_task(submit(batcher, ["q"], 5))
        await asyncio.sleep(0.01)
        work.gate.set()
        assert [len((await each).rows[0]) for each in (one, five)] == [1, 5]


async def test_a_request_larger_than_a_batch_is_answered_in_order():
    work = Work()
    async with running(work, max_batch=4) as batcher:
        answer = await submit(batcher, [f"q{n}" for n in range(10)], 1)
    assert [len(batch) for batch in work.batches] == [4, 4, 2]
    assert [row[0].id for row in answer.rows] == [f"q{n}-0" for n in range(10)]


async def test_a_full_queue_refuses_at_once_and_says_when_to_come_back():
    work = Work()
    async with running(work, max_queued=4) as batcher:
        await held_up(batcher, work)
        waiting = asyncio.create_task(submit(batcher, list("abc"), 1))
        await asyncio.sleep(0)
        with pytest.raises(Overloaded) as raised:
            await submit(batcher, list("de"), 1)
        assert raised.value.retry_after_s is not None
        joined = asyncio.create_task(submit(batcher, list("ab"), 1))
        await asyncio.sleep(0)
        work.gate.set()
        assert len((await waiting).rows) == 3
        assert len((await joined).rows) == 2


async def test_an_idle_queue_takes_a_request_larger_than_itself():
    work = Work()
    async with running(work, max_queued=4) as batcher:
        answer = await submit(batcher, [str(n) for n in range(50)], 1)
    assert len(answer.rows) == 50


async def test_a_request_that_waits_too_long_is_told_and_its_queries_are_not_searched():
    work = Work()
    async with running(work, deadline_s=0.1) as batcher:
        first = await held_up(batcher, work)
        with pytest.raises(DeadlineExceeded):
            await submit(batcher, ["late"], 1)
        with pytest.raises(DeadlineExceeded):
            await first
    assert work.batches == [["first"]]


async def test_a_caller_that_hangs_up_takes_nothing_from_the_others():
    work = Work()
    async with running(work) as batcher:
        await held_up(batcher, work)
        gone, stays = asyncio.create_task(submit(batcher, ["a", "b"], 1)), asyncio.create_task(submit(batcher, ["b"], 1))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.sleep(0)
        work.gate.set()
        assert (await stays).rows[0][0].id == "b-0"
    assert work.batches == [["first"], ["b"]]


async def test_a_batch_that_fails_fails_its_own_requests_only():
    work = Work()
    async with running(work) as batcher:
        with pytest.raises(RuntimeError, match="poisoned"):
            await submit(batcher, ["poison"], 1)
        assert len((await submit(batcher, ["fine"], 1)).rows) == 1


async def test_stopping_answers_what_waits():
    work = Work()
    async with running(work, max_batch=2) as batcher:
        waiting = [asyncio.create_task(submit(batcher, [f"q{n}"], 1)) for n in range(9)]
        await asyncio.sleep(0)
    assert len(await asyncio.gather(*waiting)) == 9


async def test_before_its_start_and_behind_its_end_it_refuses_at_once():
    work = Work()
    with pytest.raises(Overloaded):
        await submit(Batcher(work), ["early"], 1)
    async with running(work) as batcher:
        pass
    with pytest.raises(Overloaded):
        await submit(batcher, ["late"], 1)


async def test_a_query_that_fails_fails_nobody_who_shares_its_batch():
    work = Work()
    async with running(work) as batcher:
        first = await held_up(batcher, work)
        fails = asyncio.create_task(batcher.submit([Ask("q"), Ask("q", "bm25")], 1))
        others = [asyncio.create_task(submit(batcher, [query], 1)) for query in ("q", "r")]
        await asyncio.sleep(0)
        work.gate.set()
        with pytest.raises(InvalidInput):
            await fails
        assert [len((await each).rows) for each in (first, *others)] == [1, 1, 1]
    assert work.batches == [["first"], ["q", "q", "r"]]


async def test_who_joins_a_query_that_waits_or_runs_is_told_of_its_own_wait():
    work = Work()
    async with running(work) as batcher:
        await held_up(batcher, work)
        waits = asyncio.create_task(submit(batcher, ["q"], 1))
        await asyncio.sleep(0.3)
        joins = [asyncio.create_task(submit(batcher, [query], 1)) for query in ("first", "q")]
        await asyncio.sleep(0)
        work.gate.set()
        assert (await waits).timings.queue_s >= 0.3
        assert max([(await each).timings.queue_s for each in joins]) < 0.2


async def test_the_depth_that_is_told_counts_nobody_who_left():
    work = Work()
    async with running(work) as batcher:
        await held_up(batcher, work)
        leaves = asyncio.create_task(submit(batcher, list("abc"), 1))
        await asyncio.sleep(0)
        assert metrics.QUEUE_DEPTH._value.get() == 3
        leaves.cancel()
        await asyncio.gather(leaves, return_exceptions=True)
        assert metrics.QUEUE_DEPTH._value.get() == 0
