"""What each part brings: differences by hand over pairs that differ in nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from retrieval_lab.ablation.cell import Cell
from retrieval_lab.report.axes import Effect, effects
from retrieval_lab.report.effects_text import sentence
from retrieval_lab.report.hybrids import combined
from retrieval_lab.report.parts import parts
from retrieval_lab.retrievers.bm25 import Bm25Search
from retrieval_lab.settings import HashEmbedding, RrfFusion
from tests.core.report.made import HYBRID, TEXT, VECTOR, cell, reranked


def found(*cells: Cell) -> dict[tuple[str, str, str], Effect]:
    made = effects(cells, parts(cells), ("mrr@10", "ndcg@10"))
    return {(one.axis, one.alternative, one.baseline): one for one in made}


CELLS = (
    cell("text", TEXT, (2, 2, 1, 4), dev=(1, 2)),
    cell("vector", VECTOR, (1, 1, 1, 1), dev=(2, 2)),
    cell("text lexical", reranked(TEXT), (1, 2, 1, 2), dev=(1, 1)),
    cell("vector lexical", reranked(VECTOR), (2, 2, 1, 1), dev=(1, 2)),
    cell("vector lexical MMR", reranked(VECTOR, 0.7), (2, 2, 1, 1), dev=(1, 2)),
)


def test_an_effect_is_the_mean_over_the_pairs_that_differ_in_the_part_alone() -> None:
    one = found(*CELLS)["reranker", "lexical", "no reranker"]
    assert one.pairs == (("text lexical", "text"), ("vector lexical", "vector"))
    # MRR with minus without: text 1/2, 0, 0, 1/4; vector -1/2, -1/2, 0, 0.
    by_query = [0, -1 / 4, 0, 1 / 8]
    assert one.measures["mrr@10"].difference == pytest.approx(sum(by_query) / 4)
    assert (one.lowest, one.highest) == (pytest.approx(-1 / 4), pytest.approx(3 / 16))
    counts = one.measures["mrr@10"].counts
    assert (counts.wins, counts.ties, counts.losses) == (1, 2, 1)


def test_the_baseline_of_the_lists_is_the_single_one_that_dev_chooses_not_held_out() -> None:
    hybrid = cell("hybrid", HYBRID, (1, 1, 1, 1), dev=(1, 1))
    made = found(*CELLS[:2], hybrid)
    # Held out the vector list is the better one; on dev it is the text list.
    assert made.keys() == {("retrievers", "vector", "text"), ("retrievers", "vector+text", "text")}
    one = made["retrievers", "vector+text", "text"]
    assert (one.lists, one.measures["mrr@10"].difference) == (2, pytest.approx((1 / 2 + 1 / 2 + 0 + 3 / 4) / 4))


def test_mmr_is_compared_with_the_same_reranker_without_it() -> None:
    one = found(*CELLS)["mmr_lambda", "MMR 0.7", "no MMR"]
    assert one.pairs == (("vector lexical MMR", "vector lexical"),)
    assert "makes no difference against no MMR" in sentence(one, "mrr@10")


def test_p_is_corrected_for_the_number_of_effects() -> None:
    made = list(found(*CELLS).values())
    raw = sorted(one.measures["mrr@10"].p for one in made)
    smallest = min(made, key=lambda one: one.measures["mrr@10"].p)
    assert smallest.p["mrr@10"] == pytest.approx(min(1, raw[0] * len(made)))


def test_alternatives_of_one_kind_are_told_apart_by_the_settings_in_which_they_differ() -> None:
    wide = replace(TEXT, retrievers=(Bm25Search(),))
    narrow = replace(TEXT, retrievers=(Bm25Search(k1=2.0),))
    fused = replace(HYBRID, fusion=RrfFusion(k=10))
    made = found(
        cell("a", wide, (1, 2)), cell("b", narrow, (1, 3)), cell("c", HYBRID, (1, 2)), cell("d", fused, (1, 1))
    )
    # On dev both are alike, so that the first of the grid is the baseline.
    assert ("retrievers", "bm25 bm25.k1 2.0", f"bm25 bm25.k1 {Bm25Search().k1}") in made
    assert ("fusion", "rrf k 10", "rrf k 60") in made


@pytest.mark.parametrize(
    ("ranks", "word"),
    [((1,) * 12, "helps over text"), ((4,) * 12, "harms against text"), ((1, 3) * 6, "is not shown to help over text")],
)
def test_the_sentence_says_whether_it_helps(ranks: tuple[int, ...], word: str) -> None:
    (one,) = found(cell("text", TEXT, (2,) * 12, dev=(1, 1)), cell("hybrid", HYBRID, ranks)).values()
    assert word in sentence(one, "ndcg@10")


def test_a_sentence_doubts_what_the_number_of_comparisons_may_have_made_and_pairs_that_disagree() -> None:
    (one,) = found(cell("text", TEXT, (2,) * 3, dev=(1, 1)), cell("hybrid", HYBRID, (1,) * 3)).values()
    assert "chance (p 0.25 after correction)" in sentence(one, "mrr@10")  # 2 of 8 assignments of signs
    disagreeing = replace(one, lowest=-0.1, highest=0.2)
    assert "not in every pair (-0.100 to +0.200)" in sentence(disagreeing, "mrr@10")


def test_one_list_stands_beside_every_fusion_and_words_beside_every_embedder() -> None:
    other = replace(HYBRID, fusion=RrfFusion(k=1), embedder=HashEmbedding(64))
    made = found(*CELLS[:2], cell("hybrid", HYBRID, (1, 1, 1, 1)), cell("other", other, (1, 2, 1, 1)))
    # The text list has the same pair partner whatever is said of fusion and vectors; the vector list has other vectors.
    assert made["retrievers", "vector+text", "text"].pairs == (("hybrid", "text"), ("other", "text"))
    assert made["retrievers", "vector", "text"].pairs == (("vector", "text"),)
    assert not [key for key in made if key[0] in ("fusion", "embedder")]  # no two differ in these alone


def test_several_lists_are_held_against_one_each_the_best_on_dev() -> None:
    beside = replace(HYBRID, retrievers=(HYBRID.retrievers[0], replace(HYBRID.retrievers[1], weight=0.0)))
    cells = (
        *CELLS[:2],
        cell("hybrid", HYBRID, (1, 1, 1, 1), dev=(1, 2)),
        cell("worse on dev", replace(HYBRID, fusion=RrfFusion(k=1)), (1, 1, 1, 1), dev=(2, 2)),
        cell("one list that counts", beside, (1, 1, 1, 1), dev=(4, 4)),
    )
    made = combined(cells, parts(cells), "mrr@10")
    assert made is not None
    assert (made.several, made.single) == ("hybrid", "text")
    assert made.comparison.difference == pytest.approx((1 / 2 + 1 / 2 + 0 + 3 / 4) / 4)
    assert combined(CELLS, parts(CELLS), "mrr@10") is None
