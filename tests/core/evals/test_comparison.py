"""Comparisons of two systems, Holm, counts, power and carriers by hand, by simulation and by law."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval_lab.errors import InputError
from retrieval_lab.evals.comparison import (
    Carrier,
    Comparison,
    WinTieLoss,
    carriers,
    compare,
    compare_measures,
    corrected,
    detectable_difference,
    holm,
    win_tie_loss,
)
from retrieval_lab.evals.resampling import bootstrap_interval, paired_bootstrap_interval, permutation_test

MEASURE = st.sampled_from([0.0, 0.1, 1 / 3, 0.5, 0.7, 1.0])
PAIRS = st.lists(st.tuples(MEASURE, MEASURE), min_size=1, max_size=30)


# --- differences ---------------------------------------------------------------------------------------------------


@given(PAIRS, st.integers(0, 5))
@settings(max_examples=30)
def test_swapping_the_systems_negates_the_difference_and_leaves_p(pairs: list[tuple[float, float]], seed: int) -> None:
    system, baseline = map(list, zip(*pairs, strict=True))
    ids = [str(i) for i in range(len(pairs))]
    there, back = compare(system, baseline, ids, seed=seed), compare(baseline, system, ids, seed=seed)
    assert back.difference == -there.difference
    assert back.p == there.p
    assert back.detectable == there.detectable
    assert (back.counts.wins, back.counts.losses) == (there.counts.losses, there.counts.wins)
    assert [(one.query_id, -one.difference) for one in back.carriers] == [
        (one.query_id, one.difference) for one in there.carriers
    ]
    if there.difference_interval and back.difference_interval:
        assert back.difference_interval.low == pytest.approx(-there.difference_interval.high, abs=1e-12)
        assert back.difference_interval.high == pytest.approx(-there.difference_interval.low, abs=1e-12)


def test_a_paired_interval_is_narrower_than_the_two_alone() -> None:
    rng = np.random.default_rng(4)
    hard = rng.random(60)
    found = compare(np.clip(hard + 0.05 + rng.normal(0, 0.02, 60), 0, 1), hard, [str(i) for i in range(60)])
    assert found.difference_interval is not None
    assert found.system_interval is not None
    assert found.difference_interval.low > 0
    width = found.system_interval.high - found.system_interval.low
    assert found.difference_interval.high - found.difference_interval.low < width / 4


# --- scipy ---------------------------------------------------------------------------------------------------------


def test_scipy_agrees_on_power() -> None:
    stats = pytest.importorskip("scipy.stats")
    differences = np.random.default_rng(10).normal(0, 0.2, 100)
    effect = detectable_difference(differences, power=0.8)
    assert effect is not None
    scaled = effect / differences.std(ddof=1) * 10
    critical = stats.t.ppf(0.975, 99)
    power = stats.nct.sf(critical, 99, scaled) + stats.nct.cdf(-critical, 99, scaled)
    assert power == pytest.approx(0.8, abs=0.01)


# --- Holm, counts, power, carriers ---------------------------------------------------------------------------------


def test_holm_by_hand() -> None:
    assert holm([]) == []
    assert holm([0.03]) == [0.03]
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([3 * 0.01, 2 * 0.03, 2 * 0.03, 4 * 0.005])
    assert holm([0.5, 0.6, 1.0]) == [1, 1, 1]
    assert holm([0.02, 0.02]) == [0.04, 0.04]


@given(st.lists(st.floats(0, 1), max_size=12), st.randoms())
def test_holm_keeps_the_order_and_depends_on_none(p_values: list[float], random: Any) -> None:
    corrected = holm(p_values)
    assert all(raw <= mended <= min(1, raw * len(p_values)) for raw, mended in zip(p_values, corrected, strict=True))
    shuffled = list(enumerate(p_values))
    random.shuffle(shuffled)
    again = holm([p for _, p in shuffled])
    assert [again[[i for i, _ in shuffled].index(i)] for i in range(len(p_values))] == corrected


def test_counts() -> None:
    assert win_tie_loss([0.5, 0.1 + 0.2, 0.0, 1.0], [0.4, 0.3, 0.1, 0.0]) == WinTieLoss(2, 1, 1)
    assert win_tie_loss([], []) == WinTieLoss(0, 0, 0)


def test_the_detectable_difference_by_hand() -> None:
    # The deviation of -1, 0, 1 is 1; 1.959964 and 0.841621 are the normal quantiles of 0.975 and 0.8.
    assert detectable_difference([-1, 0, 1]) == pytest.approx((1.959964 + 0.841621) * 1 / math.sqrt(3), abs=1e-5)
    assert detectable_difference([0.2, 0.2, 0.2]) == pytest.approx(0, abs=1e-15)
    assert detectable_difference([0.2]) is None
    more = detectable_difference([-1, 0, 1], power=0.95)
    assert more is not None
    assert more > (1.959964 + 0.841621) / math.sqrt(3)


def test_a_difference_of_the_detectable_size_is_found_in_four_of_five() -> None:
    rng = np.random.default_rng(11)
    effect = (1.959964 + 0.841621) * 1 / math.sqrt(50)
    found = [permutation_test(rng.normal(effect, 1, 50), np.zeros(50), draws=499) <= 0.05 for _ in range(400)]
    assert np.mean(found) == pytest.approx(0.8, abs=0.06)


def test_carriers_point_where_the_mean_does() -> None:
    system, baseline = [0.9, 0.5, 0.2, 0.7, 0.0], [0.1, 0.4, 0.2, 0.1, 0.5]
    found = carriers(system, baseline, list("abcde"))
    assert [one.query_id for one in found] == ["a", "d", "b"]
    assert found[1] == Carrier("d", 0.7 - 0.1)
    assert [one.query_id for one in carriers(system, baseline, list("abcde"), n=1)] == ["a"]
    lost = carriers([0.0, 0.0, 0.3], [0.5, 0.9, 0.1], list("abc"))
    assert lost == (Carrier("b", -0.9), Carrier("a", -0.5))


def test_carriers_of_nothing_and_of_equals() -> None:
    assert carriers([0.1, 0.2], [0.1, 0.2], ["a", "b"]) == ()
    assert [one.query_id for one in carriers([1, 0, 1, 1], [0, 0, 0, 0], list("dcba"), n=2)] == ["d", "b"]
    many = [f"q{i}" for i in range(100)]
    assert [one.query_id for one in carriers([i % 2 for i in range(100)], [0] * 100, many)] == ["q1", "q3", "q5"]
    assert carriers([1.0, 0.0], [0.0, 1.0], ["a", "b"]) == (Carrier("a", 1), Carrier("b", -1))


# --- matrices, memory, processes -----------------------------------------------------------------------------------


def test_compare_holds_what_the_parts_give() -> None:
    rng = np.random.default_rng(12)
    system, baseline, ids = rng.random(40), rng.random(40), [f"q{i}" for i in range(40)]
    found = compare(system, baseline, ids, seed=3)
    assert found == Comparison(
        queries=40,
        system=pytest.approx(system.mean()),
        baseline=pytest.approx(baseline.mean()),
        difference=pytest.approx((system - baseline).mean()),
        system_interval=bootstrap_interval(system, seed=3),
        baseline_interval=bootstrap_interval(baseline, seed=3),
        difference_interval=paired_bootstrap_interval(system, baseline, seed=3),
        p=permutation_test(system, baseline, seed=3),
        counts=win_tie_loss(system, baseline),
        detectable=detectable_difference(system - baseline),
        carriers=carriers(system, baseline, ids),
    )
    assert compare_measures({"a": baseline, "b": system}, {"b": baseline, "a": system}, ids, seed=3)["b"] == found
    assert compare_measures({}, {}, ids) == {}
    with pytest.raises(FrozenInstanceError):
        found.p = 0.0  # type: ignore[misc]


def test_one_query_is_compared_without_intervals() -> None:
    found = compare([0.5], [0.25], ["q"])
    assert (found.difference, found.p, found.carriers) == (0.25, 1, (Carrier("q", 0.25),))
    assert {found.system_interval, found.baseline_interval, found.difference_interval, found.detectable} == {None}


def test_the_same_in_every_process() -> None:
    script = (
        "import numpy as np; from retrieval_lab.evals.comparison import compare\n"
        "s, b = np.random.Generator(np.random.PCG64(5)).random((2, 333))\n"
        "print(repr(compare(s, b, [str(i) for i in range(333)], seed=7)))"
    )

    def told(**variables: str) -> str:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **variables}
        run = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
        )
        return run.stdout.strip()

    system, baseline = np.random.Generator(np.random.PCG64(5)).random((2, 333))
    here = repr(compare(system, baseline, [str(i) for i in range(333)], seed=7))
    assert told(PYTHONHASHSEED="1", OPENBLAS_NUM_THREADS="1") == told(PYTHONHASHSEED="2") == here
    assert repr(compare(system, baseline, [str(i) for i in range(333)], seed=8)) != here


def test_no_scipy_at_run_time() -> None:
    script = "import sys; sys.modules['scipy'] = None; from retrieval_lab.evals import comparison as s; "
    script += "s.compare([0.1, 0.2], [0.2, 0.1], ['a', 'b'])"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", script], env=environment, check=True)


# --- what cannot be used -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "cause"),
    [
        (lambda: holm([0.1, 1.5]), "p value is 1.5"),
        (lambda: holm([math.nan]), "p value is nan"),
        (lambda: win_tie_loss([0.1], []), "1 values for the system and 0"),
        (lambda: detectable_difference([0.1, 0.2], power=1.0), "power is 1.0"),
        (lambda: detectable_difference([0.1, 0.2], alpha=0.0), "alpha is 0.0"),
        (lambda: carriers([0.1], [0.2], []), "0 query ids for 1 queries"),
        (lambda: carriers([0.1], [0.2], ["a"], n=-1), "-1 queries"),
        (lambda: compare([], [], []), "0 queries"),
        (lambda: compare([0.1, 0.2], [0.1, 0.2], ["a"]), "the system: 2 values for 1 query ids"),
        (lambda: compare([0.1, 0.2], [0.1, 0.2], ["a", "a"]), "'a' stands twice"),
        (lambda: compare([0.1, math.nan], [0.1, 0.2], ["a", "b"]), "query 2 is nan"),
        (lambda: compare_measures({"mrr": [0.1]}, {"map": [0.1]}, ["a"]), "has mrr and the baseline map"),
        (
            lambda: compare_measures({"a": [1], "b": [1, 2]}, {"a": [1], "b": [1, 2]}, ["q"]),
            "the system b: 2 values for 1",
        ),
    ],
)
def test_bad_input_is_told(call: Callable[[], object], cause: str) -> None:
    with pytest.raises(InputError, match=cause):
        call()


def test_several_systems_are_corrected_measure_by_measure() -> None:
    ids = [f"q{number}" for number in range(10)]
    baseline = {"x": [0.0] * 10, "y": [0.0] * 10}
    better = compare_measures({"x": [1.0] * 10, "y": [1.0] * 10}, baseline, ids)
    mixed = compare_measures({"x": [1.0] * 6 + [0.0] * 4}, {"x": baseline["x"]}, ids)
    one, two = corrected([better, mixed])
    assert better["x"].p == 2 / 2**10
    assert mixed["x"].p == 2 / 2**6
    assert one.p == {"x": 2 * better["x"].p, "y": better["y"].p}  # only one system has y
    assert two.p == {"x": mixed["x"].p}
    assert one.to_dict()["x"]["p_holm"] == 2 * better["x"].p
    assert corrected([]) == ()
