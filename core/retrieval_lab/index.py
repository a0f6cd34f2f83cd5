"""Keeping the index of a corpus in step with its files.

Each corpus has a schema for each way of indexing it. In it, `indexed_documents` remembers every document whose chunks
are in `chunks`: its fingerprint, where it comes from, and its title. A document's chunks and its fingerprint change in
one transaction, so an interrupted run leaves whole documents only, and the next run does the rest.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import psycopg
from psycopg import Connection, sql

from retrieval_lab.config import Indexing
from retrieval_lab.corpus import read_corpus
from retrieval_lab.database import make_schema, use_schema
from retrieval_lab.embed import Embedder
from retrieval_lab.errors import Cancelled, Fault, InputError
from retrieval_lab.settings import ChunkerSettings
from retrieval_lab.store import CHUNKS, Schema, Table, count, upsert
from retrieval_lab.types import Chunk, Document

SCHEMA_PREFIX = "lab_"
FROM_DISK = "file"
"""The source of documents that are files of a corpus."""

# Part of every schema's name: a change of the chunker's or of the tables' rules makes new schemas.
_FORMAT = 3
_LOCK_POLL_SECONDS = 0.1


class IndexingCancelled(Cancelled):
    """Indexing was told to stop; what was done is kept."""


@dataclass(frozen=True, slots=True)
class Progress:
    """`done` of `total` documents are up to date; `doc_id` is the one just finished, None before the first."""

    done: int
    total: int
    doc_id: str | None = None
    waiting: bool = False
    """Another process is indexing this corpus; this one waits for it."""


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What one run did, in documents, the number of chunks after it, and a fault for each file left out."""

    indexed: tuple[str, ...]
    unchanged: int
    removed: tuple[str, ...]
    chunks: int
    faults: tuple[Fault, ...]


def schema_name(corpus_dir: Path | str, indexing: Indexing) -> str:
    """The schema for a corpus folder indexed this way: equal in every process, different for every other way."""
    key = (_FORMAT, str(Path(corpus_dir).resolve()), indexing.key)
    return f"{SCHEMA_PREFIX}{sha256(repr(key).encode()).hexdigest()[:24]}"


def searched_documents(
    corpus_dir: Path, chunker: ChunkerSettings, stored: Callable[[Sequence[str]], Mapping[str, Chunk]], chunks: int
) -> list[tuple[Document, str]]:
    """The documents of the corpus whose chunks are stored as their text gives them, each with its folder there.

    Others may have been left out.

    `stored` gives the chunks that are there of some ids, `chunks` is how many there are of all. Raises InputError when
    some of those are of no document, since then nobody could say what was searched.
    """
    found: list[tuple[Document, str]] = []
    theirs = 0
    files = read_corpus(corpus_dir)
    for document in files.documents:
        expected = {chunk.chunk_id: chunk for chunk in chunker.chunks(document)}
        if stored(list(expected)) == expected:
            found.append((document, files.paths[document.doc_id].relative_to(corpus_dir).parts[0]))
            theirs += len(expected)
    if theirs != chunks:
        raise InputError(
            f"{corpus_dir}: files changed since they were indexed ({theirs} of the {chunks} chunks are still theirs);"
            " open the corpus again"
        )
    return found


def index_corpus(
    conn: Connection[Any],
    corpus_dir: Path | str,
    indexing: Indexing,
    schema: str,
    *,
    embedder: Embedder | None = None,
    progress: Callable[[Progress], None] = lambda _: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> IndexReport:
    """Bring the schema in step with the folder and return what was done.

    New and changed documents are indexed, those gone or unreadable are removed, and nothing is embedded when nothing
    changed. One process indexes a schema at a time; others wait. The connection must be on autocommit, and is left with
    the schema as its search path. `embedder` is the one that `indexing` describes, for who has it already.

    Raises InputError when the folder is no corpus, and IndexingCancelled soon after `cancelled()` turns true.
    """
    embedder = embedder or indexing.embedder.build()
    table = replace(CHUNKS, contextual_headers=indexing.contextual_headers)
    with _only_indexer(conn, schema, progress, cancelled):
        files = read_corpus(corpus_dir)  # not before the lock: they may have changed while this process waited
        known = _prepare(conn, schema, embedder.dims, table, corpus_dir)
        key = indexing.key
        uris = {doc_id: path.relative_to(corpus_dir).as_posix() for doc_id, path in files.paths.items()}
        current = {doc.doc_id: _fingerprint(doc, uris[doc.doc_id], key) for doc in files.documents}
        removed = tuple(sorted(known.keys() - current.keys()))
        for doc_id in removed:
            _forget(conn, doc_id)
        stale = [doc for doc in files.documents if known.get(doc.doc_id) != current[doc.doc_id]]
        unchanged = len(files.documents) - len(stale)
        progress(Progress(unchanged, len(files.documents)))
        indexed: list[str] = []
        faults = list(files.faults)
        for done, doc in enumerate(stale, start=unchanged + 1):
            if cancelled():
                raise IndexingCancelled(f"indexing stopped after {done - 1} of {len(files.documents)} documents")
            try:
                row = _Row(doc.doc_id, current[doc.doc_id], uris[doc.doc_id], doc.title)
                _store(conn, row, indexing.chunker.chunks(doc), embedder, table)
                indexed.append(doc.doc_id)
            except InputError as error:
                # A document that cannot be stored is no reason to leave out the others.
                _forget(conn, doc.doc_id)
                faults.append(Fault(files.paths[doc.doc_id], None, str(error)))
            progress(Progress(done, len(files.documents), doc.doc_id))
        chunks = count(conn)
        _settle(conn, changed=bool(stale or removed), chunks=chunks)
    return IndexReport(tuple(indexed), unchanged, removed, chunks, tuple(faults))


@dataclass(frozen=True, slots=True)
class _Row:
    """A document as `indexed_documents` has it."""

    doc_id: str
    fingerprint: str
    uri: str
    title: str
    source: str = FROM_DISK


def _store(conn: Connection[Any], row: _Row, chunks: Sequence[Chunk], embedder: Embedder, table: Table) -> None:
    """Replace all that is stored of a document, in one transaction."""
    with conn.transaction():
        _forget(conn, row.doc_id)
        upsert(conn, chunks, embedder, table=table)
        conn.execute(
            "INSERT INTO indexed_documents (doc_id, fingerprint, uri, title, source) VALUES (%s, %s, %s, %s, %s)",
            astuple(row),
        )


def _forget(conn: Connection[Any], doc_id: str) -> None:
    with conn.transaction():
        conn.execute("DELETE FROM chunks WHERE doc_id = %s", (doc_id,))
        conn.execute("DELETE FROM indexed_documents WHERE doc_id = %s", (doc_id,))


def _fingerprint(doc: Document, uri: str, key: str) -> str:
    """The settings are in it too: a schema that somebody chose may have been filled with others."""
    return sha256(f"{key}\0{uri}\0{doc.text}".encode()).hexdigest()


def _prepare(conn: Connection[Any], schema: str, dims: int, table: Table, corpus_dir: Path | str) -> dict[str, str]:
    """Make the schema with its tables where they are missing, make it current, and return what is `_known` in it."""
    make_schema(conn, schema, str(Path(corpus_dir).resolve()))
    use_schema(conn, schema)
    try:
        Schema.create(conn, dims, table=table)
        conn.execute("""
            CREATE TABLE IF NOT EXISTS indexed_documents (
                doc_id text PRIMARY KEY, fingerprint text NOT NULL,
                source text NOT NULL, uri text NOT NULL, title text NOT NULL)
        """)
        return _known(conn)
    except psycopg.ProgrammingError as error:
        raise InputError(
            f"the schema {schema} cannot be used ({error.diag.message_primary}); name another, or one that is empty"
        ) from error


def _known(conn: Connection[Any]) -> dict[str, str]:
    """doc_id -> fingerprint of every document with chunks in the schema; "" where its indexing was never finished."""
    rows = conn.execute("""
        SELECT doc_id, coalesce(fingerprint, '')
        FROM indexed_documents FULL JOIN (SELECT DISTINCT doc_id FROM chunks) AS chunked USING (doc_id)
    """)
    return {str(doc_id): str(fingerprint) for doc_id, fingerprint in rows}


def _settle(conn: Connection[Any], *, changed: bool, chunks: int) -> None:
    """After any change, give the planner its statistics and rid the HNSW index of what was deleted.

    Deleted rows would take places of the index scan's list. A run that died before this shows in the row count.
    """
    row = conn.execute("SELECT reltuples FROM pg_class WHERE oid = %s::regclass", (CHUNKS.name,)).fetchone()
    if changed or row is None or int(row[0]) != chunks:
        conn.execute(sql.SQL("VACUUM (ANALYZE) {}").format(sql.Identifier(CHUNKS.name)))


def lock_key(name: str) -> int:
    """The key of the advisory lock of this name."""
    return int.from_bytes(sha256(name.encode()).digest()[:8], "big", signed=True)


@contextmanager
def _only_indexer(
    conn: Connection[Any], schema: str, progress: Callable[[Progress], None], cancelled: Callable[[], bool]
) -> Iterator[None]:
    """Holds the schema's advisory lock, which PostgreSQL gives back when the session dies."""
    key = lock_key(schema)
    while not _locked(conn, "SELECT pg_try_advisory_lock(%s)", key):
        progress(Progress(0, 0, waiting=True))
        if cancelled():
            raise IndexingCancelled("indexing stopped while another process was indexing this corpus")
        time.sleep(_LOCK_POLL_SECONDS)
    try:
        yield
    finally:
        # A session that cannot even unlock is at its end, which unlocks too; the error that led here says more.
        with suppress(psycopg.Error):
            conn.execute("SELECT pg_advisory_unlock(%s)", (key,))


def _locked(conn: Connection[Any], query: Any, key: int) -> bool:
    row = conn.execute(query, (key,)).fetchone()
    return bool(row and row[0])
