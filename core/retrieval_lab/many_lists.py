"""Saying of many lists together what a line has no room to say of each."""

from __future__ import annotations

from collections.abc import Iterable

EACH = 4
"""Of up to so many lists a row tells the rank in each."""


def found_in(ranks: Iterable[int | None]) -> str:
    """In how many of the lists something stands, and its best rank there: `5/8 best 2`."""
    every = list(ranks)
    listed = [rank for rank in every if rank is not None]
    best = f" best {min(listed)}" if listed else ""
    return f"{len(listed)}/{len(every)}{best}"
