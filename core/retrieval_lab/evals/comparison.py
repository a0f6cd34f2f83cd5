"""A system against a baseline, paired by query: the difference, how sure it is, and which queries it hangs on.

Values are finite numbers, one a query, without the queries whose measure is undefined. Differences are system minus
baseline. Intervals and p are those of `resampling`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from retrieval_lab.errors import InputError
from retrieval_lab.evals.resampling import (
    DRAWS,
    LEVEL,
    RESAMPLES,
    SEED,
    TIE,
    Array,
    Interval,
    Values,
    as_vector,
    at_least_one,
    bootstrap_intervals,
    inside_0_1,
    mean_of,
    paired_differences,
    permutation_tests,
)


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


@dataclass(frozen=True, slots=True)
class Corrected:
    """One of several systems against their baseline: its comparisons, and p corrected for how many systems there are.

    `p` has, for each measure, the p of `measures` after Holm's correction over the systems that have the measure.
    Several measures of one system are not corrected for.
    """

    measures: Mapping[str, Comparison]
    p: Mapping[str, float]

    def to_dict(self) -> dict[str, Any]:
        """The comparisons as JSON has them, each with its corrected p as `p_holm`."""
        return {name: {**asdict(one), "p_holm": self.p[name]} for name, one in self.measures.items()}


# --- all of it -----------------------------------------------------------------------------------------------------


def compare(
    system: Values,
    baseline: Values,
    query_ids: Sequence[str],
    *,
    resamples: int = RESAMPLES,
    draws: int = DRAWS,
    seed: int = SEED,
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
    seed: int = SEED,
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
    p_values = permutation_tests(ours, theirs, draws=draws, seed=seed)
    found = bootstrap_intervals(
        np.concatenate([ours, theirs, difference], axis=1), resamples=resamples, seed=seed, level=level
    )
    intervals: Sequence[Interval | None] = found or [None] * (3 * len(system))
    return {
        name: Comparison(
            queries=len(query_ids),
            system=mean_of(ours[:, i]),
            baseline=mean_of(theirs[:, i]),
            difference=mean_of(difference[:, i]),
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


# --- the queries behind a difference -------------------------------------------------------------------------------


def win_tie_loss(system: Values, baseline: Values) -> WinTieLoss:
    """On how many queries the system wins, ties, loses; a difference up to 1e-12 is a tie.

    Raises InputError when the two differ in length or a value is not a finite number.
    """
    difference = paired_differences(system, baseline)
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
    inside_0_1(power, "power")
    inside_0_1(alpha, "alpha")
    values = as_vector(differences, "differences")
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
    difference = paired_differences(system, baseline)
    if len(query_ids) != len(difference):
        raise InputError(f"{len(query_ids)} query ids for {len(difference)} queries; expected one for each")
    mean = mean_of(difference)
    weight = np.abs(difference) if abs(mean) <= TIE else math.copysign(1.0, mean) * difference
    heaviest = np.argsort(-weight, kind="stable")[:n].tolist()
    return tuple(Carrier(query_ids[i], float(difference[i])) for i in heaviest if weight[i] > TIE)


# --- several systems -----------------------------------------------------------------------------------------------


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


def corrected(systems: Sequence[Mapping[str, Comparison]]) -> tuple[Corrected, ...]:
    """The comparisons of several systems with one baseline, each with its p values corrected, in the order given."""
    p: list[dict[str, float]] = [{} for _ in systems]
    for name in dict.fromkeys(name for one in systems for name in one):
        having = [number for number, one in enumerate(systems) if name in one]
        for number, value in zip(having, holm([systems[number][name].p for number in having]), strict=True):
            p[number][name] = value
    return tuple(Corrected(one, of_one) for one, of_one in zip(systems, p, strict=True))


# --- what comes in -------------------------------------------------------------------------------------------------


def _columns(measures: Mapping[str, Values], name: str, queries: int) -> Array:
    """The measures side by side (queries x measures)."""
    columns = []
    for measure, values in measures.items():
        label = f"{name} {measure}".rstrip()
        columns.append(as_vector(values, label))
        if len(columns[-1]) != queries:
            raise InputError(f"{label}: {len(columns[-1])} values for {queries} query ids; expected as many")
    return np.stack(columns, axis=1)


def _check_ids(query_ids: Sequence[str]) -> None:
    at_least_one(len(query_ids), "queries")
    seen: set[str] = set()
    for query_id in query_ids:
        if query_id in seen:
            raise InputError(f"query id {query_id!r} stands twice; expected each once")
        seen.add(query_id)
