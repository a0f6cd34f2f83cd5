"""pgvector in a database: making sure of it, and knowing in which schema it lies."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import psycopg
from psycopg import Connection

from retrieval_lab.errors import EnvironmentMissing
from retrieval_lab.statements import execute

OLDEST_WITH_HNSW = (0, 5, 0)

_LOCK_KEY = int.from_bytes(b"rlabvect", "big")
_schemas: WeakKeyDictionary[Connection[Any], str] = WeakKeyDictionary()


def ensure_extension(conn: Connection[Any]) -> None:
    """Make the extension `vector` where it is missing, in the schema `public`.

    WITH SCHEMA matters: without it the extension lands in the first schema of the search path, and dropping that
    schema drops the embedding column of every other one. Raises EnvironmentMissing when the server has no pgvector,
    when it is older than 0.5.0 (no HNSW), or when this role may not create it; the message says what mends it.
    """
    version = _installed_version(conn)
    if version is None:
        _create(conn)
        version = _installed_version(conn)
    if version is not None and version_tuple(version) < OLDEST_WITH_HNSW:
        raise EnvironmentMissing(
            f"pgvector {version} has no HNSW index; install 0.5.0 or newer, then run ALTER EXTENSION vector UPDATE"
        )


def version_tuple(version: str) -> tuple[int, ...]:
    """`"0.8.6"` as (0, 8, 6); parts that are no numbers end it."""
    parts: list[int] = []
    for part in version.split("."):
        if not part.isdigit():
            break
        parts.append(int(part))
    return tuple(parts)


def extension_schema(conn: Connection[Any]) -> str:
    """The schema of the vector extension in this database, asked once a connection.

    Statements name it, so that they work whatever the search path is. Raises EnvironmentMissing without the extension.
    """
    found = _schemas.get(conn)
    if found is None:
        row = execute(
            conn,
            "SELECT nspname FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace WHERE extname = 'vector'",
        ).fetchone()
        if row is None:
            raise EnvironmentMissing(
                "this database has no vector extension; run CREATE EXTENSION vector WITH SCHEMA public in it"
            )
        found = _schemas[conn] = str(row[0])
    return found


def _installed_version(conn: Connection[Any]) -> str | None:
    row = execute(conn, "SELECT extversion FROM pg_extension WHERE extname = 'vector'").fetchone()
    return None if row is None else str(row[0])


def _create(conn: Connection[Any]) -> None:
    if execute(conn, "SELECT 1 FROM pg_available_extensions WHERE name = 'vector'").fetchone() is None:
        raise EnvironmentMissing(
            "this PostgreSQL server has no pgvector; install its package (for example postgresql-17-pgvector), "
            "or leave out the DSN to use the embedded server"
        )
    try:
        with conn.transaction():
            # IF NOT EXISTS does not protect two sessions that create it at the same moment.
            execute(conn, "SELECT pg_advisory_xact_lock(%s)", (_LOCK_KEY,))
            execute(conn, "CREATE EXTENSION IF NOT EXISTS vector WITH SCHEMA public")
    except psycopg.errors.InsufficientPrivilege as error:
        raise EnvironmentMissing(
            "this role may not create extensions; ask a superuser to run CREATE EXTENSION vector WITH SCHEMA public"
        ) from error
