"""The kernels' logic without a card, through Triton's interpreter: TRITON_INTERPRET=1, and Triton installed beside torch."""

import os

import numpy as np
import pytest
import torch

if os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("needs TRITON_INTERPRET=1", allow_module_level=True)
pytest.importorskip("triton")

from retriever.gpu import selection, tournament
from retriever.gpu.eight_bit import to_eight_bit
from retriever.gpu.eight_bit_shard import EightBitShard
from retriever.gpu.fused_shard import FusedShard
from retriever.gpu.kernels import Tile
from retriever.gpu.torch_shard import TorchShard


@pytest.mark.parametrize(("rows", "dimension", "queries", "top_k"), [(1, 64, 1, 3), (129, 48, 17, 3), (300, 64, 2, 70)])
def test_fused_and_eight_bit_find_what_torch_finds(rows, dimension, queries, top_k):
    random = np.random.default_rng(0)
    vectors = torch.from_numpy(random.integers(-2, 3, (rows, dimension)).astype(np.float16))
    asked = torch.from_numpy(random.integers(-2, 3, (queries, dimension)).astype(np.float32))
    expected = TorchShard(vectors).search(asked, top_k)
    width = min(rows, top_k)
    fused = FusedShard(vectors).search(asked, top_k)
    assert torch.equal(fused.ids[:, :width], expected.ids[:, :width])
    assert torch.equal(fused.scores[:, :width], expected.scores[:, :width])
    for in_reach in (False, True):
        eight_bit = EightBitShard(to_eight_bit(vectors), vectors, candidates=64, in_reach=in_reach).search(asked, top_k)
        assert torch.allclose(eight_bit.scores[:, :width], expected.scores[:, :width])


@pytest.mark.parametrize("queries_first", [False, True])
def test_either_order_of_the_product_finds_the_same(queries_first):
    random = np.random.default_rng(2)
    vectors = torch.from_numpy(random.integers(-2, 3, (129, 32)).astype(np.float16))
    asked = torch.from_numpy(random.integers(-2, 3, (3, 32)).astype(np.float32))
    tile = Tile(16, 128, 32, 2, 4, 1, queries_first=queries_first)
    expected, found = TorchShard(vectors).search(asked, 5), FusedShard(vectors, (tile,)).search(asked, 5)
    assert torch.equal(found.ids, expected.ids) and torch.equal(found.scores, expected.scores)
    eight_bit = EightBitShard(to_eight_bit(vectors), vectors, 64, (tile,)).search(asked, 5)
    assert torch.allclose(eight_bit.scores, expected.scores)


@pytest.mark.parametrize(("chunks", "count"), [(5, 11), (300, 4)])
def test_selection_by_kernel_is_selection_by_torch(chunks, count):
    random = np.random.default_rng(1)
    maxima = tournament.empty_maxima(chunks, 16, torch.device("cpu"))
    maxima[:chunks] = torch.from_numpy(random.integers(-3, 4, (chunks, 16)).astype(np.float32))
    by_kernel, by_torch = selection.best_chunks(maxima, 3, count), tournament.best_chunks(maxima, 3, count)
    assert torch.equal(by_kernel.ids, by_torch.ids) and torch.equal(by_kernel.scores, by_torch.scores)


@pytest.mark.parametrize("length", [1e-3, 1.0, 30.0])
def test_chunks_that_rounding_puts_in_another_order_are_searched_all_the_same(length):
    """Rows of about the same score, one in each chunk, for a query that fp16 rounds: the order of chunks is not that of rows."""
    random, swapped = np.random.default_rng(3), 0
    for _ in range(6):
        query, apart = (torch.from_numpy(random.standard_normal((n, 32)).astype(np.float32)) for n in (1, 6))
        query /= query.norm()
        vectors = torch.zeros((6 * 16, 32), dtype=torch.float16)
        vectors[::16] = ((apart - (apart @ query.T - 1) * query) * length).half()
        query *= length
        truth = (query.double() @ vectors.double().T).topk(3)
        found = FusedShard(vectors, (Tile(16, 16, 32, 2, 4, 1),)).search(query, 3)
        assert torch.equal(found.ids, truth.indices) and torch.allclose(found.scores.double(), truth.values, rtol=1e-5)
        swapped += not torch.equal((query.half().double() @ vectors.double().T).topk(3).indices, truth.indices)
    assert swapped
