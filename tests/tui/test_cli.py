"""The console script: what runs without a command, and what the explorer refuses."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from retrieval_lab_tui import cli


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], ["explore"]),
        (["--debug"], ["explore", "--debug"]),
        (["--dsn", "postgresql:///x"], ["explore", "--dsn", "postgresql:///x"]),
        (["db", "status"], ["db", "status"]),
        (["--version"], ["--version"]),
        (["--help"], ["--help"]),
        (["a-folder"], ["explore", "a-folder"]),
        (["no-such-thing"], ["no-such-thing"]),
        (["no/such/folder"], ["explore", "no/such/folder"]),
        (["notes.md"], ["explore", "notes.md"]),
    ],
)
def test_without_a_command_explore_is_meant(
    arguments: list[str], expected: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a-folder").mkdir()
    monkeypatch.chdir(tmp_path)
    assert cli._with_command(arguments) == expected


def test_a_commands_name_wins_over_a_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "db").mkdir()
    monkeypatch.chdir(tmp_path)
    assert cli._with_command(["db"]) == ["db"]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    code = "import sys; from retrieval_lab_tui.cli import main; sys.exit(main())"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=30
    )


def test_without_a_terminal_the_explorer_says_so_and_ends_with_2() -> None:
    done = run()
    assert done.returncode == 2
    assert "needs a terminal" in done.stderr
    assert done.stdout == ""


def test_an_unknown_command_ends_with_2() -> None:
    done = run("no-such-thing")
    assert done.returncode == 2
    assert "No such command" in done.stderr


def test_a_dumb_terminal_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert cli.main(["explore"]) == 2
    assert "set TERM" in capsys.readouterr().err


def test_a_missing_folder_is_refused_before_the_screen_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert cli.main(["explore", str(tmp_path / "gone")]) == 2
    assert "no such folder" in capsys.readouterr().err
