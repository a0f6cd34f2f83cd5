"""Running statements on a connection that somebody else set up."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from psycopg import Connection, Cursor
from psycopg.abc import Params, QueryNoTemplate
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row


def execute(
    conn: Connection[Any], statement: QueryNoTemplate, parameters: Params | None = None, *, binary: bool = False
) -> Cursor[tuple[Any, ...]]:
    """`conn.execute`, with rows as tuples, whatever row and cursor factories the connection has.

    A connection that is in no transaction is in none afterwards either: what was done is durable, and no snapshot is
    held, although psycopg would leave a connection that is not on autocommit in an open transaction.
    """
    with _of_its_own(conn):
        return Cursor(conn, row_factory=tuple_row).execute(statement, parameters, binary=binary)


def is_idle(conn: Connection[Any]) -> bool:
    """Whether the connection is in no transaction."""
    return conn.info.transaction_status == TransactionStatus.IDLE


def _of_its_own(conn: Connection[Any]) -> AbstractContextManager[object]:
    return conn.transaction() if is_idle(conn) and not conn.autocommit else nullcontext()
