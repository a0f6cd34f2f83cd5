"""What the screens look like. Each docstring says what a person should see; the state behind it is tested elsewhere.

Accept a deliberate change with `make snapshots`, after looking at the pictures.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from textual.pilot import Pilot

from retrieval_lab import metrics
from retrieval_lab.errors import EnvironmentMissing
from retrieval_lab.index import Progress
from retrieval_lab.lab import Lab
from retrieval_lab_tui.app import ExplorerApp
from retrieval_lab_tui.widgets.opening import Opening

SIZES = pytest.mark.parametrize("size", [(80, 24), (200, 60)], ids=["80x24", "200x60"])
SnapCompare = Callable[..., bool]


@pytest.fixture
def app() -> Iterator[ExplorerApp]:
    explorer = ExplorerApp()
    yield explorer
    explorer.close_lab()


def keys(*pressed: str, golden: int = 0) -> Callable[[Pilot[Any]], Any]:
    """Waits for the first answer, steps to a golden query, then presses the keys."""

    async def run(pilot: Pilot[Any]) -> None:
        app = pilot.app
        assert isinstance(app, ExplorerApp)
        await until(pilot, lambda: app.explore.answer is not None and app.measuring.misses is not None)
        for _ in range(golden):
            before = app.explore.answer
            await pilot.press("n")
            await until(pilot, lambda before=before: app.explore.answer is not before)
        await pilot.press(*pressed)
        await pilot.pause()

    return run


async def until(pilot: Pilot[Any], condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        await pilot.pause(0.02)
    await pilot.pause()


@SIZES
def test_found(app: ExplorerApp, snap_compare: SnapCompare, size: tuple[int, int]) -> None:
    """The first golden query: FOUND in green, its chunk marked in every list, the anchor reversed in the passage."""
    assert snap_compare(app, terminal_size=size, run_before=keys())


@SIZES
def test_missed(app: ExplorerApp, snap_compare: SnapCompare, size: tuple[int, int]) -> None:
    """A miss: MISS in red, ranks up to the reranker, no mark in the final list; the cursor is on the vector list."""
    assert snap_compare(app, terminal_size=size, run_before=keys("1", golden=7))


@SIZES
def test_picker(app: ExplorerApp, snap_compare: SnapCompare, size: tuple[int, int]) -> None:
    """Eleven conceptual misses, each with a red cross and its rank in the pool, under an empty line to type in."""
    assert snap_compare(app, terminal_size=size, run_before=keys("f", "f3", "f2"))


@SIZES
def test_measures(
    app: ExplorerApp, snap_compare: SnapCompare, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All queries and the three kinds side by side where they fit: numbers, bars of their intervals, the ends."""
    monkeypatch.setattr(metrics, "perf_counter", lambda: 0.0)
    assert snap_compare(app, terminal_size=size, run_before=keys("e", "down", "right"))


@SIZES
def test_settings(app: ExplorerApp, snap_compare: SnapCompare, size: tuple[int, int]) -> None:
    """The settings at the lower right, the reranker under the cursor is none and was lexical; the miss is found."""
    assert snap_compare(app, terminal_size=size, run_before=settings)


async def settings(pilot: Pilot[Any]) -> None:
    await keys("s", *["j"] * 8, "left", golden=7)(pilot)
    app = pilot.app
    assert isinstance(app, ExplorerApp)
    await until(
        pilot,
        lambda: (
            app.explore.answer is not None
            and app.explore.answer.before is not None
            and app.measuring.misses is not None
        ),
    )


@SIZES
def test_help(app: ExplorerApp, snap_compare: SnapCompare, size: tuple[int, int]) -> None:
    """All keys with what they do, and what the marks mean, over the lists."""
    assert snap_compare(app, terminal_size=size, run_before=keys("question_mark"))


@SIZES
def test_indexing(snap_compare: SnapCompare, size: tuple[int, int]) -> None:
    """A progress bar over half its length in the middle, the document's name above it."""

    def open_never(*_: Any, progress: Callable[[Progress], None], cancelled: Callable[[], bool], **__: Any) -> Lab:
        progress(Progress(20, 32, "hybrid-search"))
        while not cancelled():
            time.sleep(0.01)
        raise EnvironmentMissing("left")

    app = ExplorerApp(open_lab=open_never)

    async def run(pilot: Pilot[Any]) -> None:
        await until(pilot, lambda: "20 of 32" in str(app.explore.query_one(Opening).query_one("Static").visual))

    assert snap_compare(app, terminal_size=size, run_before=run)
    app.close_lab()


@SIZES
def test_failed(snap_compare: SnapCompare, size: tuple[int, int]) -> None:
    """Why the corpus could not be opened, and the keys that help, in the middle of the screen."""

    def open_failing(*_: Any, **__: Any) -> Lab:
        raise EnvironmentMissing("no connection to the database: start that server or correct the DSN [/]")

    app = ExplorerApp(open_lab=open_failing)

    async def run(pilot: Pilot[Any]) -> None:
        await until(pilot, lambda: app.explore.query_one(Opening).has_class("failed"))

    assert snap_compare(app, terminal_size=size, run_before=run)
