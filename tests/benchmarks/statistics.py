"""Measures with intervals and tests for two systems against ir-measures and scipy.stats."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from retrieval_lab.evals.comparison import Comparison, compare_measures
from retrieval_lab.evals.measures import measure
from retrieval_lab.evals.resampling import DRAWS, RESAMPLES
from tests.benchmarks.timing import Ratio, compare

QUERIES, DEPTH, RELEVANT, K = 1_000, 100, 10, 10


@dataclass(frozen=True)
class Case:
    """Two systems' lists over the same labelled queries, in the form that each side takes; made outside the clock."""

    labels: list[dict[str, int]]
    lists: tuple[list[list[str]], list[list[str]]]
    qrels: dict[str, dict[str, int]]
    runs: tuple[dict[str, dict[str, float]], dict[str, dict[str, float]]]


def case() -> Case:
    rng = np.random.default_rng(0)
    documents = [f"document-{number}" for number in range(10 * DEPTH)]
    labels, lists = [], ([], [])
    for _ in range(QUERIES):
        pool = rng.choice(len(documents), DEPTH + RELEVANT, replace=False)
        labels.append({documents[d]: int(rng.integers(1, 4)) for d in pool[:RELEVANT]})
        for ranked, skill in zip(lists, (0.6, 0.5), strict=True):
            order = np.argsort(rng.random(len(pool)) - skill * (np.arange(len(pool)) < RELEVANT))
            ranked.append([documents[d] for d in pool[order[:DEPTH]]])
    ids = [f"q{number}" for number in range(QUERIES)]
    runs = tuple(
        {query: {d: float(-rank) for rank, d in enumerate(row)} for query, row in zip(ids, ranked, strict=True)}
        for ranked in lists
    )
    return Case(labels, lists, dict(zip(ids, labels, strict=True)), (runs[0], runs[1]))


def ours(given: Case) -> dict[str, Comparison]:
    system, baseline = (measure(ranked, given.labels, cuts=[K]).scored() for ranked in given.lists)
    return compare_measures(system, baseline, list(given.qrels))


def theirs(given: Case) -> dict[str, tuple[float, float]]:
    """The difference and p by measure, with all intervals made on the way."""
    from scipy import stats

    system, baseline, names = *(_ir_measures(given.qrels, run) for run in given.runs), _measures()
    difference = system - baseline
    for values in (system, baseline, difference):
        stats.bootstrap((values,), np.mean, n_resamples=RESAMPLES, method="percentile", batch=200)
    tested = stats.permutation_test(
        (difference,),
        lambda values, axis: values.mean(axis=axis),
        permutation_type="samples",
        n_resamples=DRAWS,
        vectorized=True,
        batch=500,
    )
    return dict(zip(names, zip(difference.mean(axis=0), tested.pvalue, strict=True), strict=True))


def _measures() -> dict[str, Any]:
    from ir_measures import AP, RR, P, R, Success, nDCG

    return {
        f"recall@{K}": R @ K,
        f"precision@{K}": P @ K,
        f"hit@{K}": Success @ K,
        f"mrr@{K}": RR @ K,
        f"ndcg@{K}": nDCG @ K,
        "map": AP,
    }


def _ir_measures(qrels: dict[str, dict[str, int]], run: dict[str, dict[str, float]]) -> np.ndarray:
    """Values (queries x measures), in the order of the qrels and `_measures`."""
    import ir_measures

    columns = {metric: column for column, metric in enumerate(_measures().values())}
    rows = {query: row for row, query in enumerate(qrels)}
    values = np.zeros((len(rows), len(columns)))
    for found in ir_measures.iter_calc(list(columns), qrels, run):
        values[rows[found.query_id], columns[found.measure]] = found.value
    return values


def ratios() -> Iterator[Ratio]:
    given = case()
    peers = theirs(given)
    for name, found in ours(given).items():
        assert np.isclose(found.difference, peers[name][0], atol=1e-9), name
        assert abs(found.p - peers[name][1]) < 0.02, name
    against = compare(
        "two systems compared, 1,000 queries x 100 / ir-measures, scipy.stats",
        lambda: ours(given),
        lambda: theirs(given),
        rounds=3,
        bound=0.2,
    )
    yield against
    yield Ratio("the same / one second", against.ours, 1.0, bound=1.0)
    lists = given.lists[0]
    yield compare(
        "measures alone / ir-measures",
        lambda: measure(lists, given.labels, cuts=[K]),
        lambda: _ir_measures(given.qrels, given.runs[0]),
        rounds=9,
    )
