"""What the learned reranker knows about a passage and a query, computed for many passages of one query at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retrieval_lab.corpus_index import CorpusIndex
from retrieval_lab.errors import SettingError
from retrieval_lab.ragindex import terms
from retrieval_lab.rerankers import BM25_B, BM25_K1
from retrieval_lab.retrievers.bm25 import tuned_bm25
from retrieval_lab.retrievers.tfidf import LSA_DIMS, lsa, tf_idf
from retrieval_lab.stopwords import STOP_WORDS

FEATURES = ("bm25", "tfidf", "lsa", "title_overlap", "story")
"""The features in their order.

`bm25` is BM25 with the statistics of the whole corpus. `tfidf` and `lsa` are the cosines of the vectors that
`retrievers.tfidf` fits on the corpus. `title_overlap` is the share of the query's words, stop words left out, that the
title of the passage's document holds. `story` is the kind of the document: 1 for one of `stories/`, 0 for any other.

The kind of a golden query is no feature, since nobody knows it of a new question.
"""

_STORIES = "stories"

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class FeatureSettings:
    """What the features are computed with, as the retrievers of these kinds have it. Raises SettingError."""

    k1: float = BM25_K1
    b: float = BM25_B
    sublinear: bool = True
    bigrams: bool = False
    lsa_dims: int = LSA_DIMS

    def __post_init__(self) -> None:
        if self.lsa_dims < 1:
            raise SettingError("lsa_dims", self.lsa_dims, "1 or more")


def features(corpus: CorpusIndex, query: str, chunk_ids: Sequence[str], settings: FeatureSettings) -> Array:
    """The features of each chunk for the query, shape (chunks, features); 0 of a chunk that the index does not hold.

    Raises InputError for BM25 parameters out of range, and MissingExtra without scikit-learn.
    """
    places = np.array([corpus.rows.get(chunk_id, -1) for chunk_id in chunk_ids], dtype=np.intp)
    held = places >= 0
    rows = places[held]
    found = np.zeros((len(places), len(FEATURES)))
    if not len(rows):
        return found
    words = {"sublinear": settings.sublinear, "bigrams": settings.bigrams}
    fitted, latent = tf_idf(corpus, **words), lsa(corpus, settings.lsa_dims, **words)
    asked = fitted.query(query)
    columns = (
        tuned_bm25(corpus, settings.k1, settings.b).scores(query)[rows],
        (fitted.matrix[rows] @ asked.T).toarray()[:, 0],
        latent.cosines(latent.direction(asked))[rows],
        _title_overlaps(corpus, query, rows),
        np.array([corpus.index.chunks[row].uri.partition("/")[0] == _STORIES for row in rows.tolist()]),
    )
    found[held] = np.column_stack(columns)
    return found


def _title_overlaps(corpus: CorpusIndex, query: str, rows: NDArray[np.intp]) -> Array:
    wanted = set(terms(query)) - STOP_WORDS
    titles = [str(corpus.index.chunks[row].extra.get("title") or "") for row in rows.tolist()]
    share = {title: len(wanted.intersection(terms(title))) / max(len(wanted), 1) for title in set(titles)}
    return np.array([share[title] for title in titles])
