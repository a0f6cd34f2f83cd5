"""Starting PostgreSQL's programs: a new cluster, and the server in it."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .layout import PORT, SUPERUSER, Layout
from .processes import Postmaster

START_SECONDS = 60.0
LOCALE = ("--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C", "--encoding=UTF8")
SETTINGS = {
    "listen_addresses": "",
    "port": str(PORT),
    "unix_socket_permissions": "0700",
    "max_connections": "50",
    "shared_buffers": "64MB",
    "maintenance_work_mem": "256MB",
    # No parallel workers: containers give them 64 MB of /dev/shm, and an index built by one process differs less.
    "max_parallel_workers_per_gather": "0",
    "max_parallel_maintenance_workers": "0",
    # Segments as files in the data directory: in /dev/shm a killed server leaves them for good.
    "dynamic_shared_memory_type": "mmap",
    "io_method": "sync",
    "jit": "off",
    # Statistics change when the lab says ANALYZE, never in between.
    "autovacuum": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_logical_replication_workers": "0",
    "max_wal_size": "256MB",
    "min_wal_size": "32MB",
    "log_checkpoints": "off",
    # Above ERROR: a query that fails is reported to whoever asked, and its text stays out of the log.
    "log_min_messages": "log",
}


class StartError(Exception):
    """What kept the server from starting, in one line."""


@dataclass(frozen=True, slots=True)
class Programs:
    """The folder of PostgreSQL's programs, and who runs them: `account` is a (uid, gid), None for this user."""

    folder: Path
    account: tuple[int, int] | None

    def spawn(self, program: str, arguments: Sequence[str], lock: int) -> subprocess.Popen[bytes]:
        """Start a program, away from the user's environment, that holds the lock behind `lock`. Raises StartError."""
        uid, gid = self.account or (None, None)
        try:
            return subprocess.Popen(  # noqa: S603 - the program and the arguments are the lab's own
                [str(self.folder / program), *arguments],
                stdin=subprocess.DEVNULL,
                cwd="/",
                env={"PATH": os.defpath, "LC_ALL": "C"},
                pass_fds=(lock,),
                start_new_session=True,
                umask=0o077,
                user=uid,
                group=gid,
                extra_groups=None if gid is None else [],
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise StartError(f"{program} cannot be started{self._whom('as')}: {error}") from error

    def give(self, folder: Path) -> None:
        """Make the user who runs the programs the owner of a folder. Raises StartError."""
        if self.account is None:
            return
        try:
            os.chown(folder, *self.account, follow_symlinks=False)
        except OSError as error:
            raise StartError(f"{folder} cannot be given{self._whom('to')}: {error.strerror}") from error

    def _whom(self, preposition: str) -> str:
        return "" if self.account is None else f" {preposition} user id {self.account[0]}"


def make_cluster(layout: Layout, programs: Programs, lock: int) -> None:
    """Run initdb in a folder beside the final one and rename it: a cluster is complete or absent. Raises StartError."""
    if layout.data.exists():
        raise StartError(f"{layout.data} is in the way and holds no cluster")
    for leftover in layout.home.glob("data.new-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    fresh = layout.home / f"data.new-{os.getpid()}"
    fresh.mkdir(mode=0o700)
    programs.give(fresh)
    logged = layout.log.stat().st_size
    access = (f"--username={SUPERUSER}", "--auth-local=peer", "--auth-host=reject")
    code = programs.spawn("initdb", ["-D", str(fresh), *access, *LOCALE, "--no-instructions"], lock).wait()
    try:
        if code != 0:
            raise StartError(f"initdb failed with exit code {code}{_complaint(layout, logged)}")
        fresh.rename(layout.data)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def start_server(layout: Layout, programs: Programs, lock: int) -> Postmaster:
    """Start the server and return it once it is ready. Raises StartError.

    No process of the cluster may be left; holding `lock`, the `server` lock, proves that.
    """
    for stale in (layout.data / "postmaster.pid", layout.socket, layout.socket.with_name(f"{layout.socket.name}.lock")):
        stale.unlink(missing_ok=True)
    _write_access_rules(layout)
    logged = layout.log.stat().st_size
    sockets = str(layout.sockets).replace('"', '""')
    settings = {**SETTINGS, "unix_socket_directories": f'"{sockets}"'}
    arguments = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    child = programs.spawn("postgres", ["-D", str(layout.data), *arguments], lock)
    postmaster = Postmaster(child.pid, child)
    deadline = time.monotonic() + START_SECONDS
    while not _says_ready(layout):
        if not postmaster.running():
            raise StartError(f"the server ended with exit code {child.returncode}{_complaint(layout, logged)}")
        if time.monotonic() > deadline:
            postmaster.stop()
            raise StartError(f"the server was not ready after {START_SECONDS:.0f} seconds")
        time.sleep(0.01)
    return postmaster


def _write_access_rules(layout: Layout) -> None:
    """Let in this user alone, by the user id that the kernel reports for the other end of the socket."""
    user = pwd.getpwuid(os.geteuid()).pw_name.replace('"', '""')
    (layout.data / "pg_hba.conf").write_text("local all all peer map=lab\n", encoding="utf-8")
    (layout.data / "pg_ident.conf").write_text(f'lab "{user}" {SUPERUSER}\n', encoding="utf-8")


def _complaint(layout: Layout, logged: int) -> str:
    """The last error in the log after its first `logged` bytes, to be put behind a message."""
    lines = layout.log.read_bytes()[logged:].decode(errors="replace").splitlines()
    complaints = [line for line in lines if "error: " in line or "FATAL: " in line or "PANIC: " in line]
    return f": {complaints[-1]}" if complaints else ""


def _says_ready(layout: Layout) -> bool:
    """Read the last line of postmaster.pid, which only the server just started can have written."""
    try:
        lines = (layout.data / "postmaster.pid").read_bytes().splitlines()
    except FileNotFoundError:
        return False
    return len(lines) >= 8 and lines[7].strip() == b"ready"
