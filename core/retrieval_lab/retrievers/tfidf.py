"""TF-IDF cosine and LSA over the index in memory, by scikit-learn, fitted on the corpus alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from retrieval_lab.corpus_index import CorpusIndex
from retrieval_lab.errors import SettingError
from retrieval_lab.extras import require
from retrieval_lab.places import NO_TERMS, NO_WORD_IN_COMMON, ZERO_VECTOR
from retrieval_lab.ragindex import terms
from retrieval_lab.ragindex.ranking import Mask
from retrieval_lab.retrievers.base import Indexed, InMemorySettings, RetrieverSettings, Terms
from retrieval_lab.retrievers.rows import Scored, TermRetriever

LSA_DIMS = 200
_SEED = 13
_EXTRA = "evals"
_UNKNOWN = "the corpus has no term of the query"


@dataclass(frozen=True, slots=True)
class TfIdf:
    """The TF-IDF of a corpus: one row of unit length for each chunk.

    A term that stands tf times in a text counts `tf * idf`, or `(1 + ln(tf)) * idf` with `sublinear`, where idf is
    `ln((1 + N) / (1 + df)) + 1` (scikit-learn's user guide, "Text feature extraction", Tf-idf term weighting). With
    `bigrams`, pairs of words that follow each other are terms too.
    """

    vectorizer: Any
    matrix: Any
    """scipy.sparse, shape (n, terms)."""

    @classmethod
    def fitted(cls, texts: list[str], *, sublinear: bool, bigrams: bool) -> TfIdf:
        """Fitted on these texts. Raises MissingExtra without scikit-learn."""
        text = require("sklearn.feature_extraction.text", extra=_EXTRA)
        vectorizer = text.TfidfVectorizer(
            tokenizer=terms,
            token_pattern=None,
            lowercase=False,
            sublinear_tf=sublinear,
            ngram_range=(1, 2) if bigrams else (1, 1),
        )
        if not any(map(terms, texts)):
            texts = [*texts, "a"]  # scikit-learn refuses an empty vocabulary
            return cls(vectorizer, vectorizer.fit_transform(texts)[:-1])
        return cls(vectorizer, vectorizer.fit_transform(texts))

    def query(self, query: str) -> Any:
        """The row of a query, shape (1, terms); all zero when the corpus has none of its terms."""
        return self.vectorizer.transform([query])

    def weighted(self, weights: Terms) -> Any:
        """The row of words with weights in the place of their tf; a corpus of bigrams finds them singly."""
        sparse = require("scipy.sparse", extra=_EXTRA)
        known = [(self.vectorizer.vocabulary_.get(term), weight) for term, weight in weights.items()]
        columns = [(column, weight * self.vectorizer.idf_[column]) for column, weight in known if column is not None]
        length = np.sqrt(sum(value * value for _, value in columns)) or 1.0
        row = sparse.lil_matrix((1, self.matrix.shape[1]))
        for column, value in columns:
            row[0, column] = value / length
        return row.tocsr()


def tf_idf(corpus: CorpusIndex, *, sublinear: bool, bigrams: bool) -> TfIdf:
    """The TF-IDF of the corpus, fitted once. Raises MissingExtra without scikit-learn."""
    key = ("tfidf", sublinear, bigrams)
    return corpus.once(key, lambda: TfIdf.fitted(corpus.texts, sublinear=sublinear, bigrams=bigrams))


@dataclass(frozen=True, slots=True)
class Lsa:
    """Latent semantic analysis: the truncated singular value decomposition of TF-IDF.

    Deerwester et al., "Indexing by Latent Semantic Analysis" (1990). `vectors` has a row of unit length for each chunk,
    or a zero row for one without any direction, shape (n, dims).
    """

    tf_idf: TfIdf
    svd: Any
    vectors: NDArray[np.float64]

    @classmethod
    def fitted(cls, tf_idf: TfIdf, dims: int) -> Lsa:
        """Fitted on the corpus; fewer dimensions than asked for where the corpus has no more."""
        decomposition = require("sklearn.decomposition", extra=_EXTRA)
        dims = max(1, min(dims, *(size - 1 for size in tf_idf.matrix.shape)))
        svd = decomposition.TruncatedSVD(dims, random_state=_SEED)
        return cls(tf_idf, svd, _unit(svd.fit_transform(tf_idf.matrix)))

    def cosines(self, row: Any) -> NDArray[np.float64]:
        """The cosine of each chunk with a row of TF-IDF, shape (n,); all 0 for a row without any direction."""
        cosines: NDArray[np.float64] = self.vectors @ _unit(self.svd.transform(row))[0]
        return cosines


def lsa(corpus: CorpusIndex, dims: int, *, sublinear: bool, bigrams: bool) -> Lsa:
    """The LSA of the corpus, fitted once. Raises MissingExtra without scikit-learn."""
    fitted = tf_idf(corpus, sublinear=sublinear, bigrams=bigrams)
    return corpus.once(("lsa", dims, sublinear, bigrams), lambda: Lsa.fitted(fitted, dims))


def _unit(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    lengths = np.sqrt((rows * rows).sum(axis=1))
    lengths[lengths < np.finfo(np.float64).eps] = np.inf
    unit: NDArray[np.float64] = rows / lengths[:, None]
    return unit


@dataclass(frozen=True, slots=True, kw_only=True)
class TfIdfSearch(InMemorySettings):
    """Chunks by the cosine of TF-IDF vectors (`TfIdf`)."""

    kind: ClassVar[str] = "tfidf"

    name: str = "tfidf"
    sublinear: bool = True
    bigrams: bool = False

    @property
    def extends(self) -> bool:
        return True

    def build(self, surroundings: Indexed) -> TfIdfRetriever:
        return TfIdfRetriever(self.name, surroundings, self)


class TfIdfRetriever(TermRetriever[Any]):
    """TF-IDF cosine; a query is its row, shape (1, terms)."""

    def __init__(self, name: str, on: Indexed, settings: TfIdfSearch | LsaSearch) -> None:
        super().__init__(name, on)
        self._settings = settings

    def _method(self) -> str:
        settings = self._settings
        return f"TF-IDF{', sublinear' if settings.sublinear else ''}{', with bigrams' if settings.bigrams else ''}"

    def _fitted(self) -> TfIdf:
        return tf_idf(self._corpus, sublinear=self._settings.sublinear, bigrams=self._settings.bigrams)

    def _asked(self, query: str) -> Any:
        return self._fitted().query(query)

    def _weighted(self, terms: Terms) -> Any:
        return self._fitted().weighted(terms)

    def _scored(self, asked: Any) -> Scored:
        scores: NDArray[np.float64] = (self._fitted().matrix @ asked.T).toarray()[:, 0]
        known = asked.nnz > 0
        return Scored(scores > 0, lambda: scores, NO_WORD_IN_COMMON if known else NO_TERMS, None if known else _UNKNOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class LsaSearch(InMemorySettings):
    """Chunks by the cosine of LSA vectors of so many dimensions (`Lsa`)."""

    kind: ClassVar[str] = "lsa"

    name: str = "lsa"
    dims: int = LSA_DIMS
    sublinear: bool = True
    bigrams: bool = False

    def __post_init__(self) -> None:
        RetrieverSettings.__post_init__(self)
        if self.dims < 1:
            raise SettingError("dims", self.dims, "1 or more")

    @property
    def extends(self) -> bool:
        return True

    def build(self, surroundings: Indexed) -> LsaRetriever:
        return LsaRetriever(self.name, surroundings, self)


class LsaRetriever(TfIdfRetriever):
    """LSA cosine; every chunk with a direction has one, so the list is as long as is asked for."""

    _settings: LsaSearch

    def _method(self) -> str:
        return f"LSA of {self._latent().vectors.shape[1]} dimensions, {super()._method()}"

    def _latent(self) -> Lsa:
        settings = self._settings
        return lsa(self._corpus, settings.dims, sublinear=settings.sublinear, bigrams=settings.bigrams)

    def _scored(self, asked: Any) -> Scored:
        latent, known = self._latent(), asked.nnz > 0
        reachable: Mask = np.any(latent.vectors != 0, axis=1)
        finds = reachable if known else np.zeros_like(reachable)
        reason, note = (ZERO_VECTOR, None) if known else (NO_TERMS, _UNKNOWN)
        return Scored(finds, lambda: latent.cosines(asked), reason, note)
