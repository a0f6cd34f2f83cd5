"""Runs made by hand, for tests that need no server: a query has one relevant chunk, at the rank that the test says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from retrieval_lab.config import PipelineConfig
from retrieval_lab.evals.records import CorpusFacts, Fingerprint, QueryRecord
from retrieval_lab.evals.runs import Run
from retrieval_lab.types import Hit

CONFIG = PipelineConfig(top_k=2)
VERSIONS = {"retrieval-lab": "0.1.0", "python": "3.11.7", "numpy": "2.0.0", "postgresql": "18.6", "pgvector": "0.8.6"}


def record(
    query_id: str, rank: int | None, *, kind: str = "known", pool: int = 1, seconds: float = 0.01
) -> QueryRecord:
    """A query whose relevant chunk has this rank in the final list of at most two; `pool` is recall of every pool."""
    found = 0.0 if rank is None else 1.0
    return QueryRecord(
        query_id=query_id,
        query=f"what is {query_id}?",
        kind=kind,
        relevant=(f"{query_id}#000",),
        undefined=None,
        ranks={"vector": rank, "text": None, "fused": rank, "reranked": rank or 7, "final": rank},
        final=tuple(
            Hit(f"{query_id}#000" if place == rank else f"other#{place:03d}", 1 / place, place) for place in (1, 2)
        ),
        measures={
            "recall@2": found,
            "precision@2": found / 2,
            "hit@2": found,
            "mrr@2": 1 / rank if rank else 0.0,
            "ndcg@2": 1 / math.log2(rank + 1) if rank else 0.0,
            "fused recall@50": float(pool),
            "vector recall@50": float(pool),
            "text recall@50": 0.0,
        },
        seconds=seconds,
    )


def undefined(query_id: str, *, kind: str = "known") -> QueryRecord:
    """A query without a relevant chunk."""
    return QueryRecord(
        query_id=query_id,
        query=f"what is {query_id}?",
        kind=kind,
        relevant=(),
        undefined="no chunk of 'tea' holds the anchor 'milk'",
        ranks=dict.fromkeys(("vector", "text", "fused", "reranked", "final")),
        final=(),
        measures={},
        seconds=0.01,
    )


def made(name: str, queries: Sequence[QueryRecord], config: PipelineConfig = CONFIG, **corpus: Any) -> Run:
    """A run of these queries; `corpus` replaces facts of the corpus."""
    facts = {"folder": "kitchen", "documents_hash": "d" * 64, "golden_hash": "a" * 64, "documents": 3, "chunks": 3}
    return Run(
        name=name,
        created="2026-02-03T04:05:06+00:00",
        corpus=CorpusFacts(**{**facts, "queries": len(queries), **corpus}),
        config=config,
        fingerprint=Fingerprint(embedder="hash-256", reranker="lexical", scans={"vector": "exact"}, versions=VERSIONS),
        queries=tuple(queries),
    )


def ranked(name: str, *ranks: int | None, **corpus: Any) -> Run:
    """A run whose queries q1, q2 ... have these ranks."""
    return made(name, [record(f"q{number}", rank) for number, rank in enumerate(ranks, start=1)], **corpus)


def files_of(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Every file below a folder with the time of its last change and its content."""
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
