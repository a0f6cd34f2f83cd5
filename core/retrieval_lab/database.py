"""The database that the lab works in: a server named by a DSN, or the embedded one."""

from __future__ import annotations

import logging
import os
import re
import shutil
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from retrieval_lab.errors import EnvironmentMissing, InputError
from retrieval_lab.extension import ensure_extension, extension_schema
from retrieval_lab.paths import index_folder
from retrieval_lab.server import Server
from retrieval_lab.server_admin import peek as peek_embedded

__all__ = [
    "Database",
    "LabSchema",
    "configured_dsn",
    "connect",
    "drop_schema",
    "ensure_extension",
    "make_schema",
    "peek",
    "schemas",
    "use_schema",
]

DSN_VARIABLE = "RETRIEVAL_LAB_DSN"
CONNECT_SECONDS = 5

_SCHEMA_MARK = "made by retrieval-lab for "
_SESSION: dict[str, Any] = {"application_name": "retrieval-lab", "client_encoding": "utf8"}

# A cancelled query makes psycopg log warnings, which Python prints on the terminal when nobody set up logging.
logging.getLogger("psycopg").addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True)
class LabSchema:
    """A schema that the lab made, what it is for, and the bytes its tables and indexes take on disk."""

    name: str
    purpose: str
    size_bytes: int


class Database:
    """Where connections come from. Closing it gives the embedded server back; connections are closed by who asked."""

    def __init__(self, dsn: str, server: Server | None = None) -> None:
        self.dsn = dsn
        self._server = server

    @classmethod
    def open(cls, dsn: str | None = None) -> Database:
        """Return a database with pgvector in it: at `dsn`, else at `$RETRIEVAL_LAB_DSN`, else in the embedded server.

        The embedded server is started when it does not run, and stays for as long as the Database is open. Raises
        EnvironmentMissing when there is no server, no pgvector, one before 0.5.0, or a database that is not UTF-8.
        """
        dsn = dsn or configured_dsn()
        return cls.open_embedded() if dsn is None else cls(dsn)._checked()

    @classmethod
    def open_embedded(cls) -> Database:
        """Return the database of the embedded server, whatever the environment says. Raises EnvironmentMissing."""
        server = Server.start()
        return cls(server.dsn, server)._checked()

    @property
    def embedded(self) -> bool:
        return self._server is not None

    def connect(self, schema: str | None = None) -> psycopg.Connection[tuple[Any, ...]]:
        """Return a new autocommit connection, for the caller to close.

        With `schema`, which need not exist yet, names are looked up there first, as `use_schema` does. An embedded
        server that was killed meanwhile is started again. Raises EnvironmentMissing.
        """
        conn = self._connect()
        if schema is not None:
            use_schema(conn, schema)
        return conn

    def keep(self) -> None:
        """Leave the embedded server up after the last client, until it is stopped. A DSN's server is not touched."""
        if self._server is not None:
            self._server.keep()

    def close(self) -> None:
        """Give the embedded server back; it stops after its last client. A second call does nothing."""
        if self._server is not None:
            self._server.close()

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        return connect(self.dsn) if self._server is None else self._server.connect(**_SESSION)

    def _checked(self) -> Database:
        try:
            self._check()
        except BaseException:
            self.close()
            raise
        return self

    def _check(self) -> None:
        with self._connect() as conn:
            encoding = conn.info.parameter_status("server_encoding")
            if encoding != "UTF8":
                raise EnvironmentMissing(
                    f"the database {conn.info.dbname} is {encoding}: name one with ENCODING 'UTF8' (TEMPLATE template0)"
                )
            try:
                ensure_extension(conn)
            except psycopg.Error as error:
                raise EnvironmentMissing(
                    f"pgvector cannot be set up in the database {conn.info.dbname} ({_one_line(error)}): "
                    "have a superuser run CREATE EXTENSION vector WITH SCHEMA public there"
                ) from error


def configured_dsn() -> str | None:
    """Return `$RETRIEVAL_LAB_DSN`, None where it is unset or empty."""
    return os.environ.get(DSN_VARIABLE) or None


def connect(dsn: str) -> psycopg.Connection[tuple[Any, ...]]:
    """Return an autocommit connection to `dsn`. Raises EnvironmentMissing; the message never holds a password."""
    try:
        given = conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        # Not chained: libpq's message repeats the string, with the password in it.
        raise EnvironmentMissing(
            "the DSN is no connection string: write postgresql://USER@HOST:PORT/DATABASE, or host=HOST dbname=DATABASE"
        ) from None
    timeout = given.get("connect_timeout") or os.environ.get("PGCONNECT_TIMEOUT") or CONNECT_SECONDS
    try:
        return psycopg.connect(dsn, autocommit=True, connect_timeout=timeout, **_SESSION)
    except psycopg.Error as error:
        raise EnvironmentMissing(
            f"no connection to the database ({_reason(error, dsn, given)}): "
            f"start that server or correct the DSN; without --dsn and {DSN_VARIABLE} the embedded server is used"
        ) from None


def peek(dsn: str | None = None) -> psycopg.Connection[tuple[Any, ...]] | None:
    """Return a connection to the server that `Database.open` would use, if it runs; nothing is started or made.

    None when the embedded server does not run. Raises EnvironmentMissing when there is no connection to a DSN.
    """
    dsn = dsn or configured_dsn()
    return connect(dsn) if dsn is not None else peek_embedded(**_SESSION)


def make_schema(conn: psycopg.Connection[Any], name: str, purpose: str) -> None:
    """Make the schema where it is missing, and mark it as the lab's, which may then drop it.

    Raises EnvironmentMissing when this role may not make schemas, InputError when the name cannot be one.
    """
    if name == "$user":
        raise InputError("a schema named $user cannot be used: a search path takes it for the user's name")
    if conn.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (name,)).fetchone() is not None:
        return
    try:
        with conn.transaction():
            conn.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(name)))
            conn.execute(sql.SQL("COMMENT ON SCHEMA {} IS {}").format(sql.Identifier(name), _SCHEMA_MARK + purpose))
    except psycopg.errors.InsufficientPrivilege as error:
        raise EnvironmentMissing(
            f"the role {conn.info.user} may not make schemas in the database {conn.info.dbname}: have its owner run "
            f"GRANT CREATE ON DATABASE {conn.info.dbname} TO {conn.info.user}"
        ) from error
    except psycopg.ProgrammingError as error:
        raise InputError(f"{name!r} cannot be a schema: {_one_line(error)}") from error


def drop_schema(conn: psycopg.Connection[Any], name: str) -> None:
    """Drop the schema with all in it, where it is there, and the index in memory that was kept of it.

    Raises psycopg.Error.
    """
    conn.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(name)))
    shutil.rmtree(index_folder(name), ignore_errors=True)


def use_schema(conn: psycopg.Connection[Any], schema: str) -> None:
    """Look names up in the schema, then in that of pgvector, then in `public`, for the rest of the session."""
    path = dict.fromkeys((schema, extension_schema(conn), "public"))
    conn.execute(sql.SQL("SET search_path TO {}").format(sql.SQL(", ").join(map(sql.Identifier, path))))


def schemas(conn: psycopg.Connection[Any]) -> list[LabSchema]:
    """Return the schemas that `make_schema` made and that this role may drop, by name."""
    rows = conn.execute(
        """
        SELECT n.nspname,
               substr(obj_description(n.oid, 'pg_namespace'), length(%(mark)s::text) + 1),
               coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint
        FROM pg_namespace n LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relkind IN ('r', 'm')
        WHERE starts_with(obj_description(n.oid, 'pg_namespace'), %(mark)s) AND pg_has_role(n.nspowner, 'USAGE')
        GROUP BY n.oid, n.nspname
        ORDER BY n.nspname COLLATE "C"
        """,
        {"mark": _SCHEMA_MARK},
    ).fetchall()
    return [LabSchema(*row) for row in rows]


def _reason(error: psycopg.Error, dsn: str, given: dict[str, Any]) -> str:
    """What libpq says, unless it repeats a part of a password: a wrongly quoted one is taken for a host or a port."""
    # The lines that begin with a tab are questions such as whether the server is running.
    lines = [line for line in str(error).removeprefix("connection failed: ").splitlines() if not line.startswith("\t")]
    message = "; ".join(lines)
    secrets = [str(given.get("password") or "")]
    secrets += [part for text in re.findall(r"://[^:@/]*:(.*)@", dsn) for part in re.split(r"[^\w]+", text)]
    if any(len(secret) > 1 and secret in message for secret in secrets):
        return "libpq could not use it; in a URL the password's special characters are written as %40 and the like"
    return message


def _one_line(error: psycopg.Error) -> str:
    return " ".join(str(error).split())
