"""The GPU engines on a card, against float32 products of all rows."""

import numpy as np
import pytest
import torch

from retriever.gpu.ordering import best
from retriever.gpu.sharded import ShardedSearch, spread

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]

SHAPES = [(1, 16, 1, 3), (2, 384, 3, 10), (127, 768, 16, 3), (128, 768, 17, 10), (129, 80, 33, 100), (20_011, 384, 64, 3),
          (300_001, 768, 65, 10), (300_001, 768, 256, 100), (50_000, 1024, 300, 3), (300_001, 768, 4, 65)]  # fmt: skip


def whole_numbers(rows, dimension, seed):
    """Small whole numbers: every product is exact and ties are everywhere."""
    generator = torch.Generator("cuda").manual_seed(seed)
    return torch.randint(-2, 3, (rows, dimension), device="cuda", generator=generator)


def units(rows, dimension, seed):
    vectors = torch.randn(rows, dimension, device="cuda", generator=torch.Generator("cuda").manual_seed(seed))
    return vectors / vectors.norm(dim=1, keepdim=True)


@pytest.mark.parametrize("engine", ["fused", "torch"])
@pytest.mark.parametrize(("rows", "dimension", "queries", "top_k"), SHAPES)
def test_exact_engines_give_the_true_rows_ties_by_row(engine, rows, dimension, queries, top_k):
    vectors, asked = whole_numbers(rows, dimension, 1).half(), whole_numbers(queries, dimension, 2).float()
    found = ShardedSearch([shard(engine, vectors)], dimension).search(asked.cpu().numpy(), top_k)
    expected = best(asked @ vectors.float().T, torch.arange(rows, device="cuda"), top_k)
    width = min(rows, top_k)
    assert np.array_equal(found[0][:, :width], expected.scores.cpu().numpy())
    assert np.array_equal(found[1][:, :width], expected.ids.cpu().numpy())
    assert (found[1][:, width:] == -1).all()


@pytest.mark.parametrize("engine", ["fused", "torch"])
def test_scores_are_those_of_float32(engine):
    vectors, asked = units(100_000, 768, 3).half(), units(64, 768, 4)
    scores, _ = ShardedSearch([shard(engine, vectors)], 768).search(asked.cpu().numpy(), 3)
    expected = best(asked @ vectors.float().T, torch.arange(100_000, device="cuda"), 3)
    assert np.abs(scores - expected.scores.cpu().numpy()).max() < (1e-6 if engine == "fused" else 1e-4)


@pytest.mark.parametrize(("rows", "queries"), [(1, 1), (129, 16), (100_003, 32), (100_003, 64), (100_003, 128), (100_003, 256)])
def test_eight_bits_find_the_true_rows(rows, queries):
    from retriever.gpu.eight_bit import to_eight_bit
    from retriever.gpu.eight_bit_shard import EightBitShard

    vectors, asked = units(rows, 768, 5).half(), units(queries, 768, 6)
    search = ShardedSearch([EightBitShard(to_eight_bit(vectors), vectors.cpu())], 768)
    found = search.search(asked.cpu().numpy(), 3)[1]
    expected = best(asked @ vectors.float().T, torch.arange(rows, device="cuda"), 3).ids.cpu().numpy()
    hits = sum(len(set(a) & set(b)) for a, b in zip(found.tolist(), expected.tolist(), strict=True))
    assert hits >= 0.99 * expected.size


@pytest.mark.parametrize("shards", [2, 3])
def test_several_shards_find_what_one_finds(shards):
    vectors, asked = whole_numbers(100_003, 384, 7).half(), whole_numbers(40, 384, 8).float().cpu().numpy()
    devices = [torch.device("cuda", number % torch.cuda.device_count()) for number in range(shards)]
    parts = spread(len(vectors), devices, lambda start, end, device: shard("fused", vectors[start:end].to(device)))
    together, alone = ShardedSearch(parts, 384).search(asked, 10), ShardedSearch([shard("fused", vectors)], 384).search(asked, 10)
    assert np.array_equal(together[0], alone[0]) and np.array_equal(together[1], alone[1])


@pytest.mark.parametrize(
    ("engine", "host_rows"),
    [("auto", "mapped"), ("fused", "mapped"), ("torch", "mapped"), ("eight_bit", "mapped"), ("eight_bit", "pinned")],
)
def test_an_index_opens_from_its_file(engine, host_rows, tmp_path):
    from retriever.gpu.opening import GpuPlan, open_search

    vectors = units(70_001, 384, 9).cpu().numpy()
    np.save(tmp_path / "vectors.npy", vectors)
    search = open_search(tmp_path / "vectors.npy", GpuPlan(engine, host_rows=host_rows))
    assert search.search(vectors[[3, 70_000]], 1)[1].tolist() == [[3], [70_000]]


def shard(engine, vectors):
    if engine == "torch":
        from retriever.gpu.torch_shard import TorchShard

        return TorchShard(vectors)
    from retriever.gpu.fused_shard import FusedShard

    return FusedShard(vectors)


@pytest.mark.parametrize("queries", [64, 128, 256])
@pytest.mark.parametrize("form", [{"queries_first": True}, {"queries_first": True, "one_loop": True}])
def test_every_form_of_the_product_finds_the_true_rows(form, queries):
    from retriever.gpu.eight_bit import to_eight_bit
    from retriever.gpu.eight_bit_shard import EightBitShard
    from retriever.gpu.fused_shard import FusedShard
    from retriever.gpu.kernels import Tile

    tile = Tile(queries, 128, 64, 3, 4 if queries < 256 else 8, 1, **form)
    vectors, asked = whole_numbers(50_001, 768, 1).half(), whole_numbers(queries - 3, 768, 2).float()
    expected = best(asked @ vectors.float().T, torch.arange(50_001, device="cuda"), 10)
    found = FusedShard(vectors, (tile,)).search(asked, 10)
    assert torch.equal(found.ids, expected.ids) and torch.equal(found.scores, expected.scores)
    eight_bit = EightBitShard(to_eight_bit(vectors), vectors, 64, (tile,), in_reach=True).search(asked, 10)
    assert torch.allclose(eight_bit.scores, expected.scores)
