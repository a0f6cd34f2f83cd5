"""The means of a run, each with its interval: for all queries and by kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from retrieval_lab.evals.proportions import Share
from retrieval_lab.evals.records import QueryRecord
from retrieval_lab.evals.resampling import Interval, bootstrap_intervals, mean_of
from retrieval_lab.evals.runs import Run
from retrieval_lab.evals.slices import KIND, NO_COVERAGE, Coverage, coverage, slices


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over queries with its 95% interval, None for one query."""

    value: float
    interval: Interval | None

    def to_dict(self) -> dict[str, Any]:
        """The estimate as JSON has it."""
        return {"value": self.value, "interval": None if self.interval is None else asdict(self.interval)}


@dataclass(frozen=True, slots=True)
class Group:
    """The estimates over some queries by measure, in the order of `measure_names`; empty where no query counts."""

    queries: int
    measures: Mapping[str, Estimate]

    def to_dict(self) -> dict[str, Any]:
        """The group as JSON has it."""
        return {
            "queries": self.queries,
            "measures": {name: estimate.to_dict() for name, estimate in self.measures.items()},
        }


@dataclass(frozen=True, slots=True)
class Latency:
    """What a query takes in seconds: the median, and what 95% of the queries stay within."""

    median: float
    p95: float


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """What the queries that nothing answers come to.

    `confident` are the ids of those whose best passage supports them by `floor` or more (module `support`), so that a
    wrong answer would be given; `share` is how many of all they are.
    """

    floor: float
    confident: tuple[str, ...]
    share: Share

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON has it."""
        return {"floor": self.floor, **self.share.to_dict(), "query_ids": list(self.confident)}


@dataclass(frozen=True, slots=True)
class Summary:
    """What a run comes to. `undefined` says for each query whose label finds nothing why, by its id.

    No mean counts these, nor the queries of `no_answer`, which is None where there are none.
    """

    all: Group
    by_kind: Mapping[str, Group]
    undefined: Mapping[str, str]
    latency: Latency
    no_answer: NoAnswer | None = None
    coverage: Coverage = NO_COVERAGE

    def to_dict(self) -> dict[str, Any]:
        """The summary as JSON has it."""
        return {
            "all": self.all.to_dict(),
            "by_kind": {kind: group.to_dict() for kind, group in self.by_kind.items()},
            "undefined": dict(self.undefined),
            "latency": asdict(self.latency),
            "no_answer": None if self.no_answer is None else self.no_answer.to_dict(),
            "coverage": self.coverage.to_dict(),
        }


def summarise(run: Run) -> Summary:
    """The means of a run with their percentile bootstrap intervals over queries, all and by kind, kinds sorted.

    A query without a relevant chunk counts in no mean and is named in `undefined`.
    """
    return Summary(
        all=group_of(run.defined),
        by_kind=_sliced(run, KIND),
        undefined={record.query_id: record.undefined or "" for record in run.queries if record.is_unlabelled},
        latency=latency(run),
        no_answer=_no_answer(run),
        coverage=coverage(run.queries),
    )


def sliced(run: Run, summary: Summary, field: str) -> Mapping[str, Group]:
    """The means over the queries of each value of a label field, as `slices.slices` parts them.

    `summary` is that of the run, which has those of the kinds already.
    """
    return summary.by_kind if field == KIND else _sliced(run, field)


def _sliced(run: Run, field: str) -> dict[str, Group]:
    return {
        value: group_of([record for record in records if record.measures])
        for value, records in slices(run, field).items()
    }


def _no_answer(run: Run) -> NoAnswer | None:
    floor = run.config.support_floor
    asked = [record for record in run.queries if record.level == "none"]
    confident = tuple(one.query_id for one in asked if one.support is not None and one.support >= floor)
    return NoAnswer(floor, confident, Share(len(confident), len(asked))) if asked else None


def latency(run: Run) -> Latency:
    """The latency of a run's queries without the first, which connects, loads models and warms the server's cache.

    A first query that is the only one counts. The 95th percentile is interpolated linearly. 0 for a run of no query.
    """
    seconds = [record.seconds for record in run.queries]
    counted = seconds[1:] or seconds or [0.0]
    median, p95 = np.quantile(counted, [0.5, 0.95]).tolist()
    return Latency(median, p95)


def table(records: Sequence[QueryRecord], names: Sequence[str]) -> dict[str, list[float]]:
    """The values of each measure, one a record."""
    return {name: [record.measures[name] for record in records] for name in names}


def group_of(records: Sequence[QueryRecord]) -> Group:
    """The means of records that all have measures, of one run, with their percentile bootstrap intervals."""
    if not records:
        return Group(0, {})
    columns = table(records, list(records[0].measures))
    values = np.array(list(columns.values())).T
    intervals = bootstrap_intervals(values) or [None] * len(columns)
    means = [mean_of(values[:, column]) for column in range(len(columns))]
    estimates = (Estimate(mean, interval) for mean, interval in zip(means, intervals, strict=True))
    return Group(len(records), dict(zip(columns, estimates, strict=True)))
