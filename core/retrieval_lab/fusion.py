"""Making one list of several: by their ranks (RRF), or by their scores (min-max weighted sum).

Every list is ordered to the last row: equal scores by chunk_id in code point order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from retrieval_lab.errors import InputError
from retrieval_lab.types import Hit, Ranked

RRF_K = 60

Lists = Sequence[Sequence[Hit]]


def rrf(lists: Lists, k: float = RRF_K, weights: Sequence[float] | None = None) -> list[Ranked]:
    """All chunks of the lists by the sum of weight / (k + rank) over the lists that hold them, then by chunk_id.

    Reciprocal rank fusion: Cormack, Clarke and Büttcher, SIGIR 2009; each list weighs 1 unless `weights` has a number
    for each. A list of weight 0 contributes nothing, not even chunks, but `ranks`, which has one entry for each list,
    tells its ranks. A chunk repeated within a list counts there once, at its best rank. Raises InputError when k or a
    weight is negative or no finite number, and when there is not one weight for each list.
    """
    if not (math.isfinite(k) and k >= 0):
        raise InputError(f"rrf k is {k}; expected 0 or more")
    weights = _weights(weights, len(lists))
    ranks = [_best_ranks(hits) for hits in lists]
    parts = [
        {chunk_id: rrf_part(weight, k, rank) for chunk_id, rank in held.items()} if weight else {}
        for weight, held in zip(weights, ranks, strict=True)
    ]
    return _summed(parts, ranks)


def rrf_part(weight: float, k: float, rank: int) -> float:
    """What one list adds to the fused score of the chunk that it holds at this rank."""
    return weight / (k + rank)


def minmax(lists: Lists, weights: Sequence[float] | None = None) -> list[Ranked]:
    """All chunks of the lists by the sum of weight * scaled score over the lists that hold them, then by chunk_id.

    The scores of each list are scaled to 0..1 as `scaled` does, since those of two retrievers do not compare; a list
    that does not hold a chunk adds 0 to it. The sum of scores is CombSUM (Fox and Shaw, "Combination of Multiple
    Searches", TREC-2 1994), this scaling of them Lee, "Analyses of Multiple Evidence Combination" (SIGIR 1997).
    Weights, `ranks` and repeated chunks are as for `rrf`. Raises InputError as that does, and for a score that is no
    finite number.
    """
    weights = _weights(weights, len(lists))
    parts = [
        {chunk_id: weight * score for chunk_id, score in scaled(hits).items()} if weight else {}
        for weight, hits in zip(weights, lists, strict=True)
    ]
    return _summed(parts, [_best_ranks(hits) for hits in lists])


def scaled(hits: Sequence[Hit]) -> dict[str, float]:
    """The score of each chunk of one list from 0, the lowest of the list, to 1, the highest; 1 for all equal ones.

    A chunk that stands in the list more than once counts once, with its best score. Raises InputError for a score that
    is no finite number.
    """
    best: dict[str, float] = {}
    for hit in hits:
        if not math.isfinite(hit.score):
            raise InputError(f"the score of {hit.chunk_id!r} is {hit.score}; expected a finite number")
        best[hit.chunk_id] = max(hit.score, best.get(hit.chunk_id, hit.score))
    low, high = min(best.values(), default=0.0), max(best.values(), default=0.0)
    if low == high:
        return dict.fromkeys(best, 1.0)
    # The distance of two floats may be no float; that of their halves is one.
    unit = 1.0 if math.isfinite(high - low) else 0.5
    return {chunk_id: (score * unit - low * unit) / (high * unit - low * unit) for chunk_id, score in best.items()}


def best_rank(chunk_id: str, hits: Sequence[Hit]) -> int | None:
    """The chunk's rank in the list, the best of several; None when the list does not hold it."""
    return min((hit.rank for hit in hits if hit.chunk_id == chunk_id), default=None)


def _best_ranks(hits: Sequence[Hit]) -> dict[str, int]:
    ranks: dict[str, int] = {}
    for hit in hits:
        ranks[hit.chunk_id] = min(hit.rank, ranks.get(hit.chunk_id, hit.rank))
    return ranks


def _summed(parts: Sequence[Mapping[str, float]], ranks: Sequence[Mapping[str, int]]) -> list[Ranked]:
    """The chunks that any list adds something to, even 0, by the sum of what all of them add."""
    counted = {chunk_id: None for held in parts for chunk_id in held}
    # fsum is exact before its one rounding, so the order of the lists cannot break a tie.
    scored = [(-math.fsum(held[chunk_id] for held in parts if chunk_id in held), chunk_id) for chunk_id in counted]
    return [
        Ranked(chunk_id, -score + 0.0, rank, tuple(held.get(chunk_id) for held in ranks))
        for rank, (score, chunk_id) in enumerate(sorted(scored), start=1)
    ]


def _weights(weights: Sequence[float] | None, lists: int) -> Sequence[float]:
    if weights is None:
        return [1.0] * lists
    if len(weights) != lists:
        raise InputError(f"{len(weights)} weights for {lists} lists; expected one for each")
    for weight in weights:
        if not (math.isfinite(weight) and weight >= 0):
            raise InputError(f"the weight of a list is {weight}; expected 0 or more")
    return weights
