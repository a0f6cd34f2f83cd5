"""Reading a TREC test collection: topics, qrels, and documents as tagged text or JSON lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import TypeVar

from retrieval_lab.errors import FaultyInput, InputError
from retrieval_lab.importing.grades import Labels
from retrieval_lab.importing.records import (
    BAD_VALUES,
    REPEATED,
    WITHOUT_WORDS,
    existing,
    read_documents,
)
from retrieval_lab.importing.source import Notes, Source, SourceDocument, storable_text
from retrieval_lab.text import has_words
from retrieval_lab.trec import read_bytes, read_qrels
from retrieval_lab.trec_topics import read_topics

T = TypeVar("T")

FORM = "name the files with --topics, --qrels and --documents"
LATIN_1 = "files that are not UTF-8, taken as Latin-1"
TOPICS, QRELS = "faults of the topics", "faults of the qrels"

_DOCUMENT = re.compile(r"<DOC>(.*?)</DOC>|<DOC>", re.DOTALL | re.IGNORECASE)
_NAME = re.compile(r"<DOCNO>(.*?)</DOCNO>", re.DOTALL | re.IGNORECASE)
_TITLE = re.compile(r"<(TITLE|HEADLINE|HL|TI)>(.*?)</\1>", re.DOTALL | re.IGNORECASE)
_TEXT = re.compile(r"<TEXT>(.*?)</TEXT>", re.DOTALL | re.IGNORECASE)
_TAG = re.compile(r"</?[A-Za-z][^<>]{0,200}>")


@dataclass(frozen=True, slots=True)
class Files:
    """The files of a collection; `documents` is a file or a folder of files."""

    topics: Path
    qrels: Path
    documents: Path


def find_files(
    folder: Path, topics: Path | None = None, qrels: Path | None = None, documents: Path | None = None
) -> Files:
    """The files that are named, the others looked for in the folder.

    There the topics are the one file with `topics` in its name, the qrels the one with `qrels`; documents are
    corpus.jsonl, packed or not, a folder called `documents` or `docs`, or the one file with `doc` in its name. Raises
    InputError when a file is missing or several would do.
    """
    return Files(
        topics or _only(folder, "topics"),
        qrels or _only(folder, "qrels"),
        documents or _documents_in(folder),
    )


def _documents_in(folder: Path) -> Path:
    folders = (folder / name for name in ("documents", "docs"))
    found = existing(folder, "corpus.jsonl") or next((path for path in folders if path.is_dir()), None)
    return found or _only(folder, "doc")


def _only(folder: Path, part: str) -> Path:
    files = sorted(path for path in folder.glob("[!.]*") if path.is_file()) if folder.is_dir() else []
    found = [path for path in files if part in path.name.lower()]
    if len(found) != 1:
        several = ", ".join(path.name for path in found)
        raise InputError(f"{folder}: {several or 'no file'} could be the {part}; {FORM}")
    return found[0]


def read_trec(path: Path, files: Files) -> Source:
    """The collection of these files. `path` is what it is called by.

    Topics without a line of qrels are left out and counted, those with grades of 0 or less alone are kept as questions
    that nothing answers. Raises InputError when a file cannot be read.
    """
    notes = Notes()
    documents = tuple(_documents(files.documents, notes))
    topics = _or_faults(lambda: read_topics(files.topics), TOPICS, files.topics, notes) or ()
    qrels = _or_faults(lambda: read_qrels(files.qrels), QRELS, files.qrels, notes)
    labels = Labels({one.query_id for one in topics}, {one.doc_id for one in documents}, notes)
    lines = _qrels_lines(files.qrels)
    for query, grades in (qrels.grades if qrels else {}).items():
        for document, grade in grades.items():
            labels.add(files.qrels, lines.get((query, document)), query, document, grade)
    asked = [(one.query_id, one.text, None, ()) for one in topics]
    kind = (path if path.is_dir() else files.topics.parent).resolve().name
    return Source(path, documents, tuple(labels.labelled(asked, kind)), files.topics, files.qrels, notes)


def _or_faults(read: Callable[[], T], what: str, path: Path, notes: Notes) -> T | None:
    try:
        return read()
    except FaultyInput as error:
        notes.add(what, path, error.faults)
        return None


def _qrels_lines(path: Path) -> dict[tuple[str, str], int]:
    """The line of each label by query and document."""
    rows = enumerate((line.split() for line in read_bytes(path).split(b"\n")), start=1)
    return {
        (row[0].decode(errors="replace"), row[2].decode(errors="replace")): number
        for number, row in rows
        if len(row) > 2
    }


def _documents(path: Path, notes: Notes) -> Iterator[SourceDocument]:
    if path.name.removesuffix(".gz").endswith(".jsonl"):
        yield from read_documents(path, notes)
        return
    files = sorted(one for one in path.rglob("[!.]*") if one.is_file()) if path.is_dir() else [path]
    if not files:
        raise InputError(f"{path}: no documents; {FORM}")
    first: dict[str, str] = {}
    for file in files:
        yield from _tagged(file, first, notes)


def _tagged(path: Path, first: dict[str, str], notes: Notes) -> Iterator[SourceDocument]:
    """The documents of a file of `<DOC>` elements; `first` has the place of each id so far."""
    content = read_bytes(path)
    try:
        text = content.decode()
    except UnicodeDecodeError:
        notes.left_out(LATIN_1, str(path))
        text = content.decode("latin-1")
    line, done = 1, 0
    for match in _DOCUMENT.finditer(text):
        line, done = line + text.count("\n", done, match.start()), match.start()
        if match[1] is None:
            notes.fault(BAD_VALUES, path, line, "<DOC> has no </DOC>; close it")
            continue
        name = _NAME.search(match[1])
        doc_id = name[1].strip() if name else ""
        if not doc_id:
            notes.fault(BAD_VALUES, path, line, "<DOC> has no <DOCNO> with a name; add it")
        elif doc_id in first:
            message = f"document {doc_id!r} stands at {first[doc_id]} already; keep one of the two"
            notes.fault(REPEATED, path, line, message)
        else:
            first[doc_id] = f"{path.name}:{line}"
            title, body = _parts(_NAME.sub("", match[1]))
            if not has_words(f"{title} {body}"):
                notes.left_out(WITHOUT_WORDS, f"{doc_id} ({first[doc_id]})")
            yield SourceDocument(doc_id, title, body, path, line)
    if not done and not first:
        notes.fault(BAD_VALUES, path, None, "no <DOC>; expected <DOC><DOCNO>…</DOCNO><TEXT>…</TEXT></DOC>")


def _parts(content: str) -> tuple[str, str]:
    """The title and the text of a document: that of <TEXT>, without one all that is not the title."""
    title = _TITLE.search(content)
    texts: Sequence[str] = _TEXT.findall(content) or [_TITLE.sub("", content, count=1)]
    return _plain(title[2]) if title else "", _plain("\n\n".join(text.strip() for text in texts))


def _plain(text: str) -> str:
    return storable_text(unescape(_TAG.sub(" ", text))).strip()
