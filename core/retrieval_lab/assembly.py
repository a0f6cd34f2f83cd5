"""From a configuration to the pipeline that it describes, over one index."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from psycopg import Connection

from retrieval_lab.config import PipelineConfig
from retrieval_lab.corpus_index import IndexKeeper
from retrieval_lab.embed import Embedder, QueryVectors
from retrieval_lab.errors import Cancelled, InputError
from retrieval_lab.filtering import describe, passes_any
from retrieval_lab.metrics import QueryResult, evaluate_queries, labelled
from retrieval_lab.passages import Passages, StoredPassages
from retrieval_lab.pipeline import Leg, Pipeline, Stored
from retrieval_lab.rerankers import CorpusReranker, Reranker
from retrieval_lab.retrievers.base import Indexed, Retriever, RetrieverSettings, Surroundings
from retrieval_lab.settings import ExpansionSettings, RerankerSettings
from retrieval_lab.store import Table, fetch, unknown_documents
from retrieval_lab.support import looked_at, strongest
from retrieval_lab.types import Filter, GoldenQuery, Stages


@dataclass(frozen=True, slots=True)
class Bench:
    """One index in the hands of work of many statements.

    `config` is a configuration that the index serves, `reranker` builds one, or gives the one that is built already,
    `keeper` has the index in memory.
    """

    conn: Connection[Any]
    table: Table
    embedder: Embedder
    config: PipelineConfig
    reranker: Callable[[RerankerSettings], Reranker | CorpusReranker | None]
    keeper: IndexKeeper = field(default_factory=IndexKeeper)

    @property
    def passages(self) -> StoredPassages:
        """Its passages."""
        return StoredPassages(self.conn, self.table)

    def surroundings(self, kept: int = 1) -> Surroundings:
        """What its retrievers are built on; the vectors of the last `kept` queries are remembered."""
        return Surroundings(self.conn, QueryVectors(self.embedder, kept), self.table, keeper=self.keeper)


@dataclass(frozen=True, slots=True)
class Reading:
    """A corpus in the hands of who asks it questions: its passages, and the pipeline of a configuration over them."""

    passages: Passages
    config: PipelineConfig
    pipeline: Callable[[], Pipeline]

    def evaluate(
        self,
        golden: Sequence[GoldenQuery],
        progress: Callable[[int, int], None],
        cancelled: Callable[[], bool],
    ) -> list[QueryResult]:
        """As `Lab.evaluate_queries`."""
        labels = labelled(golden, self.passages.documents)

        def until_cancelled() -> Iterator[tuple[GoldenQuery, frozenset[str]]]:
            for done, query in enumerate(labels):
                progress(done, len(labels))
                if cancelled():
                    raise Cancelled(f"stopped after {done} of {len(labels)} queries")
                yield query
            progress(len(labels), len(labels))

        return list(evaluate_queries(self.pipeline(), until_cancelled(), self._support))

    def _support(self, made: Stages) -> float:
        terms = self.passages.question_terms(made.query, made.parsed)
        return strongest(self.passages.supports(terms, looked_at(made)))


def assembled(config: PipelineConfig, on: Surroundings, reranker: Reranker | CorpusReranker | None) -> Pipeline:
    """The pipeline of the configuration, with its reranker already built. Raises as `require_some` does."""
    require_some(on.conn, config.filter, on.table)
    retrievers = [built(settings, config.expansion, on) for settings in config.retrievers]
    return composed(config, retrievers, partial(fetch, on.conn, table=on.table), on.vectors, bound(reranker, on))


def bound(reranker: Reranker | CorpusReranker | None, on: Indexed) -> Reranker | None:
    """The reranker, that of the index where it needs one. Raises InputError when the file of one cannot be used."""
    return reranker.over(on.corpus_index()) if isinstance(reranker, CorpusReranker) else reranker


def built(settings: RetrieverSettings, expansion: ExpansionSettings, on: Surroundings) -> Retriever:
    """The retriever of the settings, with the expansion where that covers it."""

    def texts(chunk_ids: Sequence[str]) -> dict[str, str]:
        found = fetch(on.conn, chunk_ids, table=on.table)
        return {chunk_id: on.table.indexed(chunk) for chunk_id, (chunk, _) in found.items()}

    return expansion.around(settings.build(on), texts)


def require_some(conn: Connection[Any], filter: Filter, table: Table) -> None:
    """Raises InputError when the filter names a document that the table does not have, or lets no chunk through."""
    unknown = unknown_documents(conn, filter.doc_ids, table=table) if filter.doc_ids else []
    refuse_empty(filter, unknown, lambda: passes_any(conn, filter, table))


def refuse_empty(filter: Filter, unknown: Sequence[str], passes: Callable[[], bool]) -> None:
    """Raises InputError when the filter names `unknown` documents, or by `passes` lets no chunk through."""
    if unknown:
        raise InputError(f"filter.doc_ids: the corpus has no document {unknown[0]!r}, so nothing could be found in it")
    if (filter.sources or filter.paths) and not passes():
        raise InputError(
            f"filter: nothing in the corpus has {describe(filter)}, so nothing could be found; the documents have the "
            "paths docs/NAME.md and stories/NAME.txt and the source file"
        )


def composed(
    config: PipelineConfig,
    retrievers: Sequence[Retriever],
    fetch: Callable[[Sequence[str]], Stored],
    vectors: QueryVectors,
    reranker: Reranker | None,
) -> Pipeline:
    """The pipeline of the configuration from parts that are built already, a retriever for each that it names."""
    return Pipeline(
        legs=tuple(
            Leg(retriever, settings.n, settings.weight)
            for retriever, settings in zip(retrievers, config.retrievers, strict=True)
        ),
        fetch=fetch,
        vectors=vectors,
        reranker=reranker,
        n=config.fusion.n,
        top_k=config.top_k,
        mmr_lambda=config.mmr_lambda,
        fusion=config.fusion.fuse,
        filter=config.filter,
    )
