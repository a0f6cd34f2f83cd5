"""One embedded server for the whole test run, in a data directory of its own."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from retrieval_lab import server_admin
from retrieval_lab.database import Database, make_schema

_OWN_DATA_DIR = pytest.StashKey[Path]()


def pytest_configure(config: pytest.Config) -> None:
    """Set the environment before xdist starts its workers, which share the server through it."""
    if hasattr(config, "workerinput"):
        return
    os.environ.pop("RETRIEVAL_LAB_DSN", None)
    folder = Path(tempfile.mkdtemp(prefix="retrieval-lab-tests-", dir=_fast_folder()))
    if os.geteuid() == 0:
        folder.chmod(0o755)  # root's server runs as another user
    os.environ["RETRIEVAL_LAB_DATA_DIR"] = str(folder)
    config.stash[_OWN_DATA_DIR] = folder


def pytest_unconfigure(config: pytest.Config) -> None:
    folder = config.stash.get(_OWN_DATA_DIR, None)
    if folder is not None:
        os.environ["RETRIEVAL_LAB_DATA_DIR"] = str(folder)
        server_admin.stop(force=True)
        shutil.rmtree(folder)


def _fast_folder() -> Path | None:
    """A folder in memory, where there is one to spare: making a cluster writes and syncs a thousand files."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        return None
    found = os.statvfs(memory)
    is_large = found.f_bavail * found.f_frsize > 2_000_000_000
    return memory if is_large and not found.f_flag & os.ST_NOEXEC else None


@pytest.fixture(scope="session")
def fast_folder() -> Path:
    """Where tests that need a server of their own make its data directory."""
    return Path(os.environ["RETRIEVAL_LAB_DATA_DIR"]).parent


@pytest.fixture(scope="session")
def database() -> Iterator[Database]:
    with Database.open() as opened:
        yield opened


@pytest.fixture(scope="module")
def schema(database: Database) -> Iterator[str]:
    """The name of a fresh schema, dropped after the module."""
    name = f"lab_test_{uuid.uuid4().hex[:12]}"
    identifier = sql.Identifier(name)
    with database.connect() as conn:
        make_schema(conn, name, "a test")
        yield name
        conn.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(identifier))


@pytest.fixture(scope="module")
def conn(database: Database, schema: str) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    """An autocommit connection whose search path begins with `schema`."""
    with database.connect(schema) as connection:
        yield connection
