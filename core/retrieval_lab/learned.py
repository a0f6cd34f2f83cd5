"""The learned reranker: passages by the probability that a logistic regression gives them.

Logistic regression of relevance on features of a query and a passage goes back to Cooper, Gey and Dabney,
"Probabilistic Retrieval Based on Staged Logistic Regression" (SIGIR 1992).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from retrieval_lab.corpus_index import CorpusIndex
from retrieval_lab.learned_features import FEATURES, Array, features
from retrieval_lab.learned_model import LearnedModel, read_model
from retrieval_lab.rerankers import ranked_by, sigmoid
from retrieval_lab.types import Chunk, Ranked


@dataclass(frozen=True, slots=True)
class FeatureScore:
    """What one feature of a passage adds to the log-odds of its relevance.

    `standardised` is its value less the mean of training and over its scale; times the coefficient it is the
    `contribution`.
    """

    feature: str
    value: float
    standardised: float
    coefficient: float
    contribution: float


@dataclass(frozen=True, slots=True)
class FeatureScores:
    """The parts of a learned score: it is the sigmoid of the intercept and all contributions together."""

    intercept: float
    features: tuple[FeatureScore, ...]


class LearnedReranker:
    """A trained model over the index of a corpus."""

    def __init__(self, model: LearnedModel, corpus: CorpusIndex) -> None:
        self.model = model
        self._corpus = corpus

    def rerank(self, query: str, chunks: Sequence[Chunk], top_k: int) -> list[Ranked]:
        """The best top_k of the chunks by probability, ties in the order given. Raises as `features` does."""
        decisions = self.model.regression.decisions(self._features(query, chunks))
        return ranked_by(chunks, [sigmoid(one) for one in decisions.tolist()], top_k)

    def parts(self, query: str, chunk: Chunk) -> FeatureScores:
        """The parts of the score that `rerank` gives to the chunk, in whatever pool. Raises as `features` does."""
        values = self._features(query, [chunk])
        made = self.model.regression
        columns = (values[0], made.standardised(values)[0], made.coefficients, made.contributions(values)[0])
        rows = zip(FEATURES, *(map(float, column) for column in columns), strict=True)
        return FeatureScores(made.intercept, tuple(FeatureScore(*row) for row in rows))

    def _features(self, query: str, chunks: Sequence[Chunk]) -> Array:
        return features(self._corpus, query, [chunk.chunk_id for chunk in chunks], self.model.computed_with)


class StoredReranker:
    """A trained model in a file, which is read anew for each pipeline, so that a changed file counts at once."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def over(self, corpus: CorpusIndex) -> LearnedReranker:
        """The model over the index of a corpus. Raises as `read_model` does."""
        return LearnedReranker(read_model(self._path), corpus)
