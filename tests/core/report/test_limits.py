"""What the data cannot prove: every sentence is there when its numbers call for it, and not otherwise."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import NormalDist, stdev

from retrieval_lab.ablation.cell import Cell, Failure
from retrieval_lab.report.limits import limits
from retrieval_lab.report.study import study
from tests.core.report.made import BM25, HYBRID, TEXT, ablation, cell, record, reranked, with_records


def said(*cells: Cell, level: str = "chunk") -> str:
    return "\n".join(limits(study(ablation(*cells, level=level))))


def test_the_smallest_difference_is_that_of_the_queries_there_are() -> None:
    ours, best = (1, 3, 1, 1, 3, 1), (1, 1, 1, 1, 1, 1)
    gap = [1 / math.log2(a + 1) - 1 / math.log2(b + 1) for a, b in zip(ours, best, strict=True)]
    z = NormalDist().inv_cdf
    least = (z(0.975) + z(0.8)) * stdev(gap) / math.sqrt(6)
    text = said(cell("text", TEXT, ours), cell("hybrid", HYBRID, best))
    assert "6 held-out queries count. Against the best configuration the smallest difference in ndcg@10" in text
    assert f"is {least:.3f} to {least:.3f}" in text
    assert f"text minus hybrid is {sum(gap) / 6:+.3f}" in text


def test_the_best_of_several_is_said_to_be_flattered_and_what_dev_would_have_chosen_is_named() -> None:
    text = said(cell("text", TEXT, (1, 1), dev=(3, 3)), cell("hybrid", HYBRID, (1, 2), dev=(1, 1)))
    assert "is the best of 2 on the very queries" in text
    assert "the best would have been hybrid, which has 0.815" in text
    alone = said(cell("text", TEXT, (1, 1)))
    assert "best of" not in alone
    assert "would have been" not in alone


def test_a_target_inside_the_interval_is_doubted_and_one_outside_is_not() -> None:
    assert "reached by the mean of text, 0.800" in said(cell("text", TEXT, (1, 1, 1, 1, None)))
    assert "missed by the mean of text, 0.600" in said(cell("text", TEXT, (1, 1, 1, None, None)))
    assert "The target" not in said(cell("text", TEXT, (1,) * 5))


def test_kinds_with_few_queries_are_named() -> None:
    made = cell("text", TEXT, (1,) * 12, kinds=("rare", "usual", "usual", "usual", "usual", "usual"))
    assert "Kinds with fewer than 10 held-out queries: rare (2)." in said(made)
    assert "Kinds with" not in said(cell("text", TEXT, (1,) * 10))


def test_an_interval_without_a_width_is_no_certainty() -> None:
    text = said(cell("text", TEXT, (1, 1, 1, 3), kinds=("b", "a", "a", "a")))
    assert "that is no certainty about other queries (text: a)." in text
    assert "no certainty" not in said(cell("text", TEXT, (1, 1, 2)))


def test_configurations_that_no_query_tells_apart_are_named() -> None:
    text = said(cell("a", TEXT, (1, 2)), cell("b", BM25, (1, 2)), cell("c", HYBRID, (2, 1)))
    assert "These queries cannot tell 2 configurations apart" in text
    assert "every one of them: a, b." in text
    assert "cannot tell" not in said(cell("a", TEXT, (1, 2)), cell("c", HYBRID, (2, 1)))


def test_a_split_that_the_report_made_is_said_to_be_weaker() -> None:
    assert "The labels state no split." in said(cell("a", TEXT, (1, 2, 3), split=("", "")))
    assert "no split" not in said(cell("a", TEXT, (1, 2, 3)))


def test_queries_that_do_not_count_are_named_with_who_is_spared() -> None:
    lost = replace(record("cut", None, HYBRID, split="held-out"), relevant=(), measures={}, undefined="cut")
    text = said(
        with_records(cell("a", TEXT, (1, 2)), record("cut", 1, TEXT, split="held-out")),
        with_records(cell("b", HYBRID, (1, 2)), lost),
    )
    assert "1 query without a relevant passage left out of all means: cut. For cut that is so in some" in text


def test_documents_that_nobody_judged_are_counted() -> None:
    graded = replace(record("g", 1, TEXT, split="held-out"), level="document", grades={"g": 1, "o": 0})
    judged = said(with_records(cell("a", TEXT, ()), graded))
    assert "judged by nobody" not in judged  # g and o are all there is in the list
    unknown = replace(graded, grades={"g": 1})
    text = said(with_records(cell("a", TEXT, ()), unknown))
    assert "90% of the documents in the final lists of a were judged by nobody" in text
    by_document = said(with_records(cell("a", TEXT, ()), unknown), level="document")
    assert "judged by nobody" not in by_document
    assert "Labels were counted by document" in by_document


def test_failures_and_what_is_not_done_are_counted() -> None:
    made = ablation(cell("a", TEXT, (1, 2)), failures=[Failure("b", reranked(TEXT), "no model")])
    pending = replace(made, manifest=replace(made.manifest, keys=(*made.manifest.keys, "k")))
    text = "\n".join(limits(study(pending)))
    assert "1 configuration failed and could not be compared" in text
    assert "1 configuration not measured yet" in text
