"""Token ids of short texts by a faster library than the one below Hugging Face's tokenizers, where it gives the same ids.

It is given byte-level tokenizers, which is what nearly every policy has; whether it knows one is tried on all of its words.
"""

from __future__ import annotations

from collections.abc import Callable

import fastokens
import orjson
from tokenizers import Tokenizer

Encode = Callable[[str], list[int]]


def encoder_of(tokenizer: Tokenizer) -> Encode:
    """Text to token ids as `tokenizer` gives them, without special tokens added; those that stand in the text count as such."""
    general = _general(tokenizer)
    return _fast(tokenizer, general) or general


def is_fast(tokenizer: Tokenizer) -> bool:
    """Whether the faster library does the same."""
    return _fast(tokenizer, _general(tokenizer)) is not None


def _general(tokenizer: Tokenizer) -> Encode:
    return lambda text: tokenizer.encode_batch_fast([text], add_special_tokens=False)[0].ids


def _fast(tokenizer: Tokenizer, general: Encode) -> Encode | None:
    described = tokenizer.to_str()
    if '"ByteLevel"' not in orjson.dumps(orjson.loads(described)["pre_tokenizer"]).decode():
        return None  # what it does with characters that a vocabulary lacks differs
    try:
        encode = fastokens.Tokenizer.from_json_str(described).encode
    except ValueError:  # a part of it is unknown
        return None

    def fast(text: str) -> list[int]:
        try:
            ids: list[int] = encode(text).ids
        except ValueError:  # a byte that the vocabulary lacks
            return general(text)
        return ids

    words = list(tokenizer.get_vocab())
    expected = tokenizer.encode_batch_fast(words, add_special_tokens=False)
    return fast if all(fast(word) == found.ids for word, found in zip(words, expected, strict=True)) else None
