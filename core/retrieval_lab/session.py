"""A connection of one purpose: used by one thread at a time, cancelled from any, made again after the server went."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import psycopg
from psycopg import Connection

from retrieval_lab.errors import EnvironmentMissing, LabError

T = TypeVar("T")

_CANCEL_SECONDS = 1.0


class Session:
    """Asks one question after another over a connection that `connect` makes when it is first needed."""

    def __init__(self, connect: Callable[[], Connection[Any]]) -> None:
        self._connect = connect
        self._conn: Connection[Any] | None = None
        self._turn = threading.Lock()
        self._closed = False

    def ask(self, question: Callable[[Connection[Any]], T]) -> T:
        """What `question` returns for the connection, which it has to itself meanwhile.

        Raises LabError after `close`, EnvironmentMissing when the index or the server is gone (the next call connects
        again), and psycopg's QueryCanceled after `cancel`.
        """
        with self._turn:
            if self._closed:
                raise LabError("this lab is closed; open the corpus again")
            if self._conn is None or self._conn.closed:
                self._conn = self._connect()
            try:
                return question(self._conn)
            except psycopg.errors.QueryCanceled:
                raise
            except psycopg.errors.UndefinedTable as error:
                raise EnvironmentMissing("the index of this corpus is gone; open the corpus again") from error
            except psycopg.OperationalError as error:
                self._conn.close()
                raise EnvironmentMissing(f"the server is gone ({first_line(error)}); ask again to reconnect") from error

    def cancel(self) -> None:
        """Stop the statement that is running, from any thread.

        Waits up to a second for the server. Nothing happens when nothing runs or the server does not answer.
        """
        conn = self._conn
        if conn is not None and not conn.closed and self._turn.locked():
            with contextlib.suppress(psycopg.Error):
                conn.cancel_safe(timeout=_CANCEL_SECONDS)

    def close(self) -> None:
        """Close the connection. A second call does nothing."""
        self._closed = True
        if self._conn is not None:
            self._conn.close()


def first_line(error: psycopg.Error) -> str:
    """The first line of what the server or the driver says."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
