"""Looking at the embedded server, stopping it and deleting its cluster, from outside: without a share in it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg import errors

from retrieval_lab.cluster import DATABASE, Cluster, locate, prepare
from retrieval_lab.errors import LabError
from retrieval_lab.guardian.layout import Layout
from retrieval_lab.guardian.locks import try_lock
from retrieval_lab.guardian.processes import holders, listener
from retrieval_lab.guardian.supervisor import order_stop
from retrieval_lab.guarding import PAUSE, WAIT_SECONDS, is_guarded, launch_guardian, stuck
from retrieval_lab.paths import indexes_folder
from retrieval_lab.server import connect_to


class ServerInUseError(LabError):
    """The server was to be stopped, but other processes use it."""


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """What there is of the embedded server. `clients` are process ids, known on systems with /proc."""

    dsn: str
    home: Path
    log: Path
    running: bool
    kept: bool
    clients: tuple[int, ...]


def status() -> ServerStatus:
    """Return what there is of the server; nothing is started. Raises EnvironmentMissing without the wheel."""
    cluster = locate()
    layout = cluster.layout
    running = listener(layout.socket) is not None
    return ServerStatus(
        dsn=cluster.dsn(),
        home=layout.home,
        log=layout.log,
        running=running,
        kept=running and layout.keep.exists(),
        clients=_clients(layout),
    )


def peek(**parameters: Any) -> psycopg.Connection[tuple[Any, ...]] | None:
    """Return a connection to the running server without a share in it, None when none answers."""
    try:
        return connect_to(locate(), DATABASE, **parameters)
    except errors.OperationalError:
        return None


def stop(*, force: bool = False) -> bool:
    """Stop the server; False when none ran. Raises ServerInUseError when others use it, unless `force` is given."""
    cluster = _existing_cluster()
    if cluster is None:
        return False
    with contextlib.nullcontext() if force else _alone(cluster.layout):
        return _stop(cluster)


def drop() -> Path | None:
    """Stop the server and delete its cluster; return the folder that is gone, None when there was none.

    The indexes in memory that were kept of its schemas go too.

    Raises ServerInUseError when others use it.
    """
    cluster = _existing_cluster()
    if cluster is None:
        return None
    home = cluster.layout.home
    doomed = home.with_name(f"{home.name}.dropped")
    with _alone(cluster.layout):
        _stop(cluster)
        shutil.rmtree(doomed, ignore_errors=True)
        home.rename(doomed)  # at once, so that a start that comes now finds nothing instead of half of it
        shutil.rmtree(indexes_folder(), ignore_errors=True)
    shutil.rmtree(doomed)
    return home


def _existing_cluster() -> Cluster | None:
    """The cluster, if this user may use it. Raises EnvironmentMissing where not."""
    found = locate()
    try:
        found.layout.home.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError:
        pass  # told better by `prepare`
    return prepare(found)


@contextlib.contextmanager
def _alone(layout: Layout) -> Iterator[None]:
    """Hold the clients' lock alone, after waiting for a guardian that is just stopping the server."""
    path = layout.lock("clients")
    deadline = time.monotonic() + WAIT_SECONDS
    while (lease := try_lock(path, fcntl.LOCK_EX)) is None:
        shared = try_lock(path, fcntl.LOCK_SH)
        if shared is not None:
            os.close(shared)
            who = ", ".join(str(pid) for pid in _clients(layout)) or "unknown"
            raise ServerInUseError(
                f"the server in {layout.home} is in use (process ids: {who}): end those, or run db stop --force"
            )
        if time.monotonic() > deadline:
            raise stuck(layout, "does not finish stopping")
        time.sleep(PAUSE)
    try:
        yield
    finally:
        os.close(lease)


def _clients(layout: Layout) -> tuple[int, ...]:
    try:
        return tuple(sorted(holders(layout.lock("clients")) - holders(layout.lock("guardian"))))
    except OSError:
        return ()


def _stop(cluster: Cluster) -> bool:
    layout = cluster.layout
    if not is_guarded(layout):
        if listener(layout.socket) is None:
            return False
        launch_guardian(cluster)
    deadline = time.monotonic() + WAIT_SECONDS
    while is_guarded(layout):
        order_stop(layout)
        if time.monotonic() > deadline:
            raise stuck(layout, "does not stop")
        time.sleep(PAUSE)
    return True
