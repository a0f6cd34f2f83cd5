"""Retrieval measures over many ranked lists at once, with graded labels.

A grade of 1 or more is relevant and its own gain, 0 is judged and not relevant, and one below 0 is as good as no label,
but for its place in the pool. An id that stands twice in a list counts at its first place only, the later one keeps its
place. For grades 0 and 1 the first measures equal those of `retrieval_lab.metrics`, which names their sources. All
agree with trec_eval 10, whose names are in `retrieval_lab.evals.scoring`; sources of the others: Manning, Raghavan and
Schütze, "Introduction to Information Retrieval" (2008), chapter 8.4, for average, R- and interpolated precision;
Buckley and Voorhees, "Retrieval Evaluation with Incomplete Information" (SIGIR 2004), for bpref.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from retrieval_lab.errors import InputError
from retrieval_lab.evals.placed import listed_grades, scored_grades

R = TypeVar("R")
Array = NDArray[np.float64]

MAP = "map"
AT_CUT = ("recall", "precision", "hit", "mrr", "ndcg")
RECALL_LEVELS = tuple(tenth / 10 for tenth in range(11))

_BLOCK = 1024  # queries treated at once, so that memory does not grow with their number


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """Measures by query.

    `values` is (queries x measures), its columns are `names`. `defined` says which queries have a relevant label; the
    rows of the others are nan, so that no mean counts them in silence, unless all were to be defined.
    """

    names: tuple[str, ...]
    values: Array
    defined: NDArray[np.bool_]

    def scored(self) -> dict[str, Array]:
        """The values of the defined queries, by measure."""
        kept = self.values[self.defined]
        return {name: kept[:, column] for column, name in enumerate(self.names)}


def measure(
    ranked: Sequence[Sequence[str]], labels: Sequence[Mapping[str, int]], *, cuts: Sequence[int] = (10,)
) -> Measured:
    """recall, precision, hit, mrr and ndcg at each cut ("recall@10") and map, for each query.

    `ranked` has a list of ids for each query, the best first, `labels` the grades of its labelled ids. Recall is over
    all relevant ids, precision over the cut however long the list is; hit is 1 when the cut list has a relevant id;
    mrr is one over the rank of the first one in it, else 0; map reads the whole list; ndcg divides by the gain of an
    ideal list of all labelled ids, cut likewise. An empty list scores 0. Raises InputError when the lengths differ or a
    cut is negative.
    """
    for cut in cuts:
        if cut < 0:
            raise InputError(f"k is {cut}; expected 0 or more")
    return measure_names(ranked, labels, (*(f"{name}@{cut}" for cut in cuts for name in AT_CUT), MAP))


def measure_names(
    ranked: Sequence[Sequence[str]],
    labels: Sequence[Mapping[str, int]],
    names: Sequence[str],
    *,
    level: int = 1,
    all_defined: bool = False,
) -> Measured:
    """The measures of these names for each query; `FAMILIES` has all, with `@k` behind those that have a cut.

    `ranked` and `labels` are as for `measure`. `level` is the lowest grade that is relevant; gains do not change with
    it. A query without a relevant label gets nan for everything; with `all_defined` what trec_eval makes of it, which
    is 0 for all but counts, judged ids, and ndcg, whose gains may lie below the level. Raises InputError when the
    lengths differ, for an unknown name, and for a level below 1.
    """
    return _measured(ranked, labels, names, listed_grades, level, all_defined)


def measure_scored(
    results: Sequence[Mapping[str, float]],
    labels: Sequence[Mapping[str, int]],
    names: Sequence[str],
    *,
    level: int = 1,
    all_defined: bool = False,
    max_results: int | None = None,
) -> Measured:
    """What `measure_names` gives for lists ordered by score, then by id from the last, as trec_eval orders them.

    `results` has the score of each id, finite numbers, for each query; in what order does not matter. Of each query
    only the first `max_results` count. Faster than sorting ids: no place is found for those without a label. Raises
    InputError as that does, and for a `max_results` below 1.
    """
    if max_results is not None and max_results < 1:
        raise InputError(f"{max_results} results of each query; expected 1 or more")
    return _measured(results, labels, names, partial(scored_grades, max_results), level, all_defined)


def _measured(
    results: Sequence[R],
    labels: Sequence[Mapping[str, int]],
    names: Sequence[str],
    grades: Callable[[Sequence[R], Sequence[Mapping[str, int]]], tuple[Array, Array]],
    level: int,
    all_defined: bool,
) -> Measured:
    if len(results) != len(labels):
        raise InputError(f"{len(results)} ranked lists and labels for {len(labels)} queries; expected one for each")
    if level < 1:
        raise InputError(f"the lowest relevant grade is {level}; expected 1 or more")
    wanted = [_parsed(name) for name in names]
    values = np.empty((len(results), len(wanted)))
    defined = np.empty(len(results), dtype=np.bool_)
    for start in range(0, len(results), _BLOCK):
        block = slice(start, start + _BLOCK)
        facts = _Facts(*grades(results[block], labels[block]), labels[block], level)
        for column, (family, cut) in enumerate(wanted):
            values[block, column] = family.compute(facts, cut)
        defined[block] = facts.relevant > 0
    if not all_defined:
        values[~defined] = np.nan
    return Measured(tuple(names), values, defined)


def distinct_documents(doc_ids: Sequence[Sequence[str]], k: int = 5) -> Array:
    """How many documents the first k places of each list hold, given the document of each; 0 of an empty list."""
    return np.array([len(set(ids[:k])) for ids in doc_ids], dtype=np.float64)


# --- what measures are made of -------------------------------------------------------------------------------------


class _Facts:
    """What the measures of some queries are computed from, each made when a measure first needs it."""

    def __init__(self, grades: Array, returned: Array, labels: Sequence[Mapping[str, int]], level: int) -> None:
        self.level = level
        self.grades = grades
        """The grade at each place (queries x longest list, 1 at least), nan where there is none."""
        self.returned = returned
        """How long each list is."""
        sizes = np.fromiter(map(len, labels), np.intp, len(labels))
        self._labelled = np.fromiter(chain.from_iterable(one.values() for one in labels), np.float64, int(sizes.sum()))
        self._rows = np.repeat(np.arange(len(labels)), sizes)

    @cached_property
    def hits(self) -> NDArray[np.bool_]:
        """Whether what stands at each place is relevant."""
        return self.grades >= self.level

    @cached_property
    def found(self) -> Array:
        """How many of the first 0, 1, 2 ... places are relevant."""
        return _running(self.hits)

    @cached_property
    def first(self) -> Array:
        """The rank of the first relevant place, infinity without one."""
        return np.where(self.hits.any(axis=1), self.hits.argmax(axis=1) + 1.0, np.inf)

    @cached_property
    def relevant(self) -> Array:
        """How many labels are relevant."""
        return self._count(self._labelled >= self.level)

    @cached_property
    def not_relevant(self) -> Array:
        """How many labels are judged and not relevant."""
        return self._count((self._labelled >= 0) & (self._labelled < self.level))

    @cached_property
    def rejected(self) -> Array:
        """How many of the first 0, 1, 2 ... places are judged and not relevant."""
        return _running((self.grades >= 0) & ~self.hits)

    @cached_property
    def labelled(self) -> Array:
        """How many of the first 0, 1, 2 ... places have a label of any grade."""
        return _running(~np.isnan(self.grades))

    @cached_property
    def precisions(self) -> Array:
        """The precision of the first 1, 2 ... places."""
        return self.found[:, 1:] / np.arange(1, self.found.shape[1])

    @cached_property
    def average(self) -> Array:
        """The sum of the precisions at relevant places among the first 0, 1, 2 ... ."""
        return _running(self.precisions * self.hits)

    @cached_property
    def gained(self) -> Array:
        """The discounted gain of the first 0, 1, 2 ... places."""
        gains = np.where(self.grades > 0, self.grades, 0.0)
        return _running(gains * _discounts(gains.shape[1]))

    @cached_property
    def ideal(self) -> Array:
        """The discounted gain of the first 0, 1, 2 ... places of a list of all labels, the highest grade first."""
        gaining = self._labelled > 0
        rows, gains = self._rows[gaining], self._labelled[gaining]
        order = np.lexsort((-gains, rows))
        sizes = np.bincount(rows, minlength=len(self.grades))
        places = np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        best = np.zeros((len(self.grades), sizes.max(initial=0)))
        best[rows, places] = gains[order]
        return _running(best * _discounts(best.shape[1]))

    @cached_property
    def best_from(self) -> Array:
        """The highest precision from each place on."""
        return np.maximum.accumulate(self.precisions[:, ::-1], axis=1)[:, ::-1]

    def _count(self, which: NDArray[np.bool_]) -> Array:
        return np.bincount(self._rows[which], minlength=len(self.grades)).astype(np.float64)


def _discounts(places: int) -> Array:
    return np.array([1 / math.log2(rank + 1) for rank in range(1, places + 1)])


def _running(values: NDArray[np.generic]) -> Array:
    """Sums of the first 0, 1, 2 ... columns, added one by one from the left."""
    sums = np.zeros((values.shape[0], values.shape[1] + 1))
    np.cumsum(values, axis=1, dtype=np.float64, out=sums[:, 1:])
    return sums


def _at(running: Array, cut: float) -> Array:
    return running[:, int(min(cut, running.shape[1] - 1))]


def _over(values: Array, totals: Array) -> Array:
    return np.divide(values, totals, out=np.zeros_like(values), where=totals > 0)


# --- the measures --------------------------------------------------------------------------------------------------


def _precision(facts: _Facts, cut: float) -> Array:
    return _at(facts.found, cut) / cut if cut else np.zeros(len(facts.grades))


def _reciprocal_rank(facts: _Facts, cut: float) -> Array:
    return np.where(facts.first <= cut, 1 / facts.first, 0.0)


def _ndcg(facts: _Facts, cut: float) -> Array:
    return _over(_at(facts.gained, cut), _at(facts.ideal, cut))


def _r_precision(facts: _Facts, _: float) -> Array:
    places = np.minimum(facts.relevant, facts.grades.shape[1]).astype(np.intp)
    found: Array = facts.found[np.arange(len(places)), places]
    return _over(found, facts.relevant)


def _bpref(facts: _Facts, _: float) -> Array:
    """For each relevant place the share of the first R judged as not relevant that stand below it, over R."""
    relevant = facts.relevant[:, None]
    above = np.minimum(facts.rejected[:, 1:], relevant)
    preferred = 1 - _over(above, np.broadcast_to(np.minimum(facts.not_relevant[:, None], relevant), above.shape))
    return _over((preferred * facts.hits).sum(axis=1), facts.relevant)


def _interpolated(facts: _Facts, recall: float) -> Array:
    """The highest precision at this recall or a higher one; trec_eval rounds to a number of relevant ids, halves up."""
    wanted = np.floor(recall * facts.relevant + 0.5)
    place = (facts.found[:, 1:] >= wanted[:, None]).argmax(axis=1)
    best: Array = facts.best_from[np.arange(len(place)), place]
    return np.where(wanted <= _at(facts.found, math.inf), best, 0.0)


def _eleven_points(facts: _Facts, _: float) -> Array:
    points: Array = np.stack([_interpolated(facts, recall) for recall in RECALL_LEVELS]).sum(axis=0)
    return points / len(RECALL_LEVELS)


def _judged(facts: _Facts, cut: float) -> Array:
    return _over(_at(facts.labelled, cut), np.minimum(facts.returned, cut))


def _unjudged(facts: _Facts, cut: float) -> Array:
    unjudged = np.minimum(facts.returned, cut) - _at(_running(facts.grades >= 0), cut)
    return unjudged / cut if cut else unjudged


def _set_precision(facts: _Facts, _: float) -> Array:
    return _over(_at(facts.found, math.inf), facts.returned)


def _set_f(facts: _Facts, _: float) -> Array:
    return _over(2 * _at(facts.found, math.inf), facts.returned + facts.relevant)


@dataclass(frozen=True, slots=True)
class Family:
    """A measure before its cut: what computes it, whether it takes `@k`, and whether it may stand without one.

    `is_count` says that it counts, so that the value over several queries is the sum. A family with `levels` takes a
    recall from 0 to 1 for its k.
    """

    compute: Callable[[_Facts, float], Array]
    cut: bool = False
    whole: bool = True
    levels: bool = False
    is_count: bool = False


FAMILIES: Mapping[str, Family] = {
    "recall": Family(lambda facts, cut: _over(_at(facts.found, cut), facts.relevant), cut=True),
    "precision": Family(_precision, cut=True, whole=False),
    "hit": Family(lambda facts, cut: np.where(facts.first <= cut, 1.0, 0.0), cut=True, whole=False),
    "mrr": Family(_reciprocal_rank, cut=True),
    "ndcg": Family(_ndcg, cut=True),
    "map": Family(lambda facts, cut: _over(_at(facts.average, cut), facts.relevant), cut=True),
    "rprec": Family(_r_precision),
    "bpref": Family(_bpref),
    "iprec": Family(_interpolated, cut=True, whole=False, levels=True),
    "11pt_avg": Family(_eleven_points),
    "relative_precision": Family(
        lambda facts, cut: _over(_at(facts.found, cut), np.minimum(facts.relevant, cut)), cut=True, whole=False
    ),
    "set_precision": Family(_set_precision),
    "set_f": Family(_set_f),
    "set_map": Family(
        lambda facts, _: _over(_at(facts.found, math.inf) ** 2, facts.returned * facts.relevant),
    ),
    "set_relative_precision": Family(
        lambda facts, _: _over(_at(facts.found, math.inf), np.minimum(facts.relevant, facts.returned))
    ),
    "judged": Family(_judged, cut=True),
    "unjudged": Family(_unjudged, cut=True, whole=False),
    "num_ret": Family(lambda facts, _: facts.returned, is_count=True),
    "num_rel": Family(lambda facts, _: facts.relevant, is_count=True),
    "num_rel_ret": Family(lambda facts, _: _at(facts.found, math.inf), is_count=True),
    "num_nonrel_judged_ret": Family(lambda facts, _: _at(facts.rejected, math.inf), is_count=True),
}
"""Every measure, by its name before the `@`.

judged is the share of the (first k) places that have a label of any grade, unjudged how many have none of 0 or more,
over k. relative precision is over the highest that can be reached; the set measures read the whole list without its
order, set_f is F1. rprec is the precision at R, the number of relevant ids. iprec is the highest precision at a recall
of k or a higher one.
"""


def _parsed(name: str) -> tuple[Family, float]:
    stem, at, cut = name.partition("@")
    family = FAMILIES.get(stem)
    if family is None or not (family.cut if at else family.whole):
        raise InputError(f"the measure {name!r} is unknown; the measures are {', '.join(all_families())}")
    if not at:
        return family, math.inf
    try:
        number = float(cut) if family.levels else int(cut)
    except ValueError:
        number = -1
    if not 0 <= number <= (1 if family.levels else math.inf):
        raise InputError(f"the cut of {name!r} is {cut!r}; expected {'0 to 1' if family.levels else '0 or more'}")
    return family, number


def all_families() -> Iterator[str]:
    """The names of all measures, with `@k` where there is a cut."""
    for stem, family in FAMILIES.items():
        if family.whole:
            yield stem
        if family.cut:
            yield f"{stem}@{'recall' if family.levels else 'k'}"
