"""Reading a folder in the layout of BEIR: `corpus.jsonl`, `queries.jsonl` and `qrels/SPLIT.tsv`, packed or not.

The layout is that of Thakur et al., "BEIR: A Heterogeneous Benchmark for Zero-shot Evaluation of Information Retrieval
Models" (NeurIPS 2021): objects with `_id`, `title` and `text`, and tab-separated lines of query-id, corpus-id and score
below a line of these names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from retrieval_lab.errors import InputError
from retrieval_lab.importing.grades import Labels
from retrieval_lab.importing.records import REPEATED, Record, read_documents, read_records, required
from retrieval_lab.importing.source import Notes, Source, storable_text
from retrieval_lab.trec import GRADE_LIMIT, read_bytes

FORM = "a BEIR folder has corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv, each packed by gzip or not"
BAD_LABELS = "labels that are not query-id, corpus-id and a whole number"

_HEADER = ("query-id", "corpus-id", "score")
_WHOLE = re.compile(r"[+-]?[0-9]{1,10}")

Query = tuple[str, str, int, tuple[tuple[str, str], ...]]
"""Id, text, line, and the fields of its metadata."""


def read_beir(folder: Path, split: str | None = None) -> Source:
    """The collection in a folder, with the labels of one split, or of all.

    Where several splits are read, each query has the name of its own; labels of one split alone name none, so that the
    queries can be split anew. A query all of whose grades are 0 or less is kept as one that nothing answers; one
    without any label is left out and counted, as nobody judged it. Raises InputError when a file is missing or cannot
    be read, or there is no such split.
    """
    corpus, queries = required(folder, "corpus.jsonl", FORM), required(folder, "queries.jsonl", FORM)
    files = _qrels(folder, split)
    notes = Notes()
    documents = tuple(read_documents(corpus, notes))
    asked = list(_queries(queries, notes))
    labels = Labels({query_id for query_id, *_ in asked}, {one.doc_id for one in documents}, notes)
    for path in files:
        name = _split_of(path) if len(files) > 1 else ""
        for line, query, document, grade in read_tsv(path, notes):
            labels.add(path, line, query, document, grade, name)
    labelled = labels.labelled(asked, folder.resolve().name)
    return Source(folder, documents, tuple(labelled), queries, files[0], notes)


def _qrels(folder: Path, split: str | None) -> Sequence[Path]:
    files = {_split_of(path): path for path in sorted((folder / "qrels").glob("[!.]*.tsv*"))}
    if not files:
        raise InputError(f"{folder}: no qrels/*.tsv; {FORM}")
    if split is not None and split not in files:
        raise InputError(f"{folder}: no qrels/{split}.tsv; there is {', '.join(files)}")
    return list(files.values()) if split is None else [files[split]]


def _split_of(path: Path) -> str:
    return path.name.partition(".tsv")[0]


def _queries(path: Path, notes: Notes) -> Iterator[Query]:
    first: dict[str, int] = {}
    for record in read_records(path, notes):
        query_id, text = record.id(), record.text("text")
        if query_id is None or text is None:
            continue
        if first.setdefault(query_id, record.line) != record.line:
            message = f"query {query_id!r} stands in line {first[query_id]} already; keep one of the two"
            notes.fault(REPEATED, path, record.line, message)
            continue
        yield query_id, storable_text(text), record.line, _fields(record)


def _fields(record: Record) -> tuple[tuple[str, str], ...]:
    """The texts and numbers of a query's metadata, to slice by."""
    metadata = record.values.get("metadata")
    if not isinstance(metadata, dict):
        return ()
    plain = ((name, storable_text(str(value))) for name, value in metadata.items() if isinstance(value, str | int))
    return tuple((name, text) for name, text in plain if name.strip() and text.strip())


def read_tsv(path: Path, notes: Notes) -> Iterator[tuple[int, str, str, int]]:
    """The line, query, document and grade of each label of a qrels file; a first line of names is skipped."""
    for number, raw in enumerate(read_bytes(path).decode(errors="replace").split("\n"), start=1):
        fields = [field.strip() for field in raw.split("\t")]
        if not raw.strip() or (number == 1 and tuple(fields) == _HEADER):
            continue
        if len(fields) != len(_HEADER):
            message = f"{len(fields)} columns; expected {', '.join(_HEADER)}, with tabs between them"
        elif not (_WHOLE.fullmatch(fields[2]) and abs(int(fields[2])) <= GRADE_LIMIT):
            message = f"the score is {fields[2][:60]!r}; expected a whole number of 32 bits"
        elif not fields[0] or not fields[1]:
            message = f"the {_HEADER[0 if not fields[0] else 1]} is blank"
        else:
            yield number, fields[0], fields[1], int(fields[2])
            continue
        notes.fault(BAD_LABELS, path, number, message)
