"""A corpus that tries to style the screen, to run actions, to crash a widget or to reach the terminal."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import psutil
import pytest
from textual.pilot import Pilot

from retrieval_lab_tui.app import ExplorerApp
from retrieval_lab_tui.widgets.passage import Passage
from retrieval_lab_tui.widgets.ranked_list import RankedList

Answered = Callable[[Pilot[None], str], Awaitable[None]]

LINES = [
    "see [1] and [/etc/passwd] token",
    "array[i] = list[str] token",
    "- [ ] todo - [x] done token",
    "[@click=app.quit]go[/] [link=http://x]token[/link] [tag=value:",
    "[/] [/foo] [red]token",
    "\x1b[31mred\x1b[0m \x1b]52;c;ZXZpbA==\x07 \x9b31m token",
    "\x08\x0b\x0c\x07 \x7f \x85 token",
    "right \u202e tfel \u2066 token",
    "日本語のテスト token",
    "e\u0301\u0301\u0301 👩\u200d🔬👨\u200d👩\u200d👧 🇩🇪 token",
    "zero\u200bwidth soft\u00adhyphen \ufeff token",
    "$accent {token} $(token) %(token)s \\[token]",
]
QUERY = "[@click=app.quit]token[/] \x1b]52;c;ZXZpbA==\x07"


@pytest.fixture
def hostile_corpus(tmp_path: Path) -> Path:
    docs = tmp_path / "[red]corpus[/]" / "docs"
    docs.mkdir(parents=True)
    for number, line in enumerate(LINES):
        title = line.replace("\n", " ")
        (docs / f"[bold]{number:02d}[@click=app.quit].md").write_text(f"# {title}\n\n{line}\n", encoding="utf-8")
    golden = """\
- query_id: "[/q1]"
  query: token
  kind: "[red]"
  doc_id: "[bold]03[@click=app.quit]"
  anchor: "[@click=app.quit]go[/]"
"""
    (docs.parent / "golden.yaml").write_text(golden, encoding="utf-8")
    return docs.parent


@pytest.mark.parametrize("size", [(200, 60), (80, 24)], ids=["wide", "narrow"])
async def test_every_widget_shows_it_as_text(hostile_corpus: Path, answered: Answered, size: tuple[int, int]) -> None:
    app = ExplorerApp(hostile_corpus)
    async with app.run_test(size=size, notifications=True, tooltips=True) as pilot:
        await answered(pilot, "token")
        vector = app.explore.query_one("#list-vector", RankedList)
        assert len(vector.rows) == len(LINES)
        await pilot.press("1", "g")
        await pilot.pause()
        passages = []
        for _ in LINES:
            passages.append(str(app.explore.query_one(Passage).text))
            await pilot.click(Passage, offset=(5, 2))
            await pilot.press("1")
            await pilot.pause()
            await pilot.press("j")
            await pilot.pause()
        assert "array[i] = list[str] token" in "\n".join(passages)
        for stage in app.explore.stages:
            await pilot.press(str(app.explore.stages.index(stage) + 1))
            await pilot.click(f"#list-{stage}", offset=(20, 3))
        drawn = "\n".join(
            "".join(segment.text for segment in strip) for strip in app.screen._compositor.render_strips()
        )
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", drawn)
        assert "[red]corpus[/]" in drawn
        assert app.is_running
        await pilot.press("slash")
        app.explore.query_one("#query").value = QUERY  # type: ignore[attr-defined]
        await pilot.press("enter")
        await answered(pilot, QUERY)
        assert app.is_running
    app.close_lab()


def test_no_sequence_of_the_corpus_reaches_the_terminal_and_q_leaves_no_process_behind(
    hostile_corpus: Path, tmp_path: Path, fast_folder: Path
) -> None:
    """The whole program in a pseudo-terminal with a server of its own: start, step, quit."""
    data = Path(tempfile.mkdtemp(prefix="retrieval-lab-test-", dir=fast_folder))
    primary, secondary = pty.openpty()
    code = "import sys; from retrieval_lab_tui.cli import main; sys.exit(main())"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "explore", str(hostile_corpus)],
        stdin=secondary,
        stdout=secondary,
        stderr=secondary,
        env={
            **os.environ,
            "TERM": "xterm-256color",
            "COLUMNS": "120",
            "LINES": "40",
            "RETRIEVAL_LAB_DATA_DIR": str(data),
        },
        start_new_session=True,
        cwd=tmp_path,
    )
    os.close(secondary)
    try:
        output = read_until(primary, lambda seen: b"MISS" in seen)
        for key in (b"1", b"j", b"j", b"j", b"n"):
            os.write(primary, key)
            output += read_until(primary, lambda seen: len(seen) > 0)
        os.write(primary, b"q")
        output += read_until(primary, lambda _: process.poll() is not None)
        assert process.wait(timeout=10) == 0
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        os.close(primary)
    assert b"]52;" not in output.replace("␛]52;".encode(), b"")
    assert b"\x9b31m" not in output
    assert b"Traceback" not in output
    deadline = time.monotonic() + 10
    while left := [process for process in psutil.process_iter() if is_of(process, data)]:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)
    shutil.rmtree(data)


def is_of(process: psutil.Process, data: Path) -> bool:
    """Whether the process is the server of the data directory, or its guardian."""
    try:
        return any(str(data) in argument for argument in process.cmdline())
    except psutil.Error:
        return False


def read_until(fd: int, enough: Callable[[bytes], bool], seconds: float = 20) -> bytes:
    """What the program writes until it is enough, or the program is gone."""
    deadline = time.monotonic() + seconds
    seen = b""
    while not enough(seen):
        assert time.monotonic() < deadline, f"not seen in time, but: {seen[-2000:]!r}"
        if select.select([fd], [], [], 0.05)[0]:
            try:
                part = os.read(fd, 65536)
            except OSError:  # the other side is closed
                return seen
            if not part:
                return seen
            seen += part
    return seen
