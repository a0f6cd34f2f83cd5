"""What a change does to golden queries that are asked before and after it: their measures, and where answers stand.

The configuration is the same on both sides; what changed is the wording of the queries, or the corpus.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, Final

from retrieval_lab.config import PipelineConfig
from retrieval_lab.errors import InputError
from retrieval_lab.evals.comparison import Comparison, compare_measures
from retrieval_lab.evals.runs import measure_names, measures_of
from retrieval_lab.metrics import QueryResult

FINAL: Final = "final"
RERANKED: Final = "reranked"


@dataclass(frozen=True, slots=True)
class RankChange:
    """What became of the best answers in one list.

    `before` and `after` are how many queries found theirs there, `lost` and `gained` the ids of those that only did so
    before, or after. `median_move` is the median of rank after minus rank before over those found both times, above 0
    where answers sank; None where there are none.
    """

    before: int
    after: int
    lost: tuple[str, ...]
    gained: tuple[str, ...]
    median_move: float | None


@dataclass(frozen=True, slots=True)
class Moved:
    """A query whose best answer has another rank in some list; `before` and `after` are its texts.

    `ranks_before` and `ranks_after` have its rank in each retriever's list, in `fused`, `reranked` and `final`, None
    where it is not there.
    """

    query_id: str
    kind: str
    before: str
    after: str
    ranks_before: Mapping[str, int | None]
    ranks_after: Mapping[str, int | None]

    @property
    def loss(self) -> float:
        """How much 1 / rank fell in the final list; below 0 where it rose."""
        return _reciprocal(self.ranks_before[FINAL]) - _reciprocal(self.ranks_after[FINAL])

    @property
    def is_worse(self) -> bool:
        """Whether its best answer sank in the final list, or fell out of it."""
        return self.loss > 0


@dataclass(frozen=True, slots=True)
class Effect:
    """A change as so many queries feel it, all of which have a relevant chunk before and after.

    In `measures`, which has every measure of the configuration, the baseline is before and the system after. `ranks`
    has what became of the best answers in each list, by its name. `moved` are the queries whose best answer has another
    rank somewhere: those that lost most in the final list first, of equal ones the one that lost most in the reranked
    pool, then in their order.
    """

    queries: int
    measures: Mapping[str, Comparison]
    ranks: Mapping[str, RankChange]
    moved: tuple[Moved, ...]

    @property
    def worse(self) -> tuple[Moved, ...]:
        """The queries whose best answer sank in the final list, or fell out of it; the largest loss first."""
        return tuple(one for one in self.moved if one.is_worse)

    def to_dict(self) -> dict[str, Any]:
        """The effect as JSON has it."""
        return {
            "queries": self.queries,
            "measures": {name: asdict(one) for name, one in self.measures.items()},
            "ranks": {name: asdict(one) for name, one in self.ranks.items()},
            "moved": [asdict(one) for one in self.moved],
        }


def effect(before: Sequence[QueryResult], after: Sequence[QueryResult], config: PipelineConfig) -> Effect | None:
    """The effect on these queries, the results of which stand in the same order; None for no query.

    Raises InputError when the two are of other queries, or a query has no relevant chunk.
    """
    ids = [one.query.query_id for one in before]
    if ids != [one.query.query_id for one in after]:
        raise InputError("the results before and after are of other queries, or in another order")
    for one in (*before, *after):
        if not one.relevant_ids:
            raise InputError(f"query {one.query.query_id!r} has no relevant chunk, so it cannot be measured")
    if not ids:
        return None
    pairs = list(zip(before, after, strict=True))
    return Effect(
        queries=len(ids),
        measures=compare_measures(_table(after, config), _table(before, config), ids),
        ranks={name: _rank_change(name, pairs) for name in before[0].ranks},
        moved=tuple(sorted(_moved(pairs), key=_most_harmed)),
    )


def _table(results: Sequence[QueryResult], config: PipelineConfig) -> dict[str, list[float]]:
    measured = [measures_of(one, config) for one in results]
    return {name: [values[name] for values in measured] for name in measure_names(config)}


def _rank_change(name: str, pairs: Sequence[tuple[QueryResult, QueryResult]]) -> RankChange:
    ranks = [(one.query.query_id, one.ranks[name], other.ranks[name]) for one, other in pairs]
    moves = [after - before for _, before, after in ranks if before is not None and after is not None]
    return RankChange(
        before=sum(before is not None for _, before, _ in ranks),
        after=sum(after is not None for _, _, after in ranks),
        lost=tuple(query_id for query_id, before, after in ranks if before is not None and after is None),
        gained=tuple(query_id for query_id, before, after in ranks if before is None and after is not None),
        median_move=float(median(moves)) if moves else None,
    )


def _moved(pairs: Sequence[tuple[QueryResult, QueryResult]]) -> Iterator[Moved]:
    for one, other in pairs:
        if one.ranks != other.ranks:
            query = one.query
            yield Moved(query.query_id, query.kind, query.query, other.query.query, dict(one.ranks), dict(other.ranks))


def _most_harmed(one: Moved) -> tuple[float, float]:
    in_pool = _reciprocal(one.ranks_before[RERANKED]) - _reciprocal(one.ranks_after[RERANKED])
    return -one.loss, -in_pool


def _reciprocal(rank: int | None) -> float:
    return 0.0 if rank is None else 1 / rank
