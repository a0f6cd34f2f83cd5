"""The decision: which configuration the rule ships, and what speaks against each of the others.

The rule is that of `ablation.rule.Rule`, with every word of it made exact. All values are held out.

- The best is the configuration with the highest mean of the rule's measure; of equals the simplest.
- One is as good as the best when the 95% paired bootstrap interval of its mean difference to the best includes 0.
- It reaches the target when its mean of the target measure is the target or more.
- Its reranker is worth it when it has none; or when the same configuration without it (and so without MMR, which needs
  one) is measured too, the 95% interval of the difference in MRR lies above 0, and the median latency is longer by no
  more than the rule's milliseconds.

The simplest configuration for which all three hold is shipped: the one with the fewest points (module `complexity`), of
those the one with the higher mean on dev, then the first by name. Where there is none, none is shipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from retrieval_lab.ablation.cell import Cell
from retrieval_lab.ablation.rule import Rule
from retrieval_lab.evals.comparison import Comparison, compare
from retrieval_lab.evals.resampling import TIE, Array, Interval, as_vector, bootstrap_interval, mean_of
from retrieval_lab.evals.summary import Estimate, latency
from retrieval_lab.report.complexity import Complexity, complexity
from retrieval_lab.report.parts import Parts, values_of
from retrieval_lab.settings import NoReranker


@dataclass(frozen=True, slots=True, kw_only=True)
class RerankerTest:
    """A reranker against the same configuration without it, `partner`; None, as is all else, where none is measured.

    `gain` is the difference in MRR, `extra_ms` that of the median latencies in milliseconds, `quick` whether it keeps
    to the rule's limit.
    """

    partner: str | None
    gain: Comparison | None
    extra_ms: float | None
    quick: bool

    @property
    def gains(self) -> bool:
        """Whether the interval of the gain lies above 0."""
        interval = None if self.gain is None else self.gain.difference_interval
        return interval is not None and interval.low > TIE


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the rule says of one configuration.

    `dev` is the mean of the rule's measure on dev, None without dev queries. `against_best` is this one minus the best,
    `target` the mean of the target measure. `reranker` is None without one.
    """

    name: str
    complexity: Complexity
    dev: float | None
    against_best: Comparison
    target: Estimate
    as_good: bool
    reaches: bool
    reranker: RerankerTest | None

    @property
    def worth(self) -> bool:
        """Whether there is no reranker, or one that is worth it."""
        return self.reranker is None or (self.reranker.gains and self.reranker.quick)

    @property
    def passes(self) -> bool:
        """Whether the rule would ship it, were it the simplest."""
        return self.as_good and self.reaches and self.worth

    def faults(self, rule: Rule) -> tuple[str, ...]:
        """What speaks against it, in a few words each; none where it passes."""
        found = []
        if not self.as_good:
            is_single = self.against_best.difference_interval is None
            found.append("one query gives no interval" if is_single else "worse than the best")
        if not self.reaches:
            found.append(f"{rule.target_measure} below {rule.target:g}")
        if self.reranker is not None:
            found += _reranker_faults(self.reranker, rule)
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Decision:
    """The best configuration, the one that is shipped, None for none, and all verdicts, the simplest first."""

    best: str
    chosen: str | None
    verdicts: tuple[Verdict, ...]

    @property
    def subject(self) -> str:
        """The configuration that a report looks at closely: the one that is shipped, else the best."""
        return self.chosen or self.best

    def verdict(self, name: str) -> Verdict:
        """That of one configuration."""
        return next(one for one in self.verdicts if one.name == name)

    def to_dict(self, rule: Rule) -> dict[str, Any]:
        """The decision as JSON has it, without times."""
        return {
            "chosen": self.chosen,
            "best": self.best,
            "verdicts": [
                {
                    "name": one.name,
                    "points": one.complexity.points,
                    "as_good_as_best": one.as_good,
                    "reaches_target": one.reaches,
                    "reranker_is_worth_it": one.worth,
                    "without_reranker": one.reranker.partner if one.reranker else None,
                    "faults": list(one.faults(rule)),
                }
                for one in self.verdicts
            ],
        }


def decide(cells: Sequence[Cell], of: Parts, rule: Rule) -> Decision:
    """What the rule decides over these cells; the same for every order of them.

    Raises InputError when a cell does not have a measure of the rule, or there is none.
    """
    dev = {cell.name: mean_of(_column(cell, of.dev, rule.measure)) if of.dev else None for cell in cells}
    ordered = sorted(cells, key=lambda one: (complexity(one.config).points, -(dev[one.name] or 0.0), one.name))
    values = {cell.name: _column(cell, of.held_out, rule.measure) for cell in ordered}
    highest = max(mean_of(one) for one in values.values())
    best = next(name for name, one in values.items() if mean_of(one) >= highest - TIE)
    verdicts = []
    for cell in ordered:
        against_best = compare(values[cell.name], values[best], of.held_out)
        target = estimate(_column(cell, of.held_out, rule.target_measure))
        verdicts.append(
            Verdict(
                name=cell.name,
                complexity=complexity(cell.config),
                dev=dev[cell.name],
                against_best=against_best,
                target=target,
                as_good=_includes_0(against_best.difference_interval),
                reaches=target.value >= rule.target - TIE,
                reranker=_reranker(cell, cells, of, rule),
            )
        )
    chosen = next((one.name for one in verdicts if one.passes), None)
    return Decision(best, chosen, tuple(verdicts))


def estimate(values: Array) -> Estimate:
    """The mean of values with its interval."""
    return Estimate(mean_of(values), bootstrap_interval(values))


def _column(cell: Cell, query_ids: Sequence[str], measure: str) -> Array:
    return as_vector(values_of(cell, query_ids, measure), cell.name)


def _includes_0(interval: Interval | None) -> bool:
    return interval is not None and interval.low <= TIE and interval.high >= -TIE


def _reranker(cell: Cell, cells: Sequence[Cell], of: Parts, rule: Rule) -> RerankerTest | None:
    if isinstance(cell.config.reranker, NoReranker):
        return None
    without = replace(cell.config, reranker=NoReranker(), mmr_lambda=None)
    partner = next((one for one in cells if one.config.effective == without.effective), None)
    if partner is None:
        return RerankerTest(partner=None, gain=None, extra_ms=None, quick=False)
    mrr = f"mrr@{cell.run.k}"
    extra_ms = 1e3 * (latency(cell.run).median - latency(partner.run).median)
    return RerankerTest(
        partner=partner.name,
        gain=compare(_column(cell, of.held_out, mrr), _column(partner, of.held_out, mrr), of.held_out),
        extra_ms=extra_ms,
        quick=extra_ms <= rule.reranker_ms,
    )


def _reranker_faults(test: RerankerTest, rule: Rule) -> list[str]:
    if test.partner is None:
        return ["not measured without its reranker"]
    found = [] if test.gains else ["its reranker shows no gain in MRR"]
    return found if test.quick else [*found, f"its reranker takes more than {rule.reranker_ms:g} ms"]
