"""Intervals and permutation tests by hand, by brute force, by simulation, by law and against scipy."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval_lab.errors import InputError
from retrieval_lab.evals import resampling
from retrieval_lab.evals.resampling import (
    Interval,
    bootstrap_interval,
    bootstrap_intervals,
    paired_bootstrap_interval,
    permutation_test,
    permutation_tests,
)

MEASURE = st.sampled_from([0.0, 0.1, 1 / 3, 0.5, 0.7, 1.0])
PAIRS = st.lists(st.tuples(MEASURE, MEASURE), min_size=1, max_size=30)


def zeros(values: Sequence[float]) -> list[float]:
    return [0.0] * len(values)


def brute_force(differences: Sequence[float]) -> float:
    """The share of all sign assignments whose sum is as far from 0 as the one seen."""
    signs = list(itertools.product((1, -1), repeat=len(differences)))
    seen = abs(math.fsum(differences))
    sums = [abs(math.fsum(s * d for s, d in zip(some, differences, strict=True))) for some in signs]
    return sum(total >= seen - 1e-12 * len(differences) for total in sums) / len(signs)


# --- intervals -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("values", [[], [0.4]])
def test_no_interval_from_fewer_than_two_queries(values: list[float]) -> None:
    assert bootstrap_interval(values) is None
    assert paired_bootstrap_interval(values, values) is None


def test_two_queries_have_three_means() -> None:
    # 0 and 1 give 0, 1/2 and 1 with chances of 1/4, 1/2 and 1/4: the outer quarters hold the 2.5% on each side.
    assert bootstrap_interval([0.0, 1.0]) == Interval(0, 1)
    assert bootstrap_interval([0.0, 1.0], level=0.4) == Interval(0.5, 0.5)


@given(st.floats(-1e6, 1e6), st.integers(2, 40))
def test_equal_values_have_an_interval_without_width(value: float, queries: int) -> None:
    assert bootstrap_interval([value] * queries, resamples=50) == Interval(value, value)


@given(PAIRS)
@settings(max_examples=30)
def test_identical_systems(pairs: list[tuple[float, float]]) -> None:
    system = [a for a, _ in pairs]
    assert paired_bootstrap_interval(system, system) == (Interval(0, 0) if len(pairs) > 1 else None)
    assert permutation_test(system, system) == 1


@given(PAIRS, st.floats(-2, 2))
@settings(max_examples=30)
def test_a_shift_of_both_systems_changes_nothing(pairs: list[tuple[float, float]], shift: float) -> None:
    system, baseline = (np.array(side) for side in zip(*pairs, strict=True))
    moved = permutation_test(system + shift, baseline + shift, draws=500)
    assert moved == permutation_test(system, baseline, draws=500)
    if len(pairs) > 1:
        one, other = bootstrap_interval(system, resamples=200), bootstrap_interval(system + shift, resamples=200)
        assert one is not None
        assert other is not None
        assert (other.low, other.high) == pytest.approx((one.low + shift, one.high + shift), abs=1e-12)


def test_the_interval_is_that_of_resampled_means() -> None:
    values = np.random.default_rng(1).random(7)
    rows = np.array(list(itertools.product(range(7), repeat=7))[:: 7**2 + 3])  # a spread of all 7^7 samples
    exact = np.quantile(values[rows].mean(axis=1), [0.025, 0.975])
    found = bootstrap_interval(values, resamples=20_000)
    assert found is not None
    assert (found.low, found.high) == pytest.approx(exact, abs=0.01)


@pytest.mark.parametrize("skewed", [False, True])
def test_intervals_cover_the_true_mean(skewed: bool) -> None:
    rng = np.random.default_rng(3)
    draw: Callable[[], Any] = (lambda: rng.beta(0.5, 1.5, 80)) if skewed else (lambda: rng.normal(0.25, 1, 80))
    covered = 0
    for seed in range(400):
        found = bootstrap_interval(draw(), resamples=400, seed=seed)
        assert found is not None
        covered += found.low <= 0.25 <= found.high
    assert 0.915 <= covered / 400 <= 0.975  # 0.95, less what a percentile interval falls short by, and three sigma


def test_paired_intervals_cover_the_true_difference_of_hits() -> None:
    rng = np.random.default_rng(14)
    covered = 0
    for seed in range(400):
        baseline, luck = rng.random(100) < 0.5, rng.random(100)
        system = np.where(baseline, luck < 0.9, luck < 0.3)  # finds 3 of 10 misses, loses 1 of 10 hits
        found = paired_bootstrap_interval(system, baseline, resamples=400, seed=seed)
        assert found is not None
        covered += found.low <= 0.5 * 0.3 - 0.5 * 0.1 <= found.high
    assert 0.915 <= covered / 400 <= 0.98


def test_a_higher_level_is_wider() -> None:
    values = np.random.default_rng(5).random(40)
    narrow, wide = bootstrap_interval(values, level=0.8), bootstrap_interval(values, level=0.99)
    assert narrow is not None
    assert wide is not None
    assert wide.low < narrow.low < values.mean() < narrow.high < wide.high


# --- the permutation test ------------------------------------------------------------------------------------------


def test_p_by_hand() -> None:
    assert permutation_test([0.3], [0.1]) == 2 / 2
    assert permutation_test([0.3, 0.4], [0.1, 0.1]) == 2 / 4
    assert permutation_test([1.0] * 10, [0.0] * 10) == 2 / 2**10
    assert permutation_test([1.0, 1.0, 0.0], [0.0, 0.0, 1.0]) == 8 / 8  # a sum of 1 is the smallest that there is
    assert permutation_test([1, 1, 1, 0], [0, 0, 0, 0]) == 4 / 16  # the fourth query's sign does not matter


@given(st.lists(st.sampled_from([-0.3, -0.1, 0.0, 0.1, 0.2, 0.7]), min_size=1, max_size=9))
def test_enumeration_equals_brute_force(differences: list[float]) -> None:
    assert permutation_test(differences, zeros(differences)) == brute_force(differences)


def test_enumeration_of_fourteen_queries() -> None:
    differences = np.random.default_rng(6).normal(0.3, 1, 14).tolist()
    assert permutation_test(differences, zeros(differences), draws=1) == brute_force(differences)


def test_ties_by_rounding_are_extreme() -> None:
    # 0.1 + 0.2 is not 0.3 in floating point; as differences of measures these are equals.
    assert permutation_test([0.1, 0.2, -0.3], [0, 0, 0]) == 1
    assert permutation_test([0.3, 0.1 + 0.2], [0.0, 0.0]) == 2 / 4
    # a + b is c up to the rounding of numbers of their size, so no assignment comes nearer to 0 than 1 does.
    a, b, c = 1e7 + 0.1, 2e7 + 0.2, 3e7 + 0.3
    assert a + b != c
    assert permutation_test([a, b, -c, 1], [0, 0, 0, 0]) == permutation_test([-a, -b, c, 1], [0, 0, 0, 0]) == 1


@pytest.mark.parametrize("mean", [0.0, 0.3, 0.7])
def test_draws_agree_with_enumeration(mean: float, monkeypatch: pytest.MonkeyPatch) -> None:
    differences = np.random.default_rng(7).normal(mean, 1, 13).tolist()
    exact = permutation_test(differences, zeros(differences))
    monkeypatch.setattr(resampling, "EXACT_UP_TO", 0)
    drawn = permutation_test(differences, zeros(differences), draws=40_000)
    assert drawn == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 40_000) + 1 / 40_000)


def test_p_is_never_a_bare_zero() -> None:
    assert permutation_test([1.0] * 200, [0.0] * 200) == 1 / 10_001
    assert permutation_test([1.0] * 200, [0.0] * 200, draws=99) == 1 / 100


def test_p_is_uniform_when_nothing_differs() -> None:
    rng = np.random.default_rng(8)
    p = [permutation_test(rng.normal(0, 1, 30), np.zeros(30), draws=199, seed=seed) for seed in range(400)]
    for threshold in (0.05, 0.2, 0.5):
        assert np.mean(np.array(p) <= threshold) == pytest.approx(
            threshold, abs=3 * math.sqrt(threshold * (1 - threshold) / 400)
        )


def test_every_query_is_flipped_on_its_own() -> None:
    # With one heavy query in any place half of all assignments agree with it: p is 1. With two it is 1/2.
    for place in range(17):
        differences = np.zeros(17)
        differences[place] = 1
        assert permutation_test(differences, np.zeros(17)) == 1
        for other in range(place):
            two = differences.copy()
            two[other] = 1
            assert permutation_test(two, np.zeros(17), draws=2000) == pytest.approx(0.5, abs=0.05)


# --- scipy ---------------------------------------------------------------------------------------------------------


def test_scipy_agrees_on_intervals() -> None:
    stats = pytest.importorskip("scipy.stats")
    values = np.random.default_rng(9).beta(0.5, 1, 120)
    theirs = stats.bootstrap(
        (values,), np.mean, n_resamples=10_000, method="percentile", rng=np.random.default_rng(0)
    ).confidence_interval
    ours = bootstrap_interval(values, resamples=10_000)
    assert ours is not None
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.004)


@pytest.mark.parametrize("queries", [6, 12, 40])
def test_scipy_agrees_on_p(queries: int) -> None:
    stats = pytest.importorskip("scipy.stats")
    differences = np.random.default_rng(queries).normal(0.3, 1, queries)
    theirs = stats.permutation_test(
        (differences,),
        lambda x, axis: x.mean(axis=axis),
        permutation_type="samples",
        n_resamples=10_000,
        vectorized=True,
        rng=np.random.default_rng(0),
    ).pvalue
    tolerance = 1e-12 if queries <= 12 else 0.025
    assert permutation_test(differences, np.zeros(queries)) == pytest.approx(theirs, abs=tolerance)


# --- matrices, memory, processes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("queries", [2, 14, 15, 101])
def test_a_column_gets_what_it_gets_alone(queries: int) -> None:
    rng = np.random.default_rng(queries)
    system, baseline = rng.random((2, queries, 4)).round(2)
    together = bootstrap_intervals(system, resamples=300, seed=2)
    assert together == tuple(bootstrap_interval(system[:, i], resamples=300, seed=2) for i in range(4))
    p_values = permutation_tests(system, baseline, draws=300, seed=2)
    assert p_values == tuple(permutation_test(system[:, i], baseline[:, i], draws=300, seed=2) for i in range(4))


def test_memory_stays_bounded() -> None:
    values = np.random.default_rng(13).random((20_000, 2))
    tracemalloc.start()
    try:
        bootstrap_intervals(values, resamples=200)
        permutation_tests(values, np.zeros_like(values), draws=20_000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 16 * 2**20  # all samples at once would be 32 MB a measure, all signs 400 MB


# --- what cannot be used -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "cause"),
    [
        (lambda: bootstrap_interval([0.1, math.nan]), "value of query 2 is nan"),
        (lambda: bootstrap_interval([math.inf, 0.1]), "value of query 1 is inf"),
        (lambda: bootstrap_interval([[0.1], [0.2]]), "2 dimensions"),
        (lambda: bootstrap_intervals(np.zeros(3)), "1 dimensions"),
        (lambda: bootstrap_interval(["high", "low"]), "could not convert"),
        (lambda: bootstrap_interval([0.1, 0.2], resamples=0), "0 resamples"),
        (lambda: bootstrap_interval([0.1, 0.2], level=1.0), "level is 1.0"),
        (lambda: bootstrap_interval([0.1, 0.2], seed=-1), "seed is -1"),
        (lambda: paired_bootstrap_interval([0.1, 0.2], [0.1]), "2 values for the system and 1 for the baseline"),
        (lambda: permutation_test([], []), "0 queries"),
        (lambda: permutation_test([0.1], [0.1], draws=0), "0 draws"),
        (lambda: permutation_test([0.1], [math.nan]), "the baseline: the value of query 1 is nan"),
        (lambda: permutation_tests(np.zeros((2, 2)), np.zeros((2, 3))), "expected the same shape"),
    ],
)
def test_bad_input_is_told(call: Callable[[], object], cause: str) -> None:
    with pytest.raises(InputError, match=cause):
        call()
