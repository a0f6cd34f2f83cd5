"""A corpus opened for questions: its database, its index and its golden set in one object."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import psycopg
from psycopg import Connection

from retrieval_lab.corpus import GOLDEN_FILE
from retrieval_lab.database import Database
from retrieval_lab.embed import Embedder, HashEmbedder
from retrieval_lab.errors import EnvironmentMissing, Fault, FaultyInput, InputError, LabError
from retrieval_lab.golden import load_golden
from retrieval_lab.index import IndexReport, Progress, index_corpus, schema_name
from retrieval_lab.lexemes import Lexemes
from retrieval_lab.metrics import evaluate, relevant, why_undefined
from retrieval_lab.mmr import MMR_LAMBDA
from retrieval_lab.paths import bundled_corpus
from retrieval_lab.rerank import LexicalReranker, fetch, stages
from retrieval_lab.store import Table, chunks_of
from retrieval_lab.text import words
from retrieval_lab.types import Chunk, GoldenQuery, Metrics, Stages

T = TypeVar("T")

POOL = 50
TOP_K = 10


class Lab:
    """One corpus, indexed and ready; make it with `Lab.open` and close it, or use it in a `with` block.

    Questions may come from any thread; they are answered one after another. `golden` is empty where golden.yaml is
    missing or faulty, and `golden_faults` says why.
    """

    def __init__(self, corpus: Path, database: Database, schema: str, embedder: Embedder, index: IndexReport) -> None:
        self.corpus = corpus
        self.schema = schema
        self.embedder = embedder
        self.index = index
        self.reranker = LexicalReranker()
        self.golden, self.golden_faults = _golden(corpus)
        self._database = database
        self._conn: Connection[Any] | None = None
        self._lexemes = Lexemes()
        # Named with its schema: a search path would fall back on a table of that name in `public`.
        self._table = Table(schema=schema)
        self._turn = threading.Lock()
        self._closed = False

    @classmethod
    def open(
        cls,
        corpus: Path | str | None = None,
        *,
        dsn: str | None = None,
        embedder: Embedder | None = None,
        progress: Callable[[Progress], None] = lambda _: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Self:
        """Open a corpus folder (the bundled one unless given) and bring its index in step with its files.

        `dsn` names a PostgreSQL server; without it $RETRIEVAL_LAB_DSN does, and without that the embedded server is
        used. `progress` hears of every document indexed, `cancelled` is asked between documents.

        Raises InputError when the folder is no corpus, EnvironmentMissing when there is no usable server, and
        IndexingCancelled.
        """
        folder = Path(corpus if corpus is not None else bundled_corpus()).absolute()
        embedder = embedder or HashEmbedder()
        schema = schema_name(folder, embedder)
        database = Database.open(dsn)
        try:
            with database.connect() as conn:
                index = index_corpus(conn, folder, embedder, schema, progress=progress, cancelled=cancelled)
            return cls(folder, database, schema, embedder, index)
        except psycopg.OperationalError as error:
            database.close()
            raise EnvironmentMissing(f"the server went away ({_first_line(error)}); open the corpus again") from error
        except BaseException:
            database.close()
            raise

    @property
    def embedded(self) -> bool:
        """Whether the lab runs on the embedded server."""
        return self._database.embedded

    def trace(self, query: str) -> Stages:
        """Run one question through every stage, exact scan, and keep all of them.

        Raises EnvironmentMissing when the server is gone; the next call connects again.
        """
        return self._ask(lambda conn: self._trace(conn, query))

    def _trace(self, conn: Connection[Any], query: str) -> Stages:
        return stages(
            conn,
            self.embedder,
            self.reranker,
            query,
            n=POOL,
            top_k=TOP_K,
            mmr_lambda=MMR_LAMBDA,
            scan="exact",
            table=self._table,
        )

    def chunks(self, chunk_ids: Sequence[str]) -> dict[str, Chunk]:
        """The chunks with these ids, in their order; unknown ids are left out. Raises as `trace` does."""
        found = self._ask(lambda conn: fetch(conn, chunk_ids, table=self._table))
        return {chunk_id: chunk for chunk_id, (chunk, _) in found.items()}

    def matched_words(self, trace: Stages, texts: Iterable[str]) -> frozenset[str]:
        """The words of the texts, lower case, that full-text search matched for the traced query.

        Raises as `trace` does.
        """
        found = {word for text in texts for word in words(text)}
        return self._ask(lambda conn: self._lexemes.matching(conn, found, trace.parsed))

    def relevant(self, query: GoldenQuery) -> set[str]:
        """Ids of the chunks that hold the query's anchor. Raises as `trace` does."""
        return relevant(self._ask(lambda conn: chunks_of(conn, [query.doc_id], table=self._table)), query)

    def why_undefined(self, query: GoldenQuery) -> str | None:
        """Why no chunk holds the query's anchor, in words; None when one does. Raises as `trace` does."""
        return why_undefined(self._ask(lambda conn: chunks_of(conn, [query.doc_id], table=self._table)), query)

    def evaluate(self, k: int = TOP_K) -> Metrics:
        """Means over the golden set at cut k, exact scan.

        Raises FaultyInput when golden.yaml has faults, InputError when it is missing or empty, and as `trace` does.
        """
        if self.golden_faults:
            raise FaultyInput(self.golden_faults)
        if not self.golden:
            raise InputError(
                f"{self.corpus / GOLDEN_FILE}: no golden queries; without them there is nothing to measure"
            )
        return self._ask(
            lambda conn: evaluate(
                conn, self.embedder, self.reranker, self.golden, k=k, n=POOL, scan="exact", table=self._table
            )
        )

    def cancel(self) -> None:
        """Stop the statement that is running, from any thread; its caller gets psycopg's QueryCanceled.

        Waits up to a second for the server. Nothing happens when nothing runs or the server does not answer.
        """
        conn = self._conn
        if conn is not None and not conn.closed and self._turn.locked():
            with contextlib.suppress(psycopg.Error):
                conn.cancel_safe(timeout=1.0)

    def close(self) -> None:
        """Close the connection and let go of the server. A second call does nothing."""
        self._closed = True
        if self._conn is not None:
            self._conn.close()
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask(self, question: Callable[[Connection[Any]], T]) -> T:
        with self._turn:
            if self._closed:
                raise LabError("this lab is closed; open the corpus again")
            if self._conn is None or self._conn.closed:
                self._conn = self._database.connect(self.schema)
            try:
                return question(self._conn)
            except psycopg.errors.QueryCanceled:
                raise
            except psycopg.errors.UndefinedTable as error:
                raise EnvironmentMissing("the index of this corpus is gone; open the corpus again") from error
            except psycopg.OperationalError as error:
                self._conn.close()
                raise EnvironmentMissing(
                    f"the server is gone ({_first_line(error)}); ask again to reconnect"
                ) from error


def _first_line(error: psycopg.Error) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _golden(corpus: Path) -> tuple[tuple[GoldenQuery, ...], tuple[Fault, ...]]:
    path = corpus / GOLDEN_FILE
    if not path.exists():
        return (), ()
    try:
        return tuple(load_golden(path)), ()
    except FaultyInput as error:
        return (), error.faults
