"""Which passages a filter lets through: those of the documents that pass, as rows, exactly."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from parallelsearch.rollout.types import Filter
from retriever.documents.dates import moment_of
from retriever.documents.patterns import matches
from retriever.documents.records import DocumentRecord

Rows = NDArray[np.int64]
_REMEMBERED, _REMEMBERED_ROWS = 64, 4_000_000
"""Filters whose rows are kept, and how many rows they have together: 32 MB."""


class DocumentFilter:
    """The documents of one version. Belongs to the thread that searches."""

    def __init__(self, records: Sequence[DocumentRecord]) -> None:
        self._records = [record for record in records if record.state == "indexed"]
        self._moments = [moment_of(record.date) for record in self._records]
        self._known: OrderedDict[Filter, Rows] = OrderedDict()
        self._kept = 0

    def sources_under(self, root: Path) -> frozenset[str]:
        """The documents that came from this folder."""
        return frozenset(record.source for record in self._records if record.root == str(root.resolve()))

    def rows(self, given: Filter) -> Rows:
        """The rows of all passages that pass, ascending."""
        found = self._known.pop(given, None)
        if found is None:
            found = self._passing(given)
            self._kept += len(found)
        self._known[given] = found
        while self._known and (len(self._known) > _REMEMBERED or self._kept > _REMEMBERED_ROWS):
            self._kept -= len(self._known.popitem(last=False)[1])
        return found

    def _passing(self, given: Filter) -> Rows:
        ranges = [
            np.arange(record.first_row, record.first_row + record.rows, dtype=np.int64)
            for record, moment in zip(self._records, self._moments, strict=True)
            if _passes(record, moment, given)
        ]
        return np.sort(np.concatenate(ranges)) if ranges else np.empty(0, np.int64)


def _passes(record: DocumentRecord, moment: datetime | None, given: Filter) -> bool:
    if given.source and record.source != given.source and not matches(record.source, given.source):
        return False
    if given.after and (moment is None or moment < datetime.fromisoformat(given.after)):
        return False
    if given.before and (moment is None or moment >= datetime.fromisoformat(given.before)):
        return False
    return all(record.metadata.get(name) == value for name, value in given.metadata)
