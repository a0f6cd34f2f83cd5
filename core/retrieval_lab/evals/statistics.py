"""How sure a mean over queries is, and whether two configurations differ.

Everything works on values per query, finite numbers without the queries whose measure is undefined. Differences are
system minus baseline, paired by query. The same seed gives the same result in every process. The functions in the
plural take a matrix (queries x measures) and treat its columns at once; each column gets what it would get alone.

Sources: Efron and Tibshirani, "An Introduction to the Bootstrap" (1993), chapter 13, for the percentile interval;
Smucker, Allan and Carterette, "A Comparison of Statistical Significance Tests for Information Retrieval Evaluation"
(CIKM 2007) for the paired randomisation test; Phipson and Smyth, "Permutation P-values Should Never Be Zero" (2010)
for p = (b + 1) / (m + 1); Holm, "A Simple Sequentially Rejective Multiple Test Procedure" (1979).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retrieval_lab.errors import InputError

RESAMPLES = 2_000
DRAWS = 10_000
LEVEL = 0.95
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


@dataclass(frozen=True, slots=True)
class WinTieLoss:
    """On how many queries the system is better than the baseline, as good, worse."""

    wins: int
    ties: int
    losses: int


@dataclass(frozen=True, slots=True)
class Carrier:
    """A query that carries a result, with its difference, system minus baseline."""

    query_id: str
    difference: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """A system against a baseline on one measure.

    `system` and `baseline` are means over the `queries`, `difference` is the mean of system minus baseline; each has
    its interval, None for one query. `p` is that of the paired permutation test, uncorrected (`holm` corrects several).
    `detectable` is the smallest mean difference that this number of queries could have shown, None for one query.
    `carriers` are the queries that carry the result, the heaviest first.
    """

    queries: int
    system: float
    baseline: float
    difference: float
    system_interval: Interval | None
    baseline_interval: Interval | None
    difference_interval: Interval | None
    p: float
    counts: WinTieLoss
    detectable: float | None
    carriers: tuple[Carrier, ...]


# --- intervals -----------------------------------------------------------------------------------------------------


def bootstrap_interval(
    values: Values, *, resamples: int = RESAMPLES, seed: int = 0, level: float = LEVEL
) -> Interval | None:
    """The percentile bootstrap interval of the mean over queries; None for one query or none.

    Its ends are the (1 - level) / 2 and (1 + level) / 2 quantiles, interpolated linearly, of the means of `resamples`
    samples drawn with replacement. Raises InputError for a value that is not a finite number, fewer than one
    resample, or a level outside 0 to 1.
    """
    found = bootstrap_intervals(_vector(values, "values")[:, None], resamples=resamples, seed=seed, level=level)
    return found[0] if found else None


def bootstrap_intervals(
    values: NDArray[Any], *, resamples: int = RESAMPLES, seed: int = 0, level: float = LEVEL
) -> tuple[Interval, ...] | None:
    """The interval of each column of `values` (queries x measures), as `bootstrap_interval` gives it.

    All columns see the same samples. None for one query or none. Raises InputError as `bootstrap_interval` does.
    """
    matrix = _matrix(values, "values")
    _at_least_one(resamples, "resamples")
    _inside_0_1(level, "level")
    if len(matrix) < 2:
        return None
    means = _resampled_means(matrix, resamples, _generator(seed))
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2], axis=1)
    # No mean lies outside the values; rounding may, so that equal values would get an interval with a width.
    lowest, highest = matrix.min(axis=0), matrix.max(axis=0)
    ends = zip(np.clip(low, lowest, highest).tolist(), np.clip(high, lowest, highest).tolist(), strict=True)
    return tuple(Interval(*pair) for pair in ends)


def paired_bootstrap_interval(
    system: Values, baseline: Values, *, resamples: int = RESAMPLES, seed: int = 0, level: float = LEVEL
) -> Interval | None:
    """The percentile bootstrap interval of the mean difference, system minus baseline, over queries.

    None for one query or none; from 0 to 0 for identical systems. Raises InputError as `bootstrap_interval` does, and
    when the two differ in length.
    """
    difference = _differences(system, baseline)
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


def permutation_test(system: Values, baseline: Values, *, draws: int = DRAWS, seed: int = 0) -> float:
    """p of the paired, two-sided sign-flip test of the mean difference.

    Up to 14 queries it is exact: the share of all assignments of signs whose mean difference is as far from 0 as the
    one seen. Beyond, p = (b + 1) / (m + 1), where b of m random assignments are as far. What falls short by no more
    than 1e-12 counts as as far. Identical systems give 1; no p is 0. Raises InputError when there is no query, the two
    differ in length, a value is not a finite number, or draws is below 1.
    """
    difference = _differences(system, baseline)
    return _p_values(difference[:, None], draws, seed)[0]


def permutation_tests(
    system: NDArray[Any], baseline: NDArray[Any], *, draws: int = DRAWS, seed: int = 0
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
    _at_least_one(queries, "queries")
    _at_least_one(draws, "draws")
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


def holm(p_values: Sequence[float]) -> list[float]:
    """The p values corrected for their number by Holm's step-down rule, in the order given; none for none.

    The i-th smallest of n becomes the largest, over the j-th smallest up to it, of (n - j + 1) p, at most 1: the
    chance that any of true null hypotheses is rejected stays below the threshold. Raises InputError for a p outside 0
    to 1.
    """
    for p in p_values:
        if not 0 <= p <= 1:
            raise InputError(f"a p value is {p}; expected 0 to 1")
    corrected = [0.0] * len(p_values)
    highest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = highest
    return corrected


# --- the queries behind a difference -------------------------------------------------------------------------------


def win_tie_loss(system: Values, baseline: Values) -> WinTieLoss:
    """On how many queries the system wins, ties, loses; a difference up to 1e-12 is a tie.

    Raises InputError when the two differ in length or a value is not a finite number.
    """
    difference = _differences(system, baseline)
    wins, losses = int((difference > TIE).sum()), int((difference < -TIE).sum())
    return WinTieLoss(wins, len(difference) - wins - losses, losses)


def detectable_difference(differences: Values, power: float = 0.8, alpha: float = 0.05) -> float | None:
    """The smallest mean difference that a two-sided test over this number of queries could have shown.

    (z(1 - alpha / 2) + z(power)) s / sqrt(n), where z is the normal quantile, s the standard deviation of the
    differences (n - 1 below) and n their number: the sample size formula of the paired test solved for the
    difference, as in Webber, Moffat and Zobel, "Statistical Power in Retrieval Experimentation" (CIKM 2008), with
    normal in place of t quantiles, so slightly too hopeful below some 20 queries. None for one query or none.
    Raises InputError for a value that is not a finite number, or power or alpha outside 0 to 1.
    """
    _inside_0_1(power, "power")
    _inside_0_1(alpha, "alpha")
    values = _vector(differences, "differences")
    if len(values) < 2:
        return None
    quantile = NormalDist().inv_cdf
    return (quantile(1 - alpha / 2) + quantile(power)) * float(values.std(ddof=1)) / math.sqrt(len(values))


def carriers(system: Values, baseline: Values, query_ids: Sequence[str], n: int = 3) -> tuple[Carrier, ...]:
    """The n queries that carry the result: those with the largest differences in the direction of the mean difference.

    The heaviest comes first, of equal ones the earlier; fewer than n where fewer point that way. With a mean
    difference of 0 they are the largest in either direction. Raises InputError when the lengths differ, a value is
    not a finite number, or n is negative.
    """
    if n < 0:
        raise InputError(f"{n} queries were asked for; expected 0 or more")
    difference = _differences(system, baseline)
    if len(query_ids) != len(difference):
        raise InputError(f"{len(query_ids)} query ids for {len(difference)} queries; expected one for each")
    mean = _mean(difference)
    weight = np.abs(difference) if abs(mean) <= TIE else math.copysign(1.0, mean) * difference
    heaviest = np.argsort(-weight, kind="stable")[:n].tolist()
    return tuple(Carrier(query_ids[i], float(difference[i])) for i in heaviest if weight[i] > TIE)


# --- all of it -----------------------------------------------------------------------------------------------------


def compare(
    system: Values,
    baseline: Values,
    query_ids: Sequence[str],
    *,
    resamples: int = RESAMPLES,
    draws: int = DRAWS,
    seed: int = 0,
    level: float = LEVEL,
) -> Comparison:
    """Everything about one measure of a system against a baseline, paired by query.

    Raises InputError when there is no query, the lengths differ, an id stands twice, or a value is not a finite number.
    """
    one = compare_measures(
        {"": system}, {"": baseline}, query_ids, resamples=resamples, draws=draws, seed=seed, level=level
    )
    return one[""]


def compare_measures(
    system: Mapping[str, Values],
    baseline: Mapping[str, Values],
    query_ids: Sequence[str],
    *,
    resamples: int = RESAMPLES,
    draws: int = DRAWS,
    seed: int = 0,
    level: float = LEVEL,
) -> dict[str, Comparison]:
    """`compare` for each measure, by its name, in the order of `system`; several at once cost less than one by one.

    Raises InputError as `compare` does, and when the two hold different measures.
    """
    if system.keys() != baseline.keys():
        raise InputError(
            f"the system has {', '.join(system)} and the baseline {', '.join(baseline)}; expected the same"
        )
    if not system:
        return {}
    _check_ids(query_ids)
    ours = _columns(system, "the system", len(query_ids))
    theirs = _columns({name: baseline[name] for name in system}, "the baseline", len(query_ids))
    difference = ours - theirs
    p_values = _p_values(difference, draws, seed)
    found = bootstrap_intervals(
        np.concatenate([ours, theirs, difference], axis=1), resamples=resamples, seed=seed, level=level
    )
    intervals: Sequence[Interval | None] = found or [None] * (3 * len(system))
    return {
        name: Comparison(
            queries=len(query_ids),
            system=_mean(ours[:, i]),
            baseline=_mean(theirs[:, i]),
            difference=_mean(difference[:, i]),
            system_interval=intervals[i],
            baseline_interval=intervals[i + len(system)],
            difference_interval=intervals[i + 2 * len(system)],
            p=p_values[i],
            counts=win_tie_loss(ours[:, i], theirs[:, i]),
            detectable=detectable_difference(difference[:, i]),
            carriers=carriers(ours[:, i], theirs[:, i], query_ids),
        )
        for i, name in enumerate(system)
    }


# --- what comes in -------------------------------------------------------------------------------------------------


def _columns(measures: Mapping[str, Values], name: str, queries: int) -> Array:
    """The measures side by side (queries x measures)."""
    columns = []
    for measure, values in measures.items():
        label = f"{name} {measure}".rstrip()
        columns.append(_vector(values, label))
        if len(columns[-1]) != queries:
            raise InputError(f"{label}: {len(columns[-1])} values for {queries} query ids; expected as many")
    return np.stack(columns, axis=1)


def _differences(system: Values, baseline: Values) -> Array:
    ours, theirs = _vector(system, "the system"), _vector(baseline, "the baseline")
    if len(ours) != len(theirs):
        raise InputError(f"{len(ours)} values for the system and {len(theirs)} for the baseline; expected as many")
    return ours - theirs


def _vector(values: Values, name: str) -> Array:
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


def _check_ids(query_ids: Sequence[str]) -> None:
    _at_least_one(len(query_ids), "queries")
    seen: set[str] = set()
    for query_id in query_ids:
        if query_id in seen:
            raise InputError(f"query id {query_id!r} stands twice; expected each once")
        seen.add(query_id)


def _mean(values: Array) -> float:
    return math.fsum(values.tolist()) / len(values) if len(values) else 0.0


def _generator(seed: int) -> np.random.Generator:
    if seed < 0:
        raise InputError(f"the seed is {seed}; expected 0 or more")
    return np.random.Generator(np.random.PCG64(seed))  # by name: what default_rng uses may change


def _at_least_one(number: int, name: str) -> None:
    if number < 1:
        raise InputError(f"{number} {name}; expected 1 or more")


def _inside_0_1(number: float, name: str) -> None:
    if not 0 < number < 1:
        raise InputError(f"{name} is {number}; expected a number between 0 and 1")
