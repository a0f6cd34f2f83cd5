"""The commands about the database: `retrieval-lab db ...`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import psycopg
import typer
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from retrieval_lab import server_admin
from retrieval_lab.database import (
    DSN_VARIABLE,
    Database,
    LabSchema,
    configured_dsn,
    connect,
    drop_schema,
    peek,
    schemas,
)
from retrieval_lab.errors import EnvironmentMissing, InputError, LabError

app = typer.Typer(
    no_args_is_help=True,
    help="""Look after the database: the embedded PostgreSQL, or a server of your own.

    The embedded server starts when a command needs it and stops after the last one.

    Set RETRIEVAL_LAB_DSN, or give --dsn where a command has it, to use your own server.

    Example: [bold]psql "$(retrieval-lab db dsn)"[/bold]
    """,
)

Dsn = Annotated[
    str | None, typer.Option("--dsn", help=f"Another server than the embedded one; by default ${DSN_VARIABLE}.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]

_LOCK_WAIT = "10s"


@dataclass(frozen=True, slots=True)
class Facts:
    """What a running server tells. `sessions` counts the connections of others to the database."""

    server_version: str | None = None
    pgvector_version: str | None = None
    sessions: int = 0
    schemas: tuple[LabSchema, ...] = ()


@dataclass(frozen=True, slots=True)
class Status:
    """What `db status` prints. Folders are None for a server of the user's own, `facts` empty without an answer."""

    running: bool
    embedded: bool
    kept: bool
    dsn: str
    data_dir: str | None
    log: str | None
    clients: tuple[int, ...]
    problem: str | None
    facts: Facts

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document, with the facts among the other keys."""
        document = asdict(self)
        facts: dict[str, Any] = document.pop("facts")
        return document | facts


@app.command()
def start() -> None:
    """Start the embedded server and leave it up until [bold]db stop[/bold].

    Example: [bold]retrieval-lab db start[/bold]
    """
    dsn = _start_and_keep()
    typer.echo(f"The embedded server is up until 'retrieval-lab db stop'.\n{dsn}")


@app.command("dsn")
def print_dsn() -> None:
    """Print the embedded server's connection string; the server is left up until [bold]db stop[/bold].

    Example: [bold]psql "$(retrieval-lab db dsn)"[/bold]
    """
    typer.echo(_start_and_keep())


@app.command("status")
def print_status(dsn: Dsn = None, as_json: AsJson = False) -> None:
    """Show whether the server runs, where its files are and what the lab stored. Starts nothing.

    Example: [bold]retrieval-lab db status --json[/bold]
    """
    status = _status(dsn or configured_dsn())
    typer.echo(json.dumps(status.to_dict(), indent=2) if as_json else "\n".join(_described(status)))


@app.command()
def stop(
    force: Annotated[bool, typer.Option("--force", help="Stop it although other processes use it.")] = False,
) -> None:
    """Stop the embedded server. Refused while other processes use it, unless [bold]--force[/bold] is given.

    Example: [bold]retrieval-lab db stop[/bold]
    """
    stopped = server_admin.stop(force=force)
    typer.echo("The embedded server was stopped." if stopped else "The embedded server was not running.")


@app.command()
def drop(
    dsn: Dsn = None, yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete without asking.")] = False
) -> None:
    """Delete what the lab stored: the embedded cluster, or the lab's schemas in your own database.

    A corpus is indexed again when it is next opened.

    Example: [bold]retrieval-lab db drop --yes[/bold]
    """
    chosen = dsn or configured_dsn()
    if chosen is None:
        _drop_embedded(yes=yes)
    else:
        _drop_schemas(chosen, yes=yes)


def _start_and_keep() -> str:
    with Database.open_embedded() as database:
        database.keep()
        if configured_dsn() is not None:
            typer.echo(f"note: {DSN_VARIABLE} is set, so the other commands use that server", err=True)
        return database.dsn


def _status(dsn: str | None) -> Status:
    embedded = server_admin.status() if dsn is None else None
    problem = None
    try:
        conn = peek(dsn)
    except EnvironmentMissing as error:
        conn, problem = None, str(error)
    return Status(
        running=conn is not None or (embedded is not None and embedded.running),
        embedded=embedded is not None,
        kept=embedded is not None and embedded.kept,
        dsn=embedded.dsn if embedded is not None else _without_password(dsn or ""),
        data_dir=str(embedded.home) if embedded is not None else None,
        log=str(embedded.log) if embedded is not None else None,
        clients=embedded.clients if embedded is not None else (),
        problem=problem,
        facts=_facts(conn) if conn is not None else Facts(),
    )


def _facts(conn: psycopg.Connection[Any]) -> Facts:
    with conn:
        row = conn.execute(
            """
            SELECT current_setting('server_version'),
                   (SELECT extversion FROM pg_extension WHERE extname = 'vector'),
                   (SELECT count(*) FROM pg_stat_activity
                    WHERE backend_type = 'client backend' AND datname = current_database() AND pid <> pg_backend_pid())
            """
        ).fetchone()
        version, pgvector, sessions = row or (None, None, 0)
        return Facts(version, pgvector, sessions, tuple(schemas(conn)))


def _without_password(dsn: str) -> str:
    try:
        given = conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        return "(no connection string)"
    return make_conninfo("", **{name: value for name, value in given.items() if name != "password"})


def _described(status: Status) -> Iterator[str]:
    """The lines of a status for people."""
    state = "running" if status.running else "not running"
    yield f"server    {state}{', left up until db stop' if status.kept else ''}"
    yield f"kind      {'embedded' if status.embedded else 'your own'}"
    yield f"dsn       {status.dsn}"
    if status.embedded:
        yield f"data      {status.data_dir}"
        yield f"log       {status.log}"
        yield f"clients   {', '.join(map(str, status.clients)) or 'none'}"
    if status.problem is not None:
        yield f"problem   {status.problem}"
    facts = status.facts
    if facts.server_version is not None:
        yield f"postgres  {facts.server_version}"
        yield f"pgvector  {facts.pgvector_version or 'not in this database yet'}"
        yield f"sessions  {facts.sessions}"
        yield f"schemas   {len(facts.schemas)}"
    for schema in facts.schemas:
        yield f"          {schema.name}  {_size(schema.size_bytes):>9}  {schema.purpose}"


def _size(size_bytes: int) -> str:
    return f"{size_bytes / 1_000_000:.1f} MB"


def _drop_embedded(*, yes: bool) -> None:
    home = server_admin.status().home
    if not os.path.lexists(home):
        typer.echo(f"There is nothing to delete in {home.parent}.")
        return
    _confirm(f"Delete the embedded cluster {home} with all that is indexed in it?", yes=yes)
    server_admin.drop()
    typer.echo(f"Deleted {home}.")


def _drop_schemas(dsn: str, *, yes: bool) -> None:
    with connect(dsn) as conn:
        doomed = schemas(conn)
        if not doomed:
            typer.echo(f"There are no schemas of the lab in the database {conn.info.dbname}.")
            return
        names = ", ".join(schema.name for schema in doomed)
        size = _size(sum(schema.size_bytes for schema in doomed))
        _confirm(f"Delete these schemas of the database {conn.info.dbname} ({size}): {names}?", yes=yes)
        conn.execute(sql.SQL("SET lock_timeout = {}").format(_LOCK_WAIT))
        for schema in doomed:
            _drop_schema(conn, schema.name)
            typer.echo(f"Deleted {schema.name}.")


def _drop_schema(conn: psycopg.Connection[Any], name: str) -> None:
    try:
        drop_schema(conn, name)
    except psycopg.errors.LockNotAvailable as error:
        raise LabError(f"the schema {name} is in use by another session: end that and run this again") from error


def _confirm(question: str, *, yes: bool) -> None:
    """Ask before something is deleted. Raises InputError where nobody can answer."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise InputError(f"{question} There is no terminal to ask on: give --yes to delete")
    typer.confirm(question, abort=True, err=True)
