import tracemalloc

from evaluation_fakes import a_question, a_trajectory, answer, search

from parallelsearch.evaluation.measuring import measure
from parallelsearch.evaluation.table import tabulate


def stream(count):
    for number in range(count):
        titles = tuple(f"A long title of passage {place} " * 20 for place in range(20))
        yield measure(a_question(f"q{number}"), a_trajectory(search("a", "b"), answer("Ann"), found=titles))


def test_a_table_keeps_numbers_and_no_trajectories():
    tabulate(stream(2))
    tracemalloc.start()
    columns = tabulate(stream(400))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert len(columns) == 400
    assert peak / 400 < 6_000
