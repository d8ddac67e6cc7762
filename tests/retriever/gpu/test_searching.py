"""The search of several shards and the tournament behind every engine, by plain torch on the CPU."""

import sys

import numpy as np
import pytest
import torch

from parallelsearch.errors import ConfigurationError
from retriever.gpu.ordering import best
from retriever.gpu.sharded import ShardedSearch, spread
from retriever.gpu.torch_shard import TorchShard
from retriever.gpu.tournament import best_chunks, empty_maxima

CPU = torch.device("cpu")


def coarse(rows, dimension, seed=0):
    """Small whole numbers: every product is exact and ties are everywhere."""
    return torch.from_numpy(np.random.default_rng(seed).integers(-2, 3, (rows, dimension)).astype(np.float32))


@pytest.mark.parametrize(("rows", "top_k"), [(1, 3), (3, 3), (127, 10), (128, 10), (129, 100), (1000, 100), (20_000, 3)])
def test_one_shard_finds_what_sorting_all_scores_finds(rows, top_k):
    vectors, queries = coarse(rows, 16), coarse(5, 16, seed=1)
    found = TorchShard(vectors, temporary_bytes=4 * 128 * 5 * 3).search(queries, top_k)
    expected = best(queries @ vectors.T, torch.arange(rows), top_k)
    assert torch.equal(found.ids[:, : min(rows, top_k)], expected.ids)
    assert torch.equal(found.scores[:, : min(rows, top_k)], expected.scores)


@pytest.mark.parametrize("devices", [1, 2, 3, 7])
def test_shards_together_find_what_one_finds(devices):
    vectors, queries = coarse(1001, 16), coarse(9, 16, seed=1).numpy()
    shards = spread(1001, [CPU] * devices, lambda start, end, device: TorchShard(vectors[start:end]))
    scores, rows = ShardedSearch(shards, 16).search(queries, 10)
    alone = ShardedSearch([TorchShard(vectors)], 16).search(queries, 10)
    assert len(shards) == devices
    assert np.array_equal(rows, alone[1]) and np.array_equal(scores, alone[0])


def test_fewer_rows_than_asked_for_are_followed_by_minus_one():
    shards = spread(2, [CPU] * 4, lambda start, end, device: TorchShard(torch.eye(2)[start:end]))
    scores, rows = ShardedSearch(shards, 2).search(np.array([[1.0, 0.5]], np.float32), 4)
    assert rows.tolist() == [[0, 1, -1, -1]]
    assert scores[0, :2].tolist() == [1.0, 0.5]
    assert len(shards) == 2


def test_closing_lets_go_of_the_vectors():
    vectors = torch.eye(4)
    holders = sys.getrefcount(vectors)
    search = ShardedSearch([TorchShard(vectors)], 4)
    search.close()
    assert sys.getrefcount(vectors) == holders


def test_no_queries_give_no_rows_and_a_wrong_dimension_is_refused():
    search = ShardedSearch([TorchShard(torch.eye(4))], 4)
    assert search.search(np.empty((0, 4), np.float32), 3)[1].shape == (0, 3)
    with pytest.raises(ConfigurationError, match="4 dimensions"):
        search.search(np.zeros((1, 5), np.float32), 3)


@pytest.mark.parametrize("chunks", [1, 127, 128, 129, 1000])
def test_the_best_chunks_are_those_of_a_sort_over_all_chunks(chunks):
    maxima = empty_maxima(chunks, 8, CPU)
    maxima[:chunks] = coarse(chunks, 8)
    chosen = best_chunks(maxima, 6, 20).ids
    expected = best(maxima[:, :6].T.contiguous(), torch.arange(len(maxima)), 20).ids
    width = min(chosen.shape[1], expected.shape[1])
    assert torch.equal(chosen[:, :width], expected[:, :width])
