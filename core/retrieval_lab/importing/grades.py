"""Putting labels to the queries and documents that they are about, with a fault for each that is about nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from retrieval_lab.importing.source import Notes, SourceQuery

UNKNOWN_DOCUMENTS = "labels of documents that the corpus does not have"
UNKNOWN_QUERIES = "labels of queries that are not there"
TWICE = "labels that are given twice"
SEVERAL_SPLITS = "labels of queries that another split has already"
UNLABELLED = "queries without a label"
NO_ANSWER = "no-answer"
"""The kind of a query all of whose judged documents have no positive grade."""


@dataclass(slots=True)
class Labels:
    """The grades of the queries, as far as they are about something, and where each stands."""

    queries: Collection[str]
    documents: Collection[str]
    notes: Notes
    grades: dict[str, dict[str, int]] = field(default_factory=dict)
    splits: dict[str, str] = field(default_factory=dict)
    lines: dict[str, dict[str, int]] = field(default_factory=dict)

    def add(self, path: Path, line: int | None, query: str, document: str, grade: int, split: str = "") -> None:
        """Enter a label, or note what is wrong with it."""
        what, message = self._fault(query, document, grade, split)
        if what:
            self.notes.fault(what, path, line, message, query)
            return
        self.splits.setdefault(query, split)
        self.grades.setdefault(query, {})[document] = grade
        if line is not None:
            lines = self.lines.setdefault(query, {"relevant": line})
            lines[f"relevant.{document}"] = line

    def _fault(self, query: str, document: str, grade: int, split: str) -> tuple[str, str]:
        known = self.grades.get(query, {}).get(document)
        if query not in self.queries:
            return UNKNOWN_QUERIES, f"query {query!r} is not among the queries; correct the id or delete the label"
        if document not in self.documents:
            return UNKNOWN_DOCUMENTS, f"the corpus has no document {document!r}; correct the id or delete the label"
        if self.splits.get(query, split) != split:
            return SEVERAL_SPLITS, f"the query is labelled in the split {self.splits[query]!r} too; keep it in one"
        if known is not None:
            other = f"with grade {known}, now {grade}" if known != grade else "with the same grade"
            return TWICE, f"document {document!r} is labelled twice, first {other}; keep one label"
        return "", ""

    def labelled(
        self, queries: Iterable[tuple[str, str, int | None, tuple[tuple[str, str], ...]]], kind: str
    ) -> list[SourceQuery]:
        """The queries, given as id, text, line and fields, with their labels; those without any are left out."""
        found = []
        for query_id, text, line, fields in queries:
            grades = self.grades.get(query_id)
            if grades is None:
                self.notes.left_out(UNLABELLED, query_id)
                continue
            answered = any(grade > 0 for grade in grades.values())
            lines: Mapping[str, int] = {**({} if line is None else {"query": line}), **self.lines.get(query_id, {})}
            found.append(
                SourceQuery(
                    query_id,
                    text,
                    kind if answered else NO_ANSWER,
                    grades,
                    split=self.splits.get(query_id, ""),
                    fields=fields,
                    lines=lines,
                )
            )
        return found
