"""How sure a mean over queries is, and whether it could differ from another by chance alone.

Everything works on values per query, finite numbers without the queries whose measure is undefined. Differences are
system minus baseline, paired by query. The same seed gives the same result in every process. The functions in the
plural take a matrix (queries x measures) and treat its columns at once; each column gets what it would get alone.

Sources: Efron and Tibshirani, "An Introduction to the Bootstrap" (1993), chapter 13, for the percentile interval;
Smucker, Allan and Carterette, "A Comparison of Statistical Significance Tests for Information Retrieval Evaluation"
(CIKM 2007) for the paired randomisation test; Phipson and Smyth, "Permutation P-values Should Never Be Zero" (2010)
for p = (b + 1) / (m + 1).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retrieval_lab.errors import InputError

RESAMPLES = 2_000
DRAWS = 10_000
LEVEL = 0.95
SEED = 0
EXACT_UP_TO = 14
TIE = 1e-12
"""Two values closer than this are a tie; beyond 1 it grows with the largest difference, as rounding does."""

Values = Sequence[float] | NDArray[Any]
Array = NDArray[np.float64]

_CELLS = 1 << 18  # resampled values held at once: 2 MiB for each array of them
_BLOCK = 1 << 14  # permutations held at once
# What each byte says about eight queries: row b has +1 where bit j of b is set, else -1.
_SIGNS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little") * 2.0 - 1.0


@dataclass(frozen=True, slots=True)
class Interval:
    """An interval of a mean, both ends included."""

    low: float
    high: float


# --- intervals -----------------------------------------------------------------------------------------------------


def bootstrap_interval(
    values: Values, *, resamples: int = RESAMPLES, seed: int = SEED, level: float = LEVEL
) -> Interval | None:
    """The percentile bootstrap interval of the mean over queries; None for one query or none.

    Its ends are the (1 - level) / 2 and (1 + level) / 2 quantiles, interpolated linearly, of the means of `resamples`
    samples drawn with replacement. Raises InputError for a value that is not a finite number, fewer than one
    resample, or a level outside 0 to 1.
    """
    found = bootstrap_intervals(as_vector(values, "values")[:, None], resamples=resamples, seed=seed, level=level)
    return found[0] if found else None


def bootstrap_intervals(
    values: NDArray[Any], *, resamples: int = RESAMPLES, seed: int = SEED, level: float = LEVEL
) -> tuple[Interval, ...] | None:
    """The interval of each column of `values` (queries x measures), as `bootstrap_interval` gives it.

    All columns see the same samples. None for one query or none. Raises InputError as `bootstrap_interval` does.
    """
    matrix = _matrix(values, "values")
    at_least_one(resamples, "resamples")
    inside_0_1(level, "level")
    if len(matrix) < 2:
        return None
    means = _resampled_means(matrix, resamples, _generator(seed))
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2], axis=1)
    # No mean lies outside the values; rounding may, so that equal values would get an interval with a width.
    lowest, highest = matrix.min(axis=0), matrix.max(axis=0)
    ends = zip(np.clip(low, lowest, highest).tolist(), np.clip(high, lowest, highest).tolist(), strict=True)
    return tuple(Interval(*pair) for pair in ends)


def bootstrap_means(values: Values, *, resamples: int = RESAMPLES, seed: int = SEED) -> Array:
    """The bootstrap distribution of the mean: the means of the samples that `bootstrap_interval` takes quantiles of.

    Raises InputError for no value, one that is not a finite number, or fewer than one resample.
    """
    vector = as_vector(values, "values")
    at_least_one(len(vector), "values")
    at_least_one(resamples, "resamples")
    means: Array = _resampled_means(vector[:, None], resamples, _generator(seed))[0]
    return means


def paired_bootstrap_interval(
    system: Values, baseline: Values, *, resamples: int = RESAMPLES, seed: int = SEED, level: float = LEVEL
) -> Interval | None:
    """The percentile bootstrap interval of the mean difference, system minus baseline, over queries.

    None for one query or none; from 0 to 0 for identical systems. Raises InputError as `bootstrap_interval` does, and
    when the two differ in length.
    """
    difference = paired_differences(system, baseline)
    return bootstrap_interval(difference, resamples=resamples, seed=seed, level=level)


def _resampled_means(matrix: Array, resamples: int, generator: np.random.Generator) -> Array:
    """Means of each column over the same samples of rows (measures x resamples)."""
    queries = len(matrix)
    columns = np.ascontiguousarray(matrix.T)
    means = np.empty((len(columns), resamples))
    step = max(1, _CELLS // queries)
    for start in range(0, resamples, step):
        shape = (min(step, resamples - start), queries)
        rows = generator.integers(queries, size=shape, dtype=np.uint32).astype(np.intp)
        for column, out in zip(columns, means, strict=True):
            # Gathered and summed rather than counts times values: BLAS rounds by the number of columns and threads.
            out[start : start + len(rows)] = column.take(rows).sum(axis=1)
    means /= queries
    return means


# --- the permutation test ------------------------------------------------------------------------------------------


def permutation_test(system: Values, baseline: Values, *, draws: int = DRAWS, seed: int = SEED) -> float:
    """p of the paired, two-sided sign-flip test of the mean difference.

    Up to 14 queries it is exact: the share of all assignments of signs whose mean difference is as far from 0 as the
    one seen. Beyond, p = (b + 1) / (m + 1), where b of m random assignments are as far. What falls short by no more
    than 1e-12 counts as as far. Identical systems give 1; no p is 0. Raises InputError when there is no query, the two
    differ in length, a value is not a finite number, or draws is below 1.
    """
    difference = paired_differences(system, baseline)
    return _p_values(difference[:, None], draws, seed)[0]


def permutation_tests(
    system: NDArray[Any], baseline: NDArray[Any], *, draws: int = DRAWS, seed: int = SEED
) -> tuple[float, ...]:
    """p for each pair of columns (queries x measures), as `permutation_test` gives it.

    All columns see the same signs. Raises InputError as `permutation_test` does.
    """
    ours, theirs = _matrix(system, "system"), _matrix(baseline, "baseline")
    if ours.shape != theirs.shape:
        raise InputError(f"the system is {ours.shape} and the baseline {theirs.shape}; expected the same shape")
    return _p_values(ours - theirs, draws, seed)


def _p_values(differences: Array, draws: int, seed: int) -> tuple[float, ...]:
    queries = len(differences)
    at_least_one(queries, "queries")
    at_least_one(draws, "draws")
    generator = _generator(seed)
    slack = TIE * np.maximum(1, np.abs(differences).max(axis=0))
    limit = np.abs(differences.mean(axis=0)) - slack
    exact = queries <= EXACT_UP_TO
    sums = _all_sums(differences) if exact else _random_sums(differences, draws, generator)
    extreme = sum((np.abs(some) / queries >= limit).sum(axis=0) for some in sums)
    p = extreme / 2**queries if exact else (extreme + 1) / (draws + 1)
    return tuple(np.asarray(p).tolist())


def _all_sums(differences: Array) -> Iterator[Array]:
    """Sums of each column under every assignment of signs (assignments x measures)."""
    codes = np.arange(2 ** len(differences))
    total = np.zeros((len(codes), differences.shape[1]))
    for group, table in enumerate(_tables(differences)):
        total += table.take(codes >> (8 * group) & 255, axis=0)
    yield total


def _random_sums(differences: Array, draws: int, generator: np.random.Generator) -> Iterator[Array]:
    """Sums of each column under random signs (draws x measures), in blocks.

    Eight queries at a time: a random byte is their signs, and a table holds their sum for each of the 256 bytes.
    """
    for start in range(0, draws, _BLOCK):
        block = min(_BLOCK, draws - start)
        total = np.zeros((block, differences.shape[1]))
        for table in _tables(differences):
            total += table.take(generator.integers(256, size=block, dtype=np.uint8), axis=0)
        yield total


def _tables(differences: Array) -> Iterator[Array]:
    """For each eight rows in turn, their sums under the signs of every byte (256 x measures)."""
    for start in range(0, len(differences), 8):
        rows = differences[start : start + 8]
        yield _SIGNS[:, : len(rows)] @ rows


# --- what comes in -------------------------------------------------------------------------------------------------


def paired_differences(system: Values, baseline: Values) -> Array:
    """System minus baseline for each query. Raises InputError when the lengths differ or a value is not finite."""
    ours, theirs = as_vector(system, "the system"), as_vector(baseline, "the baseline")
    if len(ours) != len(theirs):
        raise InputError(f"{len(ours)} values for the system and {len(theirs)} for the baseline; expected as many")
    return ours - theirs


def as_vector(values: Values, name: str) -> Array:
    """The values as an array of one dimension. Raises InputError, which calls them `name`, for anything else."""
    array = _numbers(values, name)
    if array.ndim != 1:
        raise InputError(f"{name}: an array of {array.ndim} dimensions; expected one value a query")
    return array


def _matrix(values: NDArray[Any], name: str) -> Array:
    array = _numbers(values, name)
    if array.ndim != 2:
        raise InputError(f"{name}: an array of {array.ndim} dimensions; expected queries x measures")
    return array


def _numbers(values: Values, name: str) -> Array:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name}: {error}; expected one number a query") from error
    finite = np.isfinite(array)
    if not finite.all():
        place = np.unravel_index(int(np.argmin(finite)), array.shape)
        raise InputError(
            f"{name}: the value of query {int(place[0]) + 1} is {array[place]}; expected finite numbers, with the"
            " queries whose measure is undefined left out"
        )
    return array


def mean_of(values: Array) -> float:
    """The mean, its sum rounded once; 0 of no values."""
    return math.fsum(values.tolist()) / len(values) if len(values) else 0.0


def _generator(seed: int) -> np.random.Generator:
    if seed < 0:
        raise InputError(f"the seed is {seed}; expected 0 or more")
    return np.random.Generator(np.random.PCG64(seed))  # by name: what default_rng uses may change


def at_least_one(number: int, name: str) -> None:
    """Raises InputError for a number of `name` below 1."""
    if number < 1:
        raise InputError(f"{number} {name}; expected 1 or more")


def inside_0_1(number: float, name: str) -> None:
    """Raises InputError for a number outside 0 to 1, and for both ends."""
    if not 0 < number < 1:
        raise InputError(f"{name} is {number}; expected a number between 0 and 1")
