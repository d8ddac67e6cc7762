"""The order in which waiting queries run."""

from hypothesis import given
from hypothesis import strategies as st

from retriever.searcher import Ask
from retriever.waiting import SHARE, Entry, FairQueue


def queue_of(*sizes):
    queue = FairQueue()
    for request, size in enumerate(sizes):
        for position in range(size):
            queue.add(Entry(Ask(f"{request}.{position}"), 1, 0.0), position)
    return queue


def names(entries):
    return [entry.query.text for entry in entries]


def test_requests_of_one_size_run_in_the_order_of_arrival():
    assert names(queue_of(1, 1, 1).take(10)) == ["0.0", "1.0", "2.0"]


def test_a_large_request_gives_way_after_its_share():
    assert names(queue_of(100, 2).take(SHARE + 2)) == [f"0.{n}" for n in range(SHARE)] + ["1.0", "1.1"]


def test_a_dropped_entry_is_not_taken_and_does_not_count():
    queue = queue_of(3)
    queue.drop(queue.find(Ask("0.1")))
    assert len(queue) == 2
    assert names(queue.take(3)) == ["0.0", "0.2"]


@given(st.lists(st.integers(1, 40), max_size=8), st.integers(1, 16))
def test_everything_is_taken_once_and_no_request_is_reordered(sizes, most):
    queue, taken = queue_of(*sizes), []
    while queue:
        taken += names(queue.take(most))
    assert sorted(taken) == sorted(f"{request}.{position}" for request, size in enumerate(sizes) for position in range(size))
    for request, size in enumerate(sizes):
        assert [name for name in taken if name.startswith(f"{request}.")] == [f"{request}.{position}" for position in range(size)]
