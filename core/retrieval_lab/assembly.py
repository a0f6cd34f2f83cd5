"""From a configuration to the pipeline that it describes, over one index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from psycopg import Connection

from retrieval_lab.config import PipelineConfig
from retrieval_lab.embed import Embedder, QueryVectors
from retrieval_lab.errors import InputError
from retrieval_lab.pipeline import Leg, Pipeline, Stored
from retrieval_lab.rerankers import Reranker
from retrieval_lab.retrievers.base import Retriever, Surroundings
from retrieval_lab.settings import RerankerSettings
from retrieval_lab.store import Table, fetch, unknown_documents


@dataclass(frozen=True, slots=True)
class Bench:
    """One index in the hands of work of many statements.

    `config` is a configuration that the index serves, `reranker` builds one, or gives the one that is built already.
    """

    conn: Connection[Any]
    table: Table
    embedder: Embedder
    config: PipelineConfig
    reranker: Callable[[RerankerSettings], Reranker | None]


def assembled(config: PipelineConfig, on: Surroundings, reranker: Reranker | None) -> Pipeline:
    """The pipeline of the configuration, with its reranker already built.

    Raises InputError when the filter names a document that the table does not have.
    """
    wanted = config.filter.doc_ids
    unknown = unknown_documents(on.conn, wanted, table=on.table) if wanted else []
    if unknown:
        raise InputError(f"filter.doc_ids: the corpus has no document {unknown[0]!r}, so nothing could be found in it")
    retrievers = [settings.build(on) for settings in config.retrievers]
    return composed(config, retrievers, partial(fetch, on.conn, table=on.table), on.vectors, reranker)


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
