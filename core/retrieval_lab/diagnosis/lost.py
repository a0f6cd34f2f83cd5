"""Which stage lost a passage that is in a chunk, and why, in one line. `journey.LostAt` defines the stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from retrieval_lab.config import PipelineConfig
from retrieval_lab.diagnosis.journey import Fused, LostAt, OnList, OnVectorList, Reranked
from retrieval_lab.mmr import Pick
from retrieval_lab.retrievers.dense import IvfSearch
from retrieval_lab.settings import NoReranker
from retrieval_lab.types import Truncation


def lost_at(
    config: PipelineConfig,
    lists: Mapping[str, OnList],
    fused: Fused | None,
    reranked: Reranked | None,
    final_rank: int | None,
) -> LostAt | None:
    """The stage that lost the passage; None when it is in the final list."""
    if final_rank is not None:
        return None
    if all(one.listed is None for one in lists.values()):
        return "index" if any(map(_index_lost, lists.values())) else "pool"
    if fused is None or fused.rank > fused.n or isinstance(config.reranker, NoReranker):
        return "fusion"
    # A chunk that was deleted while it was being fetched is in the pool, and nowhere after it.
    return "fusion" if reranked is None else "reranker" if reranked.rank > config.top_k else "mmr"


def _index_lost(one: OnList) -> bool:
    """Whether an index scan left out, of a list that counts, what the exact scan would have listed."""
    is_index = one.kind == IvfSearch.kind or (isinstance(one, OnVectorList) and one.scan == "hnsw")
    return is_index and one.weight > 0 and one.rank is not None and one.rank <= one.n


def _index_of(one: OnList) -> str:
    return "inverted file" if one.kind == IvfSearch.kind else "HNSW index"


def why(
    stage: LostAt | None,
    config: PipelineConfig,
    lists: Mapping[str, OnList],
    fused: Fused | None,
    reranked: Reranked | None,
    mmr: Pick | None,
    truncated: Sequence[Truncation] = (),
) -> str | None:
    """What happened at the stage that lost the passage, with its numbers; None when none did.

    `truncated` are the models that do not read the passage to its end; the one that had a say at the stage is named.
    """
    happened = _happened(stage, config, lists, fused, reranked, mmr)
    blamed = "reranker" if stage in ("reranker", "mmr") else "embedder"
    tails = [f"{one}, so that nothing beyond them counts" for one in truncated if one.by == blamed]
    return None if happened is None else "; ".join([happened, *tails])


def _happened(
    stage: LostAt | None,
    config: PipelineConfig,
    lists: Mapping[str, OnList],
    fused: Fused | None,
    reranked: Reranked | None,
    mmr: Pick | None,
) -> str | None:
    if stage == "pool":
        return f"on no list: {'; '.join(_missing(one) for one in lists.values())}"
    if stage == "index":
        return "; ".join(
            f"{one.name}: the exact scan has it at rank {one.rank}, the {_index_of(one)}'s list of {one.n} lacks it"
            for one in filter(_index_lost, lists.values())
        )
    if stage == "fusion":
        return _cut_by_fusion(config, fused)
    if stage == "reranker" and fused and reranked:
        return f"fused rank {fused.rank}, reranked {reranked.rank}: beyond the first {config.top_k}"
    if stage == "mmr" and reranked and mmr:
        blame = f", cosine {mmr.cosine:.3f} to {mmr.because}" if mmr.because else ""
        return f"reranked {reranked.rank}, passed over by MMR, which would pick it as number {mmr.rank}{blame}"
    return None


def _missing(one: OnList) -> str:
    if one.rank is None:
        return f"{one.name} {one.reason}"
    return f"{one.name} rank {one.rank}, {'beyond' if one.rank > one.n else 'not on'} its list of {one.n}"


def _cut_by_fusion(config: PipelineConfig, fused: Fused | None) -> str:
    if fused is None:
        return "only on lists of weight 0, which fusion does not count"
    if fused.rank > fused.n:
        return f"fused rank {fused.rank}, beyond the pool of {fused.n}"
    if isinstance(config.reranker, NoReranker):
        return f"fused rank {fused.rank}, beyond the first {config.top_k}, and there is no reranker to lift it"
    return f"fused rank {fused.rank}, but the index no longer holds it"
