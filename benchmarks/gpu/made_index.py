"""Makes what a retriever serves without a corpus or a model at hand: random vectors, generated passages, a random E5-base.

    python benchmarks/gpu/made_index.py OUT --tokenizer FOLDER [--rows N] [--layers 12 --width 768]

OUT/encoder is a sentence-transformers folder with random weights and the tokenizer of FOLDER (a BERT's), OUT/index a published
flat index. What it finds means nothing; what it costs is what a real one of this size costs.
"""

from __future__ import annotations

import argparse
import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import torch
from transformers import BertConfig, BertModel

from retriever.corpus.reading import CorpusPassage
from retriever.corpus.store import OFFSETS_FILE, PASSAGES_FILE, CorpusWriter
from retriever.encoders.identity import EncoderIdentity
from retriever.encoders.resolve import resolve
from retriever.index.manifest import EXACT, FORMAT, VECTORS_FILE, Manifest, fingerprint_of, publish, record, version_of

WORDS = ("amber", "bridge", "candle", "delta", "ember", "forest", "garden", "harbor", "island", "jungle", "kernel", "lantern")
PASSAGE_WORDS = 90
ROWS_AT_ONCE = 100_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=768)
    chosen = parser.parse_args()
    make_encoder(chosen.out / "encoder", chosen.tokenizer, chosen.layers, chosen.width)
    make_index(chosen.out / "index", resolve(str(chosen.out / "encoder")).identity, chosen.rows)


def make_encoder(folder: Path, tokenizer: Path, layers: int, width: int) -> None:
    torch.manual_seed(0)
    shape = {"num_hidden_layers": layers, "hidden_size": width, "num_attention_heads": width // 64, "intermediate_size": 4 * width}
    BertModel(BertConfig(**shape), add_pooling_layer=False).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "special_tokens_map.json"):
        if (tokenizer / name).exists():
            shutil.copy(tokenizer / name, folder / name)
    config = json.loads((folder / "config.json").read_text())
    # By its name it gets the prefixes of an E5.
    (folder / "config.json").write_text(json.dumps(config | {"_name_or_path": "made/e5-base"}))
    (folder / "modules.json").write_text(
        json.dumps(
            [
                {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
                {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
            ]
        )
    )
    (folder / "1_Pooling").mkdir(exist_ok=True)
    pooling = {"word_embedding_dimension": width, "pooling_mode_mean_tokens": True}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))


def make_index(out: Path, encoder: EncoderIdentity, rows: int) -> None:
    data = out / "being-made"
    data.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(2) as pool:
        each = [pool.submit(write_vectors, data / VECTORS_FILE, rows, encoder.dimension), pool.submit(write_corpus, data, rows)]
        for done in each:
            done.result()
        files = tuple(pool.map(record, (data / PASSAGES_FILE, data / OFFSETS_FILE, data / VECTORS_FILE)))
    fingerprint = fingerprint_of(encoder, "flat", EXACT, files)
    shutil.rmtree(out / version_of(fingerprint), ignore_errors=True)  # of an earlier call
    data.rename(out / version_of(fingerprint))
    manifest = Manifest(
        format=FORMAT,
        fingerprint=fingerprint,
        version=version_of(fingerprint),
        encoder=encoder,
        kind="flat",
        metric="inner_product",
        dimension=encoder.dimension,
        passages=rows,
        effort=EXACT,
        lexical=False,
        files=files,
        sources=(),
        built_at=datetime.now(UTC).isoformat(timespec="seconds"),
        build_seconds=0.0,
    )
    publish(out, manifest)


def write_vectors(path: Path, rows: int, dimension: int) -> None:
    """Unit vectors, float32, a block after the other."""
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": (rows, dimension)})
        for start in range(0, rows, ROWS_AT_ONCE):
            generator = torch.Generator().manual_seed(start)
            block = torch.randn(min(ROWS_AT_ONCE, rows - start), dimension, generator=generator)
            file.write(torch.nn.functional.normalize(block, dim=1).numpy().data)


def write_corpus(data: Path, rows: int) -> None:
    texts = [" ".join(np.random.default_rng(seed).choice(WORDS, PASSAGE_WORDS)) for seed in range(1_000)]
    with CorpusWriter(data) as writer:
        for row in range(rows):
            writer.append(CorpusPassage(str(row), f"Passage {row}", texts[row % 1_000]))


if __name__ == "__main__":
    main()
