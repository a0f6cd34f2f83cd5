"""The rerankers that a key goes through: those that need no file, and the one of lab.yaml."""

from __future__ import annotations

from retrieval_lab.config import PipelineConfig
from retrieval_lab.mmr import MMR_LAMBDA
from retrieval_lab.settings import (
    Bm25Reranker,
    MinMaxFusion,
    ModelReranker,
    NoExpansion,
    NoReranker,
    Rm3Expansion,
    RrfFusion,
    TrainedReranker,
)
from retrieval_lab_tui.columns import columns
from retrieval_lab_tui.live_settings import RERANKER, live_settings, rerankers, stepped

LEARNED = PipelineConfig(reranker=TrainedReranker("/r.json"))


def steps(config: PipelineConfig, file: PipelineConfig, direction: int) -> list[str]:
    """The kinds that come one after another until the first comes again."""
    kinds = [config.reranker.kind]
    while True:
        config = stepped(config, RERANKER, direction, (), rerankers(file))
        if config.reranker.kind == kinds[0]:
            return kinds
        kinds.append(config.reranker.kind)


def test_a_kind_that_needs_a_file_is_not_stepped_into_without_one() -> None:
    usual = PipelineConfig()
    assert steps(usual, usual, 1) == ["lexical", "cross-encoder", "none"]
    assert steps(usual, usual, -1) == ["lexical", "none", "cross-encoder"]


def test_the_files_own_reranker_comes_round_again_with_its_settings() -> None:
    assert steps(LEARNED, LEARNED, 1) == ["learned", "none", "lexical", "cross-encoder"]
    assert rerankers(LEARNED) == (NoReranker(), Bm25Reranker(), ModelReranker(), TrainedReranker("/r.json"))
    back = stepped(stepped(LEARNED, RERANKER, 1, (), rerankers(LEARNED)), RERANKER, -1, (), rerankers(LEARNED))
    assert back == LEARNED
    tuned = PipelineConfig(reranker=Bm25Reranker(k1=2.0))
    assert rerankers(tuned) == (NoReranker(), Bm25Reranker(k1=2.0), ModelReranker())


def test_a_reranker_that_is_none_of_the_choices_can_be_left() -> None:
    for direction in (1, -1):
        left = stepped(LEARNED, RERANKER, direction)
        assert (left.reranker, left.mmr_lambda) == (NoReranker(), None)
    assert stepped(left, RERANKER, 1).mmr_lambda == MMR_LAMBDA


def test_the_settings_show_the_kind_and_the_list_its_numbers() -> None:
    shown = {one.key: one.value for one in live_settings(LEARNED, LEARNED)}
    assert shown[RERANKER] == "learned"
    assert "reranker.path" not in shown
    assert "retrievers.vector.kind" not in shown
    assert columns(LEARNED)[-1].numbers == "order MMR · score probability · move"


def test_fusion_and_expansion_are_one_key_away_and_the_pool_keeps_its_size() -> None:
    start = PipelineConfig(fusion=RrfFusion(k=10, n=80))
    shown = {one.key: one.value for one in live_settings(start, start)}
    assert (shown["fusion.kind"], shown["expansion.kind"]) == ("rrf", "none")
    by_scores = stepped(start, "fusion.kind", 1)
    assert by_scores.fusion == MinMaxFusion(n=80)
    assert stepped(by_scores, "fusion.kind", 1).fusion == RrfFusion(n=80)
    expanded = stepped(start, "expansion.kind", -1)
    assert expanded.expansion == Rm3Expansion()
    assert {"expansion.feedback", "expansion.terms", "expansion.original_weight"} <= {
        one.key for one in live_settings(expanded, start)
    }
    assert stepped(expanded, "expansion.terms", 1).expansion == Rm3Expansion(terms=15)
    assert stepped(expanded, "expansion.kind", 1).expansion == NoExpansion()
