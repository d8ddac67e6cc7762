"""What the commands on indexes share: where an index lies, what its corpus is, and errors as a sentence."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import typer

from parallelsearch.clients.retriever_admin import RetrieverAdminClient
from parallelsearch.errors import ConfigurationError, CorpusError, ParallelSearchError
from retriever.documents.formats import SUFFIXES, format_of
from retriever.index.errors import AtWork

CHUNK_TOKENS, OVERLAP_TOKENS = 128, 16
"""What found most evidence in the words that the policy reads of a passage: benchmarks/documents_recall.py."""
INTERRUPTED, TRY_AGAIN = 130, 75
INDEX_HELP = "The name of an index in the folder RETRIEVER_INDEXES, or its folder."
INDEXES, RETRIEVER_URL, ADMIN_TOKEN = "RETRIEVER_INDEXES", "RETRIEVER_URL", "ADMIN_TOKEN"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_GOES_ON = "what was published before stands, and the same command goes on from here"
_PASSAGE_SUFFIXES = frozenset((".jsonl", ".json", ".ndjson", ".gz", ".parquet"))


@contextmanager
def refusals() -> Iterator[None]:
    """An error of ours is a sentence and exit code 1, and so is one of the system (a full disk, say); Ctrl-C has code 130.

    What another build keeps from its work has code 75.
    """
    try:
        yield
    except AtWork as error:
        typer.echo(f"[index] {error.detail}", err=True)
        raise SystemExit(TRY_AGAIN) from None
    except ParallelSearchError as error:
        raise SystemExit(f"[index] {error.detail}") from None
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise SystemExit(f"[index] {where}{error.strerror or error}. When that is put right, {_GOES_ON}.") from None
    except KeyboardInterrupt:
        typer.echo(f"[index] interrupted: {_GOES_ON}", err=True)
        raise SystemExit(INTERRUPTED) from None


def place_of(out: Path | None, index: str | None) -> Path:
    """The folder that `--out` or `--index` names.

    Raises:
        ConfigurationError: neither is given, or both, or the name is none.
    """
    if (out is None) == (index is None):
        raise ConfigurationError("Say where the index is: --out FOLDER, or --index NAME.")
    return out if out is not None else folder_of(index or "")


def refuse_what_is_no_text(*names: str | Path) -> None:
    """An index notes names down in UTF-8.

    Raises:
        ConfigurationError: one is not.
    """
    for name in names:
        text = os.path.realpath(name) if isinstance(name, Path) else name
        try:
            text.encode()
        except UnicodeEncodeError:
            shown = text.encode("utf-8", "backslashreplace").decode()
            raise ConfigurationError(f"{shown} is not UTF-8, in which an index notes names down. Give it another name.") from None


def folder_of(index: str) -> Path:
    """The folder of an index that is named, or given as a path."""
    if "/" in index:
        return Path(index)
    if not NAME.fullmatch(index):
        raise ConfigurationError(f"{index!r} is no name for an index: letters, digits, dots, dashes, at most 64.")
    folder = os.environ.get(INDEXES, "")
    if not folder:
        raise ConfigurationError(f"Where is the index {index}? Set {INDEXES} to the folder of the indexes, or name a path.")
    return Path(folder) / index


def running_retriever() -> RetrieverAdminClient | None:
    """The retriever that the environment names, if it names one and the token that it wants."""
    url, token = os.environ.get(RETRIEVER_URL, ""), os.environ.get(ADMIN_TOKEN, "")
    return RetrieverAdminClient(url, token) if url and token else None


def are_documents(paths: Sequence[Path]) -> bool:
    """Whether these are folders and documents, and not files of passages.

    Raises:
        CorpusError: some are and some are not.
    """
    documents = [path for path in paths if path.is_dir() or format_of(path.name)]
    passages = [path for path in paths if path not in documents and _suffix(path) in _PASSAGE_SUFFIXES]
    neither = next((path for path in paths if path not in documents and path not in passages and path.suffix), None)
    if neither is not None and neither.exists():
        raise CorpusError(
            f"{neither} is not read. Documents end in {' '.join(SUFFIXES)}, passages in {' '.join(sorted(_PASSAGE_SUFFIXES))}."
        )
    if documents and passages:
        raise CorpusError(f"{passages[0]} is a file of passages and {documents[0]} is of documents. Build an index of each.")
    if documents and len(documents) < len(paths):
        other = next(path for path in paths if path not in documents)
        raise CorpusError(f"{other} is not read. Documents end in {' '.join(SUFFIXES)}.")
    return bool(documents)


def _suffix(path: Path) -> str:
    return path.suffix.lower()


def pairs(given: Sequence[str] | None) -> dict[str, str]:
    """NAME=VALUE, several times."""
    found = {}
    for each in given or ():
        name, equals, value = each.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise ConfigurationError(f"--metadata {each!r} must be NAME=VALUE.")
        found[name.strip()] = value.strip()
    return found
