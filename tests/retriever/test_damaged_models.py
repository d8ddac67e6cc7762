"""Models whose files are damaged: a sentence that names the folder, whatever of it is wrong and wherever it is met."""

import json
import os
import shutil

import pytest

from parallelsearch.errors import ConfigurationError
from retriever.encoders.load import load
from retriever.encoders.resolve import resolve
from retriever.encoders.tokens import load_counter
from retriever.reranking import Reranker

ODD = ["x", None, [], {}, [3]]


@pytest.fixture
def model(tmp_path, minilm):
    """A copy of MiniLM, of which files are written anew."""
    folder = tmp_path / "model"
    shutil.copytree(minilm.path, folder, copy_function=os.link)

    def with_file(name, content):
        (folder / name).unlink(missing_ok=True)
        (folder / name).write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        return folder

    return with_file


def used(folder):
    """As building and serving use it."""
    encoder = resolve(str(folder))
    load_counter(encoder).count_tokens(["a lake"])
    load(encoder).encode_queries(["a lake"])


@pytest.mark.parametrize("value", ODD)
@pytest.mark.parametrize("name", ["hidden_size", "max_position_embeddings", "num_attention_heads"])
def test_odd_values_in_the_configuration_are_a_sentence(model, minilm, name, value):
    folder = model("config.json", json.loads((minilm.path / "config.json").read_text()) | {name: value})
    (folder / "sentence_bert_config.json").unlink()
    with pytest.raises(ConfigurationError, match=str(folder)):
        used(folder)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config_sentence_transformers.json", {"prompts": ["a"]}),
        ("config_sentence_transformers.json", {"prompts": {"query": 3}}),
        ("sentence_bert_config.json", {"max_seq_length": "long"}),
        ("modules.json", [3]),
        ("tokenizer.json", {}),
        ("tokenizer.json", b"{"),
        ("model.safetensors", b"cut"),
        ("config.json", b"{"),
    ],
)
def test_a_damaged_file_of_an_encoder_is_a_sentence(model, name, content):
    folder = model(name, content)
    with pytest.raises(ConfigurationError, match=str(folder)) as raised:
        used(folder)
    assert "\n" not in raised.value.detail


@pytest.mark.parametrize(("name", "content"), [("config.json", {}), ("config.json", b"{"), ("model.safetensors", b"cut")])
def test_a_damaged_file_of_a_cross_encoder_is_a_sentence(model, name, content):
    folder = model(name, content)
    with pytest.raises(ConfigurationError, match=f"RETRIEVER_RERANKER is {folder}, which cannot be loaded") as raised:
        Reranker(folder, 10)
    assert "\n" not in raised.value.detail
