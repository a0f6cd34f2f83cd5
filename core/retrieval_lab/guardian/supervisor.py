"""One life of the server, from its start to its end."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import shutil
import signal
import stat
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from .layout import Layout
from .locks import open_lock, wait_lock
from .postgres import Programs, StartError, make_cluster, start_server
from .processes import Postmaster, holders, listener, signal_all

LOG_LIMIT = 1_000_000

STOP = b"s"
_DRAINED = b"d"


def order_stop(layout: Layout) -> None:
    """Ask the guardian to stop the server. Nothing happens without a guardian."""
    with contextlib.suppress(OSError):  # no such pipe, nobody who reads it, or full of orders
        fd = os.open(layout.control, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            os.write(fd, STOP)
        finally:
            os.close(fd)


class Guardian:
    """Starts or adopts the server and returns from `run` when that has ended."""

    def __init__(self, layout: Layout, programs: Programs) -> None:
        self.layout = layout
        self.programs = programs
        self._control = -1
        self._lease = -1

    def run(self, report: int) -> None:
        """Look after one server; `report` gets one line about how the start went, then it is closed."""
        # A client that asks whether there is a guardian holds the lock for a moment, so one refusal proves nothing.
        own = wait_lock(self.layout.lock("guardian"), fcntl.LOCK_EX, 0.2)
        if own is None:
            _tell(report, "busy")
            return
        try:
            self._open_control()
            server = self._start()
        except (StartError, OSError) as error:
            _log(f"no server: {error}")
            _tell(report, f"failed {error}")
            return
        _log(f"guarding server {server.pid}")
        _tell(report, "ready")
        self._watch(server)
        self._clean_up()
        _log(f"server {server.pid} has ended")

    def _open_control(self) -> None:
        self.layout.control.unlink(missing_ok=True)
        os.mkfifo(self.layout.control, 0o600)
        self._control = os.open(self.layout.control, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGTERM, lambda *_: self._order(STOP))

    def _order(self, order: bytes) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(self._control, order)

    def _start(self) -> Postmaster:
        """Return the server: the one that answers on the socket, else a new one. Raises StartError, OSError."""
        self._make_socket_folder()
        adopted = self._adopt()
        if adopted is not None:
            return adopted
        self.layout.keep.unlink(missing_ok=True)
        lock = self._wait_for_leftovers()
        try:
            if not (self.layout.data / "PG_VERSION").exists():
                make_cluster(self.layout, self.programs, lock)
            return start_server(self.layout, self.programs, lock)
        finally:
            os.close(lock)

    def _make_socket_folder(self) -> None:
        shared = self.layout.shared_folder
        if shared is not None:
            with contextlib.suppress(FileExistsError):
                shared.mkdir(mode=0o700)
            status = shared.lstat()
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
                raise StartError(f"{shared} is not ours: remove it, or choose a data directory with a shorter path")
            shared.chmod(0o700 if self.programs.account is None else 0o711)
        with contextlib.suppress(FileExistsError):
            self.layout.sockets.mkdir(mode=0o700)
        self.programs.give(self.layout.sockets)

    def _adopt(self) -> Postmaster | None:
        """Return the server that an earlier guardian left; None without one, or when its data were deleted under it."""
        pid = listener(self.layout.socket)
        if pid is None:
            return None
        if pid == 0:
            raise StartError("the server runs in another container: stop it there")
        server = Postmaster(pid)
        if self._serves_our_data(pid):
            return server
        server.stop()
        return None

    def _serves_our_data(self, pid: int) -> bool:
        if not (self.layout.data / "PG_VERSION").exists():
            return False
        try:
            works_in = Path(f"/proc/{pid}/cwd").stat()
        except OSError:  # a system without /proc
            return True
        return os.path.samestat(works_in, self.layout.data.stat())

    def _wait_for_leftovers(self) -> int:
        """Return the `server` lock once no process of an earlier server is left. Raises StartError when some stay."""
        path = self.layout.lock("server")
        held = wait_lock(path, fcntl.LOCK_EX, 1.0)
        for number in (signal.SIGINT, signal.SIGKILL):
            if held is None:
                signal_all(holders(path), number)
                held = wait_lock(path, fcntl.LOCK_EX, 5.0)
        if held is None:
            raise StartError(f"processes of an earlier server do not end: {sorted(holders(path))}")
        return held

    def _watch(self, server: Postmaster) -> None:
        """Return when the server has ended: by itself, on order, or because the last client left."""
        threading.Thread(target=self._await_drained, daemon=True).start()
        watched = [self._control] if server.exit_fd is None else [self._control, server.exit_fd]
        while server.running():
            ready = select.select(watched, [], [], 0.5 if server.exit_fd is None else None)[0]
            orders = os.read(self._control, 4096) if self._control in ready else b""
            if _DRAINED in orders and self.layout.keep.exists():
                os.close(self._lease)
            elif _DRAINED in orders or STOP in orders:
                _log("told to stop" if STOP in orders else "the last client has left")
                break
        server.stop()

    def _await_drained(self) -> None:
        """Wait, in a thread, for the moment without clients; it lasts until the lock is given back."""
        self._lease = open_lock(self.layout.lock("clients"))
        fcntl.flock(self._lease, fcntl.LOCK_EX)
        self._order(_DRAINED)

    def _clean_up(self) -> None:
        self.layout.keep.unlink(missing_ok=True)
        with contextlib.suppress(StartError, OSError):
            os.close(self._wait_for_leftovers())
        if self.layout.shared_folder is not None:
            shutil.rmtree(self.layout.shared_folder, ignore_errors=True)


def _tell(report: int, line: str) -> None:
    with contextlib.suppress(BrokenPipeError):  # the client may be gone
        os.write(report, " ".join(line.split()).encode(errors="replace"))
    os.close(report)


def _log(line: str) -> None:
    with contextlib.suppress(OSError):  # a full disk is no reason to leave the server alone
        sys.stderr.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} [{os.getpid()}] guardian: {line}\n")
        sys.stderr.flush()


def _redirect(log_file: Path) -> int:
    """Send what this process and its children print to the log; return the pipe to the client, which was stdout."""
    report = os.dup(1)
    if log_file.exists() and log_file.stat().st_size > LOG_LIMIT:
        log_file.replace(log_file.with_suffix(".log.old"))
    fd = os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(fd, 1)
    os.dup2(fd, 2)
    os.close(fd)
    return report


def main(arguments: Sequence[str]) -> None:
    """Run a guardian; `arguments` are the home, the socket folder, the programs' folder, and `UID:GID` or nothing."""
    home, sockets, programs, account = arguments
    if os.fork():
        os._exit(0)  # so that the client, which may live long, never has a child to wait for
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    uid, _, gid = account.partition(":")
    layout = Layout(Path(home), Path(sockets))
    report = _redirect(layout.log)
    Guardian(layout, Programs(Path(programs), (int(uid), int(gid)) if account else None)).run(report)
