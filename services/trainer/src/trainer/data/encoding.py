"""A cold-start row as token ids: every segment tokenised apart, as a rollout puts its context together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from trainer.data.rows import ColdStartRow


class ChatTokenizer(Protocol):
    """The part of a Hugging Face tokenizer that is used."""

    eos_token_id: int

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]: ...

    def apply_chat_template(self, messages: list[dict[str, str]], *, tokenize: bool, add_generation_prompt: bool) -> str: ...


@dataclass(frozen=True, slots=True)
class Encoded:
    """`learnt` says of each token whether it is the policy's."""

    token_ids: tuple[int, ...]
    learnt: tuple[bool, ...]

    @property
    def loss_mask(self) -> list[float]:
        """1.0 where the next token is to be predicted, as OpenRLHF's SFT loss counts."""
        return [float(following) for following in (*self.learnt[1:], False)]


def encode(row: ColdStartRow, tokenizer: ChatTokenizer) -> Encoded:
    """Prompt through the chat template, then the segments; the policy's end token follows its last one."""
    message = {"role": "user", "content": row.prompt}
    prompt = tokenizer.apply_chat_template([message], tokenize=False, add_generation_prompt=True)
    parts = [(tokenizer.encode(prompt, add_special_tokens=False), False)]
    parts += [(tokenizer.encode(segment.text, add_special_tokens=False), segment.author == "policy") for segment in row.segments]
    if row.segments[-1].author == "policy":
        parts.append(([tokenizer.eos_token_id], True))
    return Encoded(_flat(parts), tuple(learnt for token_ids, learnt in parts for _ in token_ids))


def _flat(parts: Sequence[tuple[list[int], bool]]) -> tuple[int, ...]:
    return tuple(token for token_ids, _ in parts for token in token_ids)
