"""Exact search: the query against every vector."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retrieval_lab.embed import Vectors
from retrieval_lab.errors import InputError
from retrieval_lab.ragindex.exact import LARGEST, as_vectors, dots, longest, slack
from retrieval_lab.ragindex.ranking import Keep, Mask, Rows, as_filter, best, kept, require_count

Found = list[tuple[int, float]]


def flat_search(
    vecs: Vectors, q: NDArray[Any], k: int, keep: Keep | None = None, *, most: float | None = None
) -> Found:
    """(row, score) of the k rows that pass `keep` with the highest dot product, best first, ties to the lower row.

    `vecs` has shape (n, dims), `q` (dims,); scores are float64, the same on every platform. `most` is the length of the
    longest row, for who knows it already (`exact.longest`). Raises InputError for a query of another dimension, for
    numbers that are not finite, for a negative k and for a mask of another length.
    """
    require_count(k)
    vecs = as_vectors(vecs)
    query = as_query(q, vecs.shape[1])
    most = longest(vecs) if most is None else most
    rough = vecs @ query.astype(np.float32)
    places = contenders(rough, k, as_filter(keep, len(vecs)), margin(query, most))
    return decided(dots(vecs, places, query), places, k)


def as_query(q: NDArray[Any], dims: int) -> NDArray[np.float64]:
    """The query as float64. Raises InputError when it has another dimension or is not finite."""
    query = np.asarray(q, dtype=np.float64)
    if query.shape != (dims,):
        raise InputError(f"the query is a vector of shape {query.shape}; expected {(dims,)}, as the index has them")
    if not (np.abs(query) < LARGEST).all():
        raise InputError("the query's vector holds NaN, infinity or a number that is too large")
    return query


def margin(query: NDArray[np.float64], most: float) -> float:
    """How far apart two rough scores must be for their order to be certain."""
    return 2 * slack(len(query), most * float(np.sqrt(query @ query)) * (1 + 1e-9))


def contenders(rough: NDArray[np.float32], k: int, keep: Callable[[int], bool] | Mask | None, margin: float) -> Rows:
    """The places that pass the filter and may be among the k best, given scores that are off by half the margin."""
    first = best(rough, k, keep)
    if len(first) < k or k == 0:
        return first
    return kept(np.flatnonzero(rough >= float(rough[first[-1]]) - margin), keep)


def decided(scores: NDArray[np.float64], rows: Rows, k: int) -> Found:
    """The k best of the rows with these scores."""
    order = np.lexsort((rows, -scores))[:k]
    return list(zip(rows[order].tolist(), scores[order].tolist(), strict=True))


def recall(approx: Collection[Any], exact: Collection[Any]) -> float:
    """The share of the exact rows that the approximate ones hold, 1 where there are none to find.

    Each is what a search returns, pairs of row and score, or rows alone.
    """
    wanted, found = _rows(exact), _rows(approx)
    return len(wanted & found) / len(wanted) if wanted else 1.0


def _rows(found: Collection[Any]) -> set[Any]:
    return {one[0] if isinstance(one, tuple | list) else one for one in found}
