"""A connection of one purpose: used by one thread at a time, cancelled from any, made again after the server went."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import psycopg
from psycopg import Connection

from retrieval_lab.errors import Cancelled, EnvironmentMissing, LabError
from retrieval_lab.statements import is_idle

T = TypeVar("T")

_CANCEL_SECONDS = 1.0
_CANCEL_AGAIN_SECONDS = 0.01


@dataclass(slots=True, eq=False)
class _Asking:
    """One call of `Session.ask` that holds the connection."""

    cancelled: bool = False


class Session:
    """Asks one question after another over a connection that `connect` makes when it is first needed."""

    def __init__(self, connect: Callable[[], Connection[Any]]) -> None:
        self._connect = connect
        self._conn: Connection[Any] | None = None
        self._turn = threading.Lock()
        self._asking: _Asking | None = None
        self._closed = False

    def ask(self, question: Callable[[Connection[Any]], T], cancelled: Callable[[], bool] = lambda: False) -> T:
        """What `question` returns for the connection, which it has to itself meanwhile.

        `question` only reads: it may be asked twice. `cancelled` is asked once the connection is free.

        Raises LabError after `close`, EnvironmentMissing when the index or the server is gone (the next call connects
        again), Cancelled after `cancel` or where `cancelled` holds, and LabError when the server stopped it of itself.
        """
        with self._turn:
            if self._closed:
                raise LabError("this lab is closed; open the corpus again")
            if cancelled():
                raise Cancelled("stopped before it began")
            self._asking = asking = _Asking()
            try:
                return self._until_cancelled(question, asking)
            finally:
                self._asking = None
                self._leave_idle()

    def _leave_idle(self) -> None:
        """A cancel may hit a rollback: whoever asks next must not find the failed transaction."""
        if self._conn is not None and not self._conn.closed and not is_idle(self._conn):
            self._conn.close()

    def _until_cancelled(self, question: Callable[[Connection[Any]], T], asking: _Asking) -> T:
        try:
            return self._answer(question)
        except psycopg.errors.QueryCanceled as error:
            if asking.cancelled:
                raise Cancelled(f"stopped{_stage(error)}") from error
        # Nobody meant this question: the cancel was for the one before, and late.
        try:
            return self._answer(question)
        except psycopg.errors.QueryCanceled as error:
            kind = Cancelled if asking.cancelled else LabError
            raise kind(f"the server stopped the query{_stage(error)}: {first_line(error)}") from error

    def _answer(self, question: Callable[[Connection[Any]], T]) -> T:
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
            gone = f"the server is gone{_stage(error)} ({first_line(error)}); ask again to reconnect"
            raise EnvironmentMissing(gone) from error

    @property
    def stopping(self) -> bool:
        """Whether what is asked at the moment was cancelled: to be asked between its statements."""
        return self._asking is not None and self._asking.cancelled

    def cancel(self) -> None:
        """Stop what is asked at the moment, from any thread.

        Waits up to a second for its end. Nothing happens when nothing runs or the server does not answer.
        """
        asking, deadline = self._asking, time.monotonic() + _CANCEL_SECONDS
        if asking is None:
            return
        asking.cancelled = True
        # Between two statements there is nothing to cancel, so once is not enough.
        while self._asking is asking and (left := deadline - time.monotonic()) > 0:
            conn = self._conn
            if conn is not None and not conn.closed:
                with contextlib.suppress(psycopg.Error):
                    conn.cancel_safe(timeout=left)
            time.sleep(_CANCEL_AGAIN_SECONDS)

    def close(self) -> None:
        """Close the connection. A second call does nothing."""
        self._closed = True
        if self._conn is not None:
            self._conn.close()


def _stage(error: psycopg.Error) -> str:
    """Where in the pipeline it happened, as the pipeline noted it."""
    return "".join(f" {note}" for note in getattr(error, "__notes__", ()))


def first_line(error: psycopg.Error) -> str:
    """The first line of what the server or the driver says."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
