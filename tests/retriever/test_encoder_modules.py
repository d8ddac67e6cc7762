"""An encoder with modules behind its model: how long its vectors are, and what of it cannot be loaded."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertModel, BertTokenizerFast

from parallelsearch.errors import ConfigurationError
from retriever.encoders.load import load
from retriever.encoders.resolve import resolve
from retriever.index.build import build
from retriever.index.opened import open_index
from retriever.index.plan import BuildPlan


def sentence_transformer(folder, *behind):
    """A small BERT with what is given behind it, saved; gives what sentence-transformers itself makes of texts."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Transformer

    torch.manual_seed(1)
    shape = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 48, "vocab_size": 30_522}
    BertModel(BertConfig(**shape), add_pooling_layer=False).save_pretrained(folder / "bare")
    BertTokenizerFast.from_pretrained(resolve("minilm").path).save_pretrained(folder / "bare")
    model = SentenceTransformer(modules=[Transformer(str(folder / "bare")), *behind], device="cpu")
    model.save(str(folder / "model"))
    return model, folder / "model"


def behind(kind):
    from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling

    return {
        "dense": (Pooling(32), Dense(32, 20)),
        "two dense layers": (Pooling(32), Dense(32, 64), Dense(64, 8), Normalize()),
        "dense of the same width": (Pooling(32), Dense(32, 32)),
        "two ways of pooling": (Pooling(32, ("mean", "max")), Normalize()),
        "two ways of pooling and dense": (Pooling(32, ("cls", "mean", "max")), Dense(96, 12)),
    }[kind]


WIDTHS = {
    "dense": 20,
    "two dense layers": 8,
    "dense of the same width": 32,
    "two ways of pooling": 64,
    "two ways of pooling and dense": 12,
}


@pytest.mark.parametrize("kind", WIDTHS)
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_vectors_are_as_long_as_what_stands_behind_the_model_makes_them(kind, precision, tmp_path):
    model, folder = sentence_transformer(tmp_path, *behind(kind))
    resolved = resolve(str(folder))
    assert resolved.identity.dimension == WIDTHS[kind]
    texts = ["one", "a rather longer text of several words", ""]
    given, wanted = load(resolved, precision).encode_passages(texts), model.encode(texts, normalize_embeddings=True)
    assert np.allclose(given, wanted, atol=1e-5 if precision == "float32" else 0.05)


def test_an_encoder_with_a_dense_layer_is_built_with_and_searched(tmp_path, write_corpus, rows):
    _, folder = sentence_transformer(tmp_path, *behind("dense"))
    build(BuildPlan((write_corpus(rows[:5]),), tmp_path / "index", resolve(str(folder))))
    index = open_index(tmp_path / "index")
    index.warm()
    assert index.manifest.dimension == index.search.dimension == 20


def test_an_encoder_whose_files_do_not_say_how_long_its_vectors_are_is_refused(tmp_path):
    _, folder = sentence_transformer(tmp_path, *behind("dense"))
    config = folder / "2_Dense" / "config.json"
    modules = json.loads((folder / "modules.json").read_text())
    modules[2]["type"] = "sentence_transformers.models.Other"
    resolved = resolve(str(folder))
    wrong = replace(resolved, identity=replace(resolved.identity, dimension=32))
    with pytest.raises(ConfigurationError, match="gives vectors of 20 dimensions, which its files do not say"):
        load(wrong)
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(ConfigurationError, match="cannot be loaded as an encoder"):
        load(resolve(str(folder)))
    assert config.exists()


@pytest.mark.parametrize("file", ["model.safetensors", "2_Dense/model.safetensors", "tokenizer.json", "2_Dense/config.json"])
def test_an_encoder_with_a_damaged_file_is_refused_in_a_sentence(file, tmp_path):
    _, folder = sentence_transformer(tmp_path, *behind("dense"))
    (folder / file).write_bytes(b"{}")
    with pytest.raises(ConfigurationError) as raised:
        load(resolve(str(folder)))
    assert str(folder) in raised.value.detail
    assert "\n" not in raised.value.detail
