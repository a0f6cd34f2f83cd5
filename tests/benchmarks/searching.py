"""Searching against its bare prepared statements, and evaluating against bare pipeline calls."""

from __future__ import annotations

from collections.abc import Iterator

from psycopg import Connection

from retrieval_lab import hybrid, metrics, rerank
from retrieval_lab.corpus import GOLDEN_FILE
from retrieval_lab.embed import HashEmbedder
from retrieval_lab.paths import bundled_corpus
from retrieval_lab.rerank import LexicalReranker
from retrieval_lab.textquery import parse
from retrieval_lab.types import GoldenQuery
from tests.benchmarks.timing import Ratio, compare

_VECTOR = """
    SELECT chunk_id, 1 - (embedding <=> %(q)s::vector) FROM chunks ORDER BY embedding <=> %(q)s::vector LIMIT 50"""
_TEXT = """
    SELECT chunk_id, ts_rank_cd(tsv, %(q)s::tsquery, 32) AS score FROM chunks WHERE tsv @@ %(q)s::tsquery
    ORDER BY score DESC, chunk_id COLLATE "C" LIMIT 50"""


def ratios(conn: Connection, embedder: HashEmbedder) -> Iterator[Ratio]:
    golden = metrics.load_golden(bundled_corpus() / GOLDEN_FILE)
    yield _hybrid_search(conn, embedder, golden)
    yield _evaluation(conn, embedder, golden)


def _hybrid_search(conn: Connection, embedder: HashEmbedder, golden: list[GoldenQuery]) -> Ratio:
    """Both without a choice of scan, as `hybrid.search` leaves it; the bare side is given its parameters ready-made."""
    vectors = [hybrid.vector_literal(vector) for vector in embedder.embed([query.query for query in golden])]
    parsed = [parse(conn, query.query).alternatives for query in golden]

    def bare() -> None:
        for vector, alternatives in zip(vectors, parsed, strict=True):
            conn.execute(_VECTOR, {"q": vector}, prepare=True).fetchall()
            conn.execute(_TEXT, {"q": alternatives}, prepare=True).fetchall()

    def ours() -> None:
        for query in golden:
            hybrid.search(conn, embedder, query.query)

    return compare("hybrid.search / its two bare prepared statements, 48 queries", ours, bare, rounds=15, bound=1.5)


def _evaluation(conn: Connection, embedder: HashEmbedder, golden: list[GoldenQuery]) -> Ratio:
    reranker = LexicalReranker()

    def bare() -> None:
        for query in golden:
            rerank.pipeline(conn, embedder, reranker, query.query)

    return compare(
        "evaluate / its 48 pipeline calls",
        lambda: metrics.evaluate(conn, embedder, reranker, golden),
        bare,
        rounds=9,
        bound=1.3,
    )
