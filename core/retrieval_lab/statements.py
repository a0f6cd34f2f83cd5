"""Running statements on a connection that somebody else set up."""

from __future__ import annotations

from typing import Any

from psycopg import Connection, Cursor
from psycopg.abc import Params, QueryNoTemplate
from psycopg.rows import tuple_row


def execute(
    conn: Connection[Any], statement: QueryNoTemplate, parameters: Params | None = None, *, binary: bool = False
) -> Cursor[tuple[Any, ...]]:
    """`conn.execute` with rows as tuples, whatever row factory the connection has."""
    return conn.cursor(row_factory=tuple_row).execute(statement, parameters, binary=binary)
