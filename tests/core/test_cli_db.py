"""`retrieval-lab db ...` as a user runs it, and what every command shares: exit codes, messages, streams."""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from retrieval_lab import cli, server_admin
from retrieval_lab.database import Database, make_schema
from retrieval_lab.errors import InputError
from retrieval_lab.paths import index_folder
from retrieval_lab.server import Server

NOBODY_LISTENS = "postgresql://me:geheim@127.0.0.1:1/lab"


def run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "retrieval_lab", *arguments],
        **{"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "timeout": 60, **options},
    )


@pytest.fixture(scope="module")
def made_before(fast_folder: Path) -> Iterator[Path]:
    """A data directory with a cluster in it."""
    path = Path(tempfile.mkdtemp(prefix="retrieval-lab-test-", dir=fast_folder))
    path.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RETRIEVAL_LAB_DATA_DIR", str(path))
        Database.open().close()
    yield path
    shutil.rmtree(path)


@pytest.fixture
def folder(made_before: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The data directory of a server that does not run."""
    monkeypatch.setenv("RETRIEVAL_LAB_DATA_DIR", str(made_before))
    server_admin.stop()
    yield made_before
    server_admin.stop(force=True)


@pytest.fixture
def main(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs the command line in this process: the exit code, stdout and stderr."""

    def call(*arguments: str) -> tuple[int, str, str]:
        code = cli.main(arguments)
        out, err = capsys.readouterr()
        return code, out, err

    return call


Main = Callable[..., tuple[int, str, str]]


@pytest.mark.usefixtures("folder")
class TestLifeOfTheServer:
    def test_dsn_stays_up_until_stop(self, main: Main) -> None:
        printed = run("db", "dsn")
        assert (printed.returncode, printed.stderr) == (0, "")
        time.sleep(0.3)
        with psycopg.connect(printed.stdout.strip()) as conn:
            assert conn.execute("SELECT '[1]'::vector").fetchone() == ("[1]",)
        assert json.loads(main("db", "status", "--json")[1])["kept"]
        assert main("db", "stop") == (0, "The embedded server was stopped.\n", "")
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(printed.stdout.strip())
        assert main("db", "stop") == (0, "The embedded server was not running.\n", "")

    def test_start_says_where_and_notes_the_variable(self, main: Main, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("RETRIEVAL_LAB_DSN", NOBODY_LISTENS)
        code, out, err = main("db", "start")
        assert code == 0
        assert out.splitlines()[-1].startswith("postgresql://lab@/lab?host=/")
        assert "RETRIEVAL_LAB_DSN is set" in err
        assert "geheim" not in out + err

    def test_stop_is_refused_while_others_use_it(self, main: Main) -> None:
        share = Server.start()
        refused = run("db", "stop")
        assert refused.returncode == 1
        assert f"in use (process ids: {os.getpid()})" in refused.stderr
        assert main("db", "stop", "--force")[0] == 0
        share.close()
        assert main("db", "stop")[0] == 0


class TestStatus:
    def test_not_running(self, folder: Path, main: Main) -> None:
        code, out, err = main("db", "status", "--json")
        status = json.loads(out)
        assert (code, err) == (0, "")
        assert not status["running"]
        assert status["data_dir"].startswith(str(folder))
        assert status["schemas"] == []
        assert not server_admin.status().running

    def test_nothing_is_made(self, main: Main, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("RETRIEVAL_LAB_DATA_DIR", str(tmp_path / "new"))
        for arguments in (["status"], ["stop"], ["drop"]):
            assert main("db", *arguments)[0] == 0
        assert not list(tmp_path.iterdir())

    def test_running(self, database: Database, schema: str, main: Main) -> None:
        code, out, _ = main("db", "status")
        assert code == 0
        assert "server    running" in out
        assert database.dsn in out
        assert schema in out
        status = json.loads(main("db", "status", "--json")[1])
        assert schema in [found["name"] for found in status["schemas"]]
        assert status["server_version"].startswith("18")
        assert status["pgvector_version"]

    def test_own_server(self, database: Database, main: Main) -> None:
        status = json.loads(main("db", "status", "--json", "--dsn", database.dsn)[1])
        assert status["running"]
        assert not status["embedded"]
        assert status["data_dir"] is None

    @pytest.mark.parametrize("dsn", [NOBODY_LISTENS, "postgresql//me:geheim@x"])
    def test_own_server_that_is_not_there(self, main: Main, dsn: str) -> None:
        code, out, err = main("db", "status", "--dsn", dsn)
        assert (code, err) == (0, "")
        assert "not running" in out
        assert "geheim" not in out


class TestDrop:
    def test_asks_first(self, folder: Path, main: Main) -> None:
        code, out, err = main("db", "drop")
        assert (code, out) == (2, "")
        assert "--yes" in err
        assert list(folder.iterdir())

    def test_answer_on_a_terminal(self, folder: Path) -> None:
        ours, theirs = pty.openpty()
        os.write(ours, b"n\n")
        refused = run("db", "drop", stdin=theirs)
        os.close(ours)
        os.close(theirs)
        assert refused.returncode == 1
        assert "Delete the embedded cluster" in refused.stderr
        assert list(folder.iterdir())

    def test_schemas_of_an_own_server(self, database: Database, main: Main) -> None:
        with database.connect() as conn:
            conn.execute("CREATE DATABASE lab_test_drop")
        dsn = database.dsn.replace("/lab?", "/lab_test_drop?")
        with psycopg.connect(dsn, autocommit=True) as conn:
            make_schema(conn, "lab_1", "a test")
            conn.execute("CREATE TABLE lab_1.t (n int)")
            conn.execute("CREATE SCHEMA lab_others")
            for name in ("lab_1", "lab_others"):
                index_folder(name).mkdir(parents=True)
                (index_folder(name) / "meta.json").write_text("{}")
            assert main("db", "drop", "--dsn", dsn)[0] == 2
            code, out, _ = main("db", "drop", "--dsn", dsn, "--yes")
            assert (code, out) == (0, "Deleted lab_1.\n")
            left = conn.execute("SELECT nspname FROM pg_namespace WHERE nspname IN ('lab_1', 'lab_others')").fetchall()
            assert left == [("lab_others",)]
            assert [index_folder(name).exists() for name in ("lab_1", "lab_others")] == [False, True]
        shutil.rmtree(index_folder("lab_others"))
        assert "no schemas of the lab" in main("db", "drop", "--dsn", dsn)[1]
        with database.connect() as conn:
            conn.execute("DROP DATABASE lab_test_drop")

    def test_server_that_is_not_there(self, main: Main) -> None:
        code, out, err = main("db", "drop", "--yes", "--dsn", NOBODY_LISTENS)
        assert (code, out) == (3, "")
        assert err.startswith("error: no connection")
        assert "geheim" not in err

    def test_embedded_cluster(self, folder: Path, main: Main) -> None:
        share = Server.start()
        index_folder("lab_1").mkdir(parents=True)
        (index_folder("lab_1") / "meta.json").write_text("{}")
        assert main("db", "drop", "--yes")[0] == 1
        assert index_folder("lab_1").exists()
        share.close()
        assert main("db", "drop", "--yes")[0] == 0
        assert not list(folder.iterdir())


class TestEveryCommand:
    def test_without_arguments_prints_help(self, main: Main) -> None:
        code, out, _ = main()
        assert code == 0
        assert "Usage: retrieval-lab" in out

    @pytest.mark.parametrize("command", ["start", "status", "dsn", "stop", "drop"])
    def test_help_has_an_example(self, main: Main, command: str) -> None:
        code, out, _ = main("db", command, "--help")
        assert code == 0
        assert "Example:" in out

    def test_version(self, main: Main) -> None:
        code, out, _ = main("--version")
        assert code == 0
        assert out.startswith("retrieval-lab ")

    @pytest.mark.parametrize(
        "arguments", [["nonsense"], ["db", "nonsense"], ["db", "stop", "--nonsense"], ["db", "stop", "x"]]
    )
    def test_usage_errors(self, main: Main, arguments: list[str]) -> None:
        code, out, err = main(*arguments)
        assert (code, out) == (2, "")
        assert "Usage:" in err

    @pytest.mark.parametrize(
        ("error", "code", "message"),
        [
            (InputError("that is wrong"), 2, "error: that is wrong\n"),
            (KeyboardInterrupt(), 130, ""),
            (BrokenPipeError(), 141, ""),
            (psycopg.OperationalError("the connection is closed\nmore"), 3, None),
            (ZeroDivisionError("by zero"), 1, None),
        ],
    )
    def test_errors_become_exit_codes(
        self, main: Main, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, message: str | None
    ) -> None:
        def fail(**_: object) -> None:
            raise error

        monkeypatch.setattr(server_admin, "stop", fail)
        found, out, err = main("db", "stop")
        assert (found, out) == (code, "")
        assert err.count("\n") <= 1
        if message is not None:
            assert err == message
        assert "Traceback" not in err

    @pytest.mark.parametrize("arguments", [["--debug", "db", "stop"], ["db", "stop", "--debug"]])
    def test_debug_shows_the_traceback(self, main: Main, monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
        def fail(**_: object) -> None:
            raise ZeroDivisionError("by zero")

        monkeypatch.setattr(server_admin, "stop", fail)
        code, _, err = main(*arguments)
        assert code == 1
        assert "Traceback" in err
        assert err.endswith("error: unexpected ZeroDivisionError: by zero (run again with --debug to see where)\n")

    def test_reader_that_goes_away(self) -> None:
        read, write = os.pipe()
        os.close(read)
        ended = run("--help", stdout=write, capture_output=False, stderr=subprocess.PIPE)
        os.close(write)
        assert (ended.returncode, ended.stderr) == (141, "")

    def test_no_color(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("NO_COLOR", "1")
        monkeypatch.setenv("TERM", "xterm-256color")
        ours, theirs = pty.openpty()
        ended = run("--help", stdout=theirs, capture_output=False, stderr=subprocess.PIPE)
        os.close(theirs)
        assert ended.returncode == 0
        shown = os.read(ours, 100_000)
        os.close(ours)
        assert b"Usage:" in shown
        assert b"\x1b[3" not in shown
