"""Asking for the guardian of a cluster, and starting one. How the locks work together stands in `guardian`."""

from __future__ import annotations

import fcntl
import os
import select
import subprocess
import sys
import time
from pathlib import Path

from retrieval_lab import guardian
from retrieval_lab.cluster import Cluster
from retrieval_lab.errors import EnvironmentMissing
from retrieval_lab.guardian.layout import Layout
from retrieval_lab.guardian.locks import try_lock

WAIT_SECONDS = 90.0
PAUSE = 0.02


def is_guarded(layout: Layout) -> bool:
    """Tell whether a guardian lives: it alone holds its lock."""
    fd = try_lock(layout.lock("guardian"), fcntl.LOCK_SH)
    if fd is None:
        return True
    os.close(fd)
    return False


def launch_guardian(cluster: Cluster) -> None:
    """Start a guardian and wait until it has a server. Another one that came first is as good.

    Raises EnvironmentMissing with the guardian's reason when the server does not start.
    """
    layout, account = cluster.layout, cluster.programs.account
    process = subprocess.Popen(  # noqa: S603 - this interpreter with the lab's own script
        [
            *(sys.executable, "-I", "-S", str(Path(guardian.__file__).with_name("__main__.py"))),
            *(str(layout.home), str(layout.sockets), str(cluster.programs.folder)),
            "" if account is None else f"{account[0]}:{account[1]}",
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd="/",
        env={name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ},
        start_new_session=True,
    )
    with process:
        outcome, _, reason = _read_answer(process).partition(" ")
    if outcome == "failed":
        raise stuck(layout, f"does not start ({reason})", "drop")
    if outcome not in ("ready", "busy"):
        raise stuck(layout, f"has no guardian ({outcome} {reason})")


def _read_answer(process: subprocess.Popen[bytes]) -> str:
    """Return the last line that a new guardian writes before it closes the pipe, empty when it takes too long."""
    deadline = time.monotonic() + WAIT_SECONDS
    answer = b""
    pipe = process.stdout.fileno() if process.stdout is not None else -1
    while select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))[0]:
        part = os.read(pipe, 4096)
        if not part:
            break
        answer += part
    return answer.decode(errors="replace").strip().rpartition("\n")[2]


def stuck(layout: Layout, what: str, mend: str = "stop --force") -> EnvironmentMissing:
    """The error about a server that does `what`; `mend` is the `db` command that helps."""
    return EnvironmentMissing(
        f"the embedded server {what}: read {layout.log}, run 'retrieval-lab db {mend}' and try again, "
        "or set RETRIEVAL_LAB_DSN to a server of your own"
    )
