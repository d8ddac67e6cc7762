"""The approximate kinds: built from the same blocks, measured against exact search, served like the flat one."""

import tracemalloc

import numpy as np
import pytest

from retriever.corpus.reading import CorpusPassage
from retriever.corpus.store import CorpusStore, CorpusWriter
from retriever.index.blocks import PART, Blocks, encode_blocks
from retriever.index.build import build
from retriever.index.kinds import TARGET_RECALL, assemble, recall, write_vectors
from retriever.index.manifest import EXACT
from retriever.index.opened import open_index
from retriever.index.plan import BuildPlan
from retriever.index.search import FlatSearch, open_search
from retriever.index.training import cells_for, trained_ivf

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


def test_of_equal_scores_flat_finds_the_smaller_rows(tmp_path):
    random = np.random.default_rng(4)
    few = unit(random.normal(size=(40, 8)))
    many = few[random.integers(0, 40, 150_000)]  # in parts, and each vector thousands of times
    np.save(tmp_path / "vectors.npy", many)
    _, rows = FlatSearch(tmp_path / "vectors.npy").search(few[:5], 20)
    assert rows.tolist() == [np.flatnonzero((many == query).all(axis=1))[:20].tolist() for query in few[:5]]


@pytest.mark.parametrize("kind", ["flat", "ivf_sq8", "hnsw"])
def test_what_a_query_finds_does_not_depend_on_how_many_rows_are_asked_for(kind, vectors, queries, tmp_path):
    repeated = Blocks(tmp_path, ROWS, ROWS)
    np.save(repeated.paths()[0], np.concatenate([vectors[: ROWS // 2]] * 2))
    search = open_search(tmp_path, kind, assemble(kind, repeated, tmp_path, DIMENSION, queries))
    scores, rows = search.search(queries, 100)
    for top_k in (1, 3, 10):
        fewer_scores, fewer_rows = search.search(queries, top_k)
        assert (fewer_rows == rows[:, :top_k]).all()
        assert (fewer_scores == scores[:, :top_k]).all()


@pytest.mark.parametrize("kind", ["flat", "ivf_sq8", "hnsw"])
def test_an_index_that_cannot_be_written_is_an_error_of_the_system(kind, blocks, queries, tmp_path):
    with pytest.raises(OSError, match="gone"):
        assemble(kind, blocks, tmp_path / "gone", DIMENSION, queries)


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


class Ones:
    """An encoder that costs nothing."""

    def __init__(self, identity):
        self.identity = identity

    def encode_passages(self, texts):
        return np.ones((len(texts), self.identity.dimension), np.float32)


def peak_bytes(work):
    """Of what Python and numpy hold while it runs; FAISS's own memory is not seen."""
    tracemalloc.start()
    work()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def test_a_build_holds_a_part_of_a_block_and_not_the_block(tmp_path, minilm):
    with CorpusWriter(tmp_path) as writer:
        for number in range(8 * PART):
            writer.append(CorpusPassage(str(number), "title", "text " * 20))
    blocks, part = Blocks(tmp_path, 8 * PART, 8 * PART), PART * minilm.identity.dimension * 4
    corpus = CorpusStore(tmp_path)
    assert peak_bytes(lambda: encode_blocks(blocks, corpus, Ones(minilm.identity))) < 2 * part
    assert np.load(tmp_path / "block-0000000.npy").shape == (8 * PART, minilm.identity.dimension)
    assert peak_bytes(lambda: write_vectors(blocks, tmp_path / "vectors.npy", minilm.identity.dimension)) < 1.5 * part
    assert (tmp_path / "vectors.npy").read_bytes() == (tmp_path / "block-0000000.npy").read_bytes()


def test_training_holds_the_sample_in_8_bits(tmp_path):
    rows = 20 * PART
    np.save(tmp_path / "block-0000000.npy", unit(np.random.default_rng(4).normal(size=(rows, DIMENSION))))
    blocks, part = Blocks(tmp_path, rows, rows), PART * DIMENSION * 4
    assert peak_bytes(lambda: trained_ivf(blocks, DIMENSION)) < rows * DIMENSION + 6 * part
