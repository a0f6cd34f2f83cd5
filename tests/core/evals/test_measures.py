"""Measures by hand, and against `retrieval_lab.metrics` to the last bit; test_scoring has trec_eval and its peers."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval_lab import metrics
from retrieval_lab.errors import InputError
from retrieval_lab.evals import measures
from retrieval_lab.evals.measures import all_families, distinct_documents, measure, measure_names

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


# --- the other measures, by hand -----------------------------------------------------------------------------------


def value(name: str, ids: str, labels: Mapping[str, int], level: int = 1) -> float:
    return float(measure_names([list(ids)], [labels], [name], level=level).values[0, 0])


GRADED = {"a": 1, "b": 2, "c": 1, "n": 0, "m": 0, "u": -1}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("map@3", (1 / 1 + 2 / 3) / 3),
        ("ndcg", (1 + 2 / log2(4)) / (2 + 1 / log2(3) + 1 / log2(4))),
        ("mrr", 1),
        ("rprec", 2 / 3),
        # a stands above both of the judged others, b below one of them; c is not found. R = 3, but two are judged.
        ("bpref", (1 + (1 - 1 / 2)) / 3),
        ("iprec@0", 1),
        ("iprec@0.3", 1),
        ("iprec@0.5", 2 / 3),
        ("iprec@0.8", 2 / 3),
        ("iprec@0.9", 0),
        ("11pt_avg", (5 * 1 + 4 * 2 / 3 + 2 * 0) / 11),
        ("relative_precision@2", 1 / 2),
        ("relative_precision@10", 2 / 3),
        ("set_precision", 2 / 6),
        ("recall", 2 / 3),
        ("set_f", 2 * (1 / 3) * (2 / 3) / (1 / 3 + 2 / 3)),
        ("set_map", 2 * 2 / (6 * 3)),
        ("set_relative_precision", 2 / 3),
        ("judged", 5 / 6),
        ("judged@2", 1),
        ("judged@100", 5 / 6),
        ("unjudged@100", 2 / 100),
        ("num_ret", 6),
        ("num_rel", 3),
        ("num_rel_ret", 2),
        ("num_nonrel_judged_ret", 2),
    ],
)
def test_each_measure_by_hand(name: str, expected: float) -> None:
    assert value(name, "anbumx", GRADED) == pytest.approx(expected)


def test_recall_levels_are_rounded_to_relevant_ids_halves_up() -> None:
    assert value("iprec@0.5", "axb", {"a": 1, "b": 1, "c": 1}) == pytest.approx(2 / 3)  # 1.5 of 3 is 2
    assert value("iprec@0.1", "xab", {"a": 1, "b": 1, "c": 1}) == pytest.approx(2 / 3)  # 0.3 of 3 is none: the best


def test_the_lowest_relevant_grade_moves_but_gains_stay() -> None:
    assert value("recall@1", "ab", {"a": 1, "b": 2}, level=2) == 0
    assert value("bpref", "ab", {"a": 1, "b": 2}, level=2) == 0
    assert value("ndcg", "ab", {"a": 1, "b": 2}, level=2) == value("ndcg", "ab", {"a": 1, "b": 2})


def test_without_a_relevant_label_all_is_undefined_unless_it_is_to_be_what_trec_eval_makes_of_it() -> None:
    names = [name.replace("@k", "@5").replace("@recall", "@0.5") for name in all_families()]
    left_out = measure_names([list("ab")], [{"a": 0}], names)
    assert np.isnan(left_out.values).all()
    zero = measure_names([list("ab")], [{"a": 0}], names, all_defined=True)
    assert zero.defined.tolist() == [False]
    found = {name: v for name, v in zip(names, zero.values[0].tolist(), strict=True) if v}
    assert found == {"num_ret": 2, "num_nonrel_judged_ret": 1, "judged": 1 / 2, "judged@5": 1 / 2, "unjudged@5": 1 / 5}


def test_distinct_documents_of_the_first_places() -> None:
    assert distinct_documents([list("aabbcd"), [], ["x"]]).tolist() == [3, 0, 1]
    assert distinct_documents([list("aab")], k=2).tolist() == [1]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mapp", "the measures are recall, recall@k"),
        ("hit", "unknown"),
        ("rprec@3", "unknown"),
        ("iprec@1.5", "expected 0 to 1"),
        ("recall@x", "expected 0 or more"),
        ("recall@-1", "expected 0 or more"),
    ],
)
def test_measures_that_are_none(name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        measure_names([], [], [name])


def test_a_lowest_relevant_grade_below_1() -> None:
    with pytest.raises(InputError, match="lowest relevant grade is 0"):
        measure_names([], [], ["map"], level=0)
