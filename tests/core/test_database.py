"""Database: which server it opens, what it says when there is none, and pgvector in it."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from retrieval_lab.database import Database, LabSchema, connect, ensure_extension, make_schema, peek, schemas
from retrieval_lab.errors import EnvironmentMissing

NOBODY_LISTENS = "host=127.0.0.1 port=1 dbname=lab user=me"


@pytest.fixture
def scratch(database: Database) -> Iterator[Callable[..., str]]:
    """Makes a database beside the lab's and returns its DSN; dropped afterwards."""
    made: list[sql.Identifier] = []

    def make(name: str, options: str = "") -> str:
        with database.connect() as conn:
            made.append(sql.Identifier(name))
            conn.execute(sql.SQL("CREATE DATABASE {} {}").format(made[-1], sql.SQL(options)))
        return database.dsn.replace("/lab?", f"/{name}?")

    yield make
    with database.connect() as conn:
        for identifier in made:
            conn.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(identifier))


@pytest.fixture
def role(database: Database) -> Iterator[str]:
    """The name of a role that may do nothing in particular."""
    with database.connect() as conn:
        conn.execute("CREATE ROLE lab_test_plain")
        yield "lab_test_plain"
        conn.execute("DROP ROLE lab_test_plain")


class TestOpen:
    def test_embedded(self, database: Database) -> None:
        assert database.embedded
        with psycopg.connect(database.dsn) as conn:
            assert conn.execute("SELECT extversion >= '0.5.0' FROM pg_extension WHERE extname = 'vector'").fetchone()

    def test_dsn_argument_wins_over_the_variable(self, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("RETRIEVAL_LAB_DSN", NOBODY_LISTENS)
        with Database.open(database.dsn) as opened:
            assert not opened.embedded
            assert opened.dsn == database.dsn

    def test_variable(self, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("RETRIEVAL_LAB_DSN", database.dsn)
        with Database.open() as opened:
            assert not opened.embedded

    def test_empty_variable_is_none(self, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("RETRIEVAL_LAB_DSN", "")
        with Database.open() as opened:
            assert opened.embedded
            assert opened.dsn == database.dsn

    def test_close_twice(self) -> None:
        opened = Database.open()
        opened.close()
        opened.close()


class TestConnect:
    def test_is_autocommit_and_named(self, database: Database) -> None:
        with database.connect() as conn:
            assert conn.autocommit
            assert conn.execute("SHOW application_name").fetchone() == ("retrieval-lab",)
            assert conn.execute("SHOW client_encoding").fetchone() == ("UTF8",)

    def test_search_path(self, database: Database) -> None:
        with database.connect('odd "name", with comma') as conn:
            assert conn.execute("SHOW search_path").fetchone() == ('"odd ""name"", with comma", public',)
            assert conn.execute("SELECT '[1]'::vector").fetchone() == ("[1]",)

    def test_extension_in_a_schema_of_its_own(self, scratch: Callable[..., str]) -> None:
        dsn = scratch("lab_test_elsewhere")
        with connect(dsn) as conn:
            conn.execute("CREATE SCHEMA tools")
            conn.execute("CREATE EXTENSION vector WITH SCHEMA tools")
        with Database.open(dsn) as opened, opened.connect("mine") as conn:
            assert conn.execute("SHOW search_path").fetchone() == ("mine, tools, public",)
            assert conn.execute("SELECT '[1]'::vector").fetchone() == ("[1]",)

    def test_cancelling_leaves_the_terminal_alone(self, database: Database) -> None:
        code = """
            import os, signal, sys, threading
            from retrieval_lab.database import Database
            with Database.open(sys.argv[1]) as database, database.connect() as conn:
                threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
                try:
                    conn.execute("SELECT pg_sleep(60)")
                except KeyboardInterrupt:
                    print("interrupted")
        """
        ended = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code), database.dsn], capture_output=True, text=True, timeout=30
        )
        assert (ended.stdout, ended.stderr, ended.returncode) == ("interrupted\n", "", 0)


class TestNoConnection:
    @pytest.mark.parametrize(
        "dsn",
        [
            NOBODY_LISTENS,
            "postgresql://me@127.0.0.1:1/lab",
            "postgresql://me@no-such-host.invalid/lab",
            "host=/nonexistent dbname=lab",
            "host=127.0.0.1 port=none",
            "postgresql//typo",
            "host=127.0.0.1 nonsense=1",
            "nonsense",
        ],
    )
    def test_is_one_line_with_the_mend(self, dsn: str) -> None:
        with pytest.raises(EnvironmentMissing) as caught:
            Database.open(dsn)
        assert "\n" not in str(caught.value)
        assert "DSN" in str(caught.value)
        assert caught.value.exit_code == 3

    @pytest.mark.parametrize(
        "dsn",
        [
            "postgresql://me:{}@127.0.0.1:1/lab",
            "postgresql//me:{}@127.0.0.1/lab",
            "postgresql://me:{}@127.0.0.1:none/lab",
            "postgresql://127.0.0.1:1/lab?user=me&password={}",
            "host=127.0.0.1 port=1 password={}",
            "host=127.0.0.1 port=1 password = '{}",
            "host=127.0.0.1 port=none password={}",
            "{}",
        ],
    )
    @pytest.mark.parametrize("password", ["geheim", "geh@eim", "geh/eim", "geh%eim", "geh:eim", "geh#eim", "geh eim"])
    def test_never_shows_a_password(self, dsn: str, password: str) -> None:
        with pytest.raises(EnvironmentMissing) as caught:
            Database.open(dsn.format(password))
        shown = f"{caught.value!r} {caught.value.__cause__!r}"
        assert "geh" not in shown
        assert "eim" not in shown

    def test_server_that_accepts_and_says_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import socket
        import time

        monkeypatch.setenv("PGCONNECT_TIMEOUT", "2")
        with socket.create_server(("127.0.0.1", 0)) as silent:
            began = time.monotonic()
            with pytest.raises(EnvironmentMissing, match="timeout"):
                Database.open(f"host=127.0.0.1 port={silent.getsockname()[1]}")
            assert time.monotonic() - began < 4

    def test_no_such_database(self, database: Database) -> None:
        with pytest.raises(EnvironmentMissing, match='database "nowhere" does not exist'):
            Database.open(database.dsn.replace("/lab?", "/nowhere?"))


class TestExtension:
    @pytest.mark.parametrize("autocommit", [True, False])
    def test_inside_and_outside_a_transaction(self, scratch: Callable[..., str], autocommit: bool) -> None:
        with psycopg.connect(scratch("lab_test_ext"), autocommit=autocommit) as conn:
            conn.execute("CREATE SCHEMA first")
            conn.execute("SET search_path = first")
            ensure_extension(conn)
            with conn.transaction():
                ensure_extension(conn)
            place = conn.execute("SELECT extnamespace::regnamespace::text FROM pg_extension WHERE extname = 'vector'")
            assert place.fetchone() == ("public",)

    def test_server_without_pgvector(self, scratch: Callable[..., str]) -> None:
        dsn = scratch("lab_test_none")
        with connect(dsn) as conn:
            conn.execute("ALTER DATABASE lab_test_none SET extension_control_path = '/nonexistent'")
        with pytest.raises(EnvironmentMissing, match=r"no pgvector.*install"):
            Database.open(dsn)

    def test_too_old(self, scratch: Callable[..., str]) -> None:
        dsn = scratch("lab_test_old")
        with connect(dsn) as conn:
            ensure_extension(conn)
            conn.execute("UPDATE pg_extension SET extversion = '0.4.4' WHERE extname = 'vector'")
        with pytest.raises(EnvironmentMissing, match=r"0\.4\.4.*ALTER EXTENSION vector UPDATE"):
            Database.open(dsn)

    def test_role_that_may_not_create_it(self, scratch: Callable[..., str], role: str) -> None:
        dsn = f"{scratch('lab_test_plain')}&options=-crole%3D{role}"
        with pytest.raises(EnvironmentMissing, match=r"superuser.*CREATE EXTENSION vector WITH SCHEMA public"):
            Database.open(dsn)

    def test_role_that_finds_it_there(self, database: Database, role: str) -> None:
        with Database.open(f"{database.dsn}&options=-crole%3D{role}") as opened, opened.connect() as conn:
            assert conn.execute("SELECT current_user").fetchone() == (role,)

    def test_no_schema_public(self, scratch: Callable[..., str]) -> None:
        dsn = scratch("lab_test_nopublic")
        with connect(dsn) as conn:
            conn.execute("DROP SCHEMA public")
        with pytest.raises(EnvironmentMissing, match='schema "public" does not exist'):
            Database.open(dsn)

    def test_database_of_another_encoding(self, scratch: Callable[..., str]) -> None:
        options = "ENCODING 'LATIN1' LOCALE 'C' LOCALE_PROVIDER libc TEMPLATE template0"
        with pytest.raises(EnvironmentMissing, match=r"LATIN1.*UTF8"):
            Database.open(scratch("lab_test_latin", options))


class TestSchemas:
    def test_names_and_sizes(self, scratch: Callable[..., str], role: str) -> None:
        with connect(scratch("lab_test_schemas")) as conn:
            conn.execute("CREATE SCHEMA lab_of_somebody")
            for name in ("lab_b", "lab_a", "lab_of_somebody"):
                make_schema(conn, name, "a test")
            conn.execute("CREATE TABLE lab_a.t AS SELECT repeat('x', 1000) AS text FROM generate_series(1, 100)")
            found = schemas(conn)
            assert [schema.name for schema in found] == ["lab_a", "lab_b"]
            assert found[0].size_bytes >= 100_000
            assert found[1] == LabSchema("lab_b", "a test", 0)
            conn.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(role)))
            assert schemas(conn) == []


class TestPeek:
    def test_running(self, database: Database) -> None:
        conn = peek()
        assert conn is not None
        conn.close()
        assert database.embedded

    def test_nothing_is_started(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("RETRIEVAL_LAB_DATA_DIR", str(tmp_path / "new"))
        assert peek() is None
        assert not list(tmp_path.iterdir())
