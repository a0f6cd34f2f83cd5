"""The worst held-out queries of one configuration: what was retrieved, what was wanted, and which stage lost it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from retrieval_lab.ablation.cell import Cell
from retrieval_lab.config import PipelineConfig
from retrieval_lab.diagnosis.journey import LostAt
from retrieval_lab.evals.records import QueryRecord
from retrieval_lab.evals.resampling import TIE
from retrieval_lab.report.parts import records_of
from retrieval_lab.settings import NoReranker


@dataclass(frozen=True, slots=True, kw_only=True)
class Missed:
    """A query with less than the full value of the rule's measure.

    `rank` is that of the first relevant passage in the final list. `retrieved` is that list, `labelled` are the ids of
    the relevant chunks or documents. `lost_at` is the stage that lost all of them (`journey.LostAt`), None when one is
    in the final list; `cause` says in one line what happened.
    """

    query_id: str
    query: str
    kind: str
    value: float
    rank: int | None
    retrieved: tuple[str, ...]
    labelled: tuple[str, ...]
    lost_at: LostAt | None
    cause: str

    def to_dict(self) -> dict[str, Any]:
        """The query as JSON has it."""
        return asdict(self)


def worst(cell: Cell, query_ids: Sequence[str], measure: str) -> tuple[Missed, ...]:
    """Those of the queries whose measure is below 1, the worst first: by value, then by rank, then by id.

    Raises KeyError when the cell does not have the measure.
    """
    found = [
        _missed(cell.config, record, record.measures[measure])
        for record in records_of(cell, query_ids)
        if record.measures[measure] < 1 - TIE
    ]
    return tuple(sorted(found, key=lambda one: (one.value, -(one.rank or cell.run.k + 1), one.query_id)))


def cause(config: PipelineConfig, record: QueryRecord) -> tuple[LostAt | None, str]:
    """The stage that lost every relevant passage, as far as the ranks of a record say it, and what happened there.

    A record has no ranks beyond the lists, so an HNSW index that lacks a passage looks like a list that does not hold
    it.
    """
    ranks, final = record.ranks, record.ranks["final"]
    if final is not None:
        return None, _found(record, final)
    listed = {one.name: rank for one in config.retrievers if (rank := ranks.get(one.name)) is not None}
    if not listed:
        lists = ", ".join(f"{one.name} (first {one.n})" for one in config.retrievers)
        return "pool", f"on no list: {lists}"
    where = ", ".join(f"{name} rank {rank}" for name, rank in listed.items())
    fused, reranked = ranks.get("fused"), ranks["reranked"]
    if fused is None:
        return "fusion", f"{where}; beyond the fused pool of {config.fusion.n}"
    if isinstance(config.reranker, NoReranker):
        return "fusion", f"{where}; fused rank {fused}, beyond the first {config.top_k}, no reranker to lift it"
    if reranked is None or reranked > config.top_k:
        place = "not reranked" if reranked is None else f"reranked {reranked}"
        return "reranker", f"{where}; fused rank {fused}, {place}: beyond the first {config.top_k}"
    return "mmr", f"{where}; fused rank {fused}, reranked {reranked}, passed over by MMR"


def _missed(config: PipelineConfig, record: QueryRecord, value: float) -> Missed:
    stage, happened = cause(config, record)
    return Missed(
        query_id=record.query_id,
        query=record.query,
        kind=record.kind,
        value=value,
        rank=record.ranks["final"],
        retrieved=tuple(hit.chunk_id for hit in record.final),
        labelled=record.relevant,
        lost_at=stage,
        cause=happened,
    )


def _found(record: QueryRecord, rank: int) -> str:
    """Of a query that found something: where the first stands, and that more were wanted, if so."""
    before = record.ranks.get("fused")
    moved = f", fused rank {before}" if before is not None and before != rank else ""
    more = f"; {len(record.relevant)} are labelled" if len(record.relevant) > 1 else ""
    return f"found, at rank {rank}{moved}{more}"
