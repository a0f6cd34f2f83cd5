"""Scoring TREC runs as trec_eval does: its names, its defaults, its rules for queries that one side lacks.

Here a query whose labels hold nothing relevant scores 0 and counts in the means, as in trec_eval; in the lab such a
query is undefined and left out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from retrieval_lab.errors import InputError
from retrieval_lab.evals.measures import FAMILIES, RECALL_LEVELS, Array, measure_scored
from retrieval_lab.evals.resampling import Interval, bootstrap_intervals, mean_of
from retrieval_lab.trec import Qrels, TrecRun

NUM_Q = "num_q"
GM_MAP = "gm_map"
LEAST_AP = 1e-5
"""What an average precision below it counts as in the geometric mean, which one 0 would make 0."""

_CUTS = (5, 10, 15, 20, 30, 100, 200, 500, 1000)


@dataclass(frozen=True, slots=True)
class _Name:
    """A family of ours, and the cuts that it gets where none is named; none for a measure without a cut.

    `mark` stands before the cut.
    """

    ours: str
    cuts: Sequence[float] = ()
    mark: str = "_"

    @property
    def levels(self) -> bool:
        """Whether the cuts are recalls."""
        return FAMILIES[self.ours].levels


# Every name of trec_eval's that we have, then ours for what it has not. The first is the number of lists, whatever is
# counted in them, and the geometric mean is that of map.
NAMES: Mapping[str, _Name] = {
    NUM_Q: _Name("num_ret"),
    "num_ret": _Name("num_ret"),
    "num_rel": _Name("num_rel"),
    "num_rel_ret": _Name("num_rel_ret"),
    "map": _Name("map"),
    GM_MAP: _Name("map"),
    "Rprec": _Name("rprec"),
    "bpref": _Name("bpref"),
    "recip_rank": _Name("mrr"),
    "iprec_at_recall": _Name("iprec", RECALL_LEVELS),
    "P": _Name("precision", _CUTS),
    "recall": _Name("recall", _CUTS),
    "11pt_avg": _Name("11pt_avg"),
    "ndcg": _Name("ndcg"),
    "ndcg_cut": _Name("ndcg", _CUTS),
    "map_cut": _Name("map", _CUTS),
    "relative_P": _Name("relative_precision", _CUTS),
    "success": _Name("hit", (1, 5, 10)),
    "set_P": _Name("set_precision"),
    "set_relative_P": _Name("set_relative_precision"),
    "set_recall": _Name("recall"),
    "set_map": _Name("set_map"),
    "set_F": _Name("set_f"),
    "num_nonrel_judged_ret": _Name("num_nonrel_judged_ret"),
    "unj": _Name("unjudged", (5, 10, 20)),
    "mrr": _Name("mrr", (10,), "@"),
    "judged": _Name("judged", (10,), "@"),
}
OFFICIAL = (
    NUM_Q,
    "num_ret",
    "num_rel",
    "num_rel_ret",
    "map",
    GM_MAP,
    "Rprec",
    "bpref",
    "recip_rank",
    "iprec_at_recall",
    "P",
)
"""What trec_eval reports when no measure is named."""

_CUT = re.compile(r"(?P<stem>[A-Za-z_0-9]*?[A-Za-z])[_.@](?P<cut>[0-9]*\.?[0-9]+)")


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """A run's measures under trec_eval's names.

    `values` is (queries x `names`), `query_ids` says whose each row is. `means` is over all queries and also holds the
    measures that only exist there; counts are sums, as int.
    """

    tag: str
    query_ids: tuple[str, ...]
    names: tuple[str, ...]
    values: Array
    means: Mapping[str, float | int]

    def column(self, name: str) -> Array:
        """The values of a measure, one a query. Raises ValueError for one that is not there by query."""
        return self.values[:, self.names.index(name)]

    def per_query(self) -> dict[str, dict[str, float | int]]:
        """The measures by query id; counts are int."""
        return {
            query: {name: _number(name, value) for name, value in zip(self.names, row, strict=True)}
            for query, row in zip(self.query_ids, self.values.tolist(), strict=True)
        }

    def intervals(self) -> dict[str, Interval | None]:
        """The 95% percentile bootstrap interval of each mean over queries, None for one query; counts have none."""
        names = [name for name in self.names if not is_count(name)]
        columns = np.stack([self.column(name) for name in names], axis=1) if names else np.empty((0, 0))
        found = bootstrap_intervals(columns) if names else None
        return dict(zip(names, found or [None] * len(names), strict=True))

    def to_dict(self) -> dict[str, Any]:
        """The scores as JSON has them; no number is rounded."""
        return {"mean": dict(self.means), "per_query": self.per_query()}


def score(
    qrels: Qrels,
    run: TrecRun,
    measures: Sequence[str] = OFFICIAL,
    *,
    all_queries: bool = False,
    level: int = 1,
    max_results: int | None = None,
) -> Scores:
    """The measures of a run, for the queries that it and the labels have, or with `all_queries` that the labels have.

    `measures` are trec_eval's names, such as `map` or `ndcg_cut_10`; one without its cut stands for all its usual cuts.
    `level` is the lowest grade that is relevant, `max_results` how many results of each query count. These are
    trec_eval's -c, -l and -M. Results are ordered by score, then by document id from the last. A query that is not in
    the run scores 0. Queries stand in the order of the labels.

    Raises InputError for an unknown measure, numbers below 1, and when no query has both results and labels.
    """
    wanted = dict(pair for one in measures for pair in named(one))
    queries = [query for query in qrels.grades if all_queries or query in run.scores]
    if not queries:
        raise InputError(f"no query of the run {run.tag!r} has labels; are both of the same queries?")
    measured = measure_scored(
        [run.scores.get(query, {}) for query in queries],
        [qrels.grades[query] for query in queries],
        list(wanted.values()),
        level=level,
        all_defined=True,
        max_results=max_results,
    )
    columns = dict(zip(wanted, measured.values.T, strict=True))
    by_query = [name for name in wanted if name not in (NUM_Q, GM_MAP)]
    values = np.stack([columns[name] for name in by_query], axis=1) if by_query else np.empty((len(queries), 0))
    means = {name: _overall(name, column) for name, column in columns.items()}
    return Scores(run.tag, tuple(queries), tuple(by_query), values, means)


def geometric_mean(average_precisions: Array) -> float:
    """The geometric mean of average precisions, each at least LEAST_AP; Robertson, "On GMAP" (CIKM 2006)."""
    return math.exp(mean_of(np.log(np.maximum(average_precisions, LEAST_AP))))


# --- names ---------------------------------------------------------------------------------------------------------


def named(measure: str) -> Iterator[tuple[str, str]]:
    """The full names that a name stands for, itself or with each usual cut, each with what `measures` calls it.

    Raises InputError for an unknown name or a cut that cannot be.
    """
    name = NAMES.get(measure)
    if name is not None:
        yield from (_cut_at(measure, name, cut) for cut in name.cuts) if name.cuts else [(measure, name.ours)]
        return
    match = _CUT.fullmatch(measure)
    name = NAMES.get(match["stem"]) if match else None
    if match is None or name is None or not name.cuts:
        raise InputError(f"the measure {measure!r} is unknown; the measures are {', '.join(families())}")
    cut = float(match["cut"])
    if cut > 1 if name.levels else cut < 1 or not cut.is_integer():
        raise InputError(
            f"the cut of {measure!r} is {match['cut']}; expected {'0 to 1' if name.levels else 'a whole number from 1'}"
        )
    yield _cut_at(match["stem"], name, cut)


def _cut_at(stem: str, name: _Name, cut: float) -> tuple[str, str]:
    shown = f"{cut:.2f}" if name.levels else f"{cut:.0f}"
    return f"{stem}{name.mark}{shown}", f"{name.ours}@{cut if name.levels else shown}"


def families() -> Iterator[str]:
    """The names of all measures, with K for a cut or R for a recall where they have one."""
    for stem, name in NAMES.items():
        yield f"{stem}{name.mark}{'R' if name.levels else 'K'}" if name.cuts else stem


def is_count(name: str) -> bool:
    """Whether the measure counts, so that the value over all queries is the sum."""
    return name in NAMES and FAMILIES[NAMES[name].ours].is_count


def _number(name: str, value: float) -> float | int:
    return int(value) if is_count(name) else value


def _overall(name: str, values: Array) -> float | int:
    if name == NUM_Q:
        return len(values)
    if name == GM_MAP:
        return geometric_mean(values)
    return int(values.sum()) if is_count(name) else mean_of(values)
