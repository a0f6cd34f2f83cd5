"""Parting the queries of a run by what their labels say, and what its lists are made of."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean
from typing import Any, Final

from retrieval_lab.chunker import doc_id_of
from retrieval_lab.errors import InputError
from retrieval_lab.evals.records import QueryRecord
from retrieval_lab.evals.runs import Run
from retrieval_lab.types import GoldenQuery

KIND: Final = "kind"
SPLIT: Final = "split"
DOCUMENT: Final = "document"
"""The folder of the corpus in which the relevant documents lie."""
OWN: Final = (KIND, SPLIT, DOCUMENT)
"""What every query has of itself; a label field of that name is not seen."""
NO_VALUE: Final = "(none)"
"""The slice of the queries that do not have the field."""

WEEKDAY: Final = "weekday"
WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
DATE_PARTS: Final[Mapping[str, Callable[[datetime], str]]] = {
    "year": lambda date: f"{date.year:04}",
    "month": lambda date: f"{date.year:04}-{date.month:02}",
    WEEKDAY: lambda date: WEEKDAYS[date.weekday()],
}
"""What a field of dates can be parted by, behind its name and a colon."""

TOP: Final = 5

_BEGINS_WITH_A_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?![0-9-])")


def slice_fields(run: Run) -> tuple[str, ...]:
    """What the queries can be parted by.

    The kind, the split where any has one, the kind of document where any is known, and every further label field, one
    of dates also by its parts.
    """
    records = run.queries
    split = (SPLIT,) if any(record.split for record in records) else ()
    document = (DOCUMENT,) if any(record.document for record in records) else ()
    return (KIND, *split, *document, *_of_labels([record.fields for record in records]))


def require_field(golden: Iterable[GoldenQuery], field: str) -> None:
    """Raises InputError when no query has the field, before anything is evaluated by it."""
    _require(field, {*OWN, *_of_labels([dict(query.fields) for query in golden])})


def require_field_of(run: Run, field: str) -> None:
    """Raises InputError when no query of a run that was kept has the field."""
    _require(field, {*OWN, *slice_fields(run)})


def _require(field: str, known: Collection[str]) -> None:
    if field not in known:
        raise InputError(f"no query has the label field {field!r}; there is {', '.join(sorted(known))}")


def _of_labels(fields: Sequence[Mapping[str, str]]) -> list[str]:
    """The names of the label fields, sorted, each of dates alone followed by its parts."""
    found: list[str] = []
    for name in sorted({name for one in fields for name in one} - {*OWN}):
        found.append(name)
        if all(_date(one[name]) for one in fields if name in one):
            found += [f"{name}:{part}" for part in DATE_PARTS]
    return found


def slices(run: Run, field: str) -> dict[str, list[QueryRecord]]:
    """The queries of each value of a field, values sorted, those without it last; queries without a measure too.

    Days of the week begin with Monday.
    """
    found: dict[str, list[QueryRecord]] = {}
    for record in run.queries:
        found.setdefault(value_of(record, field), []).append(record)

    def order(value: str) -> tuple[bool, int, str]:
        is_weekday = field.endswith(f":{WEEKDAY}") and value in WEEKDAYS
        return value == NO_VALUE, WEEKDAYS.index(value) if is_weekday else 0, value

    return {value: found[value] for value in sorted(found, key=order)}


def value_of(record: QueryRecord, field: str) -> str:
    """The value that a query has of a field, NO_VALUE without it.

    `FIELD:year`, `FIELD:month` (2024-05) and `FIELD:weekday` are of a field that holds a date.
    """
    values = {**record.fields, KIND: record.kind, SPLIT: record.split, DOCUMENT: record.document}
    name, _, part = field.rpartition(":")
    if field not in values and part in DATE_PARTS and (date := _date(values.get(name, ""))):
        return DATE_PARTS[part](date)
    return values.get(field) or NO_VALUE


def _date(text: str) -> datetime | None:
    """The date, or date with a time of day, as it is written, in whatever time zone; None of other texts."""
    if not _BEGINS_WITH_A_DATE.match(text):
        return None  # Python reads other forms of ISO 8601 too, such as 20240501, which may be any number
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


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
