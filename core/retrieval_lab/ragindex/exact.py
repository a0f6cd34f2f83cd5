"""Products and distances that are the same on every platform, and how far faster ones may be off.

A matrix product of BLAS rounds as its library and processor please. So it only narrows down which rows can matter; what
is returned, and every tie, is decided by float64 sums from the first dimension to the last.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retrieval_lab.embed import Vectors
from retrieval_lab.errors import InputError
from retrieval_lab.ragindex.ranking import Rows

LARGEST = 1e15
"""No number of a vector may be larger: squares would leave float32."""

_BLOCK_NUMBERS = 1 << 18  # of float64, which stay in the processor's cache
_UNIT_ROUNDOFF = 2.0**-24  # of float32


def as_vectors(vecs: Any) -> Vectors:
    """The vectors as a plain array of shape (n, dims); of a memory-mapped one each operation would make another.

    Raises InputError for another number of dimensions.
    """
    array = np.asarray(vecs)
    if array.ndim != 2:
        raise InputError(f"the vectors have the shape {array.shape}; expected (n, dims)")
    return array if np.issubdtype(array.dtype, np.floating) else array.astype(np.float32)


def dots(vecs: Vectors, rows: Rows, query: NDArray[np.float64]) -> NDArray[np.float64]:
    """The dot product of each of the rows with the query, shape (len(rows),)."""
    found = np.empty(len(rows))
    for part in _blocks(len(rows), vecs.shape[1]):
        found[part] = _sums(vecs[rows[part]] * query)
    return found


def square_distances(
    vecs: NDArray[np.float32] | NDArray[np.float64], rows: Rows, point: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The squared Euclidean distance of each of the rows from the point, shape (len(rows),)."""
    found = np.empty(len(rows))
    for part in _blocks(len(rows), vecs.shape[1]):
        found[part] = _sums((vecs[rows[part]] - point) ** 2)
    return found


def square_lengths(vecs: NDArray[np.float32] | NDArray[np.float64]) -> NDArray[np.float64]:
    """The squared length of every row, shape (len(vecs),)."""
    found = np.empty(len(vecs))
    for part in _blocks(len(vecs), vecs.shape[1]):
        found[part] = _sums(vecs[part].astype(np.float64) ** 2)
    return found


def longest(vecs: Vectors) -> float:
    """The length of the longest row, or slightly more; 0 without rows.

    Raises InputError, which names the row, for NaN, infinity and numbers too large to multiply.
    """
    most = 0.0
    for part in _blocks(len(vecs), vecs.shape[1]):
        with np.errstate(over="ignore", invalid="ignore"):
            squares = np.einsum("ij,ij->i", vecs[part], vecs[part])
        if not (squares <= LARGEST**2).all():
            row = part.start + int(np.flatnonzero(~(squares <= LARGEST**2))[0])
            raise InputError(f"vector {row} holds NaN, infinity or a number that is too large; expected unit length")
        most = max(most, float(squares.max(initial=0.0)))
    return float(np.sqrt(most) * (1 + slack(vecs.shape[1], 1.0)))


def slack(dims: int, size: float) -> float:
    """The most by which a float32 dot product of two vectors may be off, `size` being the product of their lengths.

    The usual bound, gamma_n |x| |y|: Higham, "Accuracy and Stability of Numerical Algorithms" (2002), 3.1; the
    further roundings are those of the query to float32, of the result and of what is compared with it.
    """
    steps = (dims + 4) * _UNIT_ROUNDOFF
    return steps / (1 - steps) * size


def _blocks(rows: int, dims: int) -> Iterator[slice]:
    size = max(1, _BLOCK_NUMBERS // max(1, dims))
    for start in range(0, rows, size):
        yield slice(start, min(start + size, rows))


def _sums(terms: NDArray[np.float64]) -> NDArray[np.float64]:
    """The sum of each row; numpy's own sum adds in an order of its own."""
    if terms.shape[1] == 0:
        return np.zeros(len(terms))
    sums: NDArray[np.float64] = np.add.accumulate(terms, axis=1)[:, -1]
    return sums
