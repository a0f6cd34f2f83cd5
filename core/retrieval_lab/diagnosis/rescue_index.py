"""A corpus indexed in another way for a moment; nothing of it stays in the database.

An index that is kept already, because somebody opened the corpus that way, is used and stays. Any other lies in a
schema of its own, whose name begins with `lab_rescue_`, and is dropped at the end, whatever ends it. Its maker holds an
advisory lock of that name, which PostgreSQL gives back when the maker dies: a schema left behind by a process that was
killed is one whose lock is free, and the next temporary index drops it. So does `retrieval-lab db drop`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
from psycopg import Connection

from retrieval_lab.config import Indexing
from retrieval_lab.database import drop_schema, make_schema, schemas
from retrieval_lab.embed import Embedder
from retrieval_lab.errors import EnvironmentMissing
from retrieval_lab.index import Progress, index_corpus, lock_key, schema_name
from retrieval_lab.store import CHUNKS, Table

PREFIX = "lab_rescue_"


@contextmanager
def temporary_index(
    connect: Callable[[], Connection[Any]],
    corpus: Path,
    indexing: Indexing,
    embedder: Embedder,
    *,
    progress: Callable[[Progress], None] = lambda _: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Iterator[tuple[Connection[Any], Table]]:
    """A connection and the table of the corpus indexed this way, for as long as the block runs.

    `connect` gives an autocommit connection. Raises as `index_corpus` does.
    """
    with connect() as conn:
        known = {schema.name for schema in schemas(conn)}
        drop_abandoned(conn)
        kept = schema_name(corpus, indexing)
        schema = kept if kept in known else f"{PREFIX}{uuid.uuid4().hex[:20]}"
        table = replace(CHUNKS, schema=schema, contextual_headers=indexing.contextual_headers)
        try:
            if schema != kept:
                conn.execute("SELECT pg_advisory_lock(%s)", (_owner_key(schema),))
                make_schema(conn, schema, f"a rescue in {corpus.resolve()}, to be dropped")
            index_corpus(conn, corpus, indexing, schema, embedder=embedder, progress=progress, cancelled=cancelled)
            yield conn, table
        finally:
            if schema != kept:
                _drop_somehow(conn, connect, schema)


def drop_abandoned(conn: Connection[Any]) -> list[str]:
    """Drop the temporary indexes whose makers are gone, and return their schemas' names."""
    dropped = []
    for schema in schemas(conn):
        if schema.name.startswith(PREFIX):
            key = (_owner_key(schema.name),)
            row = conn.execute("SELECT pg_try_advisory_lock(%s)", key).fetchone()
            if row and row[0]:
                drop_schema(conn, schema.name)
                conn.execute("SELECT pg_advisory_unlock(%s)", key)
                dropped.append(schema.name)
    return dropped


def _drop_somehow(conn: Connection[Any], connect: Callable[[], Connection[Any]], schema: str) -> None:
    """Over a new connection where the one at hand broke; without a server the next temporary index drops it."""
    try:
        drop_schema(conn, schema)
        conn.execute("SELECT pg_advisory_unlock(%s)", (_owner_key(schema),))
    except psycopg.Error:
        conn.close()
        with suppress(psycopg.Error, EnvironmentMissing), connect() as another:
            drop_schema(another, schema)


def _owner_key(schema: str) -> int:
    """Another lock than that of `index_corpus`, which is held while it indexes."""
    return lock_key(f"owner of {schema}")
