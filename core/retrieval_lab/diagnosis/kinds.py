"""The two vocabularies in which a miss is judged: what failed, and what would mend it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class Failure(StrEnum):
    """What failed when a golden query missed its passage."""

    VOCABULARY_GAP = "vocabulary-gap"
    CHUNK_BOUNDARY = "chunk-boundary"
    RANKING = "ranking"
    RERANKER_DEMOTION = "reranker-demotion"
    ANCHOR_AMBIGUITY = "anchor-ambiguity"


class Fix(StrEnum):
    """What would mend a miss."""

    HYBRID_WEIGHTS = "hybrid-weights"
    SMALLER_CHUNKS = "smaller-chunks"
    CONTEXTUAL_CHUNK_HEADERS = "contextual-chunk-headers"
    QUERY_REWRITE = "query-rewrite"
    BETTER_EMBEDDER = "better-embedder"


MEANINGS: Mapping[Failure | Fix, str] = MappingProxyType(
    {
        Failure.VOCABULARY_GAP: "query and passage share no words, and neither list reaches the chunk",
        Failure.CHUNK_BOUNDARY: "the cut parted the anchor from the words or the heading that would match",
        Failure.RANKING: "the chunk is in the fused pool, but low",
        Failure.RERANKER_DEMOTION: "fusion had the chunk in the top 10, and the reranker pushed it out",
        Failure.ANCHOR_AMBIGUITY: "another chunk in the top 10 answers, without the anchor",
        Fix.HYBRID_WEIGHTS: "give one of the fused lists more weight",
        Fix.SMALLER_CHUNKS: "cut the documents into smaller chunks",
        Fix.CONTEXTUAL_CHUNK_HEADERS: "put the heading path before a chunk where it is embedded and indexed",
        Fix.QUERY_REWRITE: "ask in other words, or in several ways",
        Fix.BETTER_EMBEDDER: "embed with a model that knows what the words mean",
    }
)
"""What each kind means, in one line."""
