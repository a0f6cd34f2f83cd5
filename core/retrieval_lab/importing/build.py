"""Making of a collection what the lab works with: documents with names that files can have, and golden queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from retrieval_lab.golden import GoldenFile
from retrieval_lab.importing.literal import Literal, heading, literal
from retrieval_lab.importing.names import file_stems
from retrieval_lab.importing.source import Source, SourceDocument, SourceQuery
from retrieval_lab.types import Document, GoldenQuery


@dataclass(frozen=True, slots=True)
class Built:
    """A collection as a corpus, in its order.

    `documents` are as `read_corpus` will give them but for escapes in titles; `ids` has the collection's own id of each
    document by doc_id, where the two differ. `paths` and `lines` say where each document was read from.
    """

    documents: tuple[Document, ...]
    golden: GoldenFile
    ids: Mapping[str, str]
    paths: Mapping[str, Path]
    lines: Mapping[str, int]


def build(source: Source) -> Built:
    """The corpus of a collection. A document's text is its title as a heading, then its text, taken literally."""
    stems = file_stems(one.doc_id for one in source.documents)
    texts = {one.doc_id: literal(one.text) for one in source.documents}
    queries = tuple(_golden(query, stems, texts) for query in source.queries)
    files = {"relevant": source.labels_path, "anchor": source.labels_path}
    lines = {query.query_id: _lines(query, stems) for query in source.queries}
    return Built(
        documents=tuple(_document(one, stems[one.doc_id], texts[one.doc_id]) for one in source.documents),
        golden=GoldenFile(source.queries_path, queries, lines, (), files),
        ids={stem: doc_id for doc_id, stem in stems.items() if stem != doc_id},
        paths={stems[one.doc_id]: one.path for one in source.documents},
        lines={stems[one.doc_id]: one.line for one in source.documents if one.line is not None},
    )


def _document(one: SourceDocument, stem: str, text: Literal) -> Document:
    title = heading(one.title)
    return Document(stem, one.title.strip() or stem, f"{title}\n\n{text.text}\n" if title else f"{text.text}\n")


def _golden(query: SourceQuery, stems: Mapping[str, str], texts: Mapping[str, Literal]) -> GoldenQuery:
    label = {"doc_id": "", "anchor": ""}
    if query.answer is not None:
        text = texts[query.answer.doc_id]
        anchor = text.text[text.offset(query.answer.start) : text.offset(query.answer.end)]
        label = {"doc_id": stems[query.answer.doc_id], "anchor": anchor}
    return GoldenQuery(
        query.query_id,
        query.text,
        query.kind,
        **label,
        relevant=tuple(sorted((stems[doc_id], grade) for doc_id, grade in query.grades.items())),
        split=query.split,
        fields=query.fields,
    )


def _lines(query: SourceQuery, stems: Mapping[str, str]) -> dict[str, int]:
    """The lines of a query's parts, its documents called by their doc_ids."""
    found = {}
    for key, line in query.lines.items():
        name, _, doc_id = key.partition(".")
        found[f"{name}.{stems[doc_id]}" if doc_id else key] = line
    return found
