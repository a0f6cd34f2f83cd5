"""Retrieval measures over many ranked lists at once, with graded labels.

A grade of 0 or below is not relevant and gains nothing; any other grade is its own gain. An id that stands twice in a
list counts at its first place only, the later one keeps its place. For grades 0 and 1 every value equals the one of
`retrieval_lab.metrics`, which names the sources; average precision is that of Manning, Raghavan and Schütze, chapter
8.4. All agree with trec_eval (recall, P, success, recip_rank, map, ndcg_cut).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retrieval_lab.errors import InputError

Array = NDArray[np.float64]

MAP = "map"
AT_CUT = ("recall", "precision", "hit", "mrr", "ndcg")

_BLOCK = 1024  # queries treated at once, so that memory does not grow with their number


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """Measures by query.

    `values` is (queries x measures), its columns are `names`. `defined` says which queries have a relevant label; the
    rows of the others are nan, so that no mean counts them in silence.
    """

    names: tuple[str, ...]
    values: Array
    defined: NDArray[np.bool_]

    def scored(self) -> dict[str, Array]:
        """The values of the defined queries, by measure."""
        kept = self.values[self.defined]
        return {name: kept[:, column] for column, name in enumerate(self.names)}


def measure(
    ranked: Sequence[Sequence[str]], labels: Sequence[Mapping[str, int]], *, cuts: Sequence[int] = (10,)
) -> Measured:
    """recall, precision, hit, mrr and ndcg at each cut ("recall@10") and map, for each query.

    `ranked` has a list of ids for each query, the best first, `labels` the grades of its labelled ids. Recall is over
    all relevant ids, precision over the cut however long the list is; hit is 1 when the cut list has a relevant id;
    mrr is one over the rank of the first one in it, else 0; map reads the whole list; ndcg divides by the gain of an
    ideal list of all labelled ids, cut likewise. An empty list scores 0. Raises InputError when the lengths differ or a
    cut is negative.
    """
    if len(ranked) != len(labels):
        raise InputError(f"{len(ranked)} ranked lists and labels for {len(labels)} queries; expected one for each")
    for cut in cuts:
        if cut < 0:
            raise InputError(f"k is {cut}; expected 0 or more")
    names = (*(f"{name}@{cut}" for cut in cuts for name in AT_CUT), MAP)
    discounts = [1 / math.log2(rank + 1) for rank in range(1, max([1, *cuts, *map(len, ranked)]) + 1)]
    blocks = [
        _block(ranked[start : start + _BLOCK], labels[start : start + _BLOCK], cuts, discounts)
        for start in range(0, len(ranked), _BLOCK)
    ]
    values = np.concatenate(blocks) if blocks else np.empty((0, len(names)))
    return Measured(names, values, ~np.isnan(values[:, -1]))


def _block(
    ranked: Sequence[Sequence[str]],
    labels: Sequence[Mapping[str, int]],
    cuts: Sequence[int],
    discounts: Sequence[float],
) -> Array:
    relevant = [{key: grade for key, grade in graded.items() if grade > 0} for graded in labels]
    gains = _gains(ranked, relevant)
    hits = gains > 0
    found, gained = _running(hits), _running(gains * np.array(discounts[: gains.shape[1]]))
    sizes = np.array([len(grades) for grades in relevant], dtype=np.float64)
    first = np.where(hits.any(axis=1), hits.argmax(axis=1) + 1.0, np.inf)
    ideals = [sorted(grades.values(), reverse=True) for grades in relevant]
    columns: list[Array] = []
    for cut in cuts:
        place = min(cut, gains.shape[1])
        columns += [
            _over(found[:, place], sizes),
            found[:, place] / cut if cut else np.zeros(len(gains)),
            np.where(first <= cut, 1.0, 0.0),
            np.where(first <= cut, 1 / first, 0.0),
            _over(gained[:, place], np.array(list(_ideal(ideals, cut, discounts)))),
        ]
    precisions = found[:, 1:] / np.arange(1, gains.shape[1] + 1)
    columns.append(_over((precisions * hits).sum(axis=1), sizes))
    values = np.stack(columns, axis=1)
    values[sizes == 0] = np.nan
    return values


def _gains(ranked: Sequence[Sequence[str]], relevant: Sequence[Mapping[str, int]]) -> Array:
    """The gain at each place (queries x longest list, 1 at least): the grade of a relevant id on its first, else 0."""
    rows: list[int] = []
    places: list[int] = []
    grades: list[int] = []
    for row, (ids, graded) in enumerate(zip(ranked, relevant, strict=True)):
        first: dict[str, int] = {}
        for place in [place for place, key in enumerate(ids) if key in graded]:
            first.setdefault(ids[place], place)
        rows += [row] * len(first)
        places += first.values()
        grades += [graded[key] for key in first]
    gains = np.zeros((len(ranked), max([1, *map(len, ranked)])))
    gains[rows, places] = grades
    return gains


def _running(values: NDArray[np.generic]) -> Array:
    """Sums of the first 0, 1, 2 ... columns, added one by one from the left."""
    sums = np.zeros((values.shape[0], values.shape[1] + 1))
    np.cumsum(values, axis=1, dtype=np.float64, out=sums[:, 1:])
    return sums


def _ideal(ideals: Sequence[Sequence[int]], cut: int, discounts: Sequence[float]) -> Iterator[float]:
    """The gain of each ideal list, its grades given from the highest, cut at `cut`."""
    known: dict[tuple[int, ...], float] = {}
    for grades in ideals:
        top = tuple(grades[:cut])
        if top not in known:
            known[top] = sum(grade * discount for grade, discount in zip(top, discounts, strict=False))
        yield known[top]


def _over(values: Array, totals: Array) -> Array:
    return np.divide(values, totals, out=np.zeros_like(values), where=totals > 0)
