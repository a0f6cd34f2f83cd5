"""Scores of TREC runs against trec_eval's own outputs, its peers, and the definitions in plain Python."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval_lab.errors import InputError
from retrieval_lab.evals import measures
from retrieval_lab.evals.measures import all_families, measure_names, measure_scored
from retrieval_lab.evals.scoring import NAMES, OFFICIAL, families, score
from retrieval_lab.trec import Qrels, TrecRun, read_qrels, read_run

TREC = Path(__file__).parents[4] / "shared" / "data" / "trec_eval"
needs_trec = pytest.mark.skipif(not TREC.is_dir(), reason="trec_eval's test files are not here")

WITH_PARAMETERS = [
    *("iprec_at_recall_.10", "iprec_at_recall_.20", "iprec_at_recall_.25", "iprec_at_recall_.75", "P.5", "P_7", "P_3"),
    *("iprec_at_recall_.50", "recall_20", "recall_2000", "ndcg_cut_10", "ndcg_cut_20", "ndcg_cut_23"),
    *("success_2", "success_5", "success_20"),
]

# What trec_eval prints and we do not have.
FOREIGN = {"runid", "relstring", "relstring_20", "infAP", "gm_bpref", "utility", "binG", "G", "ndcg_rel", "Rndcg"}
FOREIGN |= {"rbp", "rbp_resid", "utility_2,-1,0,0", "11pt_avg_.25,.5,.75", "ndcg_1=3,2=9,4=4.5"}


def lines_of(output: str) -> list[tuple[str, str, str]]:
    rows = [line.split() for line in (TREC / output).read_text().splitlines()]
    ours = [(row[0], row[1], row[2]) for row in rows]
    return [row for row in ours if row[0] not in FOREIGN and not row[0].startswith("Rprec_mult")]


def printed(number: float | int) -> str:
    return str(number) if isinstance(number, int) else f"{number:.4f}"


@needs_trec
@pytest.mark.parametrize(
    ("output", "labels", "results", "options", "least"),
    [
        ("out.test", "qrels.test", "results.test", {}, 29),
        ("out.test", "qrels.test.with-comments", "results.test", {}, 29),
        ("out.test.a", "qrels.test", "results.test", {}, 79),
        ("out.test.aq", "qrels.test", "results.test", {}, 310),
        ("out.test.aqc", "qrels.test", "results.trunc", {"all_queries": True}, 310),
        ("out.test.aqcM", "qrels.test", "results.trunc", {"all_queries": True, "max_results": 100}, 310),
        ("out.test.aql", "qrels.rel_level", "results.test", {"level": 2}, 310),
        ("out.test.meas_params", "qrels.test", "results.test", {}, 64),
    ],
)
def test_every_printed_digit_of_trec_eval(
    output: str, labels: str, results: str, options: dict[str, Any], least: int
) -> None:
    names = WITH_PARAMETERS if "params" in output else list(NAMES)
    found = score(read_qrels(TREC / labels), read_run(TREC / results), names, **options)
    ours: Mapping[str, Mapping[str, float | int]] = {"all": found.means, **found.per_query()}
    told = lines_of(output)
    assert [(name, query, printed(ours[query][name])) for name, query, _ in told] == told
    assert len(told) >= least


@needs_trec
def test_the_default_set_is_trec_evals() -> None:
    found = score(read_qrels(TREC / "qrels.test"), read_run(TREC / "results.test"))
    assert list(found.means) == [name for name, _, _ in lines_of("out.test")]
    per_query = [name for name in found.means if name not in ("num_q", "gm_map")]
    assert [list(values) for values in found.per_query().values()] == [per_query] * 3
    assert found.tag == "STANDARD"


@needs_trec
def test_z_scores_made_of_ours_are_trec_evals() -> None:
    found = score(read_qrels(TREC / "qrels.test"), read_run(TREC / "results.test"), list(NAMES)).per_query()
    rows = [line.split() for line in (TREC / "zscores_file").read_text().splitlines()]
    scale = {(query, name): (float(mean), float(deviation)) for query, name, mean, deviation in rows}
    compared = 0
    for name, query, told in lines_of("out.test.aqZ"):
        mean, deviation = scale.get((query, name.removeprefix("Z")), (0.0, 0.0))
        if name.startswith("Z") and deviation and name.removeprefix("Z") in found[query]:
            assert (found[query][name.removeprefix("Z")] - mean) / deviation == pytest.approx(float(told), abs=1e-4)
            compared += 1
    assert compared > 200


# --- peers and definitions -----------------------------------------------------------------------------------------

DOCS = st.sampled_from([f"d{number}" for number in range(12)])
RESULTS = st.dictionaries(DOCS, st.sampled_from([0.25, 0.5, 1.0, -3.0, 2.5]), min_size=1)
LABELS = st.dictionaries(DOCS, st.integers(-1, 4), min_size=1)
CASE = st.dictionaries(st.sampled_from(["1", "2", "3"]), st.tuples(LABELS, RESULTS), min_size=1)
Case = dict[str, tuple[dict[str, int], dict[str, float]]]


@given(CASE, st.integers(1, 3))
@settings(max_examples=60)
def test_pytrec_eval_agrees(case: Case, level: int) -> None:
    pytrec_eval = pytest.importorskip("pytrec_eval")
    qrels, run = ({query: both[side] for query, both in case.items()} for side in (0, 1))
    # The version that pytrec_eval holds rounds recall levels otherwise, and divides by 0 where nothing is relevant.
    names = {"num_ret", "num_rel", "num_rel_ret", "map", "Rprec", "bpref", "recip_rank", "ndcg", "set_P", "set_recall"}
    names |= {"set_F", "set_map", "num_nonrel_judged_ret"} & pytrec_eval.supported_measures
    cut = {"P", "recall", "ndcg_cut", "map_cut"}
    evaluator = pytrec_eval.RelevanceEvaluator(
        qrels, names | {f"{stem}.3,5" for stem in cut} | {"success.1,5"}, relevance_level=level
    )
    asked = [*names, *(f"{stem}_{k}" for stem in cut for k in (3, 5)), "success_1", "success_5"]
    ours = score(Qrels(qrels), TrecRun("t", run), asked, level=level).per_query()
    for query, theirs in evaluator.evaluate(run).items():
        for name, expected in theirs.items():
            assert ours[query][name] == pytest.approx(expected, abs=1e-9), (query, name)


@given(CASE)
@settings(max_examples=60)
def test_ir_measures_agrees_on_judged(case: Case) -> None:
    ir_measures = pytest.importorskip("ir_measures")
    distinct = {
        query: (labels, {key: float(place) for place, key in enumerate(results)})
        for query, (labels, results) in case.items()
    }
    qrels, run = ({query: both[side] for query, both in distinct.items()} for side in (0, 1))
    ours = score(Qrels(qrels), TrecRun("t", run), ["judged@3", "judged"]).per_query()
    for theirs in ir_measures.iter_calc([ir_measures.Judged @ 3, ir_measures.Judged @ 10], qrels, run):
        name = str(theirs.measure).replace("Judged", "judged")
        assert ours[theirs.query_id][name] == pytest.approx(theirs.value), (theirs.query_id, name)


def by_definition(labels: Mapping[str, int], results: Mapping[str, float], level: int) -> dict[str, float]:
    """Measures in plain Python, each written as its definition reads."""
    ranked = sorted(results, key=lambda key: (results[key], key), reverse=True)
    grades = [labels.get(key, -1) for key in ranked]
    relevant = sum(grade >= level for grade in labels.values())
    rejected = sum(0 <= grade < level for grade in labels.values())
    precision = [sum(grade >= level for grade in grades[:k]) / k for k in range(1, len(grades) + 1)]
    places = [place for place, grade in enumerate(grades) if grade >= level]

    def above(place: int) -> float:
        found = sum(0 <= grade < level for grade in grades[:place])
        return 1 - min(found, relevant) / min(rejected, relevant) if found else 1.0

    def interpolated(recall: float) -> float:
        wanted = math.floor(recall * relevant + 0.5)
        return max((p for k, p in enumerate(precision, 1) if sum(g >= level for g in grades[:k]) >= wanted), default=0)

    def dcg(gains: list[int], cut: int) -> float:
        return sum(gain / math.log2(place + 2) for place, gain in enumerate(gains[:cut]) if gain > 0)

    ideal = sorted(labels.values(), reverse=True)
    points = {f"iprec_at_recall_{tenth / 10:.2f}": interpolated(tenth / 10) for tenth in range(11)}
    return {
        "map": sum(precision[place] for place in places) / relevant,
        "map_cut_5": sum(precision[place] for place in places if place < 5) / relevant,
        "Rprec": sum(grade >= level for grade in grades[:relevant]) / relevant,
        "bpref": sum(map(above, places)) / relevant,
        "recip_rank": 1 / (places[0] + 1) if places else 0.0,
        "ndcg_cut_5": dcg(grades, 5) / dcg(ideal, 5),
        "ndcg": dcg(grades, 99) / dcg(ideal, 99),
        "set_relative_P": len(places) / min(len(ranked), relevant),
        "relative_P_5": sum(place < 5 for place in places) / min(5, relevant),
        "11pt_avg": sum(points.values()) / 11,
        "unj_5": sum(grade < 0 for grade in grades[:5]) / 5,
        **points,
    }


@given(LABELS, RESULTS, st.integers(1, 3))
def test_the_definitions_agree(labels: dict[str, int], results: dict[str, float], level: int) -> None:
    asked = list(by_definition({"a": 1, "b": 0}, {"a": 1.0}, 1))
    found = score(Qrels({"q": labels}), TrecRun("t", {"q": results}), asked, level=level).per_query()["q"]
    if any(grade >= level for grade in labels.values()):
        assert found == pytest.approx(by_definition(labels, results, level))
    else:
        assert {v for name, v in found.items() if name not in ("unj_5", "ndcg", "ndcg_cut_5")} == {0.0}


def test_scored_lists_are_measured_as_ranked_ones_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measures, "_BLOCK", 7)
    rng = np.random.default_rng(0)
    results, labels = [], []
    for _ in range(40):
        keys = [f"d{number}" for number in rng.permutation(60)[: rng.integers(0, 50)]]
        results.append({key: float(rng.integers(0, 12)) for key in keys})
        labels.append({f"d{number}": int(rng.integers(-1, 4)) for number in rng.permutation(60)[:30]})
    ranked = [sorted(scores, key=lambda key: (scores[key], key), reverse=True) for scores in results]
    names = [name.replace("@k", "@5").replace("@recall", "@0.3") for name in all_families()]
    for most in (None, 1, 10):
        cut = [ids[:most] for ids in ranked]
        found = measure_scored(results, labels, names, max_results=most)
        np.testing.assert_array_equal(found.values, measure_names(cut, labels, names).values)


# --- rules ---------------------------------------------------------------------------------------------------------

QRELS = Qrels({"1": {"a": 1, "b": 2}, "2": {"a": 1}, "3": {"a": 0}})
RUN = TrecRun("mine", {"9": {"z": 1.0}, "3": {"a": 1.0}, "1": {"a": 2.0, "b": 2.0, "c": 1.0}})


def test_queries_of_both_sides_in_the_order_of_the_labels() -> None:
    found = score(QRELS, RUN, ["num_q", "num_ret", "map", "gm_map", "recip_rank"])
    assert found.query_ids == ("1", "3")
    assert found.means == pytest.approx(
        {"num_q": 2, "num_ret": 4, "map": 0.5, "gm_map": math.sqrt(1 * 1e-5), "recip_rank": 0.5}
    )
    assert [type(found.means[name]) for name in ("num_q", "num_ret", "map")] == [int, int, float]
    assert found.per_query()["3"] == {"num_ret": 1, "map": 0.0, "recip_rank": 0.0}
    assert isinstance(found.per_query()["3"]["num_ret"], int)


def test_all_queries_of_the_labels() -> None:
    found = score(QRELS, RUN, ["num_q", "num_rel", "map", "gm_map"], all_queries=True)
    assert found.query_ids == ("1", "2", "3")
    assert found.means == pytest.approx({"num_q": 3, "num_rel": 3, "map": 1 / 3, "gm_map": (1e-10) ** (1 / 3)})


def test_only_so_many_results_count() -> None:
    # Of two with one score the later id comes first.
    found = score(QRELS, RUN, ["num_ret", "ndcg_cut_1", "set_recall"], max_results=1).per_query()["1"]
    assert found == {"num_ret": 1, "ndcg_cut_1": 1.0, "set_recall": 0.5}


def test_intervals_are_of_the_means() -> None:
    found = score(QRELS, RUN, ["num_ret", "map", "P_5"])
    assert set(found.intervals()) == {"map", "P_5"}
    interval = found.intervals()["map"]
    assert interval is not None
    assert (interval.low, interval.high) == (0, 1)
    assert score(QRELS, TrecRun("t", {"1": {"a": 1.0}}), ["map", "num_ret"]).intervals() == {"map": None}
    assert score(QRELS, RUN, ["num_ret"]).intervals() == {}


def test_measures_of_the_whole_set_alone() -> None:
    found = score(QRELS, RUN, ["num_q", "gm_map"])
    assert found.values.shape == (2, 0)
    assert found.per_query() == {"1": {}, "3": {}}


@pytest.mark.parametrize(
    "name", ["", "mapp", "map_10", "P_0", "P_1.5", "recall_x", "ndcg_cut_-1", "iprec_at_recall_1.1"]
)
def test_a_measure_that_is_none(name: str) -> None:
    with pytest.raises(InputError, match=r"expected|ndcg_cut_K"):
        score(QRELS, RUN, [name])


def test_every_family_can_be_asked_for_by_its_listed_form() -> None:
    asked = [name.replace("K", "7").replace("_R", "_0.35") if name != "Rprec" else name for name in families()]
    assert list(score(QRELS, RUN, asked).means) == asked


def test_nothing_to_score() -> None:
    with pytest.raises(InputError, match="no query of the run 't' has labels"):
        score(QRELS, TrecRun("t", {"7": {"a": 1.0}}))
    with pytest.raises(InputError, match="0 results of each query"):
        score(QRELS, RUN, max_results=0)


def test_a_run_without_any_result_for_all_queries_scores_0() -> None:
    found = score(QRELS, TrecRun("t", {"7": {"a": 1.0}}), OFFICIAL, all_queries=True)
    assert not np.isnan(found.values).any()
    assert found.means["num_ret"] == 0
    assert found.means["gm_map"] == pytest.approx(1e-5)
