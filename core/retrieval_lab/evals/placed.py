"""Where the labelled ids stand in ranked lists, which is all that measures have to know of the lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def listed_grades(ranked: Sequence[Sequence[str]], labels: Sequence[Mapping[str, int]]) -> tuple[Array, Array]:
    """The grades at each place (queries x longest list, 1 at least; nan without a label), and the lists' lengths.

    Lists have the best id first; one that stands twice has its grade at its first place.
    """
    rows: list[int] = []
    places: list[int] = []
    found: list[int] = []
    for row, (ids, graded) in enumerate(zip(ranked, labels, strict=True)):
        first: dict[str, int] = {}
        for place in [place for place, key in enumerate(ids) if key in graded]:
            first.setdefault(ids[place], place)
        rows += [row] * len(first)
        places += first.values()
        found += [graded[key] for key in first]
    sizes = np.fromiter(map(len, ranked), np.float64, len(ranked))
    grades = np.full((len(ranked), max(1, int(sizes.max(initial=0)))), np.nan)
    grades[rows, places] = found
    return grades, sizes


def scored_grades(
    max_results: int | None, results: Sequence[Mapping[str, float]], labels: Sequence[Mapping[str, int]]
) -> tuple[Array, Array]:
    """What `listed_grades` gives for the lists that the scores make, both cut at `max_results`, if that is a number.

    Ids are ordered by score, those of one score by id from the last.
    """
    sizes = np.fromiter(map(len, results), np.intp, len(results))
    both = [graded.keys() & scores.keys() for scores, graded in zip(results, labels, strict=True)]
    rows = np.repeat(np.arange(len(results)), np.fromiter(map(len, both), np.intp, len(both)))
    pairs = zip(results, both, strict=True)
    scores = np.fromiter((scores[key] for scores, keys in pairs for key in keys), np.float64, len(rows))
    found = [graded[key] for graded, keys in zip(labels, both, strict=True) for key in keys]
    ordered = np.full((len(results), max(1, sizes.max(initial=0))), np.inf)
    values = chain.from_iterable(one.values() for one in results)
    ordered[np.arange(ordered.shape[1]) < sizes[:, None]] = -np.fromiter(values, np.float64, int(sizes.sum()))
    ordered.sort(axis=1)
    places = _places(ordered, rows, -scores)
    following = ordered[rows, np.minimum(places + 1, ordered.shape[1] - 1)]
    tied = np.flatnonzero((following == -scores) & (places + 1 < sizes[rows]))
    if len(tied):
        keys = [key for of_one in both for key in of_one]
        for number in tied.tolist():
            places[number] += _later_ids(results[rows[number]], keys[number])
    width = ordered.shape[1] if max_results is None else max(1, min(max_results, ordered.shape[1]))
    grades = np.full((len(results), width), np.nan)
    kept = places < width
    grades[rows[kept], places[kept]] = np.array(found, dtype=np.float64)[kept]
    return grades, np.minimum(sizes, width).astype(np.float64)


def _places(ordered: Array, rows: NDArray[np.intp], values: Array) -> NDArray[np.intp]:
    """How many values of its row, which rise, lie below each value, by bisection of all at once."""
    low = np.zeros(len(rows), dtype=np.intp)
    high = np.full(len(rows), ordered.shape[1], dtype=np.intp)
    for _ in range(ordered.shape[1].bit_length()):
        middle = np.minimum((low + high) // 2, ordered.shape[1] - 1)
        below = (ordered[rows, middle] < values) & (low < high)
        low, high = np.where(below, middle + 1, low), np.where(below, high, middle)
    return low


def _later_ids(scores: Mapping[str, float], key: str) -> int:
    """How many of the ids with the same score come behind this one in order, and so before it in the list."""
    score = scores[key]
    return sum(other > key for other, value in scores.items() if value == score)
