"""Reranking the fused pool, and the default pipeline from query to final list."""

from __future__ import annotations

from functools import partial
from typing import Any

from psycopg import Connection

from retrieval_lab.embed import Embedder, QueryVectors
from retrieval_lab.hybrid import Scan
from retrieval_lab.mmr import MMR_LAMBDA, mmr
from retrieval_lab.pipeline import Leg, Pipeline
from retrieval_lab.rerankers import CrossEncoderReranker, LexicalReranker, Reranker
from retrieval_lab.retrievers.base import Surroundings
from retrieval_lab.retrievers.text import TextRetriever
from retrieval_lab.retrievers.vector import VectorRetriever
from retrieval_lab.store import CHUNKS, Table, fetch
from retrieval_lab.types import Ranked

__all__ = ["CrossEncoderReranker", "LexicalReranker", "Reranker", "default_pipeline", "fetch", "mmr", "pipeline"]


def pipeline(
    conn: Connection[Any],
    embedder: Embedder,
    reranker: Reranker | None,
    query: str,
    *,
    n: int = 50,
    top_k: int = 10,
    mmr_lambda: float | None = MMR_LAMBDA,
    scan: Scan | None = None,
    table: Table = CHUNKS,
) -> list[Ranked]:
    """The final list: the fused top n, all of it reranked, then the first top_k picks of MMR.

    Without a reranker it is the fused list, and with `mmr_lambda` None the reranked one. Asking for fewer gives a
    prefix of asking for more. `ranks` is (vector rank, full-text rank). Raises InputError for negative counts and a
    lambda outside 0 to 1.
    """
    made = default_pipeline(conn, embedder, reranker, n=n, top_k=top_k, mmr_lambda=mmr_lambda, scan=scan, table=table)
    return list(made.run(query).final)


def default_pipeline(
    conn: Connection[Any],
    embedder: Embedder,
    reranker: Reranker | None,
    *,
    n: int = 50,
    top_k: int = 10,
    mmr_lambda: float | None = MMR_LAMBDA,
    scan: Scan | None = None,
    table: Table = CHUNKS,
) -> Pipeline:
    """`pipeline` before it is given a query; `run` keeps every stage."""
    on = Surroundings(conn, QueryVectors(embedder), table)
    return Pipeline(
        legs=(Leg(VectorRetriever("vector", scan, on), n), Leg(TextRetriever("text", True, on), n)),
        fetch=partial(fetch, conn, table=table),
        vectors=on.vectors,
        reranker=reranker,
        n=n,
        top_k=top_k,
        mmr_lambda=None if reranker is None else mmr_lambda,
    )
