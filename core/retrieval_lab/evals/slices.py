"""Parting the queries of a run by what their labels say, and what its lists are made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Final

from retrieval_lab.chunker import doc_id_of
from retrieval_lab.errors import InputError
from retrieval_lab.evals.records import QueryRecord
from retrieval_lab.evals.runs import Run
from retrieval_lab.types import GoldenQuery

KIND: Final = "kind"
SPLIT: Final = "split"
NO_VALUE: Final = "(none)"
"""The slice of the queries that do not have the field."""

TOP: Final = 5


def slice_fields(run: Run) -> tuple[str, ...]:
    """What the queries can be parted by: the kind, the split where any has one, and every further label field."""
    more = sorted({name for record in run.queries for name in record.fields})
    split = (SPLIT,) if any(record.split for record in run.queries) else ()
    return (KIND, *split, *(name for name in more if name not in (KIND, SPLIT)))


def require_field(golden: Iterable[GoldenQuery], field: str) -> None:
    """Raises InputError when no query has the field, before anything is evaluated by it."""
    known = {KIND, SPLIT, *(name for query in golden for name, _ in query.fields)}
    if field not in known:
        raise InputError(f"no query has the label field {field!r}; there is {', '.join(sorted(known))}")


def slices(run: Run, field: str) -> dict[str, list[QueryRecord]]:
    """The queries of each value of a field, values sorted, those without it last; queries without a measure too."""
    found: dict[str, list[QueryRecord]] = {}
    for record in run.queries:
        found.setdefault(value_of(record, field), []).append(record)
    return dict(sorted(found.items(), key=lambda one: (one[0] == NO_VALUE, one[0])))


def value_of(record: QueryRecord, field: str) -> str:
    """The value that a query has of a field, NO_VALUE without it."""
    values = {**record.fields, KIND: record.kind, SPLIT: record.split}
    return values.get(field) or NO_VALUE


@dataclass(frozen=True, slots=True)
class Coverage:
    """What final lists are made of.

    `judged` is the mean share of the documents in the cut list that a label judges, over the queries with graded
    documents, None without any: what nobody judged counts as irrelevant, and may not be. `documents` is the mean
    number of distinct documents among the first TOP rows.
    """

    judged: float | None
    documents: float | None

    def to_dict(self) -> dict[str, Any]:
        """The coverage as JSON has it."""
        return {"judged": self.judged, f"distinct_documents@{TOP}": self.documents}


NO_COVERAGE: Final = Coverage(None, None)


def coverage(records: Sequence[QueryRecord]) -> Coverage:
    """The coverage of the final lists of some queries; an empty list has judged nothing and no document."""
    graded = [record for record in records if record.level == "document"]
    shares = [
        fmean(doc_id in record.grades for doc_id in ids) if (ids := _documents(record)) else 0.0 for record in graded
    ]
    numbers = [len(set(_documents(record)[:TOP])) for record in records]
    return Coverage(fmean(shares) if shares else None, fmean(numbers) if numbers else None)


def _documents(record: QueryRecord) -> list[str]:
    return [doc_id_of(hit.chunk_id) for hit in record.final]
