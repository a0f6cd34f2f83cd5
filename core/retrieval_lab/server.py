"""The embedded PostgreSQL as its clients see it: started on demand, shared between processes, gone after the last one.

A `Server` is this process's share: it holds the `clients` lock, so that the guardian leaves the server up. How the
locks work together stands in `guardian`.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any

import psycopg
from psycopg import errors, sql

from retrieval_lab.cluster import DATABASE, Cluster, locate, prepare
from retrieval_lab.errors import EnvironmentMissing, LabError
from retrieval_lab.guardian.locks import is_current, wait_lock
from retrieval_lab.guardian.processes import listener
from retrieval_lab.guarding import PAUSE, WAIT_SECONDS, is_guarded, launch_guardian, stuck

_LAUNCHES = 3
_HOPELESS = ("authentication failed", "too many clients", "remaining connection slots", "pg_hba.conf")

_environment = threading.Lock()

_shares: weakref.WeakSet[Server] = weakref.WeakSet()


class Server:
    """This process's share in the running server, until `close` or the end of the process."""

    def __init__(self, found: Cluster) -> None:
        """Take the share. Raises EnvironmentMissing where no server can run."""
        self._found = found
        self._cluster = prepare(found)
        self._lease: int | None = _share_lease(self._cluster)
        _shares.add(self)
        atexit.register(self.close)

    @classmethod
    def start(cls) -> Server:
        """Return a share in the server, which is started when it does not run.

        The first start makes the cluster and takes about a second. Raises EnvironmentMissing where no server can run.
        """
        server = cls(locate())
        try:
            server.ensure()
        except BaseException:
            server.close()
            raise
        return server

    @property
    def dsn(self) -> str:
        return self._cluster.dsn()

    def ensure(self) -> None:
        """Return when the server answers and has a guardian, whatever happened to either of them before.

        Raises EnvironmentMissing when that cannot be had.
        """
        self._renew_lease()
        layout = self._cluster.layout
        deadline = time.monotonic() + WAIT_SECONDS
        launches = 0
        problem = ""
        while time.monotonic() < deadline and launches <= _LAUNCHES:
            if not is_guarded(layout):
                launches += 1
                launch_guardian(self._cluster)
            try:
                if _serves(self._cluster):
                    return
            except errors.OperationalError as error:
                problem = _one_line(error)
                if any(sign in problem for sign in _HOPELESS):
                    break
            time.sleep(PAUSE)
        raise stuck(layout, f"does not answer ({problem})")

    def connect(self, **parameters: Any) -> psycopg.Connection[tuple[Any, ...]]:
        """Return a new autocommit connection to the lab's database. Raises EnvironmentMissing."""
        self.ensure()
        try:
            return connect_to(self._cluster, DATABASE, **parameters)
        except errors.OperationalError as error:
            raise stuck(self._cluster.layout, f"does not answer ({_one_line(error)})") from error

    def keep(self) -> None:
        """Leave the server up after the last client, until `stop` or until it ends otherwise."""
        self._cluster.layout.keep.touch()

    def close(self) -> None:
        """Give the share back. A second call does nothing."""
        if self._lease is None:
            return
        atexit.unregister(self.close)
        # Without a guardian nobody would stop the server, so one is started while this lock still stands in its way.
        with contextlib.suppress(LabError, OSError):
            if not is_guarded(self._cluster.layout) and listener(self._cluster.layout.socket):
                launch_guardian(self._cluster)
        self._forget()

    def _renew_lease(self) -> None:
        """Begin again when the data directory was deleted: the lock held there keeps no new server up."""
        if self._lease is not None and not is_current(self._lease, self._cluster.layout.lock("clients")):
            self._forget()
            self._cluster = prepare(self._found)
            self._lease = _share_lease(self._cluster)

    def _forget(self) -> None:
        if self._lease is not None:
            os.close(self._lease)
            self._lease = None

    @staticmethod
    def after_fork() -> None:
        """Drop the shares in a forked child, which would otherwise hold them for as long as it lives."""
        for share in list(_shares):
            atexit.unregister(share.close)
            share._forget()


os.register_at_fork(after_in_child=Server.after_fork)


def _share_lease(cluster: Cluster) -> int:
    layout = cluster.layout
    try:
        lease = wait_lock(layout.lock("clients"), fcntl.LOCK_SH, WAIT_SECONDS)
    except FileNotFoundError:  # the cluster was dropped after `prepare` had made its folders
        return _share_lease(prepare(cluster))
    except OSError as error:
        raise EnvironmentMissing(
            f"{layout.home} cannot be locked ({error.strerror}): set RETRIEVAL_LAB_DATA_DIR to a folder on a local disk"
        ) from error
    if lease is None:
        raise stuck(layout, "does not finish stopping")
    return lease


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def connect_to(cluster: Cluster, database: str, **parameters: Any) -> psycopg.Connection[tuple[Any, ...]]:
    """Return a new autocommit connection, with or without a share. Raises OperationalError when nothing answers."""
    with _without_pg_variables():
        return psycopg.connect(cluster.dsn(database), autocommit=True, connect_timeout=5, **parameters)


@contextlib.contextmanager
def _without_pg_variables() -> Iterator[None]:
    """Hide what a user has set for other servers: libpq takes any PG* variable for every connection of the process."""
    with _environment:
        hidden = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("PG")}
        try:
            yield
        finally:
            os.environ.update(hidden)


def _serves(cluster: Cluster) -> bool:
    """Ask the server whether it works in our folder; make the lab's database when it is missing.

    Raises OperationalError when there is no answer.
    """
    try:
        with connect_to(cluster, DATABASE) as conn:
            return conn.execute("SHOW data_directory").fetchone() == (str(cluster.layout.data),)
    except errors.OperationalError as error:
        if f'database "{DATABASE}" does not exist' not in str(error):
            raise
    # Another client may be making it at this moment; the next question shows whether it is there.
    with (
        contextlib.suppress(errors.DuplicateDatabase, errors.UniqueViolation, errors.ObjectInUse),
        connect_to(cluster, "postgres") as conn,
    ):
        conn.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))
    return False
