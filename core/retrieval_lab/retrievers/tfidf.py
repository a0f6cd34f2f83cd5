"""TF-IDF cosine and LSA over the index in memory, by scikit-learn, fitted on the corpus alone."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from retrieval_lab.corpus_index import CorpusIndex
from retrieval_lab.errors import SettingError
from retrieval_lab.extras import require
from retrieval_lab.places import NO_WORD_IN_COMMON, ZERO_VECTOR
from retrieval_lab.ragindex import terms
from retrieval_lab.ragindex.ranking import Mask
from retrieval_lab.retrievers.base import Indexed, InMemorySettings, RetrieverSettings, Terms
from retrieval_lab.retrievers.rows import Scored, TermRetriever

LSA_DIMS = 200
_SEED = 13
_EXTRA = "evals"
_UNKNOWN = "the corpus has no term of the query"
_ELSEWHERE = "the query has nothing in common with the dimensions of LSA"
_LEAST = 1e-9  # lengths below it are rounding


@dataclass(frozen=True, slots=True)
class TfIdf:
    """The TF-IDF of a corpus: one row of unit length for each chunk.

    A term that stands tf times in a text counts `tf * idf`, or `(1 + ln(tf)) * idf` with `sublinear`, where idf is
    `ln((1 + N) / (1 + df)) + 1` (scikit-learn's user guide, "Text feature extraction", Tf-idf term weighting). With
    `bigrams`, pairs of words that follow each other are terms too.
    """

    vectorizer: Any
    matrix: Any
    """scipy.sparse, shape (n, terms), by columns: a query needs those of its own terms only."""

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
        if any(map(terms, texts)):
            return cls(vectorizer, vectorizer.fit_transform(texts).tocsc())
        # scikit-learn refuses an empty vocabulary, so a text with a term is read too and left out again.
        return cls(vectorizer, vectorizer.fit_transform([*texts, "a"])[:-1].tocsc())

    def query(self, query: str) -> Any:
        """The row of a query, shape (1, terms); all zero when the corpus has none of its terms."""
        return self.vectorizer.transform([query if self.matrix.nnz else ""])

    def cosines(self, row: Any) -> NDArray[np.float64]:
        """The cosine of each chunk with such a row, shape (n,)."""
        cosines = np.zeros(self.matrix.shape[0])
        starts = self.matrix.indptr
        # Ascending, so that the sums are those of the product of the matrices.
        for column, weight in sorted(zip(row.indices.tolist(), row.data.tolist(), strict=True)):
            held = slice(starts[column], starts[column + 1])
            cosines[self.matrix.indices[held]] += weight * self.matrix.data[held]
        return cosines

    def weighted(self, weights: Terms) -> Any:
        """The row of words with weights in the place of their tf, which `sublinear` does not dampen.

        So the order of the chunks stays when all weights are scaled, and counts give what the text gives unless a word
        is repeated. A corpus of bigrams finds the words singly.
        """
        sparse = require("scipy.sparse", extra=_EXTRA)
        columns = {self.vectorizer.vocabulary_.get(term): weight for term, weight in weights.items()}
        columns.pop(None, None)
        found = np.array(list(columns), dtype=np.int64) if self.matrix.nnz else np.zeros(0, dtype=np.int64)
        values = np.array([columns[column] * self.vectorizer.idf_[column] for column in found.tolist()])
        largest = np.abs(values).max(initial=0.0)
        # Brought near 1 first: the squares of tiny weights would vanish.
        values = values / largest if largest else values
        row = sparse.csr_matrix((values, (np.zeros_like(found), found)), shape=(1, self.matrix.shape[1]))
        row.eliminate_zeros()
        return row / (np.sqrt((values * values).sum()) or 1.0)


def tf_idf(corpus: CorpusIndex, *, sublinear: bool, bigrams: bool) -> TfIdf:
    """The TF-IDF of the corpus, fitted once. Raises MissingExtra without scikit-learn."""
    key = ("tfidf", sublinear, bigrams)
    return corpus.once(key, lambda: TfIdf.fitted(corpus.texts, sublinear=sublinear, bigrams=bigrams))


@dataclass(frozen=True, slots=True)
class Lsa:
    """Latent semantic analysis: the truncated singular value decomposition of TF-IDF.

    Deerwester et al., "Indexing by Latent Semantic Analysis" (1990). `vectors` has a row of unit length for each chunk,
    or a zero row for one without any direction, shape (n, dims); `terms` has the place of each term, shape (terms,
    dims). `same` is the first row that has the terms of each row, shape (n,).
    """

    terms: NDArray[np.float64]
    vectors: NDArray[np.float64]
    same: NDArray[np.int64]

    @classmethod
    def fitted(cls, tf_idf: TfIdf, dims: int) -> Lsa:
        """Fitted on the corpus; fewer dimensions than asked for where the corpus has no more."""
        matrix = tf_idf.matrix.tocsr()
        components, coordinates = _decomposed(matrix, min(dims, *matrix.shape)) if matrix.nnz else _nowhere(matrix)
        return cls(np.ascontiguousarray(components.T), _unit(coordinates), _first_alike(matrix))

    def direction(self, row: Any) -> NDArray[np.float64]:
        """A row of TF-IDF as a vector of unit length, shape (dims,); zero for one without any direction."""
        direction: NDArray[np.float64] = _unit((row.data @ self.terms[row.indices])[None, :])[0]
        return direction

    def cosines(self, direction: NDArray[np.float64]) -> NDArray[np.float64]:
        """The cosine of each chunk with a direction, shape (n,)."""
        # A product may round equal rows differently, which would decide between chunks of equal text.
        cosines: NDArray[np.float64] = (self.vectors @ direction)[self.same]
        return cosines


def lsa(corpus: CorpusIndex, dims: int, *, sublinear: bool, bigrams: bool) -> Lsa:
    """The LSA of the corpus, fitted once. Raises MissingExtra without scikit-learn."""
    fitted = tf_idf(corpus, sublinear=sublinear, bigrams=bigrams)
    return corpus.once(("lsa", dims, sublinear, bigrams), lambda: Lsa.fitted(fitted, dims))


_Parts = tuple[NDArray[np.float64], NDArray[np.float64]]


def _decomposed(matrix: Any, dims: int) -> _Parts:
    """The dimensions with any weight, at most so many, and the coordinates of each row in them."""
    if matrix.shape[1] == 1:  # which scikit-learn refuses
        return np.ones((1, 1)), matrix.toarray()
    svd = require("sklearn.decomposition", extra=_EXTRA).TruncatedSVD(dims, random_state=_SEED)
    with np.errstate(divide="ignore", invalid="ignore"):
        coordinates = svd.fit_transform(matrix)
    kept = svd.singular_values_ > _LEAST * svd.singular_values_[0]
    return svd.components_[kept], coordinates[:, kept]


def _nowhere(matrix: Any) -> _Parts:
    """One dimension, in which no text of a corpus without terms has a place."""
    return np.zeros((1, matrix.shape[1])), np.zeros((matrix.shape[0], 1))


def _first_alike(matrix: Any) -> NDArray[np.int64]:
    """For each row the first row that equals it."""
    first: dict[tuple[bytes, bytes], int] = {}
    ends = matrix.indptr.tolist()
    rows = (slice(start, end) for start, end in pairwise(ends))
    keys = ((matrix.indices[row].tobytes(), matrix.data[row].tobytes()) for row in rows)
    return np.array([first.setdefault(key, number) for number, key in enumerate(keys)], dtype=np.int64)


def _unit(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """The rows, which were unit vectors before they were projected, at unit length; what is left of none is zero."""
    lengths = np.sqrt((rows * rows).sum(axis=1))
    lengths[lengths < _LEAST] = np.inf
    unit: NDArray[np.float64] = rows / lengths[:, None]
    return unit


@dataclass(frozen=True, slots=True, kw_only=True)
class TfIdfSearch(InMemorySettings):
    """Chunks by the cosine of TF-IDF vectors (`TfIdf`)."""

    kind: ClassVar[str] = "tfidf"
    score_name: ClassVar[str] = "cosine"

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
        scores = self._fitted().cosines(asked)
        known = asked.nnz > 0
        return Scored(scores > 0, lambda: scores, NO_WORD_IN_COMMON if known else _UNKNOWN, None if known else _UNKNOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class LsaSearch(InMemorySettings):
    """Chunks by the cosine of LSA vectors of so many dimensions (`Lsa`)."""

    kind: ClassVar[str] = "lsa"
    score_name: ClassVar[str] = "cosine"

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
        latent = self._latent()
        direction = latent.direction(asked)
        if not direction.any():
            missing = _ELSEWHERE if asked.nnz else _UNKNOWN
            nothing = np.zeros(len(latent.vectors), dtype=np.bool_)
            return Scored(nothing, lambda: np.zeros(len(latent.vectors)), missing, missing)
        reachable: Mask = np.any(latent.vectors != 0, axis=1)
        return Scored(reachable, lambda: latent.cosines(direction), ZERO_VECTOR)
