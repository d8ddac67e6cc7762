import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

from parallelsearch.clients.fast_tokens import encoder_of, is_fast
from parallelsearch.demo import demo_file

WORDS = [orjson.loads(line)["text"] for line in demo_file("corpus.jsonl").read_bytes().splitlines()[:120]]
OWN_PATTERN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SPECIAL = ["<|im_start|>", "<|im_end|>"]


def own_split():
    split = pre_tokenizers.Split(Regex(OWN_PATTERN), "isolated")
    return pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def trained(splitter, *, alphabet=(), normalizer=None, special=tuple(SPECIAL)):
    tokenizer = Tokenizer(models.BPE())
    if splitter is not None:
        tokenizer.pre_tokenizer = splitter
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    trainer = trainers.BpeTrainer(
        vocab_size=1_200, special_tokens=list(special), initial_alphabet=list(alphabet), show_progress=False
    )
    tokenizer.train_from_iterator(WORDS, trainer)
    return tokenizer


def byte_level(**options):
    return pre_tokenizers.ByteLevel(add_prefix_space=False, **options)


def changed(tokenizer, change):
    described = orjson.loads(tokenizer.to_str())
    change(described)
    return Tokenizer.from_str(orjson.dumps(described).decode())


def ids_against_merges(described):
    vocabulary = described["model"]["vocab"]
    last, first = max(vocabulary, key=vocabulary.get), "".join(described["model"]["merges"][0])
    vocabulary[last], vocabulary[first] = vocabulary[first], vocabulary[last]


def stripping(described):
    described["added_tokens"][0]["lstrip"] = True


ALL = pre_tokenizers.ByteLevel.alphabet()
FAST = {
    "as GPT-2": trained(byte_level(), alphabet=ALL),
    "a vocabulary that lacks bytes": trained(byte_level()),
    "a pattern of its own": trained(own_split(), alphabet=ALL),
    "composed first": trained(own_split(), alphabet=ALL, normalizer=normalizers.NFC()),
    "with a space before": trained(pre_tokenizers.ByteLevel(add_prefix_space=True), alphabet=ALL),
    "lower case": trained(byte_level(), alphabet=ALL, normalizer=normalizers.Lowercase()),
    "ids in another order than merges": changed(trained(byte_level(), alphabet=ALL), ids_against_merges),
    "special tokens that strip": changed(trained(byte_level(), alphabet=ALL), stripping),
}
GENERAL = {
    "no bytes": trained(pre_tokenizers.Whitespace()),
    "nothing split off and characters that it drops": trained(None),
    "decomposed first": trained(byte_level(), alphabet=ALL, normalizer=normalizers.NFD()),
    "words": Tokenizer(models.WordLevel({"a": 0, "?": 1}, unk_token="?")),
}
ENCODERS = {name: (encoder_of(tokenizer), tokenizer) for name, tokenizer in (FAST | GENERAL).items()}
PIECES = st.sampled_from(
    [*SPECIAL, " ", "\n", "\n\n", "\t", "\x04", "\u0301", "don't", "Doc 1(Title: A) ", "1,234.5", "km²", "🎨", "\U000f0000"]
)
TEXT = st.lists(st.one_of(PIECES, st.text(max_size=12), st.sampled_from(WORDS[0].split())), max_size=12).map("".join)


@pytest.mark.parametrize("name", FAST)
def test_byte_pairs_are_known(name):
    assert is_fast(FAST[name])


@pytest.mark.parametrize("name", GENERAL)
def test_what_the_fast_library_cannot_do_is_left_to_the_general_one(name):
    assert not is_fast(GENERAL[name])


@given(text=TEXT)
@example(text="")
@example(text="<|im_start|>user\nWho?<|im_end|>\n<|im_start|>assistant\n")
@example(text="a  \n \n  b\r\n c \u0085 \u00a0d   ")
def test_every_tokenizer_gives_the_ids_of_the_general_library(text):
    for name, (encode, tokenizer) in ENCODERS.items():
        assert encode(text) == tokenizer.encode(text, add_special_tokens=False).ids, name


def test_passages_are_the_same_too():
    for encode, tokenizer in ENCODERS.values():
        assert all(encode(text) == tokenizer.encode(text, add_special_tokens=False).ids for text in WORDS)
