"""Bars of means and differences with their intervals in colour, and how sure a difference is."""

from __future__ import annotations

from textual.content import Content

from retrieval_lab.evals.interval_scale import Scale, drawn
from retrieval_lab.evals.resampling import Interval

_LEAST_P = 0.001


def interval_bar(
    value: float, interval: Interval | None, scale: Scale, width: int, *, mark: float | None = None, style: str = ""
) -> Content:
    """The value as a dot on the line of its interval, `width` cells; `mark` is a value that every bar shows."""
    bar = drawn(value, interval, scale, width, mark=mark)
    return Content.styled(bar.text, "$foreground-muted").stylize(f"bold {style or '$accent'}", bar.first, bar.last + 1)


def sureness(difference: float, interval: Interval | None) -> str:
    """The colour of a difference: none while 0 lies in its interval."""
    if interval is None or interval.low <= 0 <= interval.high:
        return ""
    return "$success" if difference > 0 else "$error"


def p_text(p: float) -> str:
    """A p in five cells; never a bare 0, since no test of chance ends there."""
    return f"<{_LEAST_P:.3f}".replace("0.", ".") if p < _LEAST_P else f"{p:.3f}"
