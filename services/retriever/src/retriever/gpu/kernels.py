"""The Triton kernels: best score of each chunk of rows, scores of chosen chunks, and the tile shapes they run with.

`chunk_maxima` reads every vector once. Its programs are persistent: one or two per multiprocessor walk over chunks, keep the
matrix product of chunk and queries in registers and write one number per chunk and query. No list of candidates is kept, so
the time depends neither on the data nor on how many results are asked for. `chunk_scores` then reads again the few
chunks that can hold a result, one query at a time, in float32.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from retriever.gpu.eight_bit import LEVELS


@dataclass(frozen=True, slots=True)
class Tile:
    """How `chunk_maxima` runs for up to `queries` queries: rows of a chunk, columns read at once, and the launch.

    `one_loop` lets reads run ahead over the end of a chunk. `queries_first` makes the product (queries, rows), so that the best of
    a chunk is sought along a thread's own registers; it wants 64 queries or more.
    """

    queries: int
    rows: int
    columns: int
    stages: int
    warps: int
    programs_per_multiprocessor: int
    one_loop: bool = False
    queries_first: bool = False


# Measured over 21 million vectors of 768 dimensions: those of 64, 128 and 256 queries on an H200 (the fastest of 9 to 17 shapes),
# the others on an H100 (of five to nine).
TILES_FP16 = (
    Tile(queries=16, rows=128, columns=128, stages=3, warps=4, programs_per_multiprocessor=2),
    Tile(queries=32, rows=128, columns=128, stages=2, warps=4, programs_per_multiprocessor=2),
    Tile(queries=64, rows=128, columns=128, stages=4, warps=8, programs_per_multiprocessor=1, queries_first=True),
    Tile(queries=128, rows=128, columns=128, stages=3, warps=8, programs_per_multiprocessor=1, one_loop=True, queries_first=True),
    Tile(queries=256, rows=128, columns=64, stages=3, warps=8, programs_per_multiprocessor=1, queries_first=True),
)
TILES_INT8 = (
    Tile(queries=16, rows=128, columns=256, stages=2, warps=4, programs_per_multiprocessor=2),
    Tile(queries=32, rows=128, columns=256, stages=2, warps=4, programs_per_multiprocessor=2, one_loop=True),
    Tile(queries=64, rows=128, columns=128, stages=4, warps=4, programs_per_multiprocessor=2, queries_first=True),
    Tile(queries=128, rows=128, columns=128, stages=3, warps=4, programs_per_multiprocessor=2, one_loop=True),
    Tile(queries=256, rows=128, columns=128, stages=4, warps=8, programs_per_multiprocessor=1, queries_first=True),
)


_PIECE = 16


@triton.jit  # type: ignore[untyped-decorator]
def _chunk_maxima(
    vectors: tl.tensor_descriptor,
    queries: tl.tensor_descriptor,
    scales: tl.tensor,
    maxima: tl.tensor,
    rows: tl.tensor,
    chunks: tl.tensor,
    DIMENSION: tl.constexpr,
    CHUNK: tl.constexpr,
    QUERIES: tl.constexpr,
    COLUMNS: tl.constexpr,
    EIGHT_BIT: tl.constexpr,
    ONE_LOOP: tl.constexpr,
    QUERIES_FIRST: tl.constexpr,
) -> None:
    height: tl.constexpr = QUERIES if QUERIES_FIRST else CHUNK
    width: tl.constexpr = CHUNK if QUERIES_FIRST else QUERIES
    of_rows: tl.constexpr = 1 if QUERIES_FIRST else 0
    of_queries: tl.constexpr = 0 if QUERIES_FIRST else 1
    for chunk in tl.range(tl.program_id(0), chunks, tl.num_programs(0), flatten=ONE_LOOP):
        first = chunk * CHUNK
        row = first + tl.arange(0, CHUNK)
        if EIGHT_BIT:
            scale = tl.load(scales + row, mask=row < rows, other=0.0)
        sums = tl.zeros((height, width), dtype=tl.int32 if EIGHT_BIT else tl.float32)
        for column in range(0, DIMENSION, COLUMNS):
            block, asked = vectors.load([first, column]), queries.load([0, column])
            if QUERIES_FIRST:
                sums = tl.dot(asked, block.T, sums, out_dtype=sums.dtype)
            else:
                sums = tl.dot(block, asked.T, sums, out_dtype=sums.dtype)
        scores = sums.to(tl.float32)
        if EIGHT_BIT:
            scores = scores * tl.expand_dims(scale, of_queries)
        if ONE_LOOP or first + CHUNK > rows:  # only the last chunk needs the mask; a branch within one loop costs more than that
            scores = tl.where(tl.expand_dims(row, of_queries) < rows, scores, float("-inf"))
        tl.store(maxima + tl.full((QUERIES,), chunk, tl.int64) * QUERIES + tl.arange(0, QUERIES), tl.max(scores, axis=of_rows))


@triton.jit  # type: ignore[untyped-decorator]
def _chunk_scores(
    vectors: tl.tensor,
    queries: tl.tensor,
    scales: tl.tensor,
    chosen: tl.tensor,
    scores: tl.tensor,
    rows: tl.tensor,
    DIMENSION: tl.constexpr,
    CHUNK: tl.constexpr,
    PIECE: tl.constexpr,
    COLUMNS: tl.constexpr,
    EIGHT_BIT: tl.constexpr,
) -> None:
    query = tl.program_id(1).to(tl.int64)
    place = query * tl.num_programs(0) + tl.program_id(0)
    inside_chunk = tl.program_id(2) * PIECE + tl.arange(0, PIECE)
    row = tl.load(chosen + place) * CHUNK + inside_chunk
    there = (row >= 0) & (row < rows) & (inside_chunk < CHUNK)
    sums = tl.zeros((PIECE, COLUMNS), dtype=tl.float32)
    for first in range(0, DIMENSION, COLUMNS):
        column = first + tl.arange(0, COLUMNS)
        inside = column < DIMENSION
        at = vectors + row[:, None] * DIMENSION + column[None, :]
        block = tl.load(at, mask=there[:, None] & inside[None, :], other=0)
        sums += block.to(tl.float32) * tl.load(queries + query * DIMENSION + column, mask=inside, other=0.0)[None, :]
    total = tl.sum(sums, axis=1)
    if EIGHT_BIT:
        total = total * tl.load(scales + row, mask=there, other=0.0)
    total = tl.where(there, total, float("-inf"))
    tl.store(scores + place * CHUNK + inside_chunk, total, mask=inside_chunk < CHUNK)


@triton.jit  # type: ignore[untyped-decorator]
def _eight_bit_queries(
    queries: tl.tensor, codes: tl.tensor, DIMENSION: tl.constexpr, WIDTH: tl.constexpr, LEVELS: tl.constexpr
) -> None:
    at = tl.program_id(0).to(tl.int64) * DIMENSION + tl.arange(0, WIDTH)
    inside = tl.arange(0, WIDTH) < DIMENSION
    query = tl.load(queries + at, mask=inside, other=0.0)
    scale = LEVELS / tl.maximum(tl.max(tl.abs(query), axis=0), 1e-30)
    tl.store(codes + at, tl.floor(query * scale + 0.5).to(tl.int8), mask=inside)


def tile_for(queries: int, tiles: tuple[Tile, ...]) -> Tile:
    """The smallest tile that holds so many queries; the largest one if none does."""
    return next((tile for tile in tiles if tile.queries >= queries), tiles[-1])


def eight_bit_queries(queries: torch.Tensor) -> torch.Tensor:
    """Codes of float32 queries, int8; a query's own scale does not change the order of its scores, so none is kept."""
    count, dimension = queries.shape
    codes = torch.empty_like(queries, dtype=torch.int8)
    _eight_bit_queries[(count,)](queries, codes, DIMENSION=dimension, WIDTH=triton.next_power_of_2(dimension), LEVELS=LEVELS)
    return codes


def chunk_maxima(
    vectors: torch.Tensor, queries: torch.Tensor, scales: torch.Tensor | None, maxima: torch.Tensor, tile: Tile, programs: int
) -> None:
    """Writes the best score of each chunk of `tile.rows` rows to `maxima` (chunks, tile.queries), float32.

    `vectors` is (rows, dimension), fp16, or int8 with `scales` (rows,) float32; `queries` at most (tile.queries, dimension) of
    the same type, all on one device. Columns of `maxima` without a query hold 0, to be ignored.
    """
    rows, dimension = vectors.shape
    _chunk_maxima[(programs,)](
        TensorDescriptor.from_tensor(vectors, [tile.rows, tile.columns]),
        TensorDescriptor.from_tensor(queries, [tile.queries, tile.columns]),
        maxima if scales is None else scales,
        maxima,
        rows,
        triton.cdiv(rows, tile.rows),
        DIMENSION=dimension,
        CHUNK=tile.rows,
        QUERIES=tile.queries,
        COLUMNS=tile.columns,
        EIGHT_BIT=scales is not None,
        ONE_LOOP=tile.one_loop,
        QUERIES_FIRST=tile.queries_first,
        num_stages=tile.stages,
        num_warps=tile.warps,
    )


def chunk_scores(
    vectors: torch.Tensor, queries: torch.Tensor, scales: torch.Tensor | None, chosen: torch.Tensor, chunk: int
) -> torch.Tensor:
    """Scores (queries, chosen, chunk), float32, of all rows in the chunks that each query chose: −inf where there is no row.

    `queries` is float32 (queries, dimension); `chosen` int64 (queries, n), −1 for none. Both are on the device; `vectors` may be in
    pinned memory, which it reads too.
    """
    rows, dimension = vectors.shape
    count, width = chosen.shape
    scores = torch.empty((count, width, chunk), dtype=torch.float32, device=queries.device)
    _chunk_scores[(width, count, triton.cdiv(chunk, _PIECE))](
        vectors,
        queries,
        scores if scales is None else scales,
        chosen,
        scores,
        rows,
        DIMENSION=dimension,
        CHUNK=chunk,
        PIECE=_PIECE,
        COLUMNS=128,
        EIGHT_BIT=scales is not None,
        num_warps=4,
    )
    return scores
