"""Locks between processes, on files that may be deleted while somebody waits for them."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path


def open_lock(path: Path) -> int:
    """Open a lock file, making it when missing. Programs that this process starts do not inherit the descriptor."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def try_lock(path: Path, operation: int) -> int | None:
    """Take a lock without waiting: the descriptor that holds it, or None when another process is in the way."""
    while True:
        fd = open_lock(path)
        try:
            fcntl.flock(fd, operation | fcntl.LOCK_NB)
            if is_current(fd, path):
                return fd
        except BlockingIOError:
            os.close(fd)
            return None
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)


def wait_lock(path: Path, operation: int, seconds: float) -> int | None:
    """Take a lock within `seconds`: the descriptor that holds it, or None when the time is over."""
    deadline = time.monotonic() + seconds
    while (fd := try_lock(path, operation)) is None and time.monotonic() < deadline:
        time.sleep(0.02)
    return fd


def is_current(fd: int, path: Path) -> bool:
    """Tell whether `path` still names the file behind `fd`: a lock on a deleted file excludes nobody."""
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False
