from types import SimpleNamespace

import numpy as np
import pytest
import torch

from parallelsearch.errors import ConfigurationError, IndexMismatch
from retriever.gpu.loading import describe, load_eight_bit, load_fp16, on_host, pinned
from retriever.gpu.opening import GpuPlan, open_search

CPU = torch.device("cpu")


@pytest.fixture(params=["<f4", "<f2"])
def vectors_file(request, tmp_path):
    vectors = np.random.default_rng(0).standard_normal((1003, 32)).astype(request.param)
    np.save(tmp_path / "vectors.npy", vectors)
    return tmp_path / "vectors.npy", vectors


@pytest.mark.parametrize("block_bytes", [1, 1_000, 1 << 20])
def test_any_part_of_the_file_is_loaded_block_by_block(vectors_file, block_bytes):
    path, vectors = vectors_file
    loaded = load_fp16(describe(path), 10, 1003, CPU, block_bytes)
    assert loaded.dtype == torch.float16
    assert np.array_equal(loaded.numpy(), vectors[10:].astype(np.float16))


def test_eight_bits_keep_a_row_within_half_a_level(vectors_file):
    path, vectors = vectors_file
    kept = load_eight_bit(describe(path), 0, 1003, CPU)
    error = (kept.codes.float() * kept.scales[:, None] - torch.from_numpy(vectors.astype(np.float16)).float()).abs()
    assert bool((error <= kept.scales[:, None] * 0.5001).all())


def test_rows_on_the_host_are_those_of_the_file(vectors_file):
    path, vectors = vectors_file
    assert np.array_equal(on_host(describe(path), 5, 9).numpy(), vectors[5:9])


def test_rows_that_would_fill_the_memory_are_not_pinned(vectors_file, monkeypatch):
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=1_000))
    with pytest.raises(ConfigurationError, match="rows mapped"):
        pinned(describe(vectors_file[0]), 0, 1003)


def test_a_row_that_is_not_finite_is_refused(tmp_path):
    vectors = np.ones((5, 16), np.float32)
    vectors[3, 2] = 1e6  # finite in float32 alone
    np.save(tmp_path / "v.npy", vectors)
    with pytest.raises(IndexMismatch, match="not finite in fp16"):
        load_fp16(describe(tmp_path / "v.npy"), 0, 5, CPU)


def test_other_arrays_and_cut_files_are_refused(tmp_path):
    np.save(tmp_path / "ids.npy", np.arange(5))
    with pytest.raises(ConfigurationError, match="<i8"):
        describe(tmp_path / "ids.npy")
    np.save(tmp_path / "v.npy", np.ones((5, 16), np.float32))
    (tmp_path / "v.npy").write_bytes((tmp_path / "v.npy").read_bytes()[:-1])
    with pytest.raises(IndexMismatch, match="ends before"):
        describe(tmp_path / "v.npy")


@pytest.mark.parametrize("engine", ["auto", "torch"])
def test_an_index_opens_on_the_devices_named(vectors_file, engine):
    path, vectors = vectors_file
    search = open_search(path, GpuPlan(engine, devices=("cpu", "cpu")))
    assert (search.rows, search.dimension) == vectors.shape
    rows = search.search(vectors[[7, 900]].astype(np.float32), 1)[1]
    assert rows.tolist() == [[7], [900]]


@pytest.mark.parametrize("engine", ["fused", "eight_bit", "faiss"])
def test_an_engine_that_cannot_run_here_says_what_can(vectors_file, engine):
    with pytest.raises(ConfigurationError, match=r"[Cc]hoose (fused or )?torch"):
        open_search(vectors_file[0], GpuPlan(engine, devices=("cpu",)))
