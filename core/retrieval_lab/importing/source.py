"""What every format is read into: documents, queries, and all that was wrong or is left out, each with its place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from retrieval_lab.errors import Fault
from retrieval_lab.text import sendable


@dataclass(frozen=True, slots=True)
class SourceDocument:
    """One document as the collection has it, with the line of `path` in which it stands, from 1."""

    doc_id: str
    title: str
    text: str
    path: Path
    line: int | None


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that stands in a document's text from `start` up to `end`, in code points."""

    doc_id: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class SourceQuery:
    """One query as the collection has it.

    Its label is `answer`, or the grade of each judged document in `grades`, by the collection's ids. `lines` has the
    lines of its text (`query`) and of its labels (`relevant` or `anchor`, `relevant.DOC_ID`).
    """

    query_id: str
    text: str
    kind: str
    grades: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    answer: Answer | None = None
    split: str = ""
    fields: tuple[tuple[str, str], ...] = ()
    lines: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class LeftOut:
    """How many of something, called so in the plural, were left out or changed, and the first of them.

    `faulty` says that each is a fault of the collection.
    """

    what: str
    count: int
    first: str
    faulty: bool

    def __str__(self) -> str:
        return f"{self.what}: {self.count}, the first {self.first}"


@dataclass(slots=True)
class Notes:
    """Collects what is wrong with a collection and what is left out of it, in the order in which it is met."""

    faults: list[Fault] = field(default_factory=list)
    _counts: dict[tuple[str, bool], int] = field(default_factory=dict)
    _first: dict[tuple[str, bool], str] = field(default_factory=dict)

    def fault(self, what: str, path: Path, line: int | None, message: str, query_id: str | None = None) -> None:
        """Something wrong, of the kind `what` in the plural, such as "lines that are no JSON"."""
        found = Fault(path, line, message, query_id)
        self.faults.append(found)
        self._count(what, str(found), faulty=True)

    def add(self, what: str, path: Path, faults: tuple[Fault, ...]) -> None:
        """Faults that somebody else found."""
        for one in faults:
            self.fault(what, path, one.line, one.message, one.query_id)

    def left_out(self, what: str, which: str) -> None:
        """Something that is right where it stands, and is left out or made otherwise all the same."""
        self._count(what, which, faulty=False)

    def summary(self) -> tuple[LeftOut, ...]:
        """The counts, and the first of each kind."""
        return tuple(
            LeftOut(what, count, self._first[what, faulty], faulty) for (what, faulty), count in self._counts.items()
        )

    def _count(self, what: str, which: str, *, faulty: bool) -> None:
        key = what, faulty
        self._counts[key] = self._counts.get(key, 0) + 1
        self._first.setdefault(key, which)


@dataclass(frozen=True, slots=True)
class Source:
    """A collection that was read: what is good of it, and notes about the rest.

    `queries_path` and `labels_path` are the files that the lines of the queries and of their labels are of.
    """

    path: Path
    documents: tuple[SourceDocument, ...]
    queries: tuple[SourceQuery, ...]
    queries_path: Path
    labels_path: Path
    notes: Notes


def storable_text(text: str) -> str:
    """The text as a file of the corpus holds it: `\\n` line ends, and a space for a NUL or half a surrogate pair."""
    return sendable(text.replace("\r\n", "\n").replace("\r", "\n"))[0]
