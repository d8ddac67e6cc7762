"""The policy's own tokenizer inside of this process, so that no text has to travel to become token ids.

It is used only where it agrees with the policy's `/tokenize`, on texts of each form that a rollout sends.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from tokenizers import Tokenizer

from parallelsearch.clients.fast_tokens import Encode, encoder_of
from parallelsearch.clients.policy_http import PolicyHttp
from parallelsearch.clients.policy_routes import tokenize_message, tokenize_text
from parallelsearch.errors import UpstreamUnavailable
from parallelsearch.protocol import observations
from parallelsearch.protocol.prompt import build_prompt
from parallelsearch.rollout.types import Mode, Passage, SubQueryResult

PATH = "v1/policy/tokenizer"
QUESTIONS = ("Who is older, Claude Monet or Camille Pissarro?", "  Où est né «Émile Zola»，又名 左拉?  1840 ")
_PASSAGES = (
    Passage("1", "Émile Zola", "Born 2 April 1840 – Paris;  “naturalism” (1,234.5 km²).\nFather: François 左拉 🎨 <b>x</b> a_b #7"),
    Passage("2", "don't", "it's 10:30am... state-of-the-art\tC++/C# ½ ﬁ e\u0301 \u200b."),
)
"""What tokenizers differ on: digits, marks, white space, composed and combining characters, scripts, emoji."""


@dataclass(frozen=True, slots=True)
class PolicyTokenizer:
    """A tokenizer, and how texts are made ids with it."""

    tokenizer: Tokenizer
    encode: Encode


@dataclass(frozen=True, slots=True)
class LocalTokens:
    """Token ids of texts, and of user messages between what the chat template puts around them."""

    encode: Encode
    before: str
    after: str

    def text(self, text: str) -> tuple[int, ...]:
        return tuple(self.encode(text))

    def message(self, text: str) -> tuple[int, ...]:
        return self.text(self.before + text + self.after)


async def fetch_tokenizer(http: PolicyHttp) -> PolicyTokenizer:
    """What the policy says its tokenizer is.

    Raises:
        NotFound: it does not say.
        UpstreamUnavailable: it cannot be reached, or says something else.
    """
    content = await http.get_bytes(PATH)
    try:
        # Two seconds' work for a large vocabulary.
        return await asyncio.to_thread(_read, content)
    except ValueError as error:
        raise UpstreamUnavailable(f"The policy's /{PATH} is not a tokenizer.") from error


def _read(content: bytes) -> PolicyTokenizer:
    tokenizer = Tokenizer.from_buffer(content)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return PolicyTokenizer(tokenizer, encoder_of(tokenizer))


async def agreeing_tokens(http: PolicyHttp, model: str, own: PolicyTokenizer) -> LocalTokens | None:
    """The tokenizer with the policy's chat template around it; None where it gives other ids than the policy."""
    question = QUESTIONS[0]
    whole = own.tokenizer.decode(list(await tokenize_message(http, model, question)), skip_special_tokens=False)
    before, found, after = whole.partition(question)
    if not found:
        return None
    local = LocalTokens(own.encode, before, after)
    for message in _messages():
        if local.message(message) != await tokenize_message(http, model, message):
            return None
    for text in _texts():
        if local.text(text) != await tokenize_text(http, model, text):
            return None
    return local


def _messages() -> list[str]:
    prompts = [build_prompt(question, mode) for question in QUESTIONS for mode in Mode]
    return [*prompts, build_prompt(QUESTIONS[1], Mode.PARALLEL, final_newline=True), *QUESTIONS]


def _texts() -> list[str]:
    results = [SubQueryResult(query, _PASSAGES) for query in QUESTIONS]
    lines = [line for number, each in enumerate(results, 1) for line in observations.group_lines(number, each, 120, labelled=True)]
    found = ["\n".join(lines), observations.paper_body(results), observations.MALFORMED_HINT, observations.REPEATED_HINT]
    return [*map(observations.wrap, found), *lines, observations.OPEN + observations.CLOSE, "<answer>"]
