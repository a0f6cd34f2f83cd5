"""Measures by hand, against `retrieval_lab.metrics` to the last bit, and against trec_eval on its own files."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval_lab import metrics
from retrieval_lab.errors import InputError
from retrieval_lab.evals import measures
from retrieval_lab.evals.measures import measure

TREC = Path(__file__).parents[4] / "shared" / "data" / "trec_eval"

log2 = math.log2


def of_one(ids: str, labels: Mapping[str, int], k: int = 10) -> dict[str, float]:
    """The measures of one query, the cut left out of their names; ids are single letters."""
    measured = measure([list(ids)], [labels], cuts=[k])
    return {name.split("@")[0]: value for name, value in zip(measured.names, measured.values[0].tolist(), strict=True)}


def test_graded_labels_by_hand() -> None:
    found = of_one("xbyac", {"a": 3, "b": 1, "c": 2, "d": 2, "x": 0, "y": -1}, k=4)
    assert found["recall"] == 2 / 4
    assert found["precision"] == 2 / 4
    assert found["hit"] == 1
    assert found["mrr"] == 1 / 2
    assert found["map"] == pytest.approx((1 / 2 + 2 / 4 + 3 / 5) / 4)
    dcg = 1 / log2(3) + 3 / log2(5)
    assert found["ndcg"] == pytest.approx(dcg / (3 / log2(2) + 2 / log2(3) + 2 / log2(4) + 1 / log2(5)))


def test_ideal_counts_what_was_never_found() -> None:
    assert of_one("axyz", dict.fromkeys("abc", 1))["ndcg"] == pytest.approx(1 / (1 + 1 / log2(3) + 1 / log2(4)))


def test_more_relevant_ids_than_places() -> None:
    assert of_one("abcdefghij", dict.fromkeys("abcdefghijk", 1))["ndcg"] == 1
    assert of_one("abcdefghij", dict.fromkeys("abcdefghijk", 1))["recall"] == 10 / 11


def test_a_repeated_id_counts_once_and_keeps_its_place() -> None:
    found = of_one("aab", {"a": 1, "b": 1}, k=3)
    assert found["recall"] == 1
    assert found["precision"] == 2 / 3
    assert found["map"] == pytest.approx((1 + 2 / 3) / 2)
    assert found["ndcg"] == pytest.approx((1 + 1 / log2(4)) / (1 + 1 / log2(3)))


def test_the_best_answer_below_the_cut() -> None:
    found = of_one("xya", {"a": 1}, k=2)
    assert found == {"recall": 0, "precision": 0, "hit": 0, "mrr": 0, "ndcg": 0, "map": 1 / 3}


@pytest.mark.parametrize("k", [0, 1, 10])
def test_an_empty_list_scores_nothing(k: int) -> None:
    assert set(of_one("", {"a": 1}, k).values()) == {0.0}


def test_no_relevant_label_is_undefined() -> None:
    measured = measure([["a"], ["a"], ["b"], []], [{}, {"a": 1}, {"b": 0}, {"a": 1}])
    assert measured.defined.tolist() == [False, True, False, True]
    assert np.isnan(measured.values[[0, 2]]).all()
    assert measured.scored()["recall@10"].tolist() == [1, 0]


def test_no_query_at_all() -> None:
    measured = measure([], [], cuts=[1, 5])
    assert measured.values.shape == (0, len(measured.names)) == (0, 11)
    assert measured.scored()["map"].tolist() == []


def test_several_cuts_at_once() -> None:
    measured = measure([list("xab")], [{"a": 1, "b": 1}], cuts=[1, 2, 3])
    found = measured.scored()
    assert [found[f"recall@{k}"][0] for k in (1, 2, 3)] == [0, 1 / 2, 1]
    assert measured.names[:5] == ("recall@1", "precision@1", "hit@1", "mrr@1", "ndcg@1")


def test_what_cannot_be_measured() -> None:
    with pytest.raises(InputError, match="k is -1"):
        measure([["a"]], [{"a": 1}], cuts=[-1])
    with pytest.raises(InputError, match="1 ranked lists and labels for 2"):
        measure([["a"]], [{"a": 1}, {}])


IDS = st.lists(st.sampled_from("abcdefgh"), max_size=12)
QUERY = st.tuples(IDS, st.dictionaries(st.sampled_from("abcdefghij"), st.integers(0, 1)))


@given(st.lists(QUERY, max_size=6), st.integers(0, 14))
def test_binary_grades_equal_the_plain_measures(queries: list[tuple[list[str], dict[str, int]]], k: int) -> None:
    measured = measure([ids for ids, _ in queries], [labels for _, labels in queries], cuts=[k])
    for row, (ids, labels) in enumerate(queries):
        wanted = {key for key, grade in labels.items() if grade}
        assert measured.defined[row] == bool(wanted)
        if wanted:
            expected = [
                metrics.recall_at_k(ids, wanted, k),
                metrics.precision_at_k(ids, wanted, k),
                float(bool(wanted.intersection(ids[:k]))),
                metrics.mrr(ids[:k], wanted),
                metrics.ndcg_at_k(ids, wanted, k),
            ]
            assert measured.values[row, :5].tolist() == expected


@given(QUERY, st.dictionaries(st.sampled_from("abcdefghij"), st.integers(0, 4)), st.integers(1, 12))
def test_all_lie_between_0_and_1(query: tuple[list[str], dict[str, int]], grades: dict[str, int], k: int) -> None:
    values = measure([query[0]], [grades], cuts=[k]).values
    assert np.isnan(values).all() or ((values >= 0) & (values <= 1 + 1e-12)).all()


def test_blocks_leave_no_seam(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    ranked = [[f"d{d}" for d in rng.permutation(30)[: rng.integers(0, 20)]] for _ in range(23)]
    labels = [{f"d{d}": int(rng.integers(0, 4)) for d in rng.permutation(30)[:6]} for _ in range(23)]
    whole = measure(ranked, labels).values
    monkeypatch.setattr(measures, "_BLOCK", 5)
    np.testing.assert_array_equal(measure(ranked, labels).values, whole)


# --- trec_eval -----------------------------------------------------------------------------------------------------

needs_trec = pytest.mark.skipif(not TREC.is_dir(), reason="trec_eval's test files are not here")
CUTS = (1, 5, 10, 100, 1000)
# Measures of ours and trec_eval's names for them; its mrr and map read the whole list.
NAMES = {f"{ours}@{k}": f"{theirs}_{k}" for ours, theirs in (("recall", "recall"), ("precision", "P")) for k in CUTS}
NAMES |= {f"hit@{k}": f"success_{k}" for k in CUTS}
NAMES |= {"mrr@1000": "recip_rank", "map": "map"}
NDCG = {f"ndcg@{k}": f"ndcg_cut_{k}" for k in CUTS}


def qrels(name: str) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for line in (TREC / name).read_text().splitlines():
        if not line.split("#")[0].strip():
            continue
        query, _, doc, grade = line.split()[:4]
        found[query][doc] = int(grade)
    return found


def run(name: str) -> dict[str, list[str]]:
    """Lists by score, then by document id, both descending: the order of trec_eval, whatever the rank column says."""
    scored: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for line in (TREC / name).read_text().splitlines():
        query, _, doc, _, score = line.split()[:5]
        scored[query].append((float(score), doc))
    return {query: [doc for _, doc in sorted(rows, reverse=True)] for query, rows in scored.items()}


def expected(name: str) -> dict[tuple[str, str], str]:
    rows = [line.split() for line in (TREC / name).read_text().splitlines()]
    return {(row[0], row[1]): row[2] for row in rows if len(row) == 3}


def agree(
    labels: Mapping[str, Mapping[str, int]], lists: Mapping[str, list[str]], output: str, names: Mapping[str, str]
) -> int:
    """Compares what the output names, by query and over all, to its four places; returns how many were compared."""
    queries = sorted(labels)
    measured = measure([lists.get(query, []) for query in queries], [labels[query] for query in queries], cuts=CUTS)
    assert measured.defined.all()
    values = {
        query: dict(zip(measured.names, row, strict=True)) for query, row in zip(queries, measured.values, strict=True)
    }
    values["all"] = dict(zip(measured.names, measured.values.mean(axis=0), strict=True))
    compared = 0
    told = expected(output)
    for query, by_name in values.items():
        for ours, theirs in names.items():
            if (theirs, query) in told:
                assert by_name[ours] == pytest.approx(float(told[theirs, query]), abs=0.5001e-4), (ours, query)
                compared += 1
    return compared


@needs_trec
@pytest.mark.parametrize(
    ("labels", "lists", "depth", "output"),
    [
        ("qrels.test", "results.test", None, "out.test"),
        ("qrels.test.with-comments", "results.test", None, "out.test"),
        ("qrels.test", "results.test", None, "out.test.a"),
        ("qrels.test", "results.test", None, "out.test.aq"),
        ("qrels.test", "results.trunc", None, "out.test.aqc"),
        ("qrels.test", "results.trunc", 100, "out.test.aqcM"),
    ],
)
def test_trec_eval_agrees(labels: str, lists: str, depth: int | None, output: str) -> None:
    cut = {query: ids[:depth] for query, ids in run(lists).items()}
    assert agree(qrels(labels), cut, output, NAMES | NDCG) >= 6


@needs_trec
def test_trec_eval_agrees_when_relevance_starts_at_grade_2() -> None:
    labels = {q: {d: grade if grade >= 2 else 0 for d, grade in g.items()} for q, g in qrels("qrels.rel_level").items()}
    assert agree(labels, run("results.test"), "out.test.aql", NAMES) > 40


@needs_trec
def test_trec_eval_agrees_on_gains_of_more_than_one_grade() -> None:
    graded = qrels("qrels.rel_level")
    assert max(grade for labels in graded.values() for grade in labels.values()) == 4
    assert agree(graded, run("results.test"), "out.test.aql", NDCG) == 16
