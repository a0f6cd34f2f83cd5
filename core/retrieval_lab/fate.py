"""Where the wanted passage stands at every stage of one traced query."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from retrieval_lab.metrics import first_rank
from retrieval_lab.types import Stages


@dataclass(frozen=True, slots=True)
class StageRank:
    """The best rank of the wanted chunks in one stage's list, None where it holds none of its first `depth` rows."""

    stage: str
    rank: int | None
    depth: int


def fate(made: Stages, relevant_ids: Collection[str]) -> tuple[StageRank, ...]:
    """One entry for each retriever's list, then "fused" (cut to the pool), "reranked" and "final"."""
    return tuple(_stage_ranks(made, relevant_ids))


def _stage_ranks(made: Stages, relevant_ids: Collection[str]) -> Iterator[StageRank]:
    for name, hits in made.lists.items():
        yield StageRank(name, first_rank((hit.chunk_id for hit in hits), relevant_ids), len(hits))
    pool = len(made.reranked)
    for name, rows in (("fused", made.fused[:pool]), ("reranked", made.reranked), ("final", made.final)):
        yield StageRank(name, first_rank((row.chunk_id for row in rows), relevant_ids), len(rows))
