"""Where a flat index is searched: on the CPU, or by an engine of the GPU package, which a setting names."""

import numpy as np
import pytest

from parallelsearch.errors import ConfigurationError
from retriever.gpu.plan import GpuPlan
from retriever.index.kinds import Effort
from retriever.index.manifest import VECTORS_FILE
from retriever.index.search import open_search
from retriever.settings import RetrieverSettings


@pytest.fixture
def data(tmp_path):
    vectors = np.random.default_rng(0).standard_normal((500, 64)).astype(np.float32)
    np.save(tmp_path / VECTORS_FILE, vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
    return tmp_path


def test_settings_name_the_engine_and_its_devices(tmp_path):
    settings = RetrieverSettings(index=tmp_path, search="fused", gpu_devices="cuda:0, cuda:1", eight_bit_candidates=64)
    assert settings.gpu == GpuPlan("fused", ("cuda:0", "cuda:1"), 64)
    assert RetrieverSettings(index=tmp_path).gpu is None


def test_the_torch_engine_finds_what_the_flat_search_finds(data):
    queries = np.load(data / VECTORS_FILE)[:8]
    _, rows = open_search(data, "flat", Effort()).search(queries, 5)
    search = open_search(data, "flat", Effort(), gpu=GpuPlan("torch", ("cpu",)))
    _, found = search.search(queries, 5)
    search.close()
    assert (found[:, 0] == rows[:, 0]).all()
    assert (np.sort(found) == np.sort(rows)).mean() > 0.95


def test_only_a_flat_index_can_be_searched_on_gpus(data):
    with pytest.raises(ConfigurationError, match="hnsw"):
        open_search(data, "hnsw", Effort(), gpu=GpuPlan())


@pytest.mark.parametrize("device", ["nonsense", "cuda:x", "cuda:99", "xpu", "cuda:-1"])
def test_a_device_that_is_not_there_is_named_with_its_setting(data, device):
    with pytest.raises(ConfigurationError, match=f"^RETRIEVER_GPU_DEVICES is {device}, but torch sees "):
        open_search(data, "flat", Effort(), gpu=GpuPlan("torch", ("cpu", device)))
