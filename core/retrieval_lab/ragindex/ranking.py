"""The first k of many scores, among the rows that a filter keeps, ties to the lower row."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retrieval_lab.errors import InputError

Rows = NDArray[np.int64]
Mask = NDArray[np.bool_]

Keep = Callable[[int], bool] | Mask | Collection[int]
"""Which rows a search may return: what a function says of each, a mask over all of them, or their numbers."""

_FIRST_LOOK = 4  # times k rows are looked at first
_SPARE = 1.5  # times as many are looked at as should do, by the share that passed so far
_MOST_IN_A_GROUP = 32
_GROUPS_FOR_EACH = 8


def as_filter(keep: Keep | None, n: int) -> Callable[[int], bool] | Mask | None:
    """The filter of a search over n rows as a mask or a function. Raises InputError for a mask of another length."""
    if keep is None or callable(keep):
        return keep
    if not isinstance(keep, np.ndarray | list | tuple):
        keep = np.fromiter(keep, dtype=np.int64, count=len(keep))
    given = np.asarray(keep)
    if given.dtype == np.bool_:
        if given.shape != (n,):
            raise InputError(f"the filter is a mask of shape {given.shape}; expected {(n,)}, one entry for each row")
        return given
    mask = np.zeros(n, dtype=np.bool_)
    rows = given.astype(np.int64)
    mask[rows[(rows >= 0) & (rows < n)]] = True
    return mask


def require_count(k: int) -> None:
    """Raises InputError when k is negative."""
    if k < 0:
        raise InputError(f"{k} results were asked for; expected 0 or more")


def best(
    scores: NDArray[Any],
    k: int,
    keep: Callable[[int], bool] | Mask | None = None,
    *,
    above: float = -np.inf,
) -> Rows:
    """The rows of the k highest scores that are greater than `above`, best first, equal scores by row."""
    if keep is None:
        return _first(scores, k, above)
    if not callable(keep):
        return _first(np.where(keep, scores, -np.inf), k, above)
    return _first_asked(scores, k, keep, above)


def _first_asked(scores: NDArray[Any], k: int, keep: Callable[[int], bool], above: float) -> Rows:
    """As `best`, asking about the highest rows first: to ask about every row would take longer than the search."""
    passed = np.zeros(0, dtype=np.int64)
    size, asked, before = _FIRST_LOOK * k, 0, np.inf
    while len(passed) < k and before > above:
        least = _least(scores, size)
        rows = np.flatnonzero((scores >= least) & (scores < before) & (scores > above))
        passed = np.concatenate([passed, kept(rows, keep)])
        asked, before = asked + len(rows), least
        size = max(2 * size, int(_SPARE * k * asked / max(1, len(passed))))
    order = np.lexsort((passed, -scores[passed]))
    first: Rows = passed[order[:k]]
    return first


def kept(rows: Rows, keep: Callable[[int], bool] | Mask | None) -> Rows:
    """Those of the rows that the filter lets through, in their order."""
    if keep is None:
        return rows
    if callable(keep):
        return rows[np.fromiter(map(keep, rows.tolist()), dtype=np.bool_, count=len(rows))]
    return rows[keep[rows]]


def _first(scores: NDArray[Any], k: int, above: float) -> Rows:
    if k == 0:
        return np.zeros(0, dtype=np.int64)
    rows = np.flatnonzero(scores >= least) if (least := _least(scores, k)) > above else np.flatnonzero(scores > above)
    first: Rows = rows[np.argsort(-scores[rows], kind="stable")[:k]]
    return first


def _least(scores: NDArray[Any], k: int) -> float:
    """A number that at least k scores reach, and few more.

    The maxima of disjoint groups are scores of different rows, so the k-th highest of them will do; with many groups
    for each of the k it is close to the k-th highest of all, and found many times faster.
    """
    size = min(_MOST_IN_A_GROUP, len(scores) // (_GROUPS_FOR_EACH * k))
    if size > 1:
        groups = len(scores) // size
        scores = scores[: size * groups].reshape(size, groups).max(axis=0)
    return float(np.partition(scores, len(scores) - k)[len(scores) - k]) if k < len(scores) else -np.inf
