"""Ablations made by hand, for tests that need no server: a query has one relevant chunk, at the rank the test says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from retrieval_lab.ablation.cell import Cell, Failure, cell_key
from retrieval_lab.ablation.folder import Ablation, AblationFolder, Manifest
from retrieval_lab.ablation.rule import Rule
from retrieval_lab.config import PipelineConfig
from retrieval_lab.evals.records import CorpusFacts, Fingerprint, QueryRecord
from retrieval_lab.evals.runs import Run, measure_names
from retrieval_lab.retrievers.bm25 import Bm25Search
from retrieval_lab.retrievers.text import TextSearch
from retrieval_lab.retrievers.vector import VectorSearch
from retrieval_lab.settings import Bm25Reranker, NoReranker
from retrieval_lab.types import Hit

TEXT = PipelineConfig(retrievers=(TextSearch(),), reranker=NoReranker(), mmr_lambda=None)
VECTOR = replace(TEXT, retrievers=(VectorSearch(),))
BM25 = replace(TEXT, retrievers=(Bm25Search(),))
HYBRID = replace(TEXT, retrievers=(VectorSearch(), TextSearch()))


def reranked(config: PipelineConfig, mmr_lambda: float | None = None) -> PipelineConfig:
    """The configuration with the reranker that counts words, and MMR if a lambda is given."""
    return replace(config, reranker=Bm25Reranker(), mmr_lambda=mmr_lambda)


def record(
    query_id: str, rank: int | None, config: PipelineConfig, *, split: str, kind: str = "known", seconds: float = 0.01
) -> QueryRecord:
    """A query whose relevant chunk has this rank in every list and in the final one; None is nowhere."""
    found = 0.0 if rank is None else 1.0
    values = [found, found / 10, found, 1 / rank if rank else 0.0, 1 / math.log2(rank + 1) if rank else 0.0]
    names = measure_names(config)
    values += [found] * (len(names) - len(values))
    wanted = f"{query_id}#000"
    lists = [one.name for one in config.retrievers]
    return QueryRecord(
        query_id=query_id,
        query=f"what is {query_id}?",
        kind=kind,
        relevant=(wanted,),
        undefined=None,
        ranks=dict.fromkeys((*lists, "fused", "reranked", "final"), rank),
        final=tuple(Hit(wanted if place == rank else f"o#{place:03d}", 1 / place, place) for place in range(1, 11)),
        measures=dict(zip(names, values, strict=True)),
        seconds=seconds,
        split=split,
    )


def cell(
    name: str,
    config: PipelineConfig,
    held_out: Sequence[int | None],
    dev: Sequence[int | None] = (1, 2),
    *,
    seconds: float = 0.01,
    split: tuple[str, str] = ("dev", "held-out"),
    kinds: Sequence[str] = ("known",),
    created: str = "2026-02-03T04:05:06+00:00",
    **facts: Any,
) -> Cell:
    """A cell whose held-out queries h1, h2 ... and dev queries d1, d2 ... have these ranks, the kinds in turn."""
    records = [
        record(f"{letter}{number}", rank, config, split=part, kind=kinds[number % len(kinds)], seconds=seconds)
        for letter, ranks, part in (("d", dev, split[0]), ("h", held_out, split[1]))
        for number, rank in enumerate(ranks, start=1)
    ]
    return Cell(name=name, run=_run(config, records, created, facts), index_seconds=None, memory=10 << 20)


def _run(config: PipelineConfig, records: Sequence[QueryRecord], created: str, facts: dict[str, Any]) -> Run:
    corpus = {"folder": "kitchen", "documents_hash": "d" * 64, "golden_hash": "a" * 64, "documents": 3, "chunks": 7}
    return Run(
        name=created,
        created=created,
        corpus=CorpusFacts(**{**corpus, "queries": len(records), **facts}),
        config=config,
        fingerprint=Fingerprint(
            embedder="hash-256",
            reranker=config.reranker.kind,
            scans={one.name: "exact" for one in config.retrievers if one.kind == "vector"},
            versions={"retrieval-lab": "0.1.0", "python": "3.11.7"},
        ),
        queries=tuple(records),
    )


def with_records(made: Cell, *records: QueryRecord) -> Cell:
    """The cell with these records after its own."""
    return replace(made, run=replace(made.run, queries=(*made.run.queries, *records)))


def ablation(
    *cells: Cell,
    rule: Rule = Rule(),  # noqa: B008 - frozen
    failures: Sequence[Failure] = (),
    left_out: Sequence[tuple[str, str]] = (),
    level: str = "chunk",
) -> Ablation:
    """An ablation of these cells, all done."""
    keys = tuple(key(one) for one in (*cells, *failures))
    manifest = Manifest(name="first", corpus="kitchen", keys=keys, rule=rule, left_out=tuple(left_out), level=level)
    return Ablation(manifest, cells, tuple(failures))


def key(made: Cell | Failure) -> str:
    """The key of a cell or a failure."""
    return cell_key(made.config, "d" * 64, f"{'a' * 64}{made.name}")


def stored(made: Ablation, folder: Path) -> Path:
    """The ablation in a folder."""
    kept = AblationFolder(folder)
    kept.begin(made.manifest)
    for one in (*made.cells, *made.failures):
        kept.keep(key(one), one)
    return folder
