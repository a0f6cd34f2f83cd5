"""A setting's curve: what each of its values brings on the same queries, which is best and which is in force."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from retrieval_lab.evals.resampling import TIE, Interval, bootstrap_intervals, mean_of, paired_bootstrap_interval
from retrieval_lab.evals.splits import DEV


@dataclass(frozen=True, slots=True)
class Point:
    """One value of the setting. `settings` are what makes it, by their dotted keys.

    `values` has the measure of each query, `mean` their mean and `interval` its 95% bootstrap interval, None for one
    query. The value of weights is the share of each list.
    """

    value: Any
    settings: Mapping[str, Any]
    values: tuple[float, ...]
    mean: float
    interval: Interval | None


@dataclass(frozen=True, slots=True)
class Curve:
    """Every value that was measured, in order.

    `stage` is the list that was measured, `fused` or `final`; `lists` names those whose weights were turned. `dealt`
    says that golden.yaml has no splits, so that the dev queries were dealt for the moment. `query_ids` are the ones
    that count; the `excluded` ones have no relevant chunk, or none under some value. `best` and `present` are places in
    `points`: of values with equal means, the best is the one nearest to the present.
    """

    setting: str
    measure: str
    stage: str
    lists: tuple[str, ...]
    dealt: bool
    query_ids: tuple[str, ...]
    excluded: tuple[str, ...]
    points: tuple[Point, ...]
    best: int
    present: int

    @property
    def chosen(self) -> Point:
        """The best point."""
        return self.points[self.best]

    @property
    def difference(self) -> float:
        """The best mean minus the present one."""
        return mean_of(np.subtract(self.chosen.values, self.points[self.present].values))

    @property
    def interval(self) -> Interval | None:
        """The 95% paired bootstrap interval of the difference, None for one query."""
        return paired_bootstrap_interval(self.chosen.values, self.points[self.present].values)

    def to_dict(self) -> dict[str, Any]:
        """The curve as JSON has it."""
        interval = self.interval
        return {
            "setting": self.setting,
            "measure": self.measure,
            "stage": self.stage,
            "lists": list(self.lists),
            "split": {"name": DEV, "dealt": self.dealt},
            "queries": list(self.query_ids),
            "excluded": list(self.excluded),
            "points": [_point(one) for one in self.points],
            "best": self.best,
            "present": self.present,
            "difference": {"value": self.difference, "interval": None if interval is None else asdict(interval)},
        }


def _point(one: Point) -> dict[str, Any]:
    value = list(one.value) if isinstance(one.value, tuple) else one.value
    interval = None if one.interval is None else asdict(one.interval)
    return {"value": value, "settings": dict(one.settings), "mean": one.mean, "interval": interval}


def points_of(
    values: Sequence[Any], settings: Sequence[Mapping[str, Any]], scores: Sequence[tuple[float, ...]]
) -> tuple[Point, ...]:
    """A point for each value, from the settings that make it and its measure of each query."""
    intervals = bootstrap_intervals(np.array(scores).T) or [None] * len(scores)
    return tuple(
        Point(value, some, one, mean_of(np.array(one)), interval)
        for value, some, one, interval in zip(values, settings, scores, intervals, strict=True)
    )


def best_of(points: Sequence[Point], apart: Sequence[float]) -> int:
    """The place of the highest mean; of equal ones that nearest to the present, of equally near ones the first."""
    highest = max(point.mean for point in points)
    return min(
        (place for place, point in enumerate(points) if point.mean >= highest - TIE),
        key=lambda place: (round(apart[place], 9), place),
    )
