"""The parts of a pipeline besides retrievers: a frozen class for each kind.

A kind's class holds the settings that have an effect in it and no others, checks them, and builds the part.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from retrieval_lab.chunker import MAX_CHARS, OVERLAP, chunk
from retrieval_lab.chunkers import (
    SENTENCES_OVERLAP,
    SENTENCES_SIZE,
    WORDS_OVERLAP,
    WORDS_SIZE,
    sentence_windows,
    whole_document,
    word_windows,
)
from retrieval_lab.embed import DEFAULT_EMBEDDING_MODEL, Embedder, FastEmbedder, HashEmbedder
from retrieval_lab.errors import SettingError
from retrieval_lab.expansion import FEEDBACK, ORIGINAL_WEIGHT, TERMS
from retrieval_lab.fusion import RRF_K, best_rank, minmax, rrf, rrf_part, scaled
from retrieval_lab.learned import StoredReranker
from retrieval_lab.learned_model import model_label
from retrieval_lab.model_folder import ModelFolder
from retrieval_lab.rerankers import (
    BM25_B,
    BM25_K1,
    DEFAULT_RERANKING_MODEL,
    CorpusReranker,
    CrossEncoderReranker,
    LexicalReranker,
    Reranker,
)
from retrieval_lab.retrievers.base import Retriever
from retrieval_lab.retrievers.expanded import ExpandedRetriever, Texts
from retrieval_lab.store import MAX_INDEXED_DIMS
from retrieval_lab.types import Chunk, Document, Hit, Ranked


@dataclass(frozen=True, slots=True)
class MarkdownChunker:
    """Runs of whole Markdown blocks within a section, as `chunker.chunk` cuts them."""

    kind: ClassVar[str] = "markdown"

    max_chars: int = MAX_CHARS
    overlap: int = OVERLAP

    def __post_init__(self) -> None:
        _at_least("max_chars", self.max_chars, 1)
        _at_least("overlap", self.overlap, 0)

    def chunks(self, document: Document) -> list[Chunk]:
        """The chunks of one document."""
        return chunk(document, max_chars=self.max_chars, overlap=self.overlap)


@dataclass(frozen=True, slots=True)
class WordChunker:
    """Windows of `size` words, each with the last `overlap` words of the one before; see `chunkers.word_windows`."""

    kind: ClassVar[str] = "words"

    size: int = WORDS_SIZE
    overlap: int = WORDS_OVERLAP

    def __post_init__(self) -> None:
        _window(self.size, self.overlap)

    def chunks(self, document: Document) -> list[Chunk]:
        """The chunks of one document."""
        return word_windows(document, size=self.size, overlap=self.overlap)


@dataclass(frozen=True, slots=True)
class SentenceChunker:
    """Windows of `size` sentences, each with the last `overlap` of the one before; see `chunkers.sentence_windows`."""

    kind: ClassVar[str] = "sentences"

    size: int = SENTENCES_SIZE
    overlap: int = SENTENCES_OVERLAP

    def __post_init__(self) -> None:
        _window(self.size, self.overlap)

    def chunks(self, document: Document) -> list[Chunk]:
        """The chunks of one document."""
        return sentence_windows(document, size=self.size, overlap=self.overlap)


@dataclass(frozen=True, slots=True)
class DocumentChunker:
    """Every document is one chunk."""

    kind: ClassVar[str] = "documents"

    def chunks(self, document: Document) -> list[Chunk]:
        """The one chunk of a document, none where there is no text."""
        return whole_document(document)


@dataclass(frozen=True, slots=True)
class HashEmbedding:
    """Vectors of hashed words, word pairs and letter triples; needs no model, knows no synonyms."""

    kind: ClassVar[str] = "hash"
    quick: ClassVar[bool] = True
    """Whether a corpus is embedded in seconds."""

    dims: int = 256

    def __post_init__(self) -> None:
        if not 1 <= self.dims <= MAX_INDEXED_DIMS:
            raise SettingError("dims", self.dims, f"1 to {MAX_INDEXED_DIMS}, which an HNSW index takes")

    def build(self) -> Embedder:
        return HashEmbedder(self.dims)

    def content(self) -> str:
        """Names what the vectors depend on besides these settings: nothing."""
        return ""


@dataclass(frozen=True, slots=True)
class ModelEmbedding:
    """A sentence embedding model through fastembed (extra `models`).

    `model` is a name of fastembed's list; `model_path` a folder with the files of one model instead, an absolute path
    or one that begins with ~. With both, the folder's model is run as fastembed runs `model`; without either, `model`
    is fastembed's usual one. Raises SettingError.
    """

    kind: ClassVar[str] = "fastembed"
    quick: ClassVar[bool] = False

    model: str | None = None
    model_path: str | None = None

    def __post_init__(self) -> None:
        _model_or_folder(self, DEFAULT_EMBEDDING_MODEL)

    def build(self) -> Embedder:
        return FastEmbedder(self.model or DEFAULT_EMBEDDING_MODEL, model_path=self.model_path)

    def content(self) -> str:
        """Names the content of the folder, empty without one. Raises InputError when a file is missing."""
        return "" if self.model_path is None else ModelFolder.at(self.model_path).digest


@dataclass(frozen=True, slots=True)
class NoExpansion:
    """Every list is made for the query as it is."""

    kind: ClassVar[str] = "none"

    def covers(self, name: str) -> bool:  # noqa: ARG002 - of no list
        """Whether the query is expanded for the list of this name."""
        return False

    def around(self, retriever: Retriever, texts: Texts) -> Retriever:  # noqa: ARG002 - none is needed
        """The retriever, which expands nothing."""
        return retriever


@dataclass(frozen=True, slots=True)
class Rm3Expansion:
    """RM3 (`expansion.rm3`) with the best `terms` words of `feedback` chunks, for the list `of`, None for every list.

    The query itself counts `original_weight`, from 0 to 1. Raises SettingError.
    """

    kind: ClassVar[str] = "rm3"

    feedback: int = FEEDBACK
    terms: int = TERMS
    original_weight: float = ORIGINAL_WEIGHT
    of: str | None = None

    def __post_init__(self) -> None:
        _at_least("feedback", self.feedback, 1)
        _at_least("terms", self.terms, 1)
        if not 0 <= self.original_weight <= 1:
            raise SettingError("original_weight", self.original_weight, "0 (feedback alone) to 1 (the query alone)")

    def covers(self, name: str) -> bool:
        """Whether the query is expanded for the list of this name."""
        return self.of is None or self.of == name

    def around(self, retriever: Retriever, texts: Texts) -> Retriever:
        """The retriever with expansion where it is covered; `texts` has the indexed texts of chunks."""
        if not self.covers(retriever.name):
            return retriever
        return ExpandedRetriever(
            retriever, texts, feedback=self.feedback, terms=self.terms, original_weight=self.original_weight
        )


@dataclass(frozen=True, slots=True)
class RrfFusion:
    """Reciprocal rank fusion; the first `n` fused chunks are the pool that is reranked."""

    kind: ClassVar[str] = "rrf"

    k: float = RRF_K
    n: int = 50

    def __post_init__(self) -> None:
        if not (math.isfinite(self.k) and self.k >= 0):
            raise SettingError("k", self.k, "0 or more")
        _at_least("n", self.n, 1)

    def fuse(self, lists: Sequence[Sequence[Hit]], weights: Sequence[float]) -> list[Ranked]:
        """Every chunk of the lists by fused score."""
        return rrf(lists, self.k, weights)

    def parts(self, chunk_id: str, lists: Sequence[Sequence[Hit]], weights: Sequence[float]) -> list[float]:
        """What each list adds to the fused score of the chunk, 0 where it does not hold it."""
        ranks = (best_rank(chunk_id, hits) for hits in lists)
        pairs = zip(ranks, weights, strict=True)
        return [0.0 if rank is None else rrf_part(weight, self.k, rank) for rank, weight in pairs]


@dataclass(frozen=True, slots=True)
class MinMaxFusion:
    """The weighted sum of scores, those of each list scaled to 0..1; the first `n` chunks are reranked."""

    kind: ClassVar[str] = "minmax"

    n: int = 50

    def __post_init__(self) -> None:
        _at_least("n", self.n, 1)

    def fuse(self, lists: Sequence[Sequence[Hit]], weights: Sequence[float]) -> list[Ranked]:
        """Every chunk of the lists by fused score."""
        return minmax(lists, weights)

    def parts(self, chunk_id: str, lists: Sequence[Sequence[Hit]], weights: Sequence[float]) -> list[float]:
        """What each list adds to the fused score of the chunk, 0 where it does not hold it."""
        pairs = zip(lists, weights, strict=True)
        return [weight * scaled(hits).get(chunk_id, 0.0) for hits, weight in pairs]


@dataclass(frozen=True, slots=True)
class NoReranker:
    """The pool stays in the order of fusion."""

    kind: ClassVar[str] = "none"

    def build(self) -> Reranker | None:
        return None


_MOST_K1 = 1000  # beyond, term frequency counts in full anyway, and sums may overflow


@dataclass(frozen=True, slots=True)
class Bm25Reranker:
    """BM25 over the pool, with the pool's own statistics."""

    kind: ClassVar[str] = "lexical"

    k1: float = BM25_K1
    b: float = BM25_B

    def __post_init__(self) -> None:
        if not 0 <= self.k1 <= _MOST_K1:
            raise SettingError("k1", self.k1, f"0 to {_MOST_K1}")
        if not 0 <= self.b <= 1:
            raise SettingError("b", self.b, "0 to 1")

    def build(self) -> Reranker | None:
        return LexicalReranker(self.k1, self.b)


@dataclass(frozen=True, slots=True)
class ModelReranker:
    """A cross-encoder through fastembed (extra `models`).

    `model` is a name of fastembed's list; `model_path` a folder with the files of one model instead, an absolute path
    or one that begins with ~. Without either, `model` is the usual one. Raises SettingError.
    """

    kind: ClassVar[str] = "cross-encoder"

    model: str | None = None
    model_path: str | None = None

    def __post_init__(self) -> None:
        if self.model is not None and self.model_path is not None:
            raise SettingError("model", self.model, "null, since model_path is used instead", also="model_path")
        _model_or_folder(self, DEFAULT_RERANKING_MODEL)

    def build(self) -> Reranker | None:
        return CrossEncoderReranker(self.model or DEFAULT_RERANKING_MODEL, model_path=self.model_path)

    def label(self) -> str:
        """The model, of a folder its name with a hash of its content. Raises InputError when a file is missing."""
        return self.model or ModelFolder.at(self.model_path or "").label


@dataclass(frozen=True, slots=True)
class TrainedReranker:
    """A logistic regression that `retrieval-lab train-reranker` keeps in the file `path` (extra `evals`).

    `path` is an absolute path, or one that begins with ~; it has no default. Raises SettingError.
    """

    kind: ClassVar[str] = "learned"

    path: str | None = None

    def __post_init__(self) -> None:
        if self.path is None:
            raise SettingError("path", "null", "the file that `retrieval-lab train-reranker` made")
        _absolute("path", self.path)

    def build(self) -> CorpusReranker:
        return StoredReranker(self.file)

    def label(self) -> str:
        """The name of the file with a hash of its content. Raises InputError when it cannot be read."""
        return model_label(self.file)

    @property
    def file(self) -> Path:
        """Where the file lies."""
        return Path(os.path.expanduser(self.path or ""))  # noqa: PTH111 - the other raises for unknown users


ChunkerSettings = MarkdownChunker | WordChunker | SentenceChunker | DocumentChunker
EmbedderSettings = HashEmbedding | ModelEmbedding
ExpansionSettings = NoExpansion | Rm3Expansion
FusionSettings = RrfFusion | MinMaxFusion
RerankerSettings = NoReranker | Bm25Reranker | ModelReranker | TrainedReranker

CHUNKERS: dict[str, type[ChunkerSettings]] = {
    kind.kind: kind for kind in (MarkdownChunker, WordChunker, SentenceChunker, DocumentChunker)
}
EMBEDDERS: dict[str, type[EmbedderSettings]] = {kind.kind: kind for kind in (HashEmbedding, ModelEmbedding)}
EXPANSIONS: dict[str, type[ExpansionSettings]] = {kind.kind: kind for kind in (NoExpansion, Rm3Expansion)}
FUSIONS: dict[str, type[FusionSettings]] = {kind.kind: kind for kind in (RrfFusion, MinMaxFusion)}
RERANKERS: dict[str, type[RerankerSettings]] = {
    kind.kind: kind for kind in (NoReranker, Bm25Reranker, ModelReranker, TrainedReranker)
}


def _at_least(key: str, value: int, least: int) -> None:
    if not isinstance(value, int):
        raise SettingError(key, value, "a whole number")  # 1200.0 equals 1200, but would name another index
    if value < least:
        raise SettingError(key, value, f"{least} or more")


def _window(size: int, overlap: int) -> None:
    _at_least("size", size, 1)
    _at_least("overlap", overlap, 0)
    if overlap >= size:
        raise SettingError("overlap", overlap, f"less than {size}, the size of the window", also="size")


def _model_or_folder(settings: ModelEmbedding | ModelReranker, usual: str) -> None:
    """Check a model's name and its folder, and name the usual one where there is neither."""
    if settings.model is None and settings.model_path is None:
        object.__setattr__(settings, "model", usual)
    if settings.model is not None and not settings.model.strip():
        raise SettingError("model", "blank", "a name")
    path = settings.model_path
    if path is not None:
        _absolute("model_path", path)


def _absolute(key: str, path: str) -> None:
    # A relative path would mean another file for each folder that the lab is started in.
    if not path.startswith(("/", "~")):
        raise SettingError(key, path or "blank", "an absolute path, or one that begins with ~")


USUAL_RERANKERS: tuple[RerankerSettings, ...] = (NoReranker(), Bm25Reranker(), ModelReranker())
"""Those of the rerankers that need no setting, with their defaults."""
