"""How the report writes numbers, intervals and lists of names."""

from __future__ import annotations

from collections.abc import Sequence

from retrieval_lab.evals.comparison import Comparison
from retrieval_lab.evals.resampling import Interval
from retrieval_lab.evals.summary import Estimate
from retrieval_lab.wording import signed

DASH = "–"
_SHOWN_NAMES = 6


def estimate_text(estimate: Estimate | None) -> str:
    """`0.712 (0.601–0.812)`: the mean with its interval; a dash for none."""
    if estimate is None:
        return DASH
    if estimate.interval is None:
        return f"{estimate.value:.3f}"
    return f"{estimate.value:.3f} ({estimate.interval.low:.3f}–{estimate.interval.high:.3f})"


def between(interval: Interval | None) -> str:
    """`-0.020 to +0.081`: both ends of the interval of a difference; a dash for none."""
    return DASH if interval is None else f"{signed(interval.low)} to {signed(interval.high)}"


def difference_text(one: Comparison) -> str:
    """`+0.031 (-0.020 to +0.081)`: a mean difference with its interval."""
    return f"{signed(one.difference)} ({between(one.difference_interval)})"


def several(number: int, noun: str, plural: str | None = None) -> str:
    """`1 query`, `2 queries`."""
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"


def names_text(names: Sequence[str], shown: int = _SHOWN_NAMES) -> str:
    """The names with commas, at most so many of them and how many more there are."""
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more
