"""Exchanging two folders in one step, so that no moment passes without one in its place."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


def swapped(one: Path, other: Path) -> bool:
    """Whether the two, both of which exist, have changed places: where the system can do that at once (Linux can)."""
    try:
        exchange = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    done: int = exchange(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE)
    return done == 0
