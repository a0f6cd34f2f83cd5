"""What a rescue of one golden query does to all the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from retrieval_lab.assembly import Bench
from retrieval_lab.config import PipelineConfig
from retrieval_lab.diagnosis.rescue_kept import Candidates
from retrieval_lab.evals.resampling import Interval, bootstrap_intervals, mean_of
from retrieval_lab.evals.summary import Estimate
from retrieval_lab.metrics import QueryResult, evaluate_queries, labels
from retrieval_lab.types import GoldenQuery

_NAMED = 3


@dataclass(frozen=True, slots=True)
class Effect:
    """The other golden queries with a rescue against without it, at the cut of the configuration.

    `queries` is how many count: those with a relevant passage in both. `gained` are found with it alone, `lost` without
    it alone, in the order of the file. `recall` and `mrr` are the mean changes with their paired 95% bootstrap
    intervals, None for one query.
    """

    queries: int
    gained: tuple[str, ...]
    lost: tuple[str, ...]
    recall: Estimate
    mrr: Estimate

    @property
    def moved(self) -> str:
        """The ids that are gained and lost, or their numbers where they are many: `+q11 -q02`."""
        parts = []
        for sign, ids in (("+", self.gained), ("-", self.lost)):
            parts += [f"{sign}{one}" for one in ids] if len(ids) <= _NAMED else [f"{sign}{len(ids)} queries"]
        return " ".join(parts) or "none"


class Others:
    """The golden queries besides the one at hand, and their results under the configuration of the bench."""

    def __init__(
        self, bench: Bench, candidates: Candidates, golden: Sequence[GoldenQuery], check: Callable[[], None]
    ) -> None:
        """`check` is called before each query, and raises Cancelled to stop."""
        self._bench = bench
        self._candidates = candidates
        self._golden = golden
        self._check = check
        self._results: Mapping[str, QueryResult] | None = None

    def effect(self, config: PipelineConfig, elsewhere: tuple[Bench, Candidates] | None = None) -> Effect | None:
        """What the configuration does to the others, over the index `elsewhere` if it needs another one.

        None when no other query has a relevant passage.
        """
        if self._results is None:
            self._results = self._judged(self._bench, self._candidates, self._bench.config)
        after = self._judged(*(elsewhere or (self._bench, self._candidates)), config)
        return _compared(self._results, after)

    def _judged(self, bench: Bench, candidates: Candidates, config: PipelineConfig) -> dict[str, QueryResult]:
        pipeline = candidates.pipeline(config)
        results: dict[str, QueryResult] = {}
        for query, relevant in labels(bench.conn, self._golden, table=bench.table):
            self._check()
            if relevant:
                results[query.query_id] = next(evaluate_queries(pipeline, [(query, relevant)]))
        return results


def _compared(before: Mapping[str, QueryResult], after: Mapping[str, QueryResult]) -> Effect | None:
    pairs = [(one, after[query_id]) for query_id, one in before.items() if query_id in after]
    if not pairs:
        return None
    differences = np.array([(new.recall - old.recall, new.mrr - old.mrr) for old, new in pairs])
    intervals: Sequence[Interval | None] = bootstrap_intervals(differences) or (None, None)
    recall, mrr = (Estimate(mean_of(differences[:, i]), intervals[i]) for i in range(2))
    return Effect(
        queries=len(pairs),
        gained=tuple(new.query.query_id for old, new in pairs if new.hit > old.hit),
        lost=tuple(new.query.query_id for old, new in pairs if new.hit < old.hit),
        recall=recall,
        mrr=mrr,
    )
