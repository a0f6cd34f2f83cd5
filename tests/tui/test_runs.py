"""The runs that are kept: listed on one scale, ordered, named when they are none, and drawn as bars."""

from __future__ import annotations

import math
import threading
from pathlib import Path

import pytest

from retrieval_lab.config import PipelineConfig
from retrieval_lab.evals.interval_scale import Scale, scale_around_zero, scale_of
from retrieval_lab.evals.kept import resolve_run, stored_runs
from retrieval_lab.evals.resampling import Interval
from retrieval_lab.evals.runs import Run
from retrieval_lab_tui.app import ExplorerApp
from retrieval_lab_tui.interval_bars import interval_bar, p_text
from retrieval_lab_tui.screens.measures import MeasuresScreen
from retrieval_lab_tui.screens.runs import RunsScreen
from tests.tui.driving import NARROW, WIDE, Answered, WaitFor
from tests.tui.keeping import (
    AFTER,
    BEFORE,
    FIRST,
    NO_RERANKER,
    keep,
    line_of,
    list_runs,
    names,
    ndcg,
    text,
)


async def test_the_runs_are_listed_by_the_measure_that_the_arrows_choose_or_by_time(
    five_queries: Path, answered: Answered, wait_for: WaitFor
) -> None:
    keep(five_queries, "before", BEFORE)
    keep(five_queries, "after", AFTER, config=NO_RERANKER, created="2026-11-30T12:00:00+00:00")
    app = ExplorerApp(five_queries)
    async with app.run_test(size=WIDE) as pilot:
        screen = await list_runs(pilot, answered, wait_for, measured=True)
        means = {
            "before": (1 + 0 + 1 / math.log2(3) + 1 / math.log2(5) + 1) / 5,
            "after": (1 + 1 + 1 + 1 / math.log2(6) + 0) / 5,
        }
        assert means["after"] > means["before"]
        assert names(app) == [f"now · {app.measuring.measured.run.name}", "after", "before"]  # type: ignore[union-attr]
        for name, mean in means.items():
            line = line_of(app, "#rows", name)
            assert f" {mean:.3f} " in line
        assert "not kept · the file's settings" in line_of(app, "#rows", "now")
        assert "reranker none · mmr_lambda –" in line_of(app, "#rows", "after")
        assert "2026-11-30 12:00" in line_of(app, "#rows", "after")
        assert screen.baseline is not None
        assert screen.baseline.name == "after"  # the newest
        await pilot.press("j", "o")
        assert screen.run is not None
        assert screen.run.name == "after"
        await pilot.press("o", "left")
        assert "mrr@10" in text(app, "#state")
        mrr = {"before": (1 + 0 + 1 / 2 + 1 / 4 + 1) / 5, "after": (1 + 1 + 1 + 1 / 5 + 0) / 5}
        for name, mean in mrr.items():
            assert f" {mean:.3f} " in line_of(app, "#rows", name)
        await pilot.press("left", "left")
        assert "precision@10" in text(app, "#state")
        await pilot.press("o")
        assert "the newest first" in text(app, "#title")
        assert names(app)[1:] == ["after", "before"]
    app.close_lab()


@pytest.mark.usefixtures("unmeasured")
async def test_the_order_by_time_is_another_than_by_the_measure_and_the_cursor_stays_on_its_run(
    five_queries: Path, answered: Answered, wait_for: WaitFor
) -> None:
    keep(five_queries, "best", (1, 1, 1, 1, 1), created="2026-01-01T00:00:00+00:00")
    keep(five_queries, "worst", (None, None, None, None, 9), created="2026-01-03T00:00:00+00:00")
    keep(five_queries, "between", BEFORE, created="2026-01-02T00:00:00+00:00")
    app = ExplorerApp(five_queries)
    async with app.run_test(size=NARROW) as pilot:
        screen = await list_runs(pilot, answered, wait_for)
        assert names(app) == ["best", "between", "worst"]
        await pilot.press("g", "o")
        assert names(app) == ["worst", "between", "best"]
        assert screen.run is not None
        assert screen.run.name == "best"
    app.close_lab()


@pytest.mark.usefixtures("unmeasured")
async def test_the_bars_share_a_scale_that_the_lowest_and_the_highest_end_span(
    five_queries: Path, answered: Answered, wait_for: WaitFor
) -> None:
    keep(five_queries, "before", BEFORE)
    keep(five_queries, "after", AFTER)
    keep(five_queries, "none", (None,) * 5)
    app = ExplorerApp(five_queries)
    async with app.run_test(size=WIDE) as pilot:
        await list_runs(pilot, answered, wait_for)
        lines = {name: line_of(app, "#rows", name) for name in ("before", "after", "none")}
        start = text(app, "#heads").index("0.00")
        end = text(app, "#heads").index("95%") - 2
        low = {name: float(line.split("–")[-2][-4:]) for name, line in lines.items()}
        high = max(float(line.split("–")[-1][:4]) for line in lines.values())
        assert low["none"] == 0
        for name, ranks in (("before", BEFORE), ("after", AFTER), ("none", (None,) * 5)):
            mean = sum(map(ndcg, ranks)) / 5
            assert abs(lines[name].index("●") - (start + mean / high * (end - start))) <= 1
        left = lines["before"].index("─")
        assert abs(left - (start + low["before"] / high * (end - start))) <= 1
    app.close_lab()


async def test_files_that_are_no_runs_are_named_with_their_reason(
    five_queries: Path, answered: Answered, wait_for: WaitFor
) -> None:
    keep(five_queries, "good", BEFORE)
    folder = resolve_run("good", five_queries).parent
    (folder / "half [tag=x:.json").write_text('{"format": 1, "na', encoding="utf-8")
    (folder / "foreign.json").write_text('{"format": "[@click=app.quit]"}', encoding="utf-8")
    (folder / "list.json").write_text("[1]", encoding="utf-8")
    (folder / "folder.json").mkdir()
    (folder / "bytes.json").write_bytes(b"\xff\x1b]52;c;AAAA\x07")
    app = ExplorerApp(five_queries)
    async with app.run_test(size=NARROW) as pilot:
        await list_runs(pilot, answered, wait_for, measured=True)
        found = text(app, "#unreadable")
        assert found.count("not read") == 5
        assert "half [tag=x:.json:1: not JSON" in found
        assert "foreign.json: this is no run of format 1: its format is '[@click=app.quit]'" in found
        assert "folder.json: cannot be read" in found
        assert "\x1b" not in found
        assert names(app)[1:] == ["good"]
    app.close_lab()


@pytest.mark.usefixtures("unmeasured")
async def test_runs_of_other_queries_or_another_cut_say_so_and_why_they_cannot_be_compared(
    five_queries: Path, answered: Answered, wait_for: WaitFor
) -> None:
    keep(five_queries, "good", BEFORE, created="2026-01-03T00:00:00+00:00")
    keep(five_queries, "cut", BEFORE, config=PipelineConfig(top_k=5))
    keep(five_queries, "strange", BEFORE, golden_hash="0" * 64)
    app = ExplorerApp(five_queries)
    async with app.run_test(size=WIDE) as pilot:
        await list_runs(pilot, answered, wait_for)
        await pilot.press("g", *["j"] * names(app).index("good"), "space")
        assert "cut at 5 · top_k 5" in line_of(app, "#rows", "cut")
        assert " – " in line_of(app, "#rows", "cut")
        assert "other queries or labels" in line_of(app, "#rows", "strange")
        await pilot.press("enter")
        assert "This run is the baseline" in text(app, "#trouble")
        await pilot.press("g", *["j"] * names(app).index("cut"), "enter")
        await wait_for(pilot, lambda: "is cut at 10, the system at 5" in text(app, "#trouble"))
        await pilot.press("g", *["j"] * names(app).index("strange"), "enter")
        await wait_for(pilot, lambda: "is of another golden set" in text(app, "#trouble"))
        assert isinstance(app.screen, RunsScreen)
    app.close_lab()


async def test_the_run_of_the_moment_comes_when_it_is_measured_is_kept_and_stands_there_once(
    five_queries: Path, answered: Answered, wait_for: WaitFor
) -> None:
    app = ExplorerApp(five_queries)
    async with app.run_test(size=NARROW) as pilot:
        await list_runs(pilot, answered, wait_for)
        await wait_for(pilot, lambda: len(names(app)) == 1)
        assert "No other run is kept yet: w keeps this one" in text(app, "#state")
        assert "not kept" in text(app, "#rows")
        await pilot.press("w")
        await wait_for(pilot, lambda: "not kept" not in text(app, "#rows"))
        assert app.measuring.measured is not None
        name = app.measuring.measured.run.name
        assert stored_runs(five_queries) == [name]
        assert names(app) == [f"now · {name}"]
        await pilot.press("escape", "e")
        await wait_for(pilot, lambda: isinstance(app.screen, MeasuresScreen))
        await pilot.press("c")
        await wait_for(pilot, lambda: isinstance(app.screen, RunsScreen))
        await pilot.press("escape")
        assert isinstance(app.screen, MeasuresScreen)
    app.close_lab()


@pytest.mark.usefixtures("unmeasured")
async def test_reading_shows_how_far_it_is_and_ends_unheard_once_the_screen_is_closed(
    five_queries: Path, answered: Answered, wait_for: WaitFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two", "three"):
        keep(five_queries, name, BEFORE)
    gate, load = threading.Event(), Run.load
    read: list[str] = []

    def slow(path: Path) -> Run:
        read.append(path.stem)
        if path.stem == "three":
            assert gate.wait(10)
        return load(path)

    monkeypatch.setattr(Run, "load", slow)
    app = ExplorerApp(five_queries)
    async with app.run_test(size=NARROW) as pilot:
        await answered(pilot, FIRST)
        await pilot.press("R")
        await wait_for(pilot, lambda: isinstance(app.screen, RunsScreen) and "1 of 3" in text(app, "#state"))
        await pilot.press("escape")
        assert app.screen is app.explore
        gate.set()
        await wait_for(pilot, lambda: not [one for one in threading.enumerate() if one.name.startswith("runs-")])
        await pilot.pause()
        assert read == ["one", "three"]
        assert app.screen is app.explore
    app.close_lab()


# --- bars -----------------------------------------------------------------------------------------------------------


def test_a_bar_has_its_value_its_interval_and_the_mark_in_their_cells() -> None:
    scale = Scale(0.0, 1.0)
    assert str(interval_bar(0.5, Interval(0.2, 0.8), scale, 11, mark=0.9)) == "  ───●───┊ "
    assert str(interval_bar(0.5, Interval(0.2, 0.8), scale, 11, mark=0.3)) == "  ─┼─●───  "
    assert str(interval_bar(0.5, None, scale, 11)) == "     ●     "
    assert str(interval_bar(0.5, Interval(0.5, 0.5), scale, 11, mark=0.5)) == "     ●     "
    assert str(interval_bar(2.0, Interval(-1.0, 3.0), scale, 5)) == "────●"


def test_scales_hold_every_value_and_have_a_width() -> None:
    assert scale_of([(0.5, Interval(0.3, 0.6)), (0.7, None)]) == Scale(0.3, 0.7)
    assert scale_of([]) == Scale(0.0, 1.0)
    alone = scale_of([(0.5, None)])
    assert alone.low < 0.5 < alone.high
    assert scale_around_zero([(0.1, Interval(-0.3, 0.2))]) == Scale(-0.3, 0.3)
    assert scale_around_zero([(0.0, None)]).high > 0
    assert Scale(-0.3, 0.3).ends(13, sign=True) == "-0.30   +0.30"


def test_a_p_is_never_a_bare_zero() -> None:
    assert [p_text(p) for p in (1 / 10_001, 0.0009, 0.001, 0.0424, 1.0)] == [
        "<.001",
        "<.001",
        "0.001",
        "0.042",
        "1.000",
    ]
