"""How differences, intervals and settings are written, wherever they are shown."""

from __future__ import annotations

from typing import Any

from retrieval_lab.evals.proportions import Share
from retrieval_lab.evals.resampling import Interval


def signed(value: float) -> str:
    """A difference with its sign; what rounds to 0 is +0.000."""
    return f"{round(value, 3) + 0.0:+.3f}"


def interval_text(interval: Interval | None) -> str:
    """Both ends in five cells each, without the 0 before the point."""
    if interval is None:
        return "–"
    ends = (signed(end) for end in (interval.low, interval.high))
    return "…".join(end.replace("0.", ".", 1) if end[1] == "0" else end[:5] for end in ends)


def share_text(share: Share) -> str:
    """A share with its interval, such as `27% (17–41%)`; a dash of nothing."""
    if share.value is None or share.interval is None:
        return "–"
    return f"{share.value:.0%} ({100 * share.interval.low:.0f}–{share.interval.high:.0%})"


def setting_text(value: Any) -> str:
    """The value of a setting, as lab.yaml has it; a dash for none."""
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "–"
    return "–" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
