"""k-means: the seeding of k-means++, and Lloyd's iterations.

Arthur and Vassilvitskii, "k-means++: The Advantages of Careful Seeding" (2007); Lloyd, "Least Squares Quantization in
PCM" (1982). The same vectors and the same random numbers give the same clusters on every platform.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from retrieval_lab.embed import Vectors
from retrieval_lab.errors import InputError
from retrieval_lab.ragindex.exact import as_vectors, longest, slack, square_distances, square_lengths
from retrieval_lab.ragindex.pcg32 import PCG32
from retrieval_lab.ragindex.ranking import Rows

_BLOCK_ROWS = 4096

Centroids = NDArray[np.float64]


def kmeans_pp(vecs: Vectors, k: int, rng: PCG32) -> list[int]:
    """k different rows, far apart: the first is `rng.below(n)`.

    Each next one is the first row at which the running sum of the squared distances to the nearest row so far exceeds
    `rng.random()` times their total; where all distances are 0, the first row that was not taken yet. Raises InputError
    when k lies outside 0 to n.
    """
    vecs = as_vectors(vecs)
    if not 0 <= k <= len(vecs):
        raise InputError(f"{k} clusters of {len(vecs)} vectors; expected 0 to {len(vecs)}")
    if k == 0:
        return []
    squares = square_lengths(vecs)
    off = 2 * slack(vecs.shape[1] + 4, longest(vecs) ** 2) if len(vecs) else 0.0
    rows = [rng.below(len(vecs))]
    nearest = np.full(len(vecs), np.inf)
    while len(rows) < k:
        _approach(nearest, vecs, rows[-1], squares, off)
        running = np.cumsum(nearest)
        row = int(np.searchsorted(running, rng.random() * running[-1], side="right"))
        rows.append(row if row < len(vecs) else _first_missing(rows))
    return rows


def _approach(nearest: NDArray[np.float64], vecs: Vectors, row: int, squares: NDArray[np.float64], off: float) -> None:
    """Lower the distances of the rows that are nearer to this one; it is computed exactly only where it may matter."""
    rough = squares + squares[row] - 2.0 * (vecs @ vecs[row])
    closer = np.flatnonzero(rough - off <= nearest)
    nearest[closer] = np.minimum(nearest[closer], square_distances(vecs, closer, vecs[row].astype(np.float64)))


def _first_missing(rows: list[int]) -> int:
    taken = set(rows)
    return next(row for row in range(len(rows) + 1) if row not in taken)


def lloyd(vecs: Vectors, centroids: Centroids, iters: int) -> Centroids:
    """The centroids after so many rounds, each the mean of the rows that are nearest to it; without any it stays."""
    for _ in range(iters):
        members = assign(vecs, centroids)
        moved = centroids.copy()
        for number in range(len(centroids)):
            rows = np.flatnonzero(members == number)
            if len(rows):
                moved[number] = vecs[rows].astype(np.float64).sum(axis=0) / len(rows)
        if np.array_equal(moved, centroids):
            break
        centroids = moved
    return centroids


def assign(vecs: Vectors, centroids: Centroids) -> NDArray[np.int64]:
    """The number of the centroid that is nearest to each row, ties to the lower number; shape (n,)."""
    members = np.zeros(len(vecs), dtype=np.int64)
    if len(centroids) == 1 or not len(vecs):
        return members
    halves = (square_lengths(centroids) / 2).astype(np.float32)
    transposed = np.ascontiguousarray(centroids.T.astype(np.float32))
    # A centroid is a mean of rows, so none is longer than the longest of them.
    off = 2 * slack(vecs.shape[1] + 4, longest(vecs) ** 2)
    doubtful = []
    for start in range(0, len(vecs), _BLOCK_ROWS):
        closeness = vecs[start : start + _BLOCK_ROWS] @ transposed - halves
        best_two = np.partition(closeness, -2, axis=1)[:, -2:]
        members[start : start + _BLOCK_ROWS] = closeness.argmax(axis=1)
        doubtful.append(start + np.flatnonzero(best_two[:, 1] - best_two[:, 0] <= off))
    rows = np.concatenate(doubtful)
    members[rows] = _nearest(vecs, rows, centroids)
    return members


def _nearest(vecs: Vectors, rows: Rows, centroids: Centroids) -> NDArray[np.int64]:
    """As `assign`, computed exactly."""
    best = np.full(len(rows), np.inf)
    numbers = np.zeros(len(rows), dtype=np.int64)
    for number, centroid in enumerate(centroids):
        distances = square_distances(vecs, rows, centroid)
        closer = distances < best
        best[closer], numbers[closer] = distances[closer], number
    return numbers
