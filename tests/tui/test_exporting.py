"""What leaves the explorer: copies, pictures, and a file in an editor."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from retrieval_lab.errors import EnvironmentMissing
from retrieval_lab.trace import Trace
from retrieval_lab_tui.app import ExplorerApp
from retrieval_lab_tui.editor import editor_for
from tests.tui.driving import WIDE, Answered, WaitFor, write

PATH = Path("/a folder/x.md")


@pytest.mark.parametrize(
    ("environment", "command", "own_window"),
    [
        ({"EDITOR": "vi"}, ("vi", "+7", str(PATH)), False),
        (
            {"EDITOR": "nano", "VISUAL": "/usr/bin/code --wait"},
            ("/usr/bin/code", "--wait", "--goto", f"{PATH}:7"),
            True,
        ),
        ({"EDITOR": "emacs -nw"}, ("emacs", "-nw", "+7", str(PATH)), False),
        ({"EDITOR": "hx"}, ("hx", f"{PATH}:7"), False),
        ({"EDITOR": "subl"}, ("subl", f"{PATH}:7"), True),
        ({"EDITOR": "'/opt/my editor/kate'"}, ("/opt/my editor/kate", "--line", "7", str(PATH)), True),
    ],
)
def test_each_editor_gets_the_line_as_it_wants_it(
    environment: dict[str, str], command: tuple[str, ...], own_window: bool
) -> None:
    editor = editor_for(PATH, 7, environment)
    assert (editor.command, editor.own_window) == (command, own_window)


@pytest.mark.parametrize("environment", [{}, {"EDITOR": ""}, {"EDITOR": "  "}, {"EDITOR": "'open"}])
def test_without_an_editor_it_says_what_to_set(environment: dict[str, str]) -> None:
    with pytest.raises(EnvironmentMissing, match="EDITOR"):
        editor_for(PATH, 7, environment)


def messages(app: ExplorerApp) -> list[str]:
    return [f"{note.title}: {note.message}" for note in app._notifications]


@pytest.fixture
def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """Stands for an editor with a window of its own; gives the arguments that it was called with."""
    script, seen = tmp_path / "code", tmp_path / "seen"
    script.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {seen}.part\nmv {seen}.part {seen}\n', encoding="utf-8")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("VISUAL", str(script))
    return lambda: seen.read_text(encoding="utf-8").splitlines() if seen.exists() else []


async def test_the_passages_file_is_opened_at_its_line(
    small_corpus: Path, answered: Answered, wait_for: WaitFor, editor: Callable[[], list[str]]
) -> None:
    text = "\ufeff# Soup\r\n\r\nBoil the leeks.\r\n\r\n## Later\r\n\r\nAdd two potatoes.\r\n"
    (small_corpus / "docs" / "soup.md").write_bytes(text.encode())
    app = ExplorerApp(small_corpus)
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, "how long does the loaf bake")
        await write(pilot, "potatoes")
        await answered(pilot, "potatoes")
        assert app.explore.chunk is not None
        assert app.explore.chunk.text.startswith("## Later")
        await pilot.press("o")
        await wait_for(pilot, editor)
        assert editor() == ["--goto", f"{small_corpus / 'docs' / 'soup.md'}:5"]
    app.close_lab()


async def test_what_hinders_an_editor_is_said(
    small_corpus: Path, answered: Answered, wait_for: WaitFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.delenv("EDITOR", raising=False)
    app = ExplorerApp(small_corpus)
    async with app.run_test(size=WIDE, notifications=True) as pilot:
        await answered(pilot, "how long does the loaf bake")

        async def tell(expected: str) -> None:
            await pilot.press("o")
            await wait_for(pilot, lambda: any(expected in message for message in messages(app)))

        await tell("neither $VISUAL nor $EDITOR is set")
        monkeypatch.setenv("VISUAL", "/no/such/code")
        await tell("there is no command '/no/such/code': set EDITOR to one that is installed")
        monkeypatch.setenv("VISUAL", "sh")
        await tell("This terminal cannot be lent")
        (small_corpus / "docs" / "bread.md").unlink()
        await tell("no file of the document 'bread' any more")
    app.close_lab()


async def test_the_trace_is_copied_as_json_and_as_markdown(small_corpus: Path, answered: Answered) -> None:
    app = ExplorerApp(small_corpus)
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, "how long does the loaf bake")
        await pilot.press("t")
        assert Trace.from_dict(json.loads(app.clipboard)).relevant == ("bread#000",)
        await pilot.press("T")
        assert app.clipboard.startswith("# how long does the loaf bake\n")
        assert "| 1 |" in app.clipboard
        assert "**bread#000**" in app.clipboard
    app.close_lab()


async def test_a_picture_is_saved_here_and_a_folder_that_cannot_be_written_is_named(
    small_corpus: Path, answered: Answered, wait_for: WaitFor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    app = ExplorerApp(small_corpus)
    async with app.run_test(size=WIDE, notifications=True) as pilot:
        await answered(pilot, "how long does the loaf bake")
        await pilot.press("P")
        await wait_for(pilot, lambda: list(here.glob("retrieval-lab-*.svg")))
        picture = next(here.glob("*.svg")).read_text(encoding="utf-8")
        assert "<svg" in picture
        assert "Bread" in picture

        def refuse(*_: object, **__: object) -> str:
            raise PermissionError(13, os.strerror(13))

        monkeypatch.setattr(app, "save_screenshot", refuse)
        await pilot.press("P")
        await wait_for(pilot, lambda: any("Permission denied" in message for message in messages(app)))
    app.close_lab()


async def test_an_editor_that_cannot_be_run_gives_the_terminal_back(
    small_corpus: Path, answered: Answered, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is executable and no program; the terminal is lent and must come back."""
    broken = tmp_path / "broken"
    broken.write_bytes(b"\x7fELF nothing")
    broken.chmod(broken.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("VISUAL", str(broken))
    lent: list[str] = []

    @contextmanager
    def lend() -> Iterator[None]:
        lent.append("lent")
        yield
        lent.append("back")

    app = ExplorerApp(small_corpus)
    async with app.run_test(size=WIDE, notifications=True) as pilot:
        await answered(pilot, "how long does the loaf bake")
        monkeypatch.setattr(app, "suspend", lend)
        await pilot.press("o")
        assert lent == ["lent", "back"]
        assert "cannot be run: Exec format error" in messages(app)[-1]
    app.close_lab()
