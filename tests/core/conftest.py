"""What the tests of the stages share: a hypothesis profile, fresh schemas, the bundled corpus in a table."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from psycopg import sql

from retrieval_lab import corpus_index
from retrieval_lab.chunker import chunk, load_documents
from retrieval_lab.database import Database
from retrieval_lab.embed import HashEmbedder
from retrieval_lab.ragindex import Index
from retrieval_lab.store import Schema, upsert
from retrieval_lab.types import Chunk

Connection = psycopg.Connection[Any]

CORPUS = Path(__file__).resolve().parents[2] / "fixtures" / "corpus"

# Derandomised, so that a run says something about the code and not about the day.
settings.register_profile(
    "core",
    deadline=None,
    derandomize=True,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("core")


@pytest.fixture(scope="session")
def corpus_dir() -> Path:
    """The corpus that is bundled with the lab."""
    return CORPUS


@pytest.fixture(scope="session")
def corpus_chunks() -> list[Chunk]:
    """All chunks of the bundled corpus, default settings."""
    return [piece for doc in load_documents(CORPUS) for piece in chunk(doc)]


@pytest.fixture
def new_schema(database: Database) -> Iterator[Callable[[], str]]:
    """Makes an empty schema and gives its name; all of them are dropped after the test."""
    made: list[str] = []
    with database.connect() as conn:

        def make() -> str:
            name = f"lab_test_{uuid.uuid4().hex[:12]}"
            conn.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(name)))
            made.append(name)
            return name

        yield make
        for name in made:
            conn.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(name)))


@pytest.fixture
def fresh(database: Database, new_schema: Callable[[], str]) -> Iterator[Connection]:
    """An autocommit connection in an empty schema of its own; a new session, so no setting was touched before."""
    with database.connect(new_schema()) as connection:
        yield connection


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows by the name of the thread whenever an index in memory is made of a table."""
    made: list[str] = []
    build = corpus_index.index_of_table

    def counted(*arguments: Any) -> Index:
        made.append(threading.current_thread().name)
        return build(*arguments)

    monkeypatch.setattr(corpus_index, "index_of_table", counted)
    return made


@pytest.fixture(scope="session")
def stored_schema(database: Database, corpus_chunks: list[Chunk]) -> Iterator[str]:
    """The name of a schema with the bundled corpus in its chunks table, embedded by HashEmbedder, analysed."""
    name = f"lab_test_{uuid.uuid4().hex[:12]}"
    with database.connect(name) as conn:
        conn.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(name)))
        Schema.create(conn, 256)
        upsert(conn, corpus_chunks, HashEmbedder())
        conn.execute("ANALYZE chunks")
        yield name
        conn.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(name)))


@pytest.fixture(scope="module")
def stored(database: Database, stored_schema: str) -> Iterator[Connection]:
    """An autocommit connection to the bundled corpus; no test changes what is stored there."""
    with database.connect(stored_schema) as connection:
        yield connection
