"""Both sides of an index in one list: BM25 and vectors, fused by rank, diversified if wanted."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from retrieval_lab import hybrid
from retrieval_lab.embed import Embedder, QueryVectors, Vectors
from retrieval_lab.errors import InputError
from retrieval_lab.mmr import picks
from retrieval_lab.ragindex.errors import IndexError_
from retrieval_lab.ragindex.exact import dots
from retrieval_lab.ragindex.flat import Found
from retrieval_lab.ragindex.index import Index
from retrieval_lab.ragindex.ranking import require_count
from retrieval_lab.types import EVERYTHING, Filter, Hit, Ranked

_ROW_DIGITS = 10

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class IndexHit:
    """One row of a list: `index` is the row of the chunk in the index, `rank` counts from 1, `score` is fusion's."""

    index: int
    chunk_id: str
    doc_id: str
    uri: str
    text: str
    n_tokens: int
    score: float
    rank: int


class Hybrid:
    """Retrieves from one index, which needs no server."""

    def __init__(
        self,
        index: Index,
        embedder: Embedder | None = None,
        candidates: int = 50,
        rrf_k: float = hybrid.RRF_K,
        nprobe: int = 8,
        mmr_lambda: float = 0.0,
    ) -> None:
        """Without an embedder BM25 is the only side. `mmr_lambda` 0 leaves out MMR; it needs an embedder.

        Raises IndexError_ when the embedder's vectors have another dimension than those of the index, InputError for a
        setting out of range.
        """
        if embedder is not None and embedder.dims != index.meta.dim:
            raise IndexError_(
                f"embedder {embedder.name} makes vectors of {embedder.dims} dimensions, the index {index.meta.dim}: "
                f"embed queries with its own model, {index.meta.embedding_model}"
            )
        if embedder is not None and embedder.name != index.meta.embedding_model:
            _log.warning("queries are embedded by %s, the index by %s", embedder.name, index.meta.embedding_model)
        if candidates < 0 or nprobe < 1 or not 0 <= mmr_lambda <= 1:
            raise InputError(
                f"candidates is {candidates}, nprobe {nprobe}, mmr_lambda {mmr_lambda}; expected 0 or "
                "more, 1 or more, and 0 to 1"
            )
        if mmr_lambda and embedder is None:
            raise InputError(f"mmr_lambda is {mmr_lambda}; expected 0, since without an embedder there is no MMR")
        self.index = index
        self._vectors = None if embedder is None else QueryVectors(embedder)
        self._candidates = candidates
        self._rrf_k = rrf_k
        self._nprobe = nprobe
        self._mmr_lambda = mmr_lambda

    def retrieve(self, query: str, k: int, filter: Filter = EVERYTHING) -> list[IndexHit]:
        """At most k hits, best first; none where nothing matches.

        The best max(candidates, k) of each side that pass the filter are fused by reciprocal rank, equal scores by row;
        of these the first k, or the first k picks of MMR, in which relevance is the dot product with the query. Scores
        are those of fusion. A query without words has no vector, and is found by neither side.

        Raises InputError for a negative k, and as the embedder does.
        """
        require_count(k)
        if k == 0:
            return []
        depth, mask = max(self._candidates, k), self.index.mask(filter)
        vector = None if self._vectors is None else self._vectors.of(query)
        sides = [self.index.bm25.search(query, depth, mask)]
        if vector is not None:
            sides.append(self.index.nearest(vector, depth, mask, nprobe=self._nprobe))
        fused = _fused(sides, self._rrf_k)
        if self._mmr_lambda and vector is not None:
            fused = self._diversified(fused, vector, k)
        return [self._hit(*found, rank) for rank, found in enumerate(fused[:k], start=1)]

    def _diversified(self, fused: Found, vector: Vectors, k: int) -> Found:
        rows = np.array([row for row, _ in fused], dtype=np.int64)
        relevance = dots(self.index.vecs, rows, vector.astype(np.float64))
        chosen = picks(relevance, self.index.vecs[rows].astype(np.float64), self._mmr_lambda, k)
        return [fused[place] for place in chosen]

    def _hit(self, row: int, score: float, rank: int) -> IndexHit:
        chunk = self.index.chunks[row]
        return IndexHit(row, chunk.chunk_id, chunk.doc_id, chunk.uri, chunk.text, chunk.n_tokens, score, rank)


def _fused(sides: Sequence[Found], rrf_k: float) -> Found:
    """`hybrid.rrf` over rows: with as many digits each, their names sort as they do."""
    lists = [
        [Hit(f"{row:0{_ROW_DIGITS}}", score, rank) for rank, (row, score) in enumerate(side, start=1)] for side in sides
    ]
    fused: list[Ranked] = hybrid.rrf(lists, rrf_k)
    return [(int(one.chunk_id), one.score) for one in fused]
