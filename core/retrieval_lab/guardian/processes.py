"""What the kernel tells about the processes of a server, and signals to them."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

_DARWIN_SOL_LOCAL, _DARWIN_LOCAL_PEERPID = 0, 2
_STOP_STEPS = ((signal.SIGINT, 30.0), (signal.SIGQUIT, 5.0), (signal.SIGKILL, 5.0))


def listener(path: Path) -> int | None:
    """Return the process id that listens on a Unix socket; None when nobody does.

    0 stands for a process that this one cannot see, because it runs in another container.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(os.fsencode(path))
            if sys.platform == "darwin":
                return int(struct.unpack("i", probe.getsockopt(_DARWIN_SOL_LOCAL, _DARWIN_LOCAL_PEERPID, 4))[0])
            return int(struct.unpack("3i", probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0])
        except OSError:
            return None


def holders(path: Path) -> set[int]:
    """Return the other processes that have a file open, as far as /proc tells (nothing on systems without it)."""
    wanted = path.stat()
    found = set()
    for entry in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            if os.path.samestat(entry.stat(), wanted):
                found.add(int(entry.parts[2]))
    return found - {os.getpid()}


def signal_all(pids: set[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


class Postmaster:
    """A running server: a child of this process, or one that an earlier guardian left (then `child` is None).

    `exit_fd` becomes readable when it ends; it is None where the system has no such descriptors.
    """

    def __init__(self, pid: int, child: subprocess.Popen[bytes] | None = None) -> None:
        self.pid = pid
        self.exit_fd: int | None = None
        self._child = child
        if hasattr(os, "pidfd_open"):
            with contextlib.suppress(OSError):
                self.exit_fd = os.pidfd_open(pid)

    def running(self) -> bool:
        if self._child is not None:
            return self._child.poll() is None
        if self.exit_fd is not None:
            return not select.select([self.exit_fd], [], [], 0)[0]
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        return True

    def stop(self) -> None:
        """Disconnect everybody and wait for the end. A server that does not obey is pressed harder, at last killed."""
        for number, seconds in _STOP_STEPS:
            deadline = time.monotonic() + seconds
            if self.running():
                self._send(number)
            while self.running() and time.monotonic() < deadline:
                time.sleep(0.01)

    def _send(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            if self.exit_fd is not None:
                signal.pidfd_send_signal(self.exit_fd, number)
            else:
                os.kill(self.pid, number)
