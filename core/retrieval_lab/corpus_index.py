"""The index of a corpus in memory, for the retrievers that score its chunks without the server.

It is made from the chunks and vectors that PostgreSQL holds, kept in a folder beside them as a portable index, and made
again when they change.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
from pgvector import Vector
from psycopg import Connection, sql

from retrieval_lab.embed import Vectors
from retrieval_lab.errors import EnvironmentMissing, InputError
from retrieval_lab.extension import extension_schema
from retrieval_lab.ragindex.chunks import IndexedChunk
from retrieval_lab.ragindex.index import Index
from retrieval_lab.statements import execute
from retrieval_lab.store import CHUNKS, Table, table_dims
from retrieval_lab.types import Chunk

T = TypeVar("T")

_STAMP = "stamp"
_FORMAT = 1
"""Part of every stamp: a change of what is read of a table, or of what words are, makes new indexes."""


def indexed_chunk(
    chunk: Chunk, *, source: str = "", uri: str = "", title: str = "", n_tokens: int | None = None
) -> IndexedChunk:
    """The chunk as a portable index holds it; what that has no key for goes into `extra`."""
    place = {"heading_path": chunk.heading_path, "start_char": chunk.start_char, "end_char": chunk.end_char}
    extra = {**place, "title": title}
    return IndexedChunk.of(
        chunk.chunk_id, chunk.doc_id, chunk.text, source=source, uri=uri, n_tokens=n_tokens, extra=extra
    )


def chunk_of(stored: IndexedChunk) -> Chunk:
    """The chunk that `indexed_chunk` was given; of an index of another program what there is of it."""
    start = _number(stored.extra.get("start_char"), 0)
    return Chunk(
        chunk_id=stored.chunk_id,
        doc_id=stored.doc_id,
        heading_path=str(stored.extra.get("heading_path") or ""),
        start_char=start,
        end_char=_number(stored.extra.get("end_char"), start + len(stored.text)),
        text=stored.text,
    )


def _number(value: Any, otherwise: int) -> int:
    return value if isinstance(value, int) and value >= 0 else otherwise


class CorpusIndex:
    """An index with what is computed from all of it, each once; `table` says what of a chunk is indexed."""

    def __init__(self, index: Index, table: Table = CHUNKS) -> None:
        self.index = index
        self._table = table
        self._made: dict[Hashable, Any] = {}
        self._turns: dict[Hashable, threading.Lock] = {}

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """What `make` returned when it was asked for by this key first; any thread, which waits for no other key."""
        with self._turns.setdefault(key, threading.Lock()):
            if key not in self._made:
                self._made[key] = make()
            made: T = self._made[key]
            return made

    @cached_property
    def chunk_ids(self) -> tuple[str, ...]:
        """The id of each row."""
        return tuple(chunk.chunk_id for chunk in self.index.chunks)

    @cached_property
    def rows(self) -> dict[str, int]:
        """The row of each chunk, by its id."""
        return {chunk_id: row for row, chunk_id in enumerate(self.chunk_ids)}

    @property
    def texts(self) -> list[str]:
        """What of each row is indexed."""
        return [self.indexed(chunk_of(chunk)) for chunk in self.index.chunks]

    def indexed(self, chunk: Chunk) -> str:
        """What of a chunk is indexed."""
        return self._table.indexed(chunk)


@dataclass(frozen=True, slots=True)
class Origin:
    """What an index of a table says about itself besides its chunks: the embedder's name and the chunker's settings."""

    embedding_model: str = ""
    chunker: Mapping[str, Any] = field(default_factory=dict)


class IndexKeeper:
    """Has the index of a table of chunks ready, in step with the table.

    `folder` is where it is kept from one process to the next; None keeps it in memory alone.
    """

    def __init__(self, folder: Path | None = None, origin: Origin | None = None) -> None:
        self._folder = folder
        self._origin = origin or Origin()
        self._stamp: str | None = None
        self._current: CorpusIndex | None = None
        self._turn = threading.Lock()

    def current(self, conn: Connection[Any], table: Table) -> CorpusIndex:
        """The index of the table as it is now, the same object as long as nothing changes; any thread.

        Raises EnvironmentMissing when the table is missing.
        """
        with self._turn:
            stamp = table_stamp(conn, table)
            if self._current is None or stamp is None or stamp != self._stamp:
                opened = self._opened(stamp)
                index, self._stamp = (opened, stamp) if opened is not None else self._built(conn, table, stamp)
                self._current = CorpusIndex(index, table)
            return self._current

    def _opened(self, stamp: str | None) -> Index | None:
        """The index in the folder, if it is the one of this stamp."""
        if self._folder is None or stamp is None:
            return None
        with suppress(InputError, ValueError, OSError):  # what cannot be read is made anew
            index = Index.open(self._folder)
            if index.meta.extra.get(_STAMP) == stamp:
                return index
        return None

    def _built(self, conn: Connection[Any], table: Table, stamp: str | None) -> tuple[Index, str | None]:
        """The index of the table with its stamp, None where nobody knows it."""
        index = index_of_table(conn, table, self._origin)
        if stamp is None or table_stamp(conn, table) != stamp:  # somebody changed the table before it was read
            return index, None
        if self._folder is not None:
            index.meta = replace(index.meta, extra={_STAMP: stamp})
            with suppress(InputError, OSError):  # a full disk costs the next process time, and this one nothing
                index.write(self._folder)
        return index, stamp


def table_stamp(conn: Connection[Any], table: Table = CHUNKS) -> str | None:
    """Differs whenever the chunks of the table do; None where the table has no table of documents beside it."""
    if not _has_documents(conn, table):
        return None
    statement = sql.SQL("""
        SELECT md5(coalesce(string_agg(doc_id || ' ' || fingerprint, E'\\n' ORDER BY doc_id), '')) FROM {documents}
    """).format(**table.names("public"))
    row = execute(conn, statement).fetchone()
    return None if row is None else f"{_FORMAT} {row[0]}"


def index_of_table(conn: Connection[Any], table: Table, origin: Origin) -> Index:
    """An index of all chunks of the table with their vectors, rows by chunk_id in code point order.

    BM25 has what the table indexes of each chunk. Raises EnvironmentMissing when the table is missing.
    """
    dims = table_dims(conn, table)
    if dims is None:
        raise EnvironmentMissing(f"the index of this corpus is gone (no table {table.name}); open the corpus again")
    chunks, vectors = _read(conn, table, dims)
    texts = [table.indexed(chunk_of(chunk)) for chunk in chunks]
    return Index.build(chunks, vectors, embedding_model=origin.embedding_model, chunker=origin.chunker, texts=texts)


def _read(conn: Connection[Any], table: Table, dims: int) -> tuple[Sequence[IndexedChunk], Vectors]:
    statement = _WITH_DOCUMENTS if _has_documents(conn, table) else _ALONE
    composed = sql.SQL(statement).format(**table.names(extension_schema(conn)))
    rows = execute(conn, composed, binary=True).fetchall()
    vectors = np.zeros((len(rows), dims), dtype=np.float32)
    chunks = []
    for number, row in enumerate(rows):
        source, uri, title = row[7:]
        chunks.append(indexed_chunk(Chunk(*row[:6]), source=source, uri=uri, title=title))
        if row[6] is not None:  # a table that others made may lack some; those stay zero, which no search finds
            vectors[number] = Vector.from_binary(row[6]).to_numpy()
    return chunks, vectors


def _has_documents(conn: Connection[Any], table: Table) -> bool:
    named = table.names("public")["documents"].as_string(conn)
    row = execute(conn, "SELECT to_regclass(%s) IS NOT NULL", (named,)).fetchone()
    return row is not None and bool(row[0])


_ALONE: Final = """
    SELECT {chunk_id}, {doc_id}, {heading_path}, {start_char}, {end_char}, {text}, {public}.vector_send({embedding}),
        '', '', ''
    FROM {table} ORDER BY {chunk_id} COLLATE "C"
"""
_WITH_DOCUMENTS: Final = """
    SELECT {table}.{chunk_id}, {table}.{doc_id}, {heading_path}, {start_char}, {end_char}, {text},
        {public}.vector_send({embedding}), coalesce(source, ''), coalesce(uri, ''), coalesce({documents}.title, '')
    FROM {table} LEFT JOIN {documents} ON {documents}.doc_id = {table}.{doc_id}
    ORDER BY {table}.{chunk_id} COLLATE "C"
"""
