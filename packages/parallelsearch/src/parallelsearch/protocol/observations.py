"""How search results are laid out for the policy. Each layout is a pure function from results to text.

- `labelled`: with two or more sub-queries each group starts with a line `Query i: …`; passages are cut by words.
- `compact`: `labelled`, but a passage already shown in this rollout is referred to and not repeated.
- `paper`: the published text byte for byte: no labels, passages in full, numbering restarts.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import StrEnum

from parallelsearch.protocol.tags import INFORMATION, neutralise
from parallelsearch.rollout.types import Passage, SubQueryResult

OPEN, CLOSE = f"\n\n<{INFORMATION}>", f"</{INFORMATION}>\n\n"
TITLE_WORDS, LABEL_WORDS = 40, 60
LONGEST_WORD = 32
"""Characters. Text without blanks (Chinese, Japanese, Thai, an address) counts and is cut as words of this length."""
MALFORMED_HINT = (
    "This was neither a search nor an answer. To search, write the query inside search tags. "
    "To answer, write the answer inside answer tags."
)
REPEATED_HINT = "These sub-queries were searched already and their results stand above. Answer now, inside answer tags."


class Layout(StrEnum):
    LABELLED = "labelled"
    COMPACT = "compact"
    PAPER = "paper"


def wrap(body: str) -> str:
    """An observation around `body`, which must hold no tag."""
    return f"{OPEN}{body}{CLOSE}"


def cut_words(text: str, words: int) -> str:
    """The first `words` words, single blanks between them."""
    found = text.split(None, words)[:words]
    if not any(len(word) > LONGEST_WORD for word in found):
        return " ".join(found)
    kept = []
    for word in found:
        kept.append(word[: words * LONGEST_WORD])
        words -= _length(word)
        if words <= 0:
            break
    return " ".join(kept)


def count_words(text: str) -> int:
    """As `cut_words` counts them."""
    return sum(map(_length, text.split()))


def _length(word: str) -> int:
    return -(-len(word) // LONGEST_WORD)


def passage_line(number: int, passage: Passage, words: int, special_tokens: Sequence[str] = ()) -> str:
    """`Doc j(Title: …) text`, on one line, cut to `words` words of text."""
    title = neutralise(cut_words(passage.title, TITLE_WORDS), special_tokens)
    text = neutralise(cut_words(passage.text, words), special_tokens)
    return f"Doc {number}(Title: {title}) {text}".rstrip()


def shown_line(number: int, passage: Passage, special_tokens: Sequence[str] = ()) -> str:
    title = neutralise(cut_words(passage.title, TITLE_WORDS), special_tokens)
    return f"Doc {number}(Title: {title}) shown above"


def group_lines(
    number: int,
    result: SubQueryResult,
    words: int,
    *,
    labelled: bool,
    shown: Collection[str] = (),
    special_tokens: Sequence[str] = (),
) -> list[str]:
    """The lines of one sub-query: its label if `labelled`, then its passages; those whose id is in `shown` are only referred to."""
    lines = []
    if labelled:
        lines.append(f"Query {number}: {neutralise(cut_words(result.query, LABEL_WORDS), special_tokens)}")
    for position, passage in enumerate(result.passages, start=1):
        if passage.id in shown:
            lines.append(shown_line(position, passage, special_tokens))
        else:
            lines.append(passage_line(position, passage, words, special_tokens))
    return lines


def paper_body(results: Sequence[SubQueryResult], special_tokens: Sequence[str] = ()) -> str:
    """The inside of a published observation; titles stand in double quotes, as in the published corpus."""
    lines = []
    for result in results:
        for position, passage in enumerate(result.passages, start=1):
            title, text = neutralise(passage.title, special_tokens), neutralise(passage.text, special_tokens)
            lines.append(f'Doc {position}(Title: "{title}") {text}\n')
    return "".join(lines).strip()
