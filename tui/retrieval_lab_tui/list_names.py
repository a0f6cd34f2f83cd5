"""Fitting the names of many lists into one line."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

from retrieval_lab.shorten import shorten_middle

_LEAST, _MOST = 6, 20
"""Cells of a name; a list's own title has it whole."""


def fitting(names: Sequence[str], room: int, least: int = _LEAST) -> tuple[str, ...] | None:
    """The names in at most `room` cells together, the longest ones cut in their middle until they fit.

    None where names of `least` cells would still not fit.
    """
    widest = min(_MOST, max(map(cell_len, names), default=0))
    for width in range(widest, min(widest, least) - 1, -1):
        short = tuple(shorten_middle(name, width) for name in names)
        if sum(map(cell_len, short)) <= room:
            return short
    return None
