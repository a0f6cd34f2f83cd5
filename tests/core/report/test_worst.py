"""The worst queries, and the stage that lost each, from the ranks of a record."""

from __future__ import annotations

from dataclasses import replace

import pytest

from retrieval_lab.config import PipelineConfig
from retrieval_lab.report.worst import cause, worst
from tests.core.report.made import HYBRID, TEXT, cell, record, reranked


def ranks(config: PipelineConfig, **stages: int | None) -> tuple[str | None, str]:
    made = record("q", None, config, split="held-out")
    return cause(config, replace(made, ranks={**made.ranks, **stages}))


RERANKED, MMR = reranked(HYBRID), reranked(HYBRID, 0.7)


@pytest.mark.parametrize(
    ("config", "stages", "stage", "words"),
    [
        (HYBRID, {}, "pool", "on no list: vector (first 50), text (first 50)"),
        (HYBRID, {"text": 44}, "fusion", "text rank 44; beyond the fused pool of 50"),
        (HYBRID, {"text": 9, "fused": 17}, "fusion", "fused rank 17, beyond the first 10, no reranker"),
        (RERANKED, {"vector": 1, "fused": 2, "reranked": 11}, "reranker", "reranked 11: beyond the first 10"),
        (MMR, {"vector": 1, "fused": 2, "reranked": 9}, "mmr", "reranked 9, passed over by MMR"),
        (HYBRID, {"vector": 3, "text": 8, "fused": 4, "final": 5}, None, "found, at rank 5, fused rank 4"),
        (HYBRID, {"vector": 3, "fused": 3, "final": 3}, None, "found, at rank 3"),
    ],
)
def test_the_cause_is_the_stage_that_the_ranks_show(
    config: PipelineConfig, stages: dict[str, int | None], stage: str | None, words: str
) -> None:
    found = ranks(config, **stages)
    assert found[0] == stage
    assert words in found[1]


def test_the_worst_come_first_and_what_has_the_full_value_is_none_of_them() -> None:
    made = cell("text", TEXT, (1, None, 3, 2, None))
    found = worst(made, ("h1", "h2", "h3", "h4", "h5"), "ndcg@10")
    assert [(one.query_id, one.rank) for one in found] == [("h2", None), ("h5", None), ("h3", 3), ("h4", 2)]
    assert found[0].labelled == ("h2#000",)
    assert found[2].retrieved[:3] == ("o#001", "o#002", "h3#000")
    by_recall = worst(made, ("h1", "h2", "h3", "h4", "h5"), "recall@10")
    assert [one.query_id for one in by_recall] == ["h2", "h5"]
