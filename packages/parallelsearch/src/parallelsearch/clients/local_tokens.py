"""The policy's own tokenizer inside of this process, so that no text has to travel to become token ids.

It is used only where it agrees with the policy's `/tokenize`, on texts of each form that a rollout sends.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from tokenizers import Tokenizer

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
class LocalTokens:
    """Token ids of texts, and of user messages between what the chat template puts around them."""

    tokenizer: Tokenizer
    before: str
    after: str

    def text(self, text: str) -> tuple[int, ...]:
        return tuple(self.tokenizer.encode_batch_fast([text], add_special_tokens=False)[0].ids)

    def message(self, text: str) -> tuple[int, ...]:
        return self.text(self.before + text + self.after)


async def fetch_tokenizer(http: PolicyHttp) -> Tokenizer:
    """What the policy says its tokenizer is.

    Raises:
        NotFound: it does not say.
        UpstreamUnavailable: it cannot be reached, or says something else.
    """
    content = await http.get_bytes(PATH)
    try:
        # A second's work for a large vocabulary.
        return await asyncio.to_thread(Tokenizer.from_buffer, content)
    except ValueError as error:
        raise UpstreamUnavailable(f"The policy's /{PATH} is not a tokenizer.") from error


async def agreeing_tokens(http: PolicyHttp, model: str, tokenizer: Tokenizer) -> LocalTokens | None:
    """The tokenizer with the policy's chat template around it; None where it gives other ids than the policy."""
    tokenizer.no_truncation()
    tokenizer.no_padding()
    question = QUESTIONS[0]
    whole = tokenizer.decode(list(await tokenize_message(http, model, question)), skip_special_tokens=False)
    before, found, after = whole.partition(question)
    if not found:
        return None
    local = LocalTokens(tokenizer, before, after)
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
