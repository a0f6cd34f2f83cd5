"""Choosing a setting by the dev queries: the curve of its values, each measured on the same queries.

Nothing is read of a held-out query, not even its labels: what is chosen here is still to be confirmed on those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieval_lab.assembly import Bench, require_some
from retrieval_lab.config import PipelineConfig, dotted
from retrieval_lab.diagnosis.rescue_kept import Candidates
from retrieval_lab.errors import Cancelled, InputError
from retrieval_lab.evals.curve import Curve, best_of, points_of
from retrieval_lab.evals.measures import FAMILIES, measure_names
from retrieval_lab.evals.resampling import TIE, mean_of
from retrieval_lab.evals.splits import Dev, dev_queries
from retrieval_lab.evals.weight_grid import Weights, distance, neighbours, on_grid, pairs, shares
from retrieval_lab.metrics import evaluate_queries, labels, scored_ids
from retrieval_lab.settings import NoReranker
from retrieval_lab.types import GoldenQuery

if TYPE_CHECKING:
    from retrieval_lab.lab import Lab

MEASURE = "ndcg@10"
WEIGHTS = "weights"
"""What the setting of a curve over the weights of all lists is called."""

Progress = Callable[[int, int], None]
Reopen = Callable[[PipelineConfig], "AbstractContextManager[Lab]"]
"""Opens the corpus under a configuration that needs another index."""

_Labelled = tuple[GoldenQuery, frozenset[str]]


def require_measure(name: str) -> None:
    """Raises InputError for a measure that is unknown, or that counts rather than rates."""
    measure_names([], [], [name])
    if FAMILIES[name.partition("@")[0]].is_count:
        raise InputError(f"the measure {name!r} is a count; choose by one that rates a list, such as {MEASURE}")


# --- weights -------------------------------------------------------------------------------------------------------


def tune_weights(
    lab: Lab,
    *,
    measure: str = MEASURE,
    progress: Progress = lambda _done, _total: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Curve:
    """The curve of the weights of the lab's lists, measured on the fused pool, before reranking.

    Of two lists every share of the first from 0 to 1 in steps of 0.05 is measured. Of more, shares move between two
    lists at a time in steps of 0.1, from the present ones: each round measures every such move and goes on from the
    best, until none is better (coordinate ascent; the best of its kind, not always of all). The lists are made once for
    each query.

    Raises InputError for a pipeline of one list, an unknown measure and a golden set without dev queries, and as
    `Lab.evaluate_queries` does.
    """
    require_measure(measure)
    config = lab.config
    if len(config.retrievers) < 2:
        raise InputError("there is one list only, whose weight changes nothing; name another setting: --setting KEY")
    lab.require_golden()
    dev = dev_queries(lab.golden)
    present = shares([one.weight for one in config.retrievers])

    def work(bench: Bench) -> Curve:
        fused = _Fused(bench, dev.queries, measure, progress, cancelled)
        # What the present weights are is measured with them as they are, not with their shares.
        scores = {present: fused.scores([one.weight for one in config.retrievers])}
        ways = pairs() if len(present) == 2 else _ascent(present, scores, fused)
        for weights in ways:
            if weights not in scores:
                scores[weights] = fused.scores(weights)
        return _weights_curve(config, measure, dev, fused, scores, present)

    return lab.work(work)


def _ascent(present: Weights, scores: dict[Weights, tuple[float, ...]], fused: _Fused) -> Iterator[Weights]:
    """Each place that is looked at in turn; `scores` has what was found at those before."""
    here = on_grid(present)
    yield here
    while True:
        around = neighbours(here)
        yield from around
        # Only a better place, so that the way never comes back.
        best = max(around, key=lambda one: (mean_of(np.array(scores[one])), -distance(one, present)))
        if mean_of(np.array(scores[best])) <= mean_of(np.array(scores[here])) + TIE:
            return
        here = best
        fused.check()


def _weights_curve(
    config: PipelineConfig,
    measure: str,
    dev: Dev,
    fused: _Fused,
    scores: Mapping[Weights, tuple[float, ...]],
    present: Weights,
) -> Curve:
    names = tuple(one.name for one in config.retrievers)
    own = tuple(one.weight for one in config.retrievers)
    ordered = sorted(scores)
    settings = [
        {
            f"retrievers.{name}.weight": weight
            for name, weight in zip(names, own if one == present else one, strict=True)
        }
        for one in ordered
    ]
    points = points_of(ordered, settings, [scores[one] for one in ordered])
    return Curve(
        setting=WEIGHTS,
        measure=measure,
        stage="fused",
        lists=names,
        dealt=dev.dealt,
        query_ids=fused.query_ids,
        excluded=fused.excluded,
        points=points,
        best=best_of(points, [distance(one, present) for one in ordered]),
        present=ordered.index(present),
    )


class _Fused:
    """Measures the fused pool under any weights, from lists that are made once."""

    def __init__(
        self,
        bench: Bench,
        queries: Sequence[GoldenQuery],
        measure: str,
        progress: Progress,
        cancelled: Callable[[], bool],
    ) -> None:
        # No reranker is built that nobody asks.
        self._config = replace(bench.config, reranker=NoReranker(), mmr_lambda=None)
        self._candidates = Candidates(bench)
        self._measure = measure
        self._cancelled = cancelled
        labelled = labels(bench.conn, queries, table=bench.table)
        self._labelled = [one for one in labelled if one[1]]
        self.query_ids = tuple(query.query_id for query, _ in self._labelled)
        self.excluded = tuple(query.query_id for query, relevant in labelled if not relevant)
        _require_some_query(self.query_ids)
        pipeline = self._candidates.pipeline(self._config)
        for done, (query, _) in enumerate(self._labelled):
            progress(done, len(self._labelled))
            self.check()
            pipeline.fused(query.query)
        progress(len(self._labelled), len(self._labelled))

    def check(self) -> None:
        """Raises Cancelled where it is wished."""
        if self._cancelled():
            raise Cancelled("stopped before every value was measured")

    def scores(self, weights: Sequence[float]) -> tuple[float, ...]:
        """The measure of each query."""
        retrievers = tuple(
            replace(one, weight=weight) for one, weight in zip(self._config.retrievers, weights, strict=True)
        )
        pipeline = self._candidates.pipeline(replace(self._config, retrievers=retrievers))
        pools = [[row.chunk_id for row in pipeline.fused(query.query)[: pipeline.n]] for query, _ in self._labelled]
        return _measured(self._labelled, pools, self._measure)


# --- any other setting ---------------------------------------------------------------------------------------------


def tune_setting(
    lab: Lab,
    key: str,
    configs: Sequence[PipelineConfig],
    *,
    measure: str = MEASURE,
    reopen: Reopen | None = None,
    progress: Progress = lambda _done, _total: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Curve:
    """The curve of one setting, each of whose values is that of a configuration, measured on the final list.

    The lab's own configuration has the present value, which is measured too. Values stand in the order of `configs`, or
    of their size where all are numbers. A configuration that needs another index is opened with `reopen`; without it
    one is an InputError.

    Raises InputError when the lab's configuration has no such setting, for an unknown measure and a golden set without
    dev queries, and as `Lab.evaluate_queries` does.
    """
    require_measure(measure)
    now = dotted(lab.config.to_dict())
    if key not in now:
        raise InputError(f"the present configuration has no setting {key!r}; `retrieval-lab config show` lists them")
    lab.require_golden()
    dev = dev_queries(lab.golden)
    several = list(dict.fromkeys([*configs, *(() if lab.config in configs else (lab.config,))]))
    values = [dotted(config.to_dict())[key] for config in several]
    if all(map(_is_number, values)):
        several = [config for _, config in sorted(zip(values, several, strict=True), key=lambda one: one[0])]
        values = sorted(values)
    found = []
    for done, config in enumerate(several):
        progress(done, len(several))
        found.append(_final(lab, config, dev.queries, measure, reopen, cancelled))
    progress(len(several), len(several))
    counted = [query.query_id for query in dev.queries if all(query.query_id in one for one in found)]
    _require_some_query(counted)
    points = points_of(values, [{key: value} for value in values], [tuple(one[i] for i in counted) for one in found])
    return Curve(
        setting=key,
        measure=measure,
        stage="final",
        lists=(),
        dealt=dev.dealt,
        query_ids=tuple(counted),
        excluded=tuple(query.query_id for query in dev.queries if query.query_id not in counted),
        points=points,
        best=best_of(points, [_apart(value, now[key]) for value in values]),
        present=several.index(lab.config),
    )


def _final(
    lab: Lab,
    config: PipelineConfig,
    queries: Sequence[GoldenQuery],
    measure: str,
    reopen: Reopen | None,
    cancelled: Callable[[], bool],
) -> dict[str, float]:
    """The measure of the final list, for each query with a relevant chunk."""
    if config.indexing != lab.config.indexing and reopen is not None:
        with reopen(config) as other:
            return _final(other, config, queries, measure, None, cancelled)

    def work(bench: Bench) -> dict[str, float]:
        require_some(bench.conn, config.filter, bench.table)
        pipeline = Candidates(bench).pipeline(config)
        labelled = [one for one in labels(bench.conn, queries, table=bench.table) if one[1]]
        finals = []
        for result in evaluate_queries(pipeline, labelled):
            if cancelled():
                raise Cancelled("stopped before every value was measured")
            finals.append([row.chunk_id for row in result.final])
        scores = _measured(labelled, finals, measure)
        return dict(zip((query.query_id for query, _ in labelled), scores, strict=True))

    return lab.work(work, config)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _apart(value: Any, present: Any) -> float:
    """How far two values are from each other; those that are no numbers are equal or not."""
    if _is_number(value) and _is_number(present):
        return abs(float(value) - float(present))
    return float(value != present)


# --- both ----------------------------------------------------------------------------------------------------------


def _measured(labelled: Sequence[_Labelled], ranked: Sequence[Sequence[str]], measure: str) -> tuple[float, ...]:
    """The measure of a list of chunk ids for each query; graded documents are scored by their first chunks."""
    by_document = [query.level == "document" for query, _ in labelled]
    grades = [
        query.grades if whole else dict.fromkeys(relevant, 1)
        for whole, (query, relevant) in zip(by_document, labelled, strict=True)
    ]
    ids = [scored_ids(some, whole) for some, whole in zip(ranked, by_document, strict=True)]
    return tuple(measure_names(ids, grades, [measure]).values[:, 0].tolist())


def _require_some_query(query_ids: Sequence[str]) -> None:
    if not query_ids:
        raise InputError("no dev query has a relevant chunk, so there is nothing to choose by; `retrieval-lab check`")
