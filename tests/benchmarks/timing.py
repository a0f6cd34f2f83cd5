"""Timing two things against each other on a machine that other work disturbs."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ratio:
    """`ours` and `theirs` are median seconds of one round; `bound` is the ratio that must not be passed, if any."""

    title: str
    ours: float
    theirs: float
    bound: float | None = None

    @property
    def value(self) -> float:
        return self.ours / self.theirs

    @property
    def kept(self) -> bool:
        return self.bound is None or self.value <= self.bound

    def __str__(self) -> str:
        against = f"{self.ours * 1e3:9.2f} ms against {self.theirs * 1e3:9.2f} ms"
        bound = "" if self.bound is None else f"  (must be at most {self.bound}: {'kept' if self.kept else 'MISSED'})"
        return f"{self.title:<66} {self.value:6.2f}x  {against}{bound}"


def compare(
    title: str, ours: Callable[[], object], theirs: Callable[[], object], *, rounds: int, bound: float | None = None
) -> Ratio:
    """Runs both in turn, so that a disturbance meets both, after one warm-up each; medians over the rounds."""
    times: tuple[list[float], list[float]] = ([], [])
    for round_number in range(rounds + 1):
        for work, taken in zip((ours, theirs), times, strict=True):
            began = time.perf_counter()
            work()
            if round_number:
                taken.append(time.perf_counter() - began)
    return Ratio(title, statistics.median(times[0]), statistics.median(times[1]), bound)
