"""The prompt: one user message through the model's chat template.

The wording is the published template of ParallelSearch (arXiv 2508.09303), kept word for word because policies were trained on it.
"""

from __future__ import annotations

from collections.abc import Sequence

from parallelsearch.protocol.tags import neutralise
from parallelsearch.rollout.types import Mode

_REASON = (
    "Answer the given question. You must conduct reasoning inside <think> and </think> first every time you get new information. "
)
_SEARCH = (
    "After reasoning, if you find you lack some knowledge, you can call a search engine by <search> query </search> and it will "
    "return the top searched results between <information> and </information>. "
)
_DECOMPOSE = (
    "If the original query is complex or involves multiple parts, you are encouraged to decompose it into smaller sub-questions, "
    "separated by ##. For example: <search> sub-question 1 ## sub-question 2 </search>. "
)
_AGAIN = "You can search as many times as your want. "
_ANSWER = (
    "If you find no further external knowledge needed, you can directly provide the answer inside <answer> and </answer>, without "
    "detailed illustrations. For example, <answer> Beijing </answer>. "
)
INSTRUCTIONS = {
    Mode.PARALLEL: _REASON + _SEARCH + _DECOMPOSE + _AGAIN + _ANSWER,
    Mode.SEQUENTIAL: _REASON + _SEARCH + _AGAIN + _ANSWER,
    Mode.NO_SEARCH: _REASON + _ANSWER,
}


def build_prompt(question: str, mode: Mode, *, final_newline: bool = False, special_tokens: Sequence[str] = ()) -> str:
    """The user message for `question`, which gets a `?` if it ends without one.

    `final_newline` is what the `paper` layout ends with; other policies were trained without.
    """
    asked = neutralise(question.strip(), special_tokens)
    if not asked.endswith("?"):
        asked += "?"
    return f"{INSTRUCTIONS[mode]}Question: {asked}" + ("\n" if final_newline else "")
