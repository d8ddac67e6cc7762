"""The protocol's tags, and how text that is not the policy's is kept from acting."""

from __future__ import annotations

import re
from collections.abc import Sequence

SEARCH, ANSWER, THINK, INFORMATION = "search", "answer", "think", "information"
SEPARATOR = "##"
CLOSING_TAGS = (f"</{SEARCH}>", f"</{ANSWER}>")
"""A generation stops at one of these, which stays in the text."""

_PROTOCOL_TAG = re.compile(rf"<(\s*/?\s*(?:{SEARCH}|{ANSWER}|{THINK}|{INFORMATION})\s*/?\s*)>", re.IGNORECASE)
# The bracketed forms that chat templates and tokenizers use: <|im_end|>, <｜end▁of▁sentence｜>, <s>, </s>, <bos>, [INST], <<SYS>> …
_SPECIAL_TOKEN = re.compile(
    r"<([|｜][^<>]{1,64}[|｜])>"
    r"|<(/?(?:s|bos|eos|unk|pad|mask|start_of_turn|end_of_turn|begin_of_text|eot_id|tool_call|tool_response))>"
    r"|<(</?SYS>)>"
)
_INSTRUCTION = re.compile(r"\[(/?INST)\]")


def neutralise(text: str, special_tokens: Sequence[str] = ()) -> str:
    """`text` with protocol tags and special tokens made inert: their angle brackets become square ones, `[INST]` becomes `(INST)`.

    `special_tokens` are further ones of the policy's tokenizer, taken out literally. What comes back holds no tag, and
    neutralising it again changes nothing.
    """
    for token in special_tokens:
        if token and token in text:
            text = text.replace(token, _inert(token))
    if "<" not in text and "[" not in text:
        return text
    text = _PROTOCOL_TAG.sub(r"[\1]", text)
    text = _SPECIAL_TOKEN.sub(lambda match: f"[{(match[1] or match[2] or match[3]).strip('<>')}]", text)
    return _INSTRUCTION.sub(r"(\1)", text)


def _inert(token: str) -> str:
    """A special token spelt so that no tokenizer takes it for itself."""
    inner = token.strip("<>[]{}")
    return f"({inner})" if inner != token else " ".join(token)
