"""OpenRLHF hands each question's rollouts a copy of the tokenizer. What is costly in one, its vocabulary, is unpacked once here.

Unpacking one of 49,000 words takes 0.1 s, and the process that makes a step's rollouts unpacks one for each of its questions, one
after the other.
"""

from __future__ import annotations

import copyreg
from functools import lru_cache
from typing import Any

KEPT = 4


def share() -> None:
    """From now on this process packs a tokenizer so that whoever gets several copies of it unpacks the first alone."""
    try:
        from tokenizers import Tokenizer
    except ImportError:
        return
    copyreg.pickle(Tokenizer, _packed)


def _packed(tokenizer: Any) -> tuple[Any, ...]:
    return unpacked, (tokenizer.__getstate__(),)


@lru_cache(maxsize=KEPT)
def unpacked(state: bytes) -> Any:
    """The tokenizer of this state, the same one each time."""
    from tokenizers import Tokenizer

    return Tokenizer.from_buffer(state)
