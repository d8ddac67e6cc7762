"""The approximate kinds: built from the same blocks, measured against exact search, served like the flat one."""

import numpy as np
import pytest

from retriever.index.blocks import Blocks
from retriever.index.build import BuildPlan, build
from retriever.index.kinds import TARGET_RECALL, assemble, cells_for, recall
from retriever.index.manifest import EXACT
from retriever.index.opened import open_index
from retriever.index.search import FlatSearch, open_search

ROWS, DIMENSION, BLOCK = 3_000, 32, 700


def unit(vectors):
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture(scope="module")
def vectors():
    return unit(np.random.default_rng(1).normal(size=(ROWS, DIMENSION)))


@pytest.fixture(scope="module")
def queries():
    return unit(np.random.default_rng(2).normal(size=(64, DIMENSION)))


@pytest.fixture(scope="module")
def blocks(tmp_path_factory, vectors):
    found = Blocks(tmp_path_factory.mktemp("blocks"), ROWS, BLOCK)
    for number, path in enumerate(found.paths()):
        np.save(path, vectors[number * BLOCK : (number + 1) * BLOCK])
    return found


def test_flat_finds_exactly_what_a_sort_finds(blocks, vectors, queries, tmp_path):
    assert assemble("flat", blocks, tmp_path, DIMENSION, queries) == EXACT
    scores, rows = open_search(tmp_path, "flat", EXACT).search(queries, 5)
    expected = np.argsort(-(queries @ vectors.T), axis=1)[:, :5]
    assert (rows == expected).all()
    assert np.allclose(scores, np.take_along_axis(queries @ vectors.T, expected, 1), atol=1e-5)


def test_flat_search_in_parts_finds_what_one_part_finds(tmp_path):
    random = np.random.default_rng(3)
    many = unit(random.normal(size=(150_000, 4)))
    np.save(tmp_path / "vectors.npy", many)
    queries = unit(random.normal(size=(3, 4)))
    scores, rows = FlatSearch(tmp_path / "vectors.npy").search(queries, 7)
    assert np.allclose(scores, -np.sort(-(queries @ many.T), axis=1)[:, :7], atol=1e-6)
    assert np.allclose(np.take_along_axis(queries @ many.T, rows, 1), scores, atol=1e-6)


def test_flat_search_of_fewer_rows_than_asked_for_is_filled_with_none(blocks, queries, tmp_path):
    np.save(tmp_path / "vectors.npy", np.eye(2, DIMENSION, dtype=np.float32))
    _, rows = FlatSearch(tmp_path / "vectors.npy").search(queries[:1], 5)
    assert sorted(rows[0].tolist()) == [-1, -1, -1, 0, 1]


@pytest.mark.parametrize("kind", ["ivf_sq8", "hnsw"])
def test_approximate_kinds_reach_their_recall_with_the_effort_they_record(kind, blocks, vectors, queries, tmp_path, capsys):
    effort = assemble(kind, blocks, tmp_path, DIMENSION, queries)
    assert effort.recall_at_3 >= TARGET_RECALL
    assert "recall@3 against exact search" in capsys.readouterr().err
    search = open_search(tmp_path, kind, effort)
    assert (search.rows, search.dimension) == (ROWS, DIMENSION)
    exact = np.argsort(-(queries @ vectors.T), axis=1)[:, :3]
    assert recall(exact, search.search(queries, 3)[1]) == pytest.approx(effort.recall_at_3, abs=1e-3)


def test_ivf_is_the_same_index_every_time(blocks, queries, tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        assemble("ivf_sq8", blocks, tmp_path / name, DIMENSION, queries)
    assert (tmp_path / "a" / "index.faiss").read_bytes() == (tmp_path / "b" / "index.faiss").read_bytes()


@pytest.mark.parametrize(("rows", "cells"), [(1, 1), (50, 1), (400, 10), (1_000_000, 4_000)])
def test_cells_follow_the_corpus(rows, cells):
    assert cells_for(rows) == cells


def test_recall_ignores_neighbours_that_do_not_exist():
    assert recall(np.array([[0, 1, -1]]), np.array([[1, 5, -1]])) == 0.5


@pytest.mark.parametrize("kind", ["ivf_sq8", "hnsw"])
def test_a_small_corpus_is_built_opened_and_searched_whole(kind, tmp_path, write_corpus, rows, minilm):
    manifest = build(BuildPlan((write_corpus(rows[:9]),), tmp_path / "index", minilm, kind, block_passages=4))
    assert manifest.kind == kind
    index = open_index(tmp_path / "index")
    _, found = index.search.search(index.encoder.encode_queries([rows[0]["title"]]), 20)
    assert sorted(row for row in found[0].tolist() if row >= 0) == list(range(9))
    assert set(found[0].tolist()[9:]) == {-1}
