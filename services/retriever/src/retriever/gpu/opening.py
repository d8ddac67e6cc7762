"""Which engine searches an index, and opening it: named by configuration, or measured on a sample of the index at start."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from parallelsearch.errors import ConfigurationError
from retriever.encoders.load import refuse_missing_device
from retriever.gpu.loading import VectorFile, describe, load_eight_bit, load_fp16, on_host, pinned
from retriever.gpu.plan import Engine, GpuPlan
from retriever.gpu.shard import Shard
from retriever.gpu.sharded import MakeShard, ShardedSearch, spread

ExactEngine = Literal["fused", "torch", "faiss"]

_WIDEST_DIMENSION, _DIMENSION_STEP = 1_024, 16
_SAMPLE_ROWS, _SAMPLE_QUERIES, _SAMPLE_RUNS = 1_000_000, 64, 5


def open_search(vectors_file: Path, plan: GpuPlan) -> ShardedSearch:
    """Loads the vectors of a published index into the devices; ready to search when it returns.

    Raises:
        ConfigurationError: no CUDA device, an engine that is not installed or cannot search this dimension, or too little memory.
        IndexMismatch: the file is damaged.
    """
    file, devices = describe(vectors_file), chosen_devices(plan.devices)
    engine = plan.engine if plan.engine != "auto" else fastest(file, devices[0], plan)
    refuse_impossible(engine, file, devices[0])
    refuse_too_large(engine, file, devices)
    return ShardedSearch(spread(file.rows, devices, maker(engine, file, plan)), file.dimension)


def chosen_devices(names: Sequence[str]) -> tuple[torch.device, ...]:
    for name in names:
        refuse_missing_device(name, "RETRIEVER_GPU_DEVICES")
    if names:
        return tuple(torch.device(name) for name in names)
    if not torch.cuda.is_available():
        raise ConfigurationError(
            "A GPU engine is configured, but torch sees no CUDA device. Check the driver, or search on the CPU."
        )
    return tuple(torch.device("cuda", number) for number in range(torch.cuda.device_count()))


def maker(engine: Engine, file: VectorFile, plan: GpuPlan) -> MakeShard:
    """How a shard of this engine is made; each engine's own imports wait until it is made."""
    makers: dict[Engine, MakeShard] = {"fused": _fused(file), "torch": _torch(file), "faiss": _faiss(file)}
    return makers.get(engine) or _eight_bit(file, plan)


def _fused(file: VectorFile) -> MakeShard:
    def make(start: int, end: int, device: torch.device) -> Shard:
        from retriever.gpu.fused_shard import FusedShard

        return FusedShard(load_fp16(file, start, end, device))

    return make


def _torch(file: VectorFile) -> MakeShard:
    def make(start: int, end: int, device: torch.device) -> Shard:
        from retriever.gpu.torch_shard import TorchShard

        return TorchShard(load_fp16(file, start, end, device))

    return make


def _faiss(file: VectorFile) -> MakeShard:
    def make(start: int, end: int, device: torch.device) -> Shard:
        from retriever.gpu.faiss_shard import FaissShard

        return FaissShard(file, start, end, device)

    return make


def _eight_bit(file: VectorFile, plan: GpuPlan) -> MakeShard:
    host_rows = pinned if plan.host_rows == "pinned" else on_host

    def make(start: int, end: int, device: torch.device) -> Shard:
        from retriever.gpu.eight_bit_shard import EightBitShard

        kept = load_eight_bit(file, start, end, device)
        return EightBitShard(kept, host_rows(file, start, end), plan.candidates, in_reach=plan.host_rows == "pinned")

    return make


def possible(file: VectorFile, device: torch.device) -> tuple[ExactEngine, ...]:
    """The exact engines that are installed here and can search this file on this device."""
    fits = file.dimension % _DIMENSION_STEP == 0 and file.dimension <= _WIDEST_DIMENSION
    fused: tuple[ExactEngine, ...] = ("fused",) if fits and device.type == "cuda" and find_spec("triton") else ()
    return (*fused, "torch", *(("faiss",) if device.type == "cuda" and _faiss_on_gpu() else ()))


def refuse_impossible(engine: Engine, file: VectorFile, device: torch.device) -> None:
    there = possible(file, device)
    if engine == "faiss" and "faiss" not in there:
        raise ConfigurationError("The engine faiss needs FAISS built for GPUs. Install faiss-gpu-cuvs, or choose fused or torch.")
    if engine in ("fused", "eight_bit") and "fused" not in there:
        raise ConfigurationError(
            f"The engine {engine} needs a CUDA device, Triton and a dimension that is a multiple of {_DIMENSION_STEP} up to "
            f"{_WIDEST_DIMENSION}; this index has {file.dimension}. Choose torch."
        )


def refuse_too_large(engine: Engine, file: VectorFile, devices: Sequence[torch.device]) -> None:
    """Refuses before minutes of loading what cannot fit: vectors, and an eighth for what a search needs.

    FAISS holds them twice while the last of them are added.
    """
    bytes_a_number = {"eight_bit": 1, "faiss": 4}.get(engine, 2)
    needed = file.rows * file.dimension * bytes_a_number * 9 // 8
    free = [_free_bytes(device) for device in devices if device.type == "cuda"]
    if free and needed > sum(free):
        raise ConfigurationError(
            f"The engine {engine} needs {needed / 1e9:.0f} GB for {file.rows:,} vectors, {len(free)} devices have "
            f"{sum(free) / 1e9:.0f} GB free. Use more devices, or the engine eight_bit, which takes half."
        )


def _free_bytes(device: torch.device) -> int:
    """What the driver has free, and what torch holds from an index closed before."""
    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(torch.cuda.mem_get_info(device)[0] + kept)


def fastest(file: VectorFile, device: torch.device, plan: GpuPlan) -> ExactEngine:
    """The exact engine that answers a batch of 64 soonest, measured on the first rows of the index."""
    engines, sample = possible(file, device), min(file.rows, _SAMPLE_ROWS)
    took = {engine: _seconds(maker(engine, file, plan), sample, file.dimension, device) for engine in engines}
    return min(engines, key=took.__getitem__)


def _seconds(make: MakeShard, rows: int, dimension: int, device: torch.device) -> float:
    search = ShardedSearch(spread(rows, (device,), make), dimension)
    queries = np.random.default_rng(0).standard_normal((_SAMPLE_QUERIES, dimension), dtype=np.float32)
    return sorted(_timed(lambda: search.search(queries, 3)) for _ in range(_SAMPLE_RUNS))[1]


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _faiss_on_gpu() -> bool:
    if not find_spec("faiss"):
        return False
    import faiss

    return hasattr(faiss, "StandardGpuResources")
