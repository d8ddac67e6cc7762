"""Which shape of `chunk_maxima` is fastest on this card: candidates for each width, over the time to read the vectors once.

    python benchmarks/gpu/tiles.py [--rows N] [--dimension N] [--queries 64 --queries 128 --queries 256] [--eight-bit] [--most N]
        [--out FILE]

Prints a line for each candidate as soon as it is measured, with whether its maxima are those of a product by torch, and at last
the fastest of each width. What wins belongs into TILES_FP16 and TILES_INT8 of `retriever.gpu.kernels`; `exact_search.py --tiles
FILE` measures the whole search with it. FILE is written after each candidate, so that one that hangs can be ended.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict, fields
from itertools import islice, product
from pathlib import Path

import torch
import triton
from card import describe_card, make_queries, make_vectors, median, read_once_ms

from retriever.gpu.eight_bit import to_eight_bit
from retriever.gpu.fused_shard import maxima_of
from retriever.gpu.kernels import TILES_FP16, TILES_INT8, Tile, eight_bit_queries, tile_for

CHECKED_CHUNKS, RUNS = 64, 7


def candidates(queries: int, eight_bit: bool) -> Iterator[Tile]:
    """The present one first; then what fits a multiprocessor's 227 KB and 64 K registers, the more promising earlier."""
    present = tile_for(queries, TILES_INT8 if eight_bit else TILES_FP16)
    yield present
    number_bytes = 1 if eight_bit else 2
    forms = ((True, False), (True, True), (False, True), (False, False))
    for (queries_first, one_loop), columns, stages, (warps, programs) in product(
        forms if queries >= 64 else forms[2:],
        (64 * 2 // number_bytes, 128 * 2 // number_bytes),
        (4, 3, 2),
        ((4, 2), (8, 1)),
    ):
        tile = Tile(queries, 128, columns, stages, warps, programs, one_loop, queries_first)
        shared = stages * (queries + tile.rows) * columns * number_bytes * programs
        registers = queries * tile.rows // (warps * 32)  # of each thread, for the sums alone
        if tile != present and shared <= 227_000 and registers <= 160 // programs:
            yield tile


def measure(vectors: torch.Tensor, queries: torch.Tensor, scales: torch.Tensor | None, tile: Tile) -> tuple[float, bool]:
    """Median milliseconds of the launch by device events, and whether the maxima of the first and last chunks are right."""
    found = maxima_of(vectors, queries, scales, tile)
    right = all(is_right(vectors, queries, scales, tile, found, at) for at in (0, len(vectors) // tile.rows - CHECKED_CHUNKS))
    return median(launch_ms(vectors, queries, scales, tile) for _ in range(RUNS)), right


def launch_ms(vectors: torch.Tensor, queries: torch.Tensor, scales: torch.Tensor | None, tile: Tile) -> float:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    maxima_of(vectors, queries, scales, tile)
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end))


def is_right(
    vectors: torch.Tensor, queries: torch.Tensor, scales: torch.Tensor | None, tile: Tile, found: torch.Tensor, chunk: int
) -> bool:
    rows = slice(chunk * tile.rows, (chunk + CHECKED_CHUNKS) * tile.rows)
    scores = vectors[rows].float() @ queries.float().T
    if scales is not None:
        scores *= scales[rows, None]
    expected = scores.view(CHECKED_CHUNKS, tile.rows, len(queries)).amax(1)
    return torch.allclose(found[chunk : chunk + CHECKED_CHUNKS, : len(queries)], expected, rtol=1e-3, atol=1e-3)


def fastest(file: Path, tiles: tuple[Tile, ...]) -> tuple[Tile, ...]:
    """`tiles`, those of a width that FILE has measured replaced by the fastest right one."""
    measured = [row for row in json.loads(file.read_text())["tiles"] if row["right"]]
    names = [field.name for field in fields(Tile)]
    chosen = {row["queries"]: row for row in sorted(measured, key=lambda row: -row["ms"])}
    return tuple(Tile(**{name: chosen[tile.queries][name] for name in names}) if tile.queries in chosen else tile for tile in tiles)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=21_015_324)
    parser.add_argument("--dimension", type=int, default=768)
    parser.add_argument("--queries", type=int, action="append")
    parser.add_argument("--eight-bit", action="store_true")
    parser.add_argument("--most", type=int, help="candidates of a width, beside the present one")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    vectors = make_vectors(given.rows, given.dimension)
    read_ms, scales = read_once_ms(vectors), None
    print(
        json.dumps({**describe_card(), "rows": given.rows, "dimension": given.dimension, "read_fp16_ms": round(read_ms, 3)}),
        flush=True,
    )
    if given.eight_bit:
        kept = [to_eight_bit(block) for block in vectors.split(1 << 20)]
        vectors, scales = torch.cat([each.codes for each in kept]), torch.cat([each.scales for each in kept])
        del kept
    rows = []
    for width in given.queries or (64, 128, 256):
        asked = make_queries(width, given.dimension)
        asked = eight_bit_queries(asked) if given.eight_bit else asked.half()
        for tile in islice(candidates(width, given.eight_bit), given.most and given.most + 1):
            try:
                ms, right = measure(vectors, asked, scales, tile)
            except (RuntimeError, triton.TritonError) as error:  # a shape that the compiler or the card refuses
                print(json.dumps({**asdict(tile), "refused": str(error).splitlines()[0][:160]}), flush=True)
                continue
            rows.append({**asdict(tile), "ms": round(ms, 3), "floor": round(ms / read_ms, 3), "right": right})
            print(json.dumps(rows[-1]), flush=True)
            if given.out:
                given.out.write_text(json.dumps({**describe_card(), "read_fp16_ms": read_ms, "tiles": rows}, indent=1) + "\n")
        of_width = [row for row in rows if row["queries"] == width and row["right"]]
        print(json.dumps({"fastest": min(of_width, key=lambda row: row["ms"])}), flush=True)


if __name__ == "__main__":
    main()
