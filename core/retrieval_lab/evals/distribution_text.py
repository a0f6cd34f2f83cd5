"""The bootstrap distribution of a mean difference as text, with its interval and where 0 lies."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence

import numpy as np

from retrieval_lab.evals.resampling import Interval, Values, as_vector, bootstrap_interval, bootstrap_means, mean_of
from retrieval_lab.wording import signed

_MOST_BINS = 20
_LEAST_BAR = 10
_STEPS = (1, 2, 2.5, 5, 10)


def distribution_lines(differences: Values, width: int) -> Iterator[str]:
    """The histogram of the resampled means of the differences, a line for each step of the scale, from low to high.

    The bars of what lies in the 95% interval are full, those outside are shaded; the ends of the interval, the mean
    difference and 0 are marked. Lines have at most `width` cells where that leaves room for a bar. Raises InputError
    for no difference or one that is not a finite number.
    """
    means = bootstrap_means(differences)
    interval = bootstrap_interval(differences)
    if interval is None or means.min() == means.max():
        what = "one query differs" if interval is None else "all queries differ"
        yield f"no distribution: {what} by {signed(float(means[0]))}"
        return
    edges = _edges(min(means.min(), 0.0), max(means.max(), 0.0))
    step = edges[1] - edges[0]
    digits = max(3, math.ceil(-math.log10(step)) + 1)
    counts = np.histogram(means, edges)[0].tolist()
    labels = [f"{low + 0.0:+.{digits}f}" for low in edges]
    marks = _marks(edges, interval, mean_of(as_vector(differences, "differences")), digits)
    label_width = len(labels[0])
    room = max(_LEAST_BAR, width - 2 * label_width - len("… 1234  ") - max(map(len, marks)))
    for number, count in enumerate(counts):
        if abs(edges[number]) < step / 2:
            yield f"{'0':>{label_width}} {'─' * (width - label_width - 1)}"
        inside = edges[number + 1] > interval.low and edges[number] <= interval.high
        bar = ("█" if inside else "░") * max(round(count / max(counts) * room), 1 if count else 0)
        yield f"{labels[number]}…{labels[number + 1]} {count:>4} {bar} {marks[number]}".rstrip()


def _edges(low: float, high: float) -> list[float]:
    """Borders of some 20 steps at most of a round size, of which 0 is one, around both ends."""
    rough = (high - low) / _MOST_BINS
    power: float = 10.0 ** math.floor(math.log10(rough))
    step = power * next(one for one in _STEPS if one * power >= rough * (1 - 1e-9))
    return [number * step for number in range(math.floor(low / step), math.floor(high / step) + 2)]


def _marks(edges: Sequence[float], interval: Interval, mean: float, digits: int) -> list[str]:
    """What stands beside each bar."""
    found: list[list[str]] = [[] for _ in edges[1:]]
    for name, value in (("2.5%", interval.low), ("mean", mean), ("97.5%", interval.high)):
        place = min(max(bisect_right(edges, value) - 1, 0), len(found) - 1)
        found[place].append(f"{name} {value:+.{digits}f}")
    return [f"◂ {', '.join(names)}" if names else "" for names in found]
