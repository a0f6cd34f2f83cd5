"""The table of chunks: its description, its creation, and writing into it.

Every statement of the stages takes its names from a `Table`, so that the same code reads a table that somebody else
made. The functions work in the connection's current schema, the first of its `search_path`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, Final

import numpy as np
import psycopg
from pgvector import Vector
from psycopg import Connection, sql

from retrieval_lab.embed import Embedder, Vectors, embed_checked
from retrieval_lab.errors import InputError
from retrieval_lab.extension import ensure_extension, extension_schema
from retrieval_lab.statements import execute
from retrieval_lab.text import sendable, storable, words
from retrieval_lab.types import Chunk

MAX_INDEXED_DIMS = 2000
"""An HNSW index over the type `vector` takes no more (pgvector's README, "HNSW")."""


@dataclass(frozen=True, slots=True)
class Table:
    """Names of a table of chunks and of its columns; `schema` None means the first of the search path.

    `documents` is a table of the same schema with the `doc_id`, `source`, `uri` and `title` of each document: filters
    by source and path look there. `text_config` is the text search configuration that `tsv` was made with. With
    `contextual_headers`, what is embedded and made into `tsv` is the heading path with the text below it, not the text
    alone.
    """

    name: str = "chunks"
    schema: str | None = None
    chunk_id: str = "chunk_id"
    doc_id: str = "doc_id"
    heading_path: str = "heading_path"
    start_char: str = "start_char"
    end_char: str = "end_char"
    text: str = "text"
    tsv: str = "tsv"
    embedding: str = "embedding"
    documents: str = "indexed_documents"
    text_config: str = "english"
    contextual_headers: bool = False

    def indexed(self, chunk: Chunk) -> str:
        """What of the chunk is embedded and indexed."""
        if self.contextual_headers and chunk.heading_path:
            return f"{chunk.heading_path}\n\n{chunk.text}"
        return chunk.text

    def names(self, extension_schema: str) -> dict[str, sql.Composable]:
        """What a statement may refer to: `table`, `config`, `public` (the vector extension's schema), each column."""
        columns = (
            "chunk_id",
            "doc_id",
            "heading_path",
            "start_char",
            "end_char",
            "text",
            "tsv",
            "embedding",
        )
        return {
            "table": self._identifier(self.name),
            "documents": self._identifier(self.documents),
            "config": sql.Literal(self.text_config),
            "public": sql.Identifier(extension_schema),
            **{column: sql.Identifier(getattr(self, column)) for column in columns},
        }

    def _identifier(self, name: str) -> sql.Identifier:
        return sql.Identifier(name) if self.schema is None else sql.Identifier(self.schema, name)


CHUNKS = Table()


class Schema:
    """The tables that the stages need."""

    @staticmethod
    def create(conn: Connection[Any], dims: int, *, table: Table = CHUNKS) -> None:
        """Make what is missing: the extension, the table for vectors of `dims` numbers, its two indexes.

        Raises InputError when the table exists with another dimension or with other headers, or when dims cannot be
        indexed.
        """
        if not 1 <= dims <= MAX_INDEXED_DIMS:
            raise InputError(f"dims is {dims}; an HNSW index takes vectors of 1 to {MAX_INDEXED_DIMS} dimensions")
        with conn.transaction():
            ensure_extension(conn)
            existing = table_dims(conn, table)
            if existing is not None and existing != dims:
                raise InputError(
                    f"table {table.name} holds vectors of {existing} dimensions, the embedder makes {dims}; "
                    "use another schema or drop the table"
                )
            if existing is not None and has_headers(conn, table) != table.contextual_headers:
                found, wanted = ("without", "with") if table.contextual_headers else ("with", "without")
                raise InputError(
                    f"table {table.name} was indexed {found} contextual headers, these settings are {wanted} them; "
                    "use another schema or drop the table"
                )
            names = {**table.names(extension_schema(conn)), "dims": sql.Literal(dims)}
            names["indexed"] = sql.SQL(_WITH_HEADER if table.contextual_headers else "{text}").format(**names)
            execute(conn, sql.SQL(_CREATE_TABLE).format(**names))
            vector_index = sql.Identifier(f"{table.name}_embedding_hnsw")
            execute(conn, sql.SQL(_CREATE_VECTOR_INDEX).format(**names, index=vector_index))
            text_index = sql.Identifier(f"{table.name}_tsv_gin")
            execute(conn, sql.SQL(_CREATE_TEXT_INDEX).format(**names, index=text_index))


_CREATE_TABLE: Final = """
    CREATE TABLE IF NOT EXISTS {table} (
        {chunk_id} text PRIMARY KEY,
        {doc_id} text,
        {heading_path} text,
        {start_char} int,
        {end_char} int,
        {text} text,
        {tsv} tsvector GENERATED ALWAYS AS (to_tsvector({config}, {indexed})) STORED,
        {embedding} {public}.vector({dims})
    )"""
_WITH_HEADER: Final = "CASE WHEN {heading_path} = '' THEN {text} ELSE {heading_path} || E'\\n\\n' || {text} END"
_CREATE_VECTOR_INDEX: Final = """
    CREATE INDEX IF NOT EXISTS {index} ON {table} USING hnsw ({embedding} {public}.vector_cosine_ops)"""
_CREATE_TEXT_INDEX: Final = "CREATE INDEX IF NOT EXISTS {index} ON {table} USING gin ({tsv})"


def table_dims(conn: Connection[Any], table: Table = CHUNKS) -> int | None:
    """The dimension of the table's embedding column, or None when there is no such table in the current schema."""
    # pgvector keeps the dimension as the column's type modifier.
    row = execute(
        conn,
        """
        SELECT a.atttypmod FROM pg_attribute a
        JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = coalesce(%(schema)s, current_schema()) AND c.relname = %(table)s
          AND a.attname = %(column)s AND NOT a.attisdropped
        """,
        {"schema": table.schema, "table": table.name, "column": table.embedding},
    ).fetchone()
    return None if row is None else int(row[0])


def has_headers(conn: Connection[Any], table: Table) -> bool:
    """Whether the text that the table indexes begins with the heading path."""
    row = execute(
        conn,
        """
        SELECT pg_get_expr(d.adbin, d.adrelid) FROM pg_attrdef d
        JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
        JOIN pg_class c ON c.oid = d.adrelid JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = coalesce(%(schema)s, current_schema()) AND c.relname = %(table)s AND a.attname = %(column)s
        """,
        {"schema": table.schema, "table": table.name, "column": table.tsv},
    ).fetchone()
    return row is not None and table.heading_path in str(row[0])


def upsert(
    conn: Connection[Any], chunks: Iterable[Chunk], embedder: Embedder, batch: int = 64, *, table: Table = CHUNKS
) -> None:
    """Embed and write the chunks batch by batch: new ids are inserted, known ones replaced where anything differs.

    At most `batch` texts go into one call of the embedder, each `chunk.text` alone unless the table has contextual
    headers. A batch is written whole or not at all. Raises InputError before any write when the embedder's dimension
    is not the table's or batch is below 1, and for the batch at hand when a vector is not finite or a text cannot be
    stored; the message names the chunk.
    """
    if batch < 1:
        raise InputError(f"batch is {batch}; expected 1 or more texts")
    dims = table_dims(conn, table)
    if dims is None:
        raise InputError(f"there is no table {table.name} in the current schema; call Schema.create first")
    if dims != embedder.dims:
        raise InputError(
            f"table {table.name} holds vectors of {dims} dimensions, {embedder.name} makes {embedder.dims}"
        )
    statement = sql.SQL(_UPSERT).format(**table.names(extension_schema(conn)))
    for part in _batches(chunks, batch):
        _reject_unstorable(part)
        vectors = embed_checked(
            embedder, [table.indexed(one) for one in part], [f"chunk {one.chunk_id}" for one in part]
        )
        try:
            with conn.transaction(), conn.cursor() as cursor:
                cursor.executemany(statement, list(_rows(part, vectors)))
        except psycopg.errors.ProgramLimitExceeded as error:
            culprit = max(part, key=lambda chunk: len(set(words(chunk.text))))
            raise InputError(
                f"chunk {culprit.chunk_id} has {len(culprit.text):,} characters, too many for full text "
                f"({error.diag.message_primary}); cut shorter chunks, or part it by blank lines"
            ) from error


_UPSERT: Final = """
    INSERT INTO {table} AS old
        ({chunk_id}, {doc_id}, {heading_path}, {start_char}, {end_char}, {text}, {embedding})
    VALUES (%s, %s, %s, %s, %s, %s, %s::{public}.vector)
    ON CONFLICT ({chunk_id}) DO UPDATE SET
        {doc_id} = excluded.{doc_id}, {heading_path} = excluded.{heading_path},
        {start_char} = excluded.{start_char}, {end_char} = excluded.{end_char},
        {text} = excluded.{text}, {embedding} = excluded.{embedding}
    WHERE (old.{doc_id}, old.{heading_path}, old.{start_char}, old.{end_char}, old.{text}, old.{embedding}::text)
        IS DISTINCT FROM (excluded.{doc_id}, excluded.{heading_path}, excluded.{start_char}, excluded.{end_char},
                          excluded.{text}, excluded.{embedding}::text)
"""


def _batches(chunks: Iterable[Chunk], size: int) -> Iterator[list[Chunk]]:
    source = iter(chunks)
    while part := list(islice(source, size)):
        yield part


def _reject_unstorable(chunks: Sequence[Chunk]) -> None:
    for chunk in chunks:
        if sendable(f"{chunk.chunk_id}{chunk.doc_id}{chunk.heading_path}{chunk.text}")[1]:
            name = sendable(chunk.chunk_id)[0]
            raise InputError(f"chunk {name} holds a NUL or a lone surrogate, which PostgreSQL cannot store")


def _rows(chunks: Sequence[Chunk], vectors: Vectors) -> Iterator[tuple[object, ...]]:
    for chunk, vector in zip(chunks, vectors, strict=True):
        place = (chunk.chunk_id, chunk.doc_id, chunk.heading_path, chunk.start_char, chunk.end_char, chunk.text)
        yield (*place, vector_literal(vector))


def vector_literal(vector: Vectors) -> str:
    """The vector in pgvector's text form, which reads back to the same float32 values."""
    return str(Vector(vector).to_text())


def count(conn: Connection[Any], *, table: Table = CHUNKS) -> int:
    """The number of chunks in the table."""
    statement = sql.SQL("SELECT count(*) FROM {table}").format(**table.names(extension_schema(conn)))
    row = execute(conn, statement).fetchone()
    return int(row[0]) if row else 0


def unknown_documents(conn: Connection[Any], doc_ids: Sequence[str], *, table: Table = CHUNKS) -> list[str]:
    """Those of the documents that have no chunk in the table, in their order."""
    statement = sql.SQL("SELECT DISTINCT {doc_id} FROM {table} WHERE {doc_id} = ANY(%s)").format(
        **table.names("public")
    )
    known = {doc_id for (doc_id,) in execute(conn, statement, (storable(doc_ids),))}
    return [doc_id for doc_id in doc_ids if doc_id not in known]


def chunks_of(conn: Connection[Any], doc_ids: Sequence[str], *, table: Table = CHUNKS) -> list[Chunk]:
    """All chunks of the documents, ordered by doc_id and place."""
    return [Chunk(*row) for row in execute(conn, _chunks_of_sql(table), (storable(doc_ids),))]


_CHUNKS_OF: Final = """
    SELECT {chunk_id}, {doc_id}, {heading_path}, {start_char}, {end_char}, {text} FROM {table}
    WHERE {doc_id} = ANY(%s)
    ORDER BY {doc_id} COLLATE "C", {start_char}, {chunk_id} COLLATE "C"
"""


@lru_cache(maxsize=64)
def _chunks_of_sql(table: Table) -> bytes:
    return sql.SQL(_CHUNKS_OF).format(**table.names("public")).as_bytes(None)


def fetch(
    conn: Connection[Any], chunk_ids: Sequence[str], *, table: Table = CHUNKS
) -> dict[str, tuple[Chunk, Vectors]]:
    """chunk_id -> (chunk, embedding of shape (dims,)), in the order of the ids; unknown ids are left out."""
    if not chunk_ids:
        return {}
    statement = _fetch_sql(table, extension_schema(conn))
    # bytea in text form would be twice as long and need decoding.
    rows = execute(conn, statement, {"ids": storable(chunk_ids)}, binary=True).fetchall()
    found = {row[0]: (Chunk(*row[:6]), _vector(row[6])) for row in rows}
    return {chunk_id: found[chunk_id] for chunk_id in chunk_ids if chunk_id in found}


def _vector(sent: bytes) -> Vectors:
    return np.asarray(Vector.from_binary(sent).to_numpy(), dtype=np.float32)


_FETCH: Final = """
    SELECT {chunk_id}, {doc_id}, {heading_path}, {start_char}, {end_char}, {text}, {public}.vector_send({embedding})
    FROM {table} WHERE {chunk_id} = ANY(%(ids)s)"""


@lru_cache(maxsize=64)
def _fetch_sql(table: Table, extension: str) -> bytes:
    return sql.SQL(_FETCH).format(**table.names(extension)).as_bytes(None)
