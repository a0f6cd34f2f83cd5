"""Means with intervals, gates on them, and two runs against each other, all by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from retrieval_lab.config import PipelineConfig
from retrieval_lab.errors import InputError
from retrieval_lab.evals.comparison import Carrier, WinTieLoss
from retrieval_lab.evals.gates import Gate, Outcome, check_gates, parse_gate
from retrieval_lab.evals.resampling import Interval, bootstrap_interval
from retrieval_lab.evals.runs import Run
from retrieval_lab.evals.summary import Estimate, Group, Latency, latency, summarise
from retrieval_lab.evals.versus import Change, Move, versus
from retrieval_lab.settings import NoReranker
from tests.core.evals.made import CONFIG, VERSIONS, made, ranked, record, undefined

NAMES = tuple(record("q1", 1).measures)


# --- summaries -----------------------------------------------------------------------------------------------------


def test_means_are_over_the_queries_with_a_relevant_chunk_all_and_by_kind() -> None:
    queries = [record("q1", 1, kind="b"), undefined("q2"), record("q3", None, kind="a"), record("q4", 2, kind="b")]
    found = summarise(made("x", queries))
    assert found.all.queries == 3
    assert {name: estimate.value for name, estimate in found.all.measures.items()} == pytest.approx(
        {
            "recall@2": 2 / 3,
            "precision@2": 1 / 3,
            "hit@2": 2 / 3,
            "mrr@2": (1 + 1 / 2) / 3,
            "ndcg@2": (1 + 0.6309297535714574) / 3,
            "fused recall@50": 1,
            "vector recall@50": 1,
            "text recall@50": 0,
        }
    )
    assert {kind: group.queries for kind, group in found.by_kind.items()} == {"a": 1, "b": 2, "known": 0}
    assert found.by_kind["known"] == Group(0, {})
    assert found.by_kind["b"].measures["mrr@2"].value == 0.75
    assert found.undefined == {"q2": "no chunk of 'tea' holds the anchor 'milk'"}
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["all"]["queries"] == 3


def test_intervals_are_those_of_each_measure_alone() -> None:
    found = summarise(ranked("x", 1, None, 2, 1, None)).all.measures
    assert found["mrr@2"].interval == bootstrap_interval([1, 0, 0.5, 1, 0])
    assert found["hit@2"].interval == bootstrap_interval([1, 0, 1, 1, 0])
    assert found["fused recall@50"].interval == Interval(1, 1)
    assert summarise(ranked("x", 1, None)).all.measures["recall@2"] == Estimate(0.5, Interval(0, 1))


def test_one_query_has_a_mean_without_an_interval() -> None:
    assert summarise(ranked("x", 2)).all.measures["mrr@2"] == Estimate(0.5, None)
    assert summarise(made("x", [undefined("q1")])).all == Group(0, {})


def test_latency_leaves_out_the_first_query_which_warms_up() -> None:
    queries = [record(f"q{i}", 1, seconds=seconds) for i, seconds in enumerate((9.0, 0.1, 0.2, 0.3, 0.4, 0.5))]
    assert latency(made("x", queries)) == Latency(0.3, pytest.approx(0.48))  # 0.95 x 4 = 3.8: between 0.4 and 0.5
    assert latency(made("x", queries[:1])) == Latency(9, 9)
    assert latency(made("x", [])) == Latency(0, 0)


# --- gates ---------------------------------------------------------------------------------------------------------


def test_measures_are_named_with_and_without_the_cut() -> None:
    assert parse_gate("recall@2=0.7", NAMES) == parse_gate("recall=.7", NAMES) == Gate("recall@2", 0.7)
    assert parse_gate(" ndcg = 1", NAMES) == Gate("ndcg@2", 1)
    assert (
        parse_gate("fused recall=0.9", NAMES)
        == parse_gate("fused recall@50=0.9", NAMES)
        == Gate("fused recall@50", 0.9)
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "recal=0.7",
            "'recal': no such measure; there are recall@2, precision@2, hit@2, mrr@2, ndcg@2, fused recall@50",
        ),
        ("recall@10=0.7", "'recall@10': this run measures recall@2; name that, or change the cut"),
        ("recall@=0.7", "'recall@': this run measures recall@2"),
        ("recall@2", "'recall@2': expected MEASURE=VALUE, such as recall@2=0.7"),
        ("=0.7", "'': no such measure"),
        ("recall=", "the value is missing; expected a number from 0 to 1"),
        ("recall=70%", "the value is 70%; expected a number from 0 to 1"),
        ("recall=70", "the value is 70; expected a number from 0 to 1"),
        ("recall=nan", "the value is nan; expected a number from 0 to 1"),
    ],
)
def test_a_gate_that_says_nothing_is_told(text: str, message: str) -> None:
    with pytest.raises(InputError, match="--fail-under") as caught:
        parse_gate(text, NAMES)
    assert message in str(caught.value)


def test_a_gate_says_what_it_found() -> None:
    group = summarise(ranked("x", 1, None)).all
    passed, failed = check_gates([Gate("recall@2", 0.5), Gate("mrr@2", 0.51)], group)
    assert (passed.passed, failed.passed) == (True, False)
    assert str(failed) == "gate failed: mrr@2 is 0.5 (95% 0.000 to 1.000); expected 0.51 or more"
    assert failed.to_dict() == {
        "measure": "mrr@2",
        "minimum": 0.51,
        "value": 0.5,
        "interval": {"low": 0, "high": 1},
        "passed": False,
    }
    assert str(Outcome(Gate("mrr@2", 0.5), Estimate(0.5, None))) == "gate passed: mrr@2 is 0.5; expected 0.5 or more"


def test_rounding_fails_no_gate_and_no_query_passes_none() -> None:
    assert Outcome(Gate("mrr@2", 0.3), Estimate(0.1 + 0.2 - 1e-15, None)).passed
    (outcome,) = check_gates([Gate("mrr@2", 0.0)], Group(0, {}))
    assert not outcome.passed
    assert str(outcome) == "gate failed: mrr@2 is undefined, since no query has a relevant chunk; expected 0 or more"
    assert outcome.to_dict()["value"] is None


# --- two runs ------------------------------------------------------------------------------------------------------


def test_differences_are_the_system_minus_the_baseline() -> None:
    found = versus(ranked("a", 1, 2, None, None), ranked("b", 1, 1, 2, None))
    assert (found.queries, found.excluded, found.warnings, tuple(found.measures)) == (4, (), (), NAMES)
    mrr = found.measures["mrr@2"]
    assert (mrr.baseline, mrr.system, mrr.difference) == (0.375, 0.625, 0.25)
    assert mrr.p == 8 / 16  # of the two queries that differ, by 1/2 each, the signs must agree
    assert mrr.counts == WinTieLoss(2, 2, 0)
    assert mrr.carriers == (Carrier("q2", 0.5), Carrier("q3", 0.5))
    assert mrr.difference_interval == bootstrap_interval([0, 0.5, 0.5, 0])
    # deviation of 0, 1/2, 1/2, 0 is sqrt(1/12); quantiles of 0.975 and 0.8
    assert mrr.detectable == pytest.approx((1.959964 + 0.841621) * (1 / 12) ** 0.5 / 2, abs=1e-6)
    recall = found.measures["recall@2"]
    assert (recall.difference, recall.p, recall.counts) == (0.25, 1, WinTieLoss(1, 3, 0))


def test_identical_runs_tie_everywhere() -> None:
    one = ranked("a", 1, 2, None, 1)
    found = versus(one, replace(one, name="b"))
    for comparison in found.measures.values():
        assert (comparison.difference, comparison.p, comparison.carriers) == (0, 1, ())
        assert comparison.difference_interval == Interval(0, 0)
        assert comparison.counts == WinTieLoss(0, 4, 0)
    assert (found.moves, found.changes) == ((), ())


def test_queries_that_moved_come_gained_then_lost_then_by_how_far() -> None:
    before = ranked("a", 2, None, 1, 2, 1, None, 1)
    after = ranked("b", 1, 2, None, None, 2, 1, 1)
    moves = versus(before, after).moves
    assert [(move.query_id, move.baseline, move.system) for move in moves] == [
        ("q6", None, 1),
        ("q2", None, 2),
        ("q3", 1, None),
        ("q4", 2, None),
        ("q1", 2, 1),
        ("q5", 1, 2),
    ]
    assert moves[0] == Move("q6", "what is q6?", "known", None, 1)


def test_what_differs_between_the_configurations_is_named_with_dots() -> None:
    config = PipelineConfig(top_k=2, reranker=NoReranker(), mmr_lambda=None, retrievers=CONFIG.retrievers[::-1])
    system = ranked("b", 1)
    system = replace(
        system, config=config, fingerprint=replace(system.fingerprint, versions={**VERSIONS, "numpy": "2.1.0"})
    )
    assert versus(ranked("a", 1), system).changes == (
        Change("reranker.kind", "lexical", "none"),
        Change("reranker.k1", 1.2, None),
        Change("reranker.b", 0.75, None),
        Change("mmr_lambda", 0.7, None),
        Change("retrievers", ["vector", "text"], ["text", "vector"]),
        Change("versions.numpy", "2.0.0", "2.1.0"),
    )


def test_a_query_without_a_relevant_chunk_in_one_of_them_is_left_out_and_named() -> None:
    before = made("a", [record("q1", 1), undefined("q2"), record("q3", 2), undefined("q4")])
    after = made("b", [record("q1", 2), record("q2", 1), undefined("q3"), undefined("q4")])
    found = versus(before, after)
    assert (found.queries, found.excluded) == (1, ("q2", "q3", "q4"))
    assert found.measures["mrr@2"].difference == -0.5
    assert found.measures["mrr@2"].difference_interval is None
    assert [move.query_id for move in found.moves] == ["q1"]
    with pytest.raises(InputError, match="no query has a relevant chunk in both runs"):
        versus(made("a", [undefined("q1")]), made("b", [record("q1", 1)]))


def test_pairs_are_made_by_id_whatever_the_order() -> None:
    before = ranked("a", 1, 2, None)
    found = versus(before, replace(before, queries=before.queries[::-1]))
    assert found.moves == ()
    assert found.measures["mrr@2"].p == 1


def test_measures_that_only_one_has_are_not_compared() -> None:
    alone = PipelineConfig(top_k=2, retrievers=CONFIG.retrievers[:1])
    queries = [record("q1", 1)]
    measures = {name: value for name, value in queries[0].measures.items() if not name.startswith("text")}
    found = versus(made("a", queries), made("b", [replace(queries[0], measures=measures)], alone))
    assert tuple(found.measures) == NAMES[:-1]
    assert Change("retrievers.text.kind", "text", None) in found.changes


def test_other_documents_are_a_warning() -> None:
    found = versus(ranked("a", 1), ranked("b", 1, documents_hash="e" * 64, documents=4))
    assert found.warnings == (
        "the runs searched other documents (3 documents with the hash dddddddddddd, then 4 documents with the hash"
        " eeeeeeeeeeee), which may have made the difference",
    )
    json.dumps(found.to_dict(), allow_nan=False)


OTHER: dict[str, Any] = {"golden_hash": "b" * 64}


@pytest.mark.parametrize(
    ("system", "message"),
    [
        (
            ranked("b", 1, 2, 1, **OTHER),
            "'a' of corpus 'kitchen' is of another golden set: q3 in the system only; comp",
        ),
        (ranked("b", 1, **OTHER), "q2 in the baseline only"),
        (ranked("b", 1, 2, **OTHER), "the same queries with other labels"),
        (
            made("b", [record("q1", 1, kind="x"), record("q9", 1)], **OTHER),
            "q2 in the baseline only; q9 in the system only",
        ),
        (made("b", [record("q1", 1, kind="x"), record("q2", 1)], **OTHER), "another text or kind of q1"),
        (ranked("b", *[1] * 9, **OTHER), "q3, q4, q5, q6, q7 and 2 more in the system only"),
        (ranked("b", 1), "only one of the two runs holds q2"),
        (replace(ranked("b", 1, 2), config=PipelineConfig(top_k=5)), "'a' is cut at 2, the system at 5; evaluate both"),
    ],
)
def test_runs_that_do_not_compare_are_refused_with_what_differs(system: Run, message: str) -> None:
    with pytest.raises(InputError) as caught:
        versus(ranked("a", 1, 2), system)
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
