import asyncio
import random

import pytest
import redis

from gateway.cache import IndexVersion, SearchCache, cache_key
from gateway.flights import Flights, IndexVersions
from gateway.redis_link import RedisLink
from gateway.search import CachedSearch
from parallelsearch.errors import RetrievalFailed
from parallelsearch.rollout.interfaces import SearchBatch
from parallelsearch.rollout.types import EVERYWHERE, Passage, SubQueryResult

INDEX = IndexVersion("f1")


class SlowRetriever:
    """Finds one passage named after the query, after a while; fails while `down`."""

    def __init__(self, delay_s=0.05):
        self.delay_s, self.batches, self.down = delay_s, [], False

    async def search(self, queries, top_k, scope=EVERYWHERE):
        self.batches.append(list(queries))
        await asyncio.sleep(self.delay_s)
        if self.down:
            raise RetrievalFailed("down")
        rows = tuple(SubQueryResult(query, (Passage(query, query, "é" * 50, random.random() / 3),)) for query in queries)
        return SearchBatch(rows, "f1")


class Replica:
    def __init__(self, url, retriever, ttl_s=100):
        self.link = RedisLink(url, timeout_s=1)
        version = IndexVersions()
        version.learn(EVERYWHERE, INDEX)
        self.flights = Flights(SearchCache(self.link, ttl_s=ttl_s), retriever, version)
        self.search = CachedSearch(self.flights, retriever, version).search

    async def close(self):
        await self.flights.close()
        await self.link.close()


def run(url, scenario, replicas=1, **options):
    """What `scenario(retriever, *searches)` returns."""
    retriever = SlowRetriever()

    async def main():
        running = [Replica(url, retriever, **options) for _ in range(replicas)]
        try:
            return await asyncio.wait_for(scenario(retriever, *(replica.search for replica in running)), 20)
        finally:
            for replica in running:
                await replica.close()

    return asyncio.run(main())


@pytest.fixture(params=["redis", "no redis"])
def url(request, valkey):
    return valkey.url if request.param == "redis" else None


def test_a_thousand_at_once_are_one_search(url):
    async def scenario(retriever, search):
        batches = await asyncio.gather(*(search(["a", "b"], 3) for _ in range(1_000)))
        assert retriever.batches == [["a", "b"]]
        assert len({batch.results[0].passages for batch in batches}) == 1

    run(url, scenario)


def test_replicas_search_once_between_them(valkey):
    async def scenario(retriever, *searches):
        batches = await asyncio.gather(*(search(["a", "b"], 3) for search in searches * 20))
        assert sum(map(len, retriever.batches)) == 2
        assert len({batch.results[1].passages for batch in batches}) == 1

    run(valkey.url, scenario, replicas=3)


def test_overlapping_batches_search_each_row_once_and_keep_their_order(url):
    async def scenario(retriever, search):
        first, second = await asyncio.gather(search(["a", "b"], 3), search(["c", "b", "a"], 3))
        assert [result.query for result in second.results] == ["c", "b", "a"]
        assert [result.passages[0].id for result in second.results] == ["c", "b", "a"]
        assert second.results[1].passages == first.results[1].passages
        assert sorted(retriever.batches) == [["a", "b"], ["c"]]

    run(url, scenario)


def test_other_top_k_is_another_row(url):
    async def scenario(retriever, search):
        await asyncio.gather(search(["a"], 3), search(["a"], 4))
        assert retriever.batches == [["a"], ["a"]]

    run(url, scenario)


def test_a_claim_whose_owner_died_does_not_hold_a_search_up_for_long(valkey):
    client = redis.Redis(unix_socket_path=str(valkey.socket))
    client.set(cache_key("a", 3, INDEX) + ":claim", 1)

    async def scenario(retriever, search):
        batch = await asyncio.wait_for(search(["a"], 3), 2)
        assert batch.results[0].passages
        assert retriever.batches == [["a"]]

    run(valkey.url, scenario)


def test_the_request_that_began_a_search_may_leave(url):
    async def scenario(retriever, search):
        leaving = asyncio.create_task(search(["a"], 3))
        await asyncio.sleep(0.01)
        staying = asyncio.create_task(search(["a"], 3))
        await asyncio.sleep(0.01)
        leaving.cancel()
        assert (await staying).results[0].passages
        assert retriever.batches == [["a"]]

    run(url, scenario)


def test_a_failure_is_everybodys_and_the_next_search_tries_again(url):
    async def scenario(retriever, search):
        retriever.down = True
        outcomes = await asyncio.gather(*(search(["a"], 3) for _ in range(5)), return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [RetrievalFailed] * 5
        retriever.down = False
        assert (await search(["a"], 3)).results[0].passages
        assert retriever.batches == [["a"], ["a"]]

    run(url, scenario)


def test_cached_rows_stand_while_the_retriever_is_down(valkey):
    async def scenario(retriever, search):
        before = await search(["a"], 3)
        await asyncio.sleep(0.05)
        retriever.down = True
        cached, failed = (await search(["a", "b"], 3)).results
        assert (cached.passages, cached.cached) == (before.results[0].passages, True)
        assert failed.failed

    run(valkey.url, scenario)


def test_a_cached_row_is_bit_for_bit_what_was_found_and_is_smaller(valkey):
    async def scenario(retriever, search):
        before = await search(["a"], 3)
        await asyncio.sleep(0.05)
        assert (await search(["a"], 3)).results[0].passages == before.results[0].passages
        assert len(retriever.batches) == 1

    run(valkey.url, scenario)
    value = redis.Redis(unix_socket_path=str(valkey.socket)).get(cache_key("a", 3, INDEX))
    assert len(value) < len("é" * 50) * 2


def test_rows_expire_about_when_they_should_but_not_all_at_once(valkey):
    async def scenario(retriever, search):
        await search([str(number) for number in range(60)], 3)
        await asyncio.sleep(0.05)

    run(valkey.url, scenario, ttl_s=1_000)
    client = redis.Redis(unix_socket_path=str(valkey.socket))
    times = {client.ttl(key) for key in client.scan_iter()}
    assert 890 <= min(times) < max(times) <= 1_100
    assert len(times) > 10


def test_rubbish_in_the_cache_is_searched_for_again(valkey):
    redis.Redis(unix_socket_path=str(valkey.socket)).set(cache_key("a", 3, INDEX), b"rubbish")

    async def scenario(retriever, search):
        assert (await search(["a"], 3)).results[0].passages[0].id == "a"

    run(valkey.url, scenario)


def test_nothing_is_left_behind(url):
    async def scenario(retriever, search):
        before = asyncio.all_tasks()
        await asyncio.gather(*(search([str(number), "same"], 3) for number in range(300)))
        async with asyncio.timeout(10):
            while not asyncio.all_tasks() <= before:
                await asyncio.sleep(0.05)

    run(url, scenario)
