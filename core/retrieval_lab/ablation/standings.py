"""Where the configurations of an ablation stand on one measure: each with its interval, and against the best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from retrieval_lab.ablation.cell import Cell
from retrieval_lab.config import PipelineConfig
from retrieval_lab.evals import runs
from retrieval_lab.evals.resampling import TIE, Array, Interval, bootstrap_intervals, mean_of
from retrieval_lab.evals.splits import DEV, HELD_OUT, parted
from retrieval_lab.evals.summary import Estimate, Latency, latency

ALL = "all"
SPLITS = (ALL, DEV, HELD_OUT)
"""What a standing can be over: every query, or those of one part."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Entry:
    """What a cell comes to, without its lists: many of these fit into memory.

    `values` has each measure's values by the ids of the queries that have a relevant chunk. `splits` is the part of
    each query: that of its label (a `test` split is held out), and where no label states one (`dealt`), what
    `splits.stratified` deals.
    """

    key: str
    name: str
    config: PipelineConfig
    values: Mapping[str, Mapping[str, float]]
    splits: Mapping[str, str]
    dealt: bool
    latency: Latency
    index_seconds: float | None


@dataclass(frozen=True, slots=True)
class Standing:
    """A configuration on one measure: its mean, and `difference`, its mean minus the best one's.

    The interval of the difference is paired by query; both intervals are None over one query.
    """

    estimate: Estimate
    difference: float
    difference_interval: Interval | None


@dataclass(frozen=True, slots=True)
class Standings:
    """The standing of each entry by its key, without those that do not have the measure, over so many `queries`.

    `best` is the key of the entry with the highest mean, of equals the first; None where nothing counts.
    """

    queries: int
    by_key: Mapping[str, Standing]
    best: str | None


def entry(key: str, cell: Cell) -> Entry:
    """What the cell of this key comes to."""
    counted = cell.run.defined
    splits, dealt = parted(cell.run.queries)
    names = dict.fromkeys(name for record in counted for name in record.measures)
    return Entry(
        key=key,
        name=cell.name,
        config=cell.config,
        values={name: {one.query_id: one.measures[name] for one in counted if name in one.measures} for name in names},
        splits={one: HELD_OUT if split in runs.HELD_OUT else split for one, split in splits.items()},
        dealt=dealt,
        latency=latency(cell.run),
        index_seconds=cell.index_seconds,
    )


def measures_of(entries: Sequence[Entry]) -> tuple[str, ...]:
    """The measures that any of the entries has, each once."""
    return tuple(dict.fromkeys(name for one in entries for name in one.values))


def standings(entries: Sequence[Entry], measure: str, split: str) -> Standings:
    """Where the entries stand, over the queries of a part that have a relevant chunk in all that have the measure.

    So all are measured on the same queries, and each difference is paired. Intervals are those of `resampling`.
    """
    having = [one for one in entries if measure in one.values]
    query_ids = _counted(having, measure, split)
    if not query_ids:
        return Standings(0, {}, None)
    values = np.array([[one.values[measure][query_id] for one in having] for query_id in query_ids])
    means = [mean_of(values[:, column]) for column in range(len(having))]
    best = next(place for place, mean in enumerate(means) if mean >= max(means) - TIE)
    differences = values - values[:, [best]]
    found = _intervals(np.concatenate([values, differences], axis=1))
    return Standings(
        len(query_ids),
        {
            one.key: Standing(
                Estimate(means[place], found[place]),
                mean_of(differences[:, place]),
                found[len(having) + place],
            )
            for place, one in enumerate(having)
        },
        having[best].key,
    )


def pareto_front(points: Sequence[tuple[float, float]]) -> tuple[int, ...]:
    """The places of the points (cost, quality) that no other one beats, in their order.

    One beats another when it costs no more and is no worse, and is better in one of the two; means closer than 1e-12
    are equal.
    """
    return tuple(place for place, point in enumerate(points) if not any(_beats(other, point) for other in points))


def _beats(one: tuple[float, float], other: tuple[float, float]) -> bool:
    cheaper, better = one[0] < other[0], one[1] > other[1] + TIE
    return (cheaper or better) and one[0] <= other[0] and one[1] >= other[1] - TIE


def _counted(having: Sequence[Entry], measure: str, split: str) -> list[str]:
    """The ids, in the order of the first entry; all have the same splits, since they were asked the same queries."""
    if not having:
        return []
    first, *others = having
    return [
        query_id
        for query_id in first.values[measure]
        if split in (ALL, first.splits[query_id]) and all(query_id in one.values[measure] for one in others)
    ]


def _intervals(values: Array) -> Sequence[Interval | None]:
    return bootstrap_intervals(values) or [None] * values.shape[1]
