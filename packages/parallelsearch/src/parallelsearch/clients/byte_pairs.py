"""Byte-level BPE, which is what nearly every policy is tokenised with, as tiktoken runs it, in a quarter of the time.

Whether a tokenizer is of that kind is read from its own description; whether both give the same ids is tried on all of its words.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import Any

import orjson
import tiktoken
from tokenizers import Tokenizer
from tokenizers.pre_tokenizers import ByteLevel

Encode = Callable[[str], list[int]]

GPT_2 = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"""
"""The pattern of byte-level tokenizers that name none (GPT-2's encoder.py), without backtracking."""


def encoder_of(tokenizer: Tokenizer) -> Encode:
    """Text to token ids as `tokenizer` gives them, without special tokens added; those that stand in the text count as such."""
    general = _general(tokenizer)
    return _byte_pairs(tokenizer, general) or general


def is_byte_pairs(tokenizer: Tokenizer) -> bool:
    """Whether tiktoken can do the same."""
    return _byte_pairs(tokenizer, _general(tokenizer)) is not None


def _general(tokenizer: Tokenizer) -> Encode:
    return lambda text: tokenizer.encode_batch_fast([text], add_special_tokens=False)[0].ids


def _byte_pairs(tokenizer: Tokenizer, general: Encode) -> Encode | None:
    described = orjson.loads(tokenizer.to_str())
    pattern, ranks = _pattern(described["pre_tokenizer"]), _ranks(described)
    if pattern is None or ranks is None or described["normalizer"] not in (None, {"type": "NFC"}):
        return None
    special = {token["content"]: token["id"] for token in described["added_tokens"]}
    unknown = 1 + max(*ranks.values(), *special.values())
    # tiktoken wants every byte; a text with one that the vocabulary lacks is left to the general library.
    missing = {bytes([byte]): unknown + byte for byte in range(256) if bytes([byte]) not in ranks}
    try:
        encoding = tiktoken.Encoding("policy", pat_str=pattern, mergeable_ranks=ranks | missing, special_tokens=special)
    except ValueError:  # a pattern that it does not know
        return None
    composed = described["normalizer"] is not None

    def fast(text: str) -> list[int]:
        ids = encoding.encode(unicodedata.normalize("NFC", text) if composed else text, allowed_special="all")
        return general(text) if missing and max(ids, default=0) >= unknown else ids

    words = [word.decode() for word in ranks if _is_text(word)]
    expected = tokenizer.encode_batch_fast(words, add_special_tokens=False)
    return fast if all(fast(word) == found.ids for word, found in zip(words, expected, strict=True)) else None


def _pattern(split: Any) -> str | None:
    """How words are split off: GPT-2's way, or by a pattern of the tokenizer's own."""
    plain = {"type": "ByteLevel", "add_prefix_space": False}
    match split:
        case {"use_regex": True, **rest} if plain.items() <= rest.items():
            return GPT_2
        case {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "Split", "pattern": {"Regex": str(pattern)}, "behavior": "Isolated", "invert": False},
                {"use_regex": False, **rest},
            ],
        } if plain.items() <= rest.items():
            return pattern
    return None


def _ranks(described: Any) -> dict[bytes, int] | None:
    """The vocabulary as bytes, if its ids are in the order of the merges, by which tiktoken merges."""
    model, added = described["model"], described["added_tokens"]
    if model["type"] != "BPE" or any(model.get(name) for name in _NOT_PLAIN):
        return None
    if any(token["single_word"] or token["lstrip"] or token["rstrip"] for token in added):
        return None
    vocabulary = {word: number for word, number in model["vocab"].items() if word not in {token["content"] for token in added}}
    made: list[int] = [vocabulary.get("".join(pair), -1) for pair in model["merges"]]
    if -1 in made or made != sorted(made):
        return None
    spelt = {character: byte for byte, character in enumerate(_alphabet())}
    if not all(set(word) <= spelt.keys() for word in vocabulary):
        return None
    return {bytes(spelt[character] for character in word): number for word, number in vocabulary.items()}


_NOT_PLAIN = ("dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback")


def _alphabet() -> list[str]:
    """How byte-level vocabularies spell each byte (GPT-2's encoder.py): printable ones as they are, the others from U+0100 on."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    characters = [chr(byte) if byte in printable else chr(next(others)) for byte in range(256)]
    assert set(characters) == set(ByteLevel.alphabet())
    return characters


def _is_text(word: bytes) -> bool:
    try:
        word.decode()
    except UnicodeDecodeError:
        return False
    return True
