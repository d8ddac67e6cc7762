"""Vectors from a .npy file into a device, block by block, with two small staging buffers and no copy of the file in RAM."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import psutil
import torch

from parallelsearch.errors import ConfigurationError, IndexMismatch
from retriever.gpu.eight_bit import EightBit, to_eight_bit

BLOCK_BYTES = 64 << 20
_PORTABLE = 1
"""Of cudaHostRegister: pinned for all cards."""
_DTYPES: dict[str, torch.dtype] = {"<f4": torch.float32, "<f2": torch.float16}


@dataclass(frozen=True, slots=True)
class VectorFile:
    """A .npy file of shape (rows, dimension), float32 or fp16, row-major; its numbers start `offset` bytes into it."""

    path: Path
    rows: int
    dimension: int
    dtype: Literal["<f4", "<f2"]
    offset: int

    @property
    def row_bytes(self) -> int:
        return self.dimension * int(self.dtype[2])


def describe(path: Path) -> VectorFile:
    """Reads the header.

    Raises:
        ConfigurationError: the file holds no vectors that an engine can search.
        IndexMismatch: it ends before its last row.
    """
    with path.open("rb") as file:
        version = np.lib.format.read_magic(file)  # type: ignore[no-untyped-call]
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran_order, dtype = read(file)  # type: ignore[no-untyped-call]
        offset = file.tell()
    if len(shape) != 2 or fortran_order or dtype.str not in _DTYPES or 0 in shape:
        raise ConfigurationError(f"{path} holds {dtype.str} of shape {shape}; rows of <f4 or <f2 are needed. Build it again.")
    found = VectorFile(path, shape[0], shape[1], dtype.str, offset)
    if path.stat().st_size < offset + found.rows * found.row_bytes:
        raise IndexMismatch(f"{path} ends before its last row of {found.rows:,}. Restore the file, or build the index again.")
    return found


def load_fp16(file: VectorFile, start: int, end: int, device: torch.device, block_bytes: int = BLOCK_BYTES) -> torch.Tensor:
    """Rows [start, end) as fp16 (end − start, dimension) on `device`.

    Raises:
        IndexMismatch: a row holds a number that is not finite, in fp16 at least.
    """
    vectors = torch.empty((end - start, file.dimension), dtype=torch.float16, device=device)
    for at, block in _blocks(file, start, end, device, block_bytes):
        vectors[at : at + len(block)] = block
    return vectors


def load_eight_bit(file: VectorFile, start: int, end: int, device: torch.device, block_bytes: int = BLOCK_BYTES) -> EightBit:
    """Rows [start, end) in 8 bits on `device`; raises as `load_fp16` does."""
    codes = torch.empty((end - start, file.dimension), dtype=torch.int8, device=device)
    scales = torch.empty(end - start, dtype=torch.float32, device=device)
    for at, block in _blocks(file, start, end, device, block_bytes):
        kept = to_eight_bit(block)
        codes[at : at + len(block)], scales[at : at + len(block)] = kept.codes, kept.scales
    return EightBit(codes, scales)


def on_host(file: VectorFile, start: int, end: int) -> torch.Tensor:
    """Rows [start, end) where they lie, memory-mapped: only pages that are read take memory, and the kernel may drop them."""
    # Copy on write, because torch has no read-only tensors; nobody writes.
    mapped = np.memmap(file.path, dtype=file.dtype, mode="c", offset=file.offset, shape=(file.rows, file.dimension))
    return torch.from_numpy(mapped[start:end])


def pinned(file: VectorFile, start: int, end: int) -> torch.Tensor:
    """Rows [start, end) in locked memory, in the file's own precision, which every card reads from where it lies.

    Raises:
        ConfigurationError: less memory is available than they take.
    """
    needed, available = (end - start) * file.row_bytes, psutil.virtual_memory().available
    if needed > available:
        raise ConfigurationError(
            f"Rows pinned in memory take {needed / 1e9:.0f} GB, and {available / 1e9:.0f} GB are available. "
            "Use eight_bit with its rows mapped."
        )
    rows = torch.empty((end - start, file.dimension), dtype=_DTYPES[file.dtype])
    with file.path.open("rb", buffering=0) as source:
        source.seek(file.offset + start * file.row_bytes)
        _read(source, memoryview(rows.numpy()).cast("B"), file)
    # Locked where it lies: memory that torch pins itself is rounded up to a power of two.
    driver = torch.cuda.cudart()
    torch.cuda.check_error(driver.cudaHostRegister(rows.data_ptr(), needed, _PORTABLE))
    weakref.finalize(rows, driver.cudaHostUnregister, rows.data_ptr())
    return rows


def _blocks(file: VectorFile, start: int, end: int, device: torch.device, block_bytes: int) -> Iterator[tuple[int, torch.Tensor]]:
    """Blocks of rows in fp16 on `device`, each with its place behind `start`; reading one overlaps with sending the other."""
    step = max(1, block_bytes // file.row_bytes)
    pinned = device.type == "cuda"
    staging = [torch.empty((step, file.dimension), dtype=_DTYPES[file.dtype], pin_memory=pinned) for _ in range(2)]
    sent = [torch.cuda.Event() if pinned else None for _ in range(2)]
    finite = torch.ones((), dtype=torch.bool, device=device)
    with file.path.open("rb", buffering=0) as source:
        source.seek(file.offset + start * file.row_bytes)
        for number, at in enumerate(range(0, end - start, step)):
            buffer, event = staging[number % 2][: min(step, end - start - at)], sent[number % 2]
            if event is not None:
                event.synchronize()
            _read(source, memoryview(buffer.numpy()).cast("B"), file)
            block = buffer.to(device, non_blocking=True).half()
            if event is not None:
                event.record(torch.cuda.current_stream(device))
            finite &= block.isfinite().all()
            yield at, block
    if not finite:
        raise IndexMismatch(f"{file.path}: a row in [{start:,}, {end:,}) is not finite in fp16. Build the index again.")


def _read(source: object, into: memoryview, file: VectorFile) -> None:
    done = 0
    while done < len(into):
        count = source.readinto(into[done:])  # type: ignore[attr-defined]
        if not count:
            raise IndexMismatch(f"{file.path} ends before its last row. Restore the file, or build the index again.")
        done += count
