"""Candidates that are fetched once and serve every pipeline over one index, so that a variant costs no statement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from retrieval_lab.assembly import Bench, bound, built, composed, require_some
from retrieval_lab.config import PipelineConfig
from retrieval_lab.embed import Vectors
from retrieval_lab.pipeline import Pipeline
from retrieval_lab.rerankers import LexicalReranker, Reranker, word_counts
from retrieval_lab.retrievers.base import Retriever, RetrieverSettings
from retrieval_lab.settings import Bm25Reranker, ExpansionSettings, NoExpansion, RerankerSettings
from retrieval_lab.store import count, fetch
from retrieval_lab.types import EVERYTHING, Chunk, Filter, Hit, Ranked

DEPTH = 1000
"""How deep the lists are kept, and so the largest n that is tried."""

_KEPT_VECTORS = 1 << 14


class Candidates:
    """Lists, passages and rerankings of one index, each asked for once.

    The pipelines run the stages' own code over them. A deeper list is asked for when it is first needed, and then to
    `depth`, the number of chunks and at most DEPTH; lists that may not be cut (`RetrieverSettings.extends`) are asked
    for at each n. Raises as `require_some` does.
    """

    def __init__(self, bench: Bench) -> None:
        require_some(bench.conn, bench.config.filter, bench.table)
        self.depth = min(DEPTH, count(bench.conn, table=bench.table))
        self._bench = bench
        self._on = bench.surroundings(_KEPT_VECTORS)
        self._retrievers: dict[tuple[RetrieverSettings, ExpansionSettings], KeptLists] = {}
        self._rerankers: dict[RerankerSettings, Reranker | None] = {}
        self._passages: dict[str, tuple[Chunk, Vectors]] = {}
        self._count = lru_cache(maxsize=None)(word_counts)

    def pipeline(self, config: PipelineConfig) -> Pipeline:
        """The pipeline of a configuration over this index, with the lists that are kept."""
        retrievers = [self._retriever(settings, config.expansion) for settings in config.retrievers]
        return composed(config, retrievers, self._fetch, self._on.vectors, self._reranker(config.reranker))

    def _retriever(self, settings: RetrieverSettings, expansion: ExpansionSettings) -> KeptLists:
        kind = replace(settings, n=1, weight=1.0), expansion if expansion.covers(settings.name) else NoExpansion()
        if kind not in self._retrievers:
            retriever = built(settings, expansion, self._on)
            # What is searched second does not depend on how much is asked for, so a longer list begins alike.
            self._retrievers[kind] = KeptLists(retriever, extends=settings.extends, depth=self.depth)
        return self._retrievers[kind]

    def _reranker(self, settings: RerankerSettings) -> Reranker | None:
        if settings not in self._rerankers:
            built = (
                LexicalReranker(settings.k1, settings.b, count=self._counted)
                if isinstance(settings, Bm25Reranker)
                else bound(self._bench.reranker(settings), self._on)
            )
            self._rerankers[settings] = built and KeptRankings(built)
        return self._rerankers[settings]

    def _counted(self, text: str) -> Counter[str]:
        return self._count(text)

    def _fetch(self, chunk_ids: Sequence[str]) -> dict[str, tuple[Chunk, Vectors]]:
        missing = [chunk_id for chunk_id in chunk_ids if chunk_id not in self._passages]
        self._passages |= fetch(self._bench.conn, missing, table=self._bench.table)
        return {chunk_id: self._passages[chunk_id] for chunk_id in chunk_ids if chunk_id in self._passages}


class KeptLists:
    """A retriever that asks another once for each list."""

    def __init__(self, retriever: Retriever, *, extends: bool, depth: int) -> None:
        self.name = retriever.name
        self._retriever = retriever
        self._extends = extends
        self._depth = depth
        self._lists: dict[tuple[str, Filter, int | None], tuple[int, list[Hit]]] = {}

    def search(self, query: str, n: int, filter: Filter = EVERYTHING) -> list[Hit]:
        key = query, filter, None if self._extends else n
        if key not in self._lists:
            self._lists[key] = n, self._retriever.search(query, n, filter)
        asked, hits = self._lists[key]
        if asked < n and len(hits) == asked:  # a shorter one is all there is
            asked = max(n, self._depth)
            hits = self._retriever.search(query, asked, filter)
            self._lists[key] = asked, hits
        return hits[:n]


class KeptRankings:
    """A reranker that asks another once for each query and pool."""

    def __init__(self, reranker: Reranker) -> None:
        self._reranker = reranker
        self._rankings: dict[tuple[str, tuple[str, ...]], list[Ranked]] = {}

    def rerank(self, query: str, chunks: Sequence[Chunk], top_k: int) -> list[Ranked]:
        key = query, tuple(chunk.chunk_id for chunk in chunks)
        if key not in self._rankings:
            self._rankings[key] = self._reranker.rerank(query, chunks, len(chunks))
        return self._rankings[key][:top_k]
