"""What every GPU benchmark shares: the card's name, vectors made on it, its time to read them once, and timing."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

import torch

BLOCK_ROWS = 1 << 20


def describe_card() -> dict[str, str]:
    return {
        "card": torch.cuda.get_device_name(),
        "date": datetime.now(UTC).date().isoformat(),
        "torch": torch.__version__,
        "cuda": str(torch.version.cuda),
    }


def block_of_vectors(number: int, rows: int, dimension: int) -> torch.Tensor:
    """Block `number` of unit vectors, fp16 (rows, dimension): the same for the same arguments on the same kind of card."""
    generator = torch.Generator("cuda").manual_seed(number)
    vectors = torch.randn(rows, dimension, device="cuda", generator=generator)
    return (vectors / vectors.norm(dim=1, keepdim=True)).half()


def make_vectors(rows: int, dimension: int) -> torch.Tensor:
    vectors = torch.empty(rows, dimension, dtype=torch.float16, device="cuda")
    for number, start in enumerate(range(0, rows, BLOCK_ROWS)):
        end = min(rows, start + BLOCK_ROWS)
        vectors[start:end] = block_of_vectors(number, end - start, dimension)
    return vectors


def make_queries(count: int, dimension: int) -> torch.Tensor:
    """Unit vectors, float32, on the card."""
    generator = torch.Generator("cuda").manual_seed(1_000_003 + count)
    queries = torch.randn(count, dimension, device="cuda", generator=generator)
    return queries / queries.norm(dim=1, keepdim=True)


def read_once_ms(vectors: torch.Tensor) -> float:
    """Milliseconds to read all bytes once: torch.sum over them as 64-bit integers, the median of nine by device events."""
    whole = vectors.view(torch.int64)
    torch.sum(whole)
    return median(_device_ms(lambda: torch.sum(whole)) for _ in range(9))


def wall_ms(work: Callable[[], object], runs: int) -> float:
    """Median wall clock of `work`, which must wait for the device itself; two warm-up runs before."""
    work(), work()
    return median(_once_ms(work) for _ in range(runs))


def median(values: object) -> float:
    ordered = sorted(values)  # type: ignore[call-overload]
    return float(ordered[len(ordered) // 2])


def _once_ms(work: Callable[[], object]) -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1e3


def _device_ms(work: Callable[[], object]) -> float:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    work()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end))
