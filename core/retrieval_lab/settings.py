"""The parts of a pipeline besides retrievers: a frozen class for each kind of chunker, embedder, fusion and reranker.

A kind's class holds the settings that have an effect in it and no others, checks them, and builds the part.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from retrieval_lab.chunker import MAX_CHARS, OVERLAP, chunk
from retrieval_lab.embed import Embedder, FastEmbedder, HashEmbedder
from retrieval_lab.errors import SettingError
from retrieval_lab.hybrid import RRF_K, rrf, rrf_part
from retrieval_lab.rerankers import BM25_B, BM25_K1, CrossEncoderReranker, LexicalReranker, Reranker
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


@dataclass(frozen=True, slots=True)
class ModelEmbedding:
    """A sentence embedding model of 384 dimensions through fastembed (extra `models`)."""

    kind: ClassVar[str] = "fastembed"
    quick: ClassVar[bool] = False

    model: str = "BAAI/bge-small-en-v1.5"

    def __post_init__(self) -> None:
        _not_blank("model", self.model)

    def build(self) -> Embedder:
        return FastEmbedder(self.model)


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

    def parts(self, ranks: Sequence[int | None], weights: Sequence[float]) -> list[float]:
        """What each list adds to the fused score of a chunk with these ranks, 0 where it does not hold the chunk."""
        pairs = zip(ranks, weights, strict=True)
        return [0.0 if rank is None else rrf_part(weight, self.k, rank) for rank, weight in pairs]


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
    """A cross-encoder through fastembed (extra `models`)."""

    kind: ClassVar[str] = "cross-encoder"

    model: str = "Xenova/ms-marco-MiniLM-L-6-v2"

    def __post_init__(self) -> None:
        _not_blank("model", self.model)

    def build(self) -> Reranker | None:
        return CrossEncoderReranker(self.model)


ChunkerSettings = MarkdownChunker
EmbedderSettings = HashEmbedding | ModelEmbedding
FusionSettings = RrfFusion
RerankerSettings = NoReranker | Bm25Reranker | ModelReranker

CHUNKERS: dict[str, type[ChunkerSettings]] = {kind.kind: kind for kind in (MarkdownChunker,)}
EMBEDDERS: dict[str, type[EmbedderSettings]] = {kind.kind: kind for kind in (HashEmbedding, ModelEmbedding)}
FUSIONS: dict[str, type[FusionSettings]] = {kind.kind: kind for kind in (RrfFusion,)}
RERANKERS: dict[str, type[RerankerSettings]] = {kind.kind: kind for kind in (NoReranker, Bm25Reranker, ModelReranker)}


def _at_least(key: str, value: int, least: int) -> None:
    if not isinstance(value, int):
        raise SettingError(key, value, "a whole number")  # 1200.0 equals 1200, but would name another index
    if value < least:
        raise SettingError(key, value, f"{least} or more")


def _not_blank(key: str, value: str) -> None:
    if not value.strip():
        raise SettingError(key, "blank", "a name")
