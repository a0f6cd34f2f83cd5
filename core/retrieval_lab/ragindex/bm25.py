"""BM25 over a whole corpus: an inverted index that scores every document that shares a term with the query.

Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009), with idf
`ln(1 + (N - df + 0.5) / (df + 0.5))`, which is never negative.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from retrieval_lab.errors import InputError
from retrieval_lab.ragindex import bm25_file
from retrieval_lab.ragindex.postings import Postings, invert
from retrieval_lab.ragindex.ranking import Keep, as_filter, best, require_count
from retrieval_lab.ragindex.terms import terms
from retrieval_lab.rerankers import BM25_B, BM25_K1

_MOST_K1 = 1000  # beyond, term frequency counts in full anyway, and products may overflow
_DENSE = 6  # a term in more than one of so many documents has a row of its own, which adds faster than its postings
_MOST_DENSE_BYTES = 1 << 28

Scores = NDArray[np.float64]


class BM25:
    """An index of documents 0 to n - 1; made by `build`, `from_terms` or `from_bytes`.

    A document of L terms scores, for each term of the query as often as it stands there,
    `idf * tf * (k1 + 1) / (tf + k1 * (1 - b + b * L / avgdl))`. All is float64, and the terms are added in the order
    in which they first stand in the query, so that the sums are the same everywhere. `doc_len` is L (uint32, shape
    (n,)), `avgdl` its mean, 0 without documents.
    """

    def __init__(self, postings: Postings, doc_len: NDArray[np.uint32], avgdl: float, k1: float, b: float) -> None:
        """Raises InputError when k1 lies outside 0 to 1000 or b outside 0 to 1."""
        if not (0 <= k1 <= _MOST_K1 and 0 <= b <= 1):
            raise InputError(f"BM25 k1 is {k1} and b is {b}; expected k1 from 0 to {_MOST_K1} and b from 0 to 1")
        self.postings = postings
        self.doc_len = doc_len
        self.avgdl = avgdl
        self.k1 = k1
        self.b = b
        self.n = len(doc_len)

    @classmethod
    def build(cls, texts: Iterable[str], k1: float = BM25_K1, b: float = BM25_B) -> BM25:
        """The index of the texts, the first of which is document 0. Raises InputError for k1 or b out of range."""
        return cls.from_terms(map(terms, texts), k1, b)

    @classmethod
    def from_terms(cls, documents: Iterable[Sequence[str]], k1: float = BM25_K1, b: float = BM25_B) -> BM25:
        """The index of documents that are given by their terms. Raises as `build` does."""
        postings, doc_len = invert(documents)
        return cls(postings, doc_len, int(doc_len.sum()) / len(doc_len) if len(doc_len) else 0.0, k1, b)

    @classmethod
    def from_bytes(cls, data: bytes, k1: float = BM25_K1, b: float = BM25_B) -> BM25:
        """The index that `to_bytes` wrote, or another program by the same format.

        Raises FormatError for anything else, and InputError for k1 or b out of range.
        """
        return cls(*bm25_file.decode(data), k1, b)

    def to_bytes(self) -> bytes:
        """The content of `bm25.idx`. Raises InputError for a term that is too long for the format."""
        return bm25_file.encode(self.postings, self.doc_len, self.avgdl)

    def idf(self, term: str) -> float:
        """How much the term weighs, whether or not any document holds it; `term` is as `terms` makes it."""
        return _idf(self.n, self.postings.df(term))

    def scores(self, query: str) -> Scores:
        """The score of every document, shape (n,), 0 for those that share no term with the query."""
        return self.scores_of(Counter(terms(query)))

    def scores_of(self, weights: Mapping[str, float]) -> Scores:
        """The score of every document for a query of these terms, each as often as its weight says, shape (n,)."""
        scores = np.zeros(self.n)
        for term, times in weights.items():
            row = self.postings.rows.get(term)
            if row is None:
                continue
            dense = self._dense.get(row)
            if dense is not None:
                scores += dense if times == 1 else times * dense
            else:
                where = self.postings.slice(row)
                parts = self._weights[where]
                scores[self.postings.docs[where]] += parts if times == 1 else times * parts
        return scores

    def search(self, query: str, k: int, keep: Keep | None = None) -> list[tuple[int, float]]:
        """The k best of the documents that share a term with the query and pass `keep`, ties to the lower document.

        Raises InputError when k is negative or `keep` is a mask of another length.
        """
        require_count(k)
        scores = self.scores(query)
        rows = best(scores, k, as_filter(keep, self.n), above=0.0)
        return list(zip(rows.tolist(), scores[rows].tolist(), strict=True))

    def tuned(self, k1: float, b: float) -> BM25:
        """The same index with other parameters. Raises InputError when they are out of range."""
        return self if (k1, b) == (self.k1, self.b) else BM25(self.postings, self.doc_len, self.avgdl, k1, b)

    def reordered(self, order: NDArray[np.int64]) -> BM25:
        """The same index where document i is what was document `order[i]`, a permutation."""
        return BM25(self.postings.reordered(order), self.doc_len[order], self.avgdl, self.k1, self.b)

    def prepare(self) -> None:
        """Compute what the first query would: the weight of every posting."""
        self._dense  # noqa: B018

    @cached_property
    def _weights(self) -> Scores:
        """What each posting adds to the score of its document."""
        dfs = np.diff(self.postings.starts)
        known = {
            df: _idf(self.n, df) for df in set(dfs.tolist())
        }  # numpy's logarithm differs from platform to platform
        idf = np.repeat(np.array([known[df] for df in dfs.tolist()], dtype=np.float64), dfs)
        lengths = 1 - self.b + self.b * self.doc_len / (self.avgdl or 1.0)
        norms = self.k1 * lengths
        weights: Scores = idf * self.postings.tfs
        weights *= self.k1 + 1
        weights /= self.postings.tfs + norms[self.postings.docs]
        return weights

    @cached_property
    def _dense(self) -> dict[int, Scores]:
        """The weights of the commonest terms, by row, for all documents."""
        dfs = np.diff(self.postings.starts)
        common = np.flatnonzero(dfs * _DENSE > self.n)
        most = _MOST_DENSE_BYTES // (8 * max(1, self.n))
        rows = {}
        for row in common[np.argsort(-dfs[common], kind="stable")[:most]].tolist():
            where = self.postings.slice(row)
            rows[row] = np.zeros(self.n)
            rows[row][self.postings.docs[where]] = self._weights[where]
        return rows


def _idf(n: int, df: int) -> float:
    return math.log(1 + (n - df + 0.5) / (df + 0.5))
