"""Means and differences with their intervals on one scale, in cells of text, so that the eye can compare them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from retrieval_lab.evals.resampling import Interval

_LINE, _VALUE, _MARK, _CROSSED = "─", "●", "┊", "┼"
_LEAST_SPAN = 0.02


@dataclass(frozen=True, slots=True)
class Scale:
    """What the first and the last cell of every bar stand for."""

    low: float
    high: float

    def cell(self, value: float, width: int) -> int:
        """The cell of a value in a bar of so many, from 0; of a value beyond the scale, the nearest."""
        share = (value - self.low) / (self.high - self.low)
        return max(0, min(width - 1, round(share * (width - 1))))

    def ends(self, width: int, *, sign: bool = False) -> str:
        """Both ends as numbers over the bars, the high one at the right."""
        low, high = (f"{end:+.2f}" if sign else f"{end:.2f}" for end in (self.low, self.high))
        return f"{low}{high:>{max(0, width - len(low))}}"


def scale_of(values: Iterable[tuple[float, Interval | None]]) -> Scale:
    """A scale that all of these values and intervals fit on; 0 to 1 for none."""
    ends = [end for value, interval in values for end in (value, *_ends(interval))]
    if not ends:
        return Scale(0.0, 1.0)
    low, high = min(ends), max(ends)
    missing = max(0.0, _LEAST_SPAN - (high - low)) / 2
    return Scale(low - missing, high + missing)


def scale_around_zero(values: Iterable[tuple[float, Interval | None]]) -> Scale:
    """A scale with 0 in its middle that all of these differences and intervals fit on."""
    ends = [abs(end) for value, interval in values for end in (value, *_ends(interval))]
    reach = max([_LEAST_SPAN, *ends])
    return Scale(-reach, reach)


@dataclass(frozen=True, slots=True)
class Bar:
    """A value as a dot on the line of its interval; the line lies in the cells from `first` to `last`."""

    text: str
    first: int
    last: int


def drawn(value: float, interval: Interval | None, scale: Scale, width: int, *, mark: float | None = None) -> Bar:
    """The value in a bar of `width` cells; `mark` is a value that every bar shows."""
    place = scale.cell(value, width)
    first, last = (scale.cell(end, width) for end in _ends(interval)) if interval is not None else (place, place)
    cells = [_LINE if first <= cell <= last else " " for cell in range(width)]
    if mark is not None:
        at = scale.cell(mark, width)
        cells[at] = _CROSSED if first <= at <= last else _MARK
    cells[place] = _VALUE
    return Bar("".join(cells), first, last)


def _ends(interval: Interval | None) -> tuple[float, ...]:
    return () if interval is None else (interval.low, interval.high)
