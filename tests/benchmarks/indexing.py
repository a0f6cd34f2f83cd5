"""Indexing the bundled corpus, and opening it when nothing changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from psycopg import Connection, sql

from retrieval_lab.config import PipelineConfig
from retrieval_lab.embed import HashEmbedder, Vectors
from retrieval_lab.index import index_corpus
from retrieval_lab.paths import bundled_corpus
from tests.benchmarks.timing import Ratio, compare

_SCHEMA = "lab_benchmark"


class CountingEmbedder(HashEmbedder):
    """Counts the calls."""

    calls = 0

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.calls += 1
        return super().embed(texts)


def ratios(conn: Connection, embedder: HashEmbedder) -> Iterator[Ratio]:
    """Leaves the corpus indexed in the connection's current schema, for what is measured next."""
    counting = CountingEmbedder(embedder.dims)

    def from_nothing() -> None:
        conn.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(_SCHEMA)))
        index_corpus(conn, bundled_corpus(), PipelineConfig().indexing, _SCHEMA, embedder=counting)

    def unchanged() -> None:
        counting.calls = 0
        index_corpus(conn, bundled_corpus(), PipelineConfig().indexing, _SCHEMA, embedder=counting)
        assert counting.calls == 0, "an unchanged corpus was embedded again"

    # The order within a round matters: the index must be there before it can be unchanged.
    from_nothing()
    yield compare("opening an unchanged corpus / indexing it", unchanged, from_nothing, rounds=5)
