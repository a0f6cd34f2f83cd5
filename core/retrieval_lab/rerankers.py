"""Rerankers: BM25 over the candidates, and a cross-encoder."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from retrieval_lab.errors import InputError
from retrieval_lab.folder_models import FolderModel
from retrieval_lab.model_folder import ModelFolder
from retrieval_lab.models import (
    model_cache_dir,
)
from retrieval_lab.runtime import ModelRuntime
from retrieval_lab.text import sendable, words
from retrieval_lab.types import Chunk, Ranked

if TYPE_CHECKING:
    from retrieval_lab.corpus_index import CorpusIndex

DEFAULT_RERANKING_MODEL = "Xenova/ms-marco-MiniLM-L-6-v2"

BM25_K1 = 1.2
BM25_B = 0.75


class Reranker(Protocol):
    """Anything that puts chunks into a new order for a query."""

    def rerank(self, query: str, chunks: Sequence[Chunk], top_k: int) -> list[Ranked]:
        """The best top_k of the chunks, ranks from 1, `ranks` empty."""


@runtime_checkable
class CorpusReranker(Protocol):
    """What becomes a reranker over the index of a corpus, whose statistics it scores by."""

    def over(self, corpus: CorpusIndex) -> Reranker:
        """The reranker of the corpus."""


@dataclass(frozen=True, slots=True)
class TermScore:
    """What one word of the query adds to the BM25 score of one chunk.

    `tf` is how often the chunk holds it, `df` how many of the candidates do. `length_factor` is `1 - b + b * L / avg`:
    above 1 the chunk is longer than the average candidate, which lowers what a word counts for. `contribution` is
    `idf * tf * (k1 + 1) / (tf + k1 * length_factor)`; those of all terms sum to the score.
    """

    term: str
    tf: int
    df: int
    idf: float
    length_factor: float
    contribution: float


@runtime_checkable
class TermwiseReranker(Protocol):
    """A reranker whose score is a sum over the words of the query."""

    def terms(self, query: str, chunks: Sequence[Chunk], row: int) -> list[TermScore]:
        """The parts of the score that `rerank` gives to `chunks[row]`, one for each distinct word of the query."""


def word_counts(text: str) -> Counter[str]:
    """How often each word stands in the text."""
    return Counter(words(text))


class LexicalReranker:
    """BM25 with statistics of the candidates alone: needs no model, rewards rare words of the query.

    Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009), with idf
    `ln(1 + (N - df + 0.5) / (df + 0.5))`, which is never negative.
    """

    def __init__(
        self, k1: float = BM25_K1, b: float = BM25_B, *, count: Callable[[str], Counter[str]] = word_counts
    ) -> None:
        """`count` is `word_counts`, or a form of it that remembers texts. Raises InputError for k1 or b out of range.

        k1 is 0 or more, b lies in 0 to 1.
        """
        if k1 < 0 or not 0 <= b <= 1:
            raise InputError(f"BM25 k1 is {k1} and b is {b}; expected k1 of 0 or more and b from 0 to 1")
        self.k1 = k1
        self.b = b
        self._count = count

    def rerank(self, query: str, chunks: Sequence[Chunk], top_k: int) -> list[Ranked]:
        """The best top_k of the chunks by BM25, ties in the order given."""
        counted = _counted(query, chunks, self._count)
        scores = []  # fsum, so that chunks with equal terms of the sum tie, in whatever order the terms come
        for count, length in zip(counted.counts, counted.lengths, strict=True):
            factor = self._length_factor(length, counted.average)
            held = ((counted.idf[term], count[term]) for term in counted.idf if term in count)
            scores.append(math.fsum(self._contribution(idf, tf, factor) for idf, tf in held))
        return ranked_by(chunks, scores, top_k)

    def terms(self, query: str, chunks: Sequence[Chunk], row: int) -> list[TermScore]:
        """The parts of the score of `chunks[row]`, in the order of the query; a word that it lacks adds 0."""
        counted = _counted(query, chunks, self._count)
        count, factor = counted.counts[row], self._length_factor(counted.lengths[row], counted.average)
        return [
            TermScore(term, count[term], counted.df[term], idf, factor, self._contribution(idf, count[term], factor))
            for term, idf in counted.idf.items()
        ]

    def _length_factor(self, length: int, average: float) -> float:
        return 1 - self.b + self.b * length / average

    def _contribution(self, idf: float, tf: int, length_factor: float) -> float:
        return idf * tf * (self.k1 + 1) / (tf + self.k1 * length_factor) if tf else 0.0


@dataclass(frozen=True, slots=True)
class _Counted:
    """The statistics of the candidates: words and their number in each, then those of each word of the query."""

    counts: list[Counter[str]]
    lengths: list[int]
    average: float
    df: dict[str, int]
    idf: dict[str, float]


def _counted(query: str, chunks: Sequence[Chunk], count: Callable[[str], Counter[str]]) -> _Counted:
    counts = [count(chunk.text) for chunk in chunks]
    lengths = [count.total() for count in counts]
    average = sum(lengths) / len(lengths) if any(lengths) else 1.0
    found_in = {term: sum(term in count for count in counts) for term in dict.fromkeys(words(query))}
    idf = {term: math.log(1 + (len(chunks) - df + 0.5) / (df + 0.5)) for term, df in found_in.items()}
    return _Counted(counts, lengths, average, found_in, idf)


class CrossEncoderReranker:
    """A cross-encoder through fastembed (extra `models`), loaded when it first ranks a non-empty list."""

    def __init__(
        self,
        model: str = DEFAULT_RERANKING_MODEL,
        cache_dir: str | Path | None = None,
        model_path: str | Path | None = None,
    ) -> None:
        """`cache_dir` is where the model's files lie: by default $FASTEMBED_CACHE_PATH, else ~/.cache/fastembed.

        `model_path` is a folder with the files of one model, which is used instead of `model`, without any network.

        Raises InputError when the folder lacks a file and when its model gives several scores.
        """
        self.model = model
        self.cache_dir = model_cache_dir(cache_dir)
        self._folder = folder = None if model_path is None else _one_score(ModelFolder.at(model_path))
        in_folder = None if folder is None else FolderModel(folder, folder.label)
        self._runtime = ModelRuntime(
            "fastembed.rerank.cross_encoder",
            "TextCrossEncoder",
            model,
            self.cache_dir,
            lambda: in_folder,
            sample=("a", "a"),
        )

    def rerank(self, query: str, chunks: Sequence[Chunk], top_k: int) -> list[Ranked]:
        """The best top_k of the chunks by the model's score (a logit), ties in the order given.

        A chunk that, with the query, is beyond `window` is read up to there. Raises as `models.load_model` does, and
        InputError for a model that gives something else than a score, as one for embedding does.
        """
        if not chunks:
            return []
        asked = sendable(query)[0]
        texts = [chunk.text for chunk in chunks]
        try:
            scores = [float(one) for one in self._runtime.apply(lambda made, some: made.rerank(asked, some), texts)]
        except TypeError as error:  # fastembed makes a float of whatever the model gives for a passage
            raise InputError(
                f"{self.model if self._folder is None else self._folder.path}: the model gives arrays; expected one "
                "score for each passage: give a model that was trained to rank"
            ) from error
        return ranked_by(chunks, scores, top_k)

    @property
    def window(self) -> int:
        """The tokens that the model reads of query and passage together. Raises as `models.load_model` does."""
        return self._runtime.tokens.window

    def token_counts(self, texts: Sequence[str], query: str | None = None) -> list[int]:
        """The tokens of each text, or of its pair with the query, without truncation; raises as `window` does."""
        return self._runtime.tokens.counts(texts, query)


def _one_score(folder: ModelFolder) -> ModelFolder:
    """The folder, unless its model tells classes apart: fastembed would rank by the first of them."""
    labels = folder.config().get("id2label")
    if isinstance(labels, dict) and len(labels) > 1:
        raise InputError(
            f"{folder.path / 'config.json'}: has the labels {', '.join(map(str, labels.values()))}; expected one, the "
            "relevance: give a model that was trained to rank"
        )
    return folder


def sigmoid(score: float) -> float:
    """A logit as a probability, 1 / (1 + e**-score), for any finite score without overflow."""
    small = math.exp(-abs(score))
    return 1 / (1 + small) if score >= 0 else small / (1 + small)


def ranked_by(chunks: Sequence[Chunk], scores: Sequence[float], top_k: int) -> list[Ranked]:
    """The best top_k of the chunks by these scores, ties in the order given. Raises InputError for a negative top_k."""
    if top_k < 0:
        raise InputError(f"{top_k} results were asked for; expected 0 or more")
    order = sorted(range(len(chunks)), key=lambda row: -scores[row])[:top_k]
    return [Ranked(chunks[row].chunk_id, scores[row], rank, ()) for rank, row in enumerate(order, start=1)]
