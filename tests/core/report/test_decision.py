"""The rule of the decision, each branch of it by hand-made runs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import pytest

from retrieval_lab.ablation.cell import Cell
from retrieval_lab.ablation.rule import Rule
from retrieval_lab.errors import InputError
from retrieval_lab.report.decision import Decision, decide
from retrieval_lab.report.parts import parts
from tests.core.report.made import BM25, HYBRID, TEXT, VECTOR, cell, reranked

RULE = Rule()
FIRST: Sequence[int | None] = (1,) * 12
THIRD: Sequence[int | None] = (3,) * 12
"""Half the nDCG of the first place on every query, and the same recall, so that the difference has no doubt."""


def decided(*cells: Cell, rule: Rule = RULE) -> Decision:
    return decide(cells, parts(cells), rule)


def test_the_simplest_that_is_not_worse_is_shipped_though_another_has_the_higher_mean() -> None:
    mixed = [2, 1, 1, 1, 2, 1, 1, 1, 1, 1, 1, 1]  # one query better, two worse: the interval includes 0
    other = [1, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]
    found = decided(cell("hybrid", HYBRID, other), cell("text", TEXT, mixed))
    assert (found.best, found.chosen, found.subject) == ("hybrid", "text", "text")
    interval = found.verdict("text").against_best.difference_interval
    assert interval is not None
    assert interval.low < 0 < interval.high


def test_one_that_is_surely_worse_is_passed_over() -> None:
    found = decided(cell("text", TEXT, THIRD), cell("hybrid", HYBRID, FIRST))
    assert found.chosen == "hybrid"
    assert found.verdict("text").against_best.difference == pytest.approx(-0.5)
    assert found.verdict("text").faults(RULE) == ("worse than the best",)


def test_without_the_target_none_is_shipped() -> None:
    ranks = [1] * 8 + [None] * 4  # recall 2/3
    found = decided(cell("text", TEXT, ranks), cell("hybrid", HYBRID, ranks))
    assert (found.chosen, found.subject) == (None, "text")
    assert [one.faults(RULE) for one in found.verdicts] == [("recall@10 below 0.7",)] * 2
    assert decided(cell("text", TEXT, ranks), rule=Rule(target=8 / 12)).chosen == "text"  # reached exactly


def test_a_simple_one_that_misses_the_target_leaves_the_place_to_the_next_that_reaches_it() -> None:
    simple, other = [1] * 8 + [None] * 4, [2] * 8 + [1] + [None] * 3
    found = decided(cell("text", TEXT, simple), cell("hybrid", HYBRID, other))
    assert found.verdict("text").as_good
    assert found.verdict("hybrid").reaches
    assert decided(cell("text", TEXT, simple), cell("hybrid", HYBRID, [1] * 9 + [None] * 3)).chosen == "hybrid"


def test_a_reranker_that_gains_and_is_quick_is_shipped() -> None:
    found = decided(cell("plain", TEXT, THIRD), cell("reranked", reranked(TEXT), FIRST, seconds=0.06))
    test = found.verdict("reranked").reranker
    assert found.chosen == "reranked"
    assert test is not None
    assert test.gain is not None
    assert (test.partner, test.gain.difference) == ("plain", pytest.approx(2 / 3))
    assert test.extra_ms == pytest.approx(50)


def test_a_reranker_that_is_slow_is_not_shipped() -> None:
    found = decided(cell("plain", TEXT, THIRD), cell("reranked", reranked(TEXT), FIRST, seconds=0.062))
    assert (found.chosen, found.best) == (None, "reranked")
    assert found.verdict("reranked").faults(RULE) == ("its reranker takes more than 50 ms",)
    assert found.verdict("plain").faults(RULE) == ("worse than the best",)
    slow = Rule(reranker_ms=60)
    again = decided(cell("plain", TEXT, THIRD), cell("reranked", reranked(TEXT), FIRST, seconds=0.062), rule=slow)
    assert again.chosen == "reranked"


def test_a_reranker_without_a_sure_gain_in_mrr_is_not_shipped() -> None:
    lucky = [1, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3]  # one query better: many samples do not hold it
    found = decided(cell("hybrid", HYBRID, THIRD), cell("reranked", reranked(HYBRID), lucky))
    assert found.chosen == "hybrid"
    assert found.verdict("reranked").faults(RULE) == ("its reranker shows no gain in MRR",)


def test_a_reranker_is_not_shipped_unless_it_was_measured_without() -> None:
    found = decided(cell("reranked", reranked(TEXT), FIRST), cell("vector", VECTOR, THIRD))
    assert found.chosen is None
    assert found.verdict("reranked").faults(RULE) == ("not measured without its reranker",)


def test_with_mmr_the_partner_is_the_one_with_neither() -> None:
    found = decided(
        cell("plain", TEXT, THIRD), cell("reranked", reranked(TEXT), FIRST), cell("mmr", reranked(TEXT, 0.7), FIRST)
    )
    test = found.verdict("mmr").reranker
    assert test is not None
    assert test.partner == "plain"
    assert (found.best, found.chosen) == ("reranked", "reranked")  # as good as with MMR, and simpler


def test_of_equally_simple_ones_dev_decides_then_the_name_whatever_the_order() -> None:
    cells = [
        cell("b", TEXT, FIRST, dev=(1, 2)),
        cell("a", VECTOR, FIRST, dev=(1, 2)),
        cell("c", BM25, FIRST, dev=(1, 3)),
    ]
    orders = [decided(*order) for order in permutations(cells)]
    assert {(one.best, one.chosen) for one in orders} == {("a", "a")}
    assert [verdict.name for verdict in orders[-1].verdicts] == ["a", "b", "c"]
    assert all(one.to_dict(RULE) == orders[0].to_dict(RULE) for one in orders)


def test_one_held_out_query_decides_nothing() -> None:
    found = decided(cell("text", TEXT, [1]))
    assert found.chosen is None
    assert found.verdict("text").faults(RULE) == ("one query gives no interval",)


def test_no_dev_query_leaves_the_tie_to_the_name() -> None:
    assert decided(cell("b", TEXT, FIRST, dev=()), cell("a", VECTOR, FIRST, dev=())).chosen == "a"


def test_a_rule_by_another_measure() -> None:
    hits, recalls = [None, *[1] * 11], [10] * 12
    cells = (cell("text", TEXT, hits), cell("hybrid", HYBRID, recalls))
    assert decided(*cells, rule=Rule(measure="recall@10")).best == "hybrid"
    assert decided(*cells).best == "text"


def test_a_measure_that_no_configuration_has_is_refused() -> None:
    with pytest.raises(InputError, match=r"text: there is no measure 'ndcg@5'; .*recall@10, precision@10"):
        decided(cell("text", TEXT, FIRST), rule=Rule(measure="ndcg@5"))
