"""BM25 over the index in memory, of words as they stand and of their stems."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

from retrieval_lab.corpus_index import CorpusIndex
from retrieval_lab.errors import SettingError
from retrieval_lab.places import NO_TERMS, NO_WORD_IN_COMMON
from retrieval_lab.ragindex import BM25, terms
from retrieval_lab.rerankers import BM25_B, BM25_K1
from retrieval_lab.retrievers.base import Indexed, InMemorySettings, RetrieverSettings, Terms
from retrieval_lab.retrievers.rows import Scored, TermRetriever
from retrieval_lab.stems import stemmed

_MOST_K1 = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bm25Settings(InMemorySettings):
    k1: float = BM25_K1
    b: float = BM25_B

    def __post_init__(self) -> None:
        RetrieverSettings.__post_init__(self)
        if not 0 <= self.k1 <= _MOST_K1:
            raise SettingError("k1", self.k1, f"0 to {_MOST_K1}")
        if not 0 <= self.b <= 1:
            raise SettingError("b", self.b, "0 to 1")

    @property
    def extends(self) -> bool:
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Bm25Search(_Bm25Settings):
    """Chunks by BM25 over the whole corpus (`ragindex.BM25`)."""

    kind: ClassVar[str] = "bm25"
    score_name: ClassVar[str] = "BM25"

    name: str = "bm25"

    def build(self, surroundings: Indexed) -> Bm25Retriever:
        return Bm25Retriever(self.name, surroundings, self.k1, self.b)


class Bm25Retriever(TermRetriever[Terms]):
    """BM25 over the words of the chunks."""

    def __init__(self, name: str, on: Indexed, k1: float, b: float) -> None:
        super().__init__(name, on)
        self._k1 = k1
        self._b = b

    def _method(self) -> str:
        return f"BM25, k1 {self._k1:g}, b {self._b:g}"

    def _asked(self, query: str) -> Terms:
        return self._weighted(Counter(terms(query)))

    def _weighted(self, terms: Terms) -> Terms:
        return terms

    def _scored(self, asked: Terms) -> Scored:
        scores = self._bm25().scores_of(asked)
        note = None if asked else "no terms to find"
        return Scored(scores > 0, lambda: scores, NO_WORD_IN_COMMON if asked else NO_TERMS, note)

    def _bm25(self) -> BM25:
        return tuned_bm25(self._corpus, self._k1, self._b)


def tuned_bm25(corpus: CorpusIndex, k1: float, b: float) -> BM25:
    """The BM25 of the corpus with these parameters, made once. Raises InputError when they are out of range."""
    return corpus.once(("bm25", k1, b), lambda: corpus.index.bm25.tuned(k1, b))


STEMMED_K1 = 1.5
"""The k1 with which BM25 of stems is published for BEIR's corpora most often."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StemmedBm25Search(_Bm25Settings):
    """Chunks by BM25 over the stems of their English words without stop words (module `stems`)."""

    kind: ClassVar[str] = "bm25-stemmed"
    score_name: ClassVar[str] = "BM25"

    name: str = "bm25-stemmed"
    k1: float = STEMMED_K1

    def build(self, surroundings: Indexed) -> StemmedBm25Retriever:
        return StemmedBm25Retriever(self.name, surroundings, self.k1, self.b)


class StemmedBm25Retriever(Bm25Retriever):
    """BM25 over the stems of the chunks' words."""

    def _method(self) -> str:
        return f"{super()._method()}, English stems without stop words"

    def _weighted(self, terms: Terms) -> Terms:
        weights: dict[str, float] = {}
        for term, weight in terms.items():
            for stem in stemmed([term]):
                weights[stem] = weights.get(stem, 0) + weight
        return weights

    def _bm25(self) -> BM25:
        stems = stem_index(self._corpus)
        return self._corpus.once(("stems", self._k1, self._b), lambda: stems.tuned(self._k1, self._b))


def stem_index(corpus: CorpusIndex) -> BM25:
    """The index of the stems of the corpus, made once."""
    return corpus.once("stems", lambda: BM25.from_terms(stemmed(terms(text)) for text in corpus.texts))
