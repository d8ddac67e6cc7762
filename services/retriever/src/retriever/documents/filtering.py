"""Which passages a filter lets through: those of the documents that pass, as rows, exactly."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from parallelsearch.rollout.types import Filter
from retriever.documents.dates import moment_of
from retriever.documents.records import DocumentRecord

Rows = NDArray[np.int64]
_REMEMBERED = 64


class DocumentFilter:
    """The documents of one version. Belongs to the thread that searches."""

    def __init__(self, records: Sequence[DocumentRecord]) -> None:
        self._records = [record for record in records if record.state == "indexed"]
        self._moments = [moment_of(record.date) for record in self._records]
        self._known: OrderedDict[Filter, Rows] = OrderedDict()

    def sources_under(self, root: Path) -> frozenset[str]:
        """The documents that came from this folder."""
        return frozenset(record.source for record in self._records if record.root == str(root.resolve()))

    def rows(self, given: Filter) -> Rows:
        """The rows of all passages that pass, ascending."""
        if given not in self._known:
            self._known[given] = self._passing(given)
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        self._known.move_to_end(given)
        return self._known[given]

    def _passing(self, given: Filter) -> Rows:
        ranges = [
            np.arange(record.first_row, record.first_row + record.rows, dtype=np.int64)
            for record, moment in zip(self._records, self._moments, strict=True)
            if _passes(record, moment, given)
        ]
        return np.sort(np.concatenate(ranges)) if ranges else np.empty(0, np.int64)


def _passes(record: DocumentRecord, moment: datetime | None, given: Filter) -> bool:
    if given.source and record.source != given.source and not fnmatchcase(record.source, given.source):
        return False
    if given.after and (moment is None or moment < datetime.fromisoformat(given.after)):
        return False
    if given.before and (moment is None or moment >= datetime.fromisoformat(given.before)):
        return False
    return all(record.metadata.get(name) == value for name, value in given.metadata)
