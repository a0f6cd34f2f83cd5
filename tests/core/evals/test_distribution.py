"""The distribution of a difference as text, read back from the lines."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval_lab.errors import InputError
from retrieval_lab.evals.distribution_text import distribution_lines
from retrieval_lab.evals.resampling import RESAMPLES, bootstrap_interval, bootstrap_means

DIFFERENCES = st.lists(st.floats(-1, 1).map(lambda value: round(value, 4)), min_size=2, max_size=20)


def bars(lines: list[str]) -> list[tuple[float, float, int, str]]:
    """Low end, high end, count and bar of each line of the histogram."""
    found = []
    for line in lines:
        if "…" in line:
            ends, count, *rest = line.split()
            low, high = map(float, ends.split("…"))
            found.append((low, high, int(count), rest[0] if rest and rest[0][0] in "█░" else ""))
    return found


def test_the_interval_is_made_of_the_distribution() -> None:
    values = np.random.default_rng(1).normal(0.1, 0.2, 30)
    interval = bootstrap_interval(values)
    assert interval is not None
    low, high = np.quantile(bootstrap_means(values), [0.025, 0.975])
    assert (interval.low, interval.high) == (low, high)
    with pytest.raises(InputError, match="0 values"):
        bootstrap_means([])


@given(DIFFERENCES, st.integers(60, 120))
def test_every_resample_stands_in_one_bar_and_0_on_a_border(differences: list[float], width: int) -> None:
    lines = list(distribution_lines(differences, width))
    means = bootstrap_means(differences)
    if means.min() == means.max():
        assert len(lines) == 1
        assert lines[0].startswith("no distribution: all queries differ by")
        return
    found = bars(lines)
    assert sum(count for _, _, count, _ in found) == RESAMPLES
    assert 1 <= len(found) <= 25
    assert all(one[1] == two[0] for one, two in pairwise(found))
    assert all(bool(bar) == bool(count) for _, _, count, bar in found)
    [zero] = [number for number, line in enumerate(lines) if line.lstrip().startswith("0 ─")]
    assert zero == 0 or bars(lines[zero - 1 : zero])[0][1] == 0
    assert bars(lines[zero + 1 : zero + 2])[0][0] == 0
    assert max(map(len, lines)) <= width
    assert "".join(lines).count("2.5%") == 1
    assert "".join(lines).count("97.5%") == 1


def test_bars_grow_with_the_count_and_are_shaded_outside_of_the_interval() -> None:
    values = np.random.default_rng(2).normal(0.05, 0.3, 100)
    interval = bootstrap_interval(values)
    assert interval is not None
    found = bars(list(distribution_lines(values, 100)))
    most = max(count for _, _, count, _ in found)
    longest = max(len(bar) for *_, bar in found)
    for low, high, count, bar in found:
        if count:
            assert abs(len(bar) - max(1, count / most * longest)) <= 1
            inside = high > interval.low and low <= interval.high
            assert set(bar) == {"█" if inside else "░"}


def test_small_differences_get_digits_enough() -> None:
    found = bars(list(distribution_lines(np.random.default_rng(3).normal(2e-4, 4e-4, 50), 100)))
    assert len({low for low, *_ in found}) == len(found)


@pytest.mark.parametrize(
    ("differences", "line"),
    [([0.25], "one query differs by +0.250"), ([0, 0, 0], "all queries differ by +0.000")],
)
def test_where_there_is_no_distribution(differences: list[float], line: str) -> None:
    assert list(distribution_lines(differences, 80)) == [f"no distribution: {line}"]


def test_what_is_no_difference() -> None:
    with pytest.raises(InputError, match="0 values"):
        list(distribution_lines([], 80))
    with pytest.raises(InputError, match="finite"):
        list(distribution_lines([math.nan, 1.0], 80))
