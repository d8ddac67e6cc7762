"""Sets by name: the demo's own, and public ones through the `datasets` library where it is installed.

The public ones are FlashRAG's collection and MultiHop-RAG, in the splits that the published scripts take: test, else dev, else
train. They come without a corpus.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import orjson

from parallelsearch.demo import demo_file
from parallelsearch.errors import ConfigurationError, InvalidInput
from parallelsearch.evaluation.questions import PAPER_SETS
from parallelsearch.evaluation.reading import QuestionSet, question_set

FLASHRAG = "RUC-NLPIR/FlashRAG_datasets"
MULTIHOPRAG = "multihoprag"
MULTIHOPRAG_REPOSITORY = "yixuantt/MultiHopRAG"
MULTIHOPRAG_FILE = "MultiHopRAG.json"
SPLITS = ("test", "dev", "train")
DEMO_SETS = {"demo": "questions.jsonl", "demo-graphs": "graph_questions.jsonl"}

Rows = list[Mapping[str, Any]]
Loader = Callable[..., Mapping[str, Rows]]
"""`datasets.load_dataset`, or what stands in for it."""


def load_named_set(name: str, loader: Loader | None = None) -> QuestionSet:
    """The set of that name.

    Raises:
        InvalidInput: no set is called so.
        ConfigurationError: `datasets` is not installed, or the set cannot be fetched.
    """
    if name in DEMO_SETS:
        return question_set(name, DEMO_SETS[name], demo_file(DEMO_SETS[name]).read_bytes().split(b"\n"))
    if name not in PAPER_SETS:
        raise InvalidInput(f"{name} is neither a file nor one of the named sets: {', '.join([*DEMO_SETS, *PAPER_SETS])}.")
    load = loader or _library()
    try:
        splits = load(MULTIHOPRAG_REPOSITORY, data_files=MULTIHOPRAG_FILE) if name == MULTIHOPRAG else load(FLASHRAG, name)
    except (OSError, RuntimeError, ValueError) as error:
        raise ConfigurationError(f"{name} cannot be fetched from its hub: {error}. Give a local file in the same shape.") from error
    split = next((split for split in SPLITS if split in splits), None)
    if split is None:
        raise ConfigurationError(f"{name} has none of the splits {', '.join(SPLITS)}.")
    return question_set(name, f"{name} ({split})", _lines(splits[split], name))


def _library() -> Loader:
    try:
        from datasets import load_dataset
    except ImportError:
        raise ConfigurationError(
            "Sets by name need the datasets library: python -m pip install datasets. "
            "Or give a file of questions, one JSON a line, with id, question, golden_answers and type."
        ) from None
    return load_dataset  # type: ignore[no-any-return]


def _lines(rows: Rows, name: str) -> Iterator[bytes]:
    for number, row in enumerate(rows):
        fields = _multihoprag(row, number) if name == MULTIHOPRAG else _flashrag(row)
        yield orjson.dumps(fields, default=list)


def _flashrag(row: Mapping[str, Any]) -> dict[str, Any]:
    metadata = row.get("metadata") or {}
    facts = metadata.get("supporting_facts") or {}
    fields = {
        "id": row.get("id"),
        "question": row.get("question"),
        "golden_answers": row.get("golden_answers"),
        "type": metadata.get("type") or "single",
        "supporting_titles": facts.get("title", []) if isinstance(facts, Mapping) else [],
    }
    return {key: value for key, value in fields.items() if value is not None}


def _multihoprag(row: Mapping[str, Any], number: int) -> dict[str, Any]:
    """Its types end in `_query` (comparison_query …), which no reward knows: they are cut to ours."""
    answer = row.get("answer")
    fields = {
        "id": row.get("id") or f"{MULTIHOPRAG}_{number}",
        "question": row.get("query"),
        "golden_answers": [answer] if isinstance(answer, str) else answer,
        "type": str(row.get("question_type") or "").removesuffix("_query"),
        "supporting_titles": [one["title"] for one in row.get("evidence_list") or [] if one.get("title")],
    }
    return {key: value for key, value in fields.items() if value is not None}
