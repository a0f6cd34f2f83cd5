"""An ablation on the screen: sorted by any measure, by split, plotted, one of its configurations used or compared."""

from __future__ import annotations

import json
import math
import os
import random
import re
import threading
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import pytest
from textual.pilot import Pilot
from textual.widgets import Static

from retrieval_lab.ablation.cell import Cell
from retrieval_lab.ablation.folder import AblationFolder
from retrieval_lab.ablation.rule import Rule
from retrieval_lab.config import PipelineConfig
from retrieval_lab.settings import HashEmbedding, RrfFusion
from retrieval_lab_tui.ablation_table import short_name
from retrieval_lab_tui.app import ExplorerApp
from retrieval_lab_tui.scatter import Point, scatter
from retrieval_lab_tui.screens.ablation import AblationScreen
from retrieval_lab_tui.screens.ablations import AblationChooser
from retrieval_lab_tui.screens.versus import VersusScreen
from tests.tui.driving import NARROW, WIDE, Answered, WaitFor
from tests.tui.keeping import FIRST, NO_RERANKER, keep_ablation, keep_cell, line_of, ndcg, text

FAST = PipelineConfig(fusion=RrfFusion(k=5))
SLOW = PipelineConfig(fusion=RrfFusion(k=10))
Ranks = Sequence[int | None]
CELLS: dict[str, tuple[Ranks, float, PipelineConfig]] = {
    "plain": ((1, None, 2, 4, 1), 10.0, NO_RERANKER),
    "fast": ((2, 2, 2, 2, 3), 1.0, FAST),
    "slow": ((1, 1, 1, 1, None), 100.0, SLOW),
}
pytestmark = pytest.mark.usefixtures("unmeasured")


def mean(name: str) -> float:
    return fmean(ndcg(rank) for rank in CELLS[name][0])


def mrr(name: str) -> float:
    return fmean(1 / rank if rank else 0.0 for rank in CELLS[name][0])


def names(app: ExplorerApp) -> list[str]:
    assert isinstance(app.screen, AblationScreen)
    return [row.of.name for row in app.screen.rows]


async def open_ablation(pilot: Pilot[None], answered: Answered, wait_for: WaitFor, rows: int = 3) -> AblationScreen:
    app = pilot.app
    assert isinstance(app, ExplorerApp)
    await answered(pilot, FIRST)
    await pilot.press("b")
    await wait_for(pilot, lambda: isinstance(app.screen, AblationScreen) and len(app.screen.rows) == rows)
    assert isinstance(app.screen, AblationScreen)
    return app.screen


async def test_configurations_are_sorted_by_the_rules_measure_and_by_any_other(
    five_queries: Path, answered: Answered, wait_for: WaitFor
) -> None:
    keep_ablation(five_queries, CELLS)
    app = ExplorerApp(five_queries)
    async with app.run_test(size=WIDE) as pilot:
        screen = await open_ablation(pilot, answered, wait_for)
        assert "ndcg@10 (the rule's)" in text(app, "#state")
        assert mean("slow") > mean("plain") > mean("fast")
        assert names(app) == ["slow", "plain", "fast"]
        for name in CELLS:
            line = line_of(app, "#rows", name)
            assert f" {mean(name):.3f}" in line
            assert line.split()[-1] == f"{CELLS[name][1]:.{1 if CELLS[name][1] < 100 else 0}f}"
        assert "best" in line_of(app, "#rows", "slow")
        assert f"{mean('plain') - mean('slow'):+.3f}" in line_of(app, "#rows", "plain")
        await pilot.press("j", "o")
        await wait_for(pilot, lambda: names(app) == ["fast", "plain", "slow"])
        assert "worst first" in text(app, "#title")
        assert screen.row is not None
        assert screen.row.of.name == "plain"
        await pilot.press("o")
        assert "fastest first" in text(app, "#title")
        assert names(app) == ["fast", "plain", "slow"]
        await pilot.press("o", "h")
        await wait_for(pilot, lambda: "recall" in text(app, "#state"))
        await pilot.press("l", "l", "l", "l", "l")
        await wait_for(pilot, lambda: "mrr@10" in text(app, "#state"))
        assert "(the rule's)" not in text(app, "#state")
        for name in CELLS:
            assert f" {mrr(name):.3f}" in line_of(app, "#rows", name)
    app.close_lab()


async def test_the_split_goes_from_all_over_dev_to_held_out(
    five_queries: Path, answered: Answered, wait_for: WaitFor
) -> None:
    golden = five_queries / "golden.yaml"
    splits = iter(("dev", "dev", "held-out", "held-out", "held-out"))
    lines = [line.replace("}", f", split: {next(splits)}}}") for line in golden.read_text().splitlines()]
    golden.write_text("\n".join(lines) + "\n")
    from tests.tui import keeping

    keeping._MADE.clear()  # the runs of the other tests have no splits
    keep_ablation(five_queries, CELLS)
    keeping._MADE.clear()
    app = ExplorerApp(five_queries)
    async with app.run_test(size=WIDE) as pilot:
        await open_ablation(pilot, answered, wait_for)
        assert "all 5 queries" in text(app, "#state")
        for split, places in (("dev 2 queries", slice(0, 2)), ("held-out 3 queries", slice(2, 5))):
            await pilot.press("s")
            await wait_for(pilot, lambda split=split: split in text(app, "#state"))
            for name, (ranks, _, _) in CELLS.items():
                assert f" {fmean(ndcg(rank) for rank in ranks[places]):.3f}" in line_of(app, "#rows", name)
        await pilot.press("s")
        await wait_for(pilot, lambda: "all 5 queries" in text(app, "#state"))
    app.close_lab()


async def test_one_as_good_as_the_best_keeps_its_paired_interval_and_dealt_splits_are_said_to_be(
    five_queries: Path, answered: Answered, wait_for: WaitFor
) -> None:
    cells = {"first": ((1, 2, 1, 1, 1), 10.0, FAST), "second": ((2, 1, 1, 1, 1), 10.0, SLOW)}
    keep_ablation(five_queries, cells)
    app = ExplorerApp(five_queries)
    async with app.run_test(size=WIDE) as pilot:
        await open_ablation(pilot, answered, wait_for, 2)
        assert " best " in line_of(app, "#rows", "first")
        line = line_of(app, "#rows", "second")
        loss = ndcg(1) - ndcg(2)
        assert " best " not in line
        assert "+0.000" in line
        low, high = (float(end) for end in line.split()[-2].split("…"))
        assert -loss <= low < 0 < high <= loss
        await pilot.press("s")
        await wait_for(pilot, lambda: "dev (dealt) 2 queries" in text(app, "#state"))
    app.close_lab()


async def test_enter_uses_the_configuration_on_the_question_of_the_screen(
    five_queries: Path, answered: Answered, wait_for: WaitFor
) -> None:
    small = PipelineConfig(embedder=HashEmbedding(dims=64))
    keep_ablation(five_queries, {**CELLS, "small · [red]": ((1, 1, 1, 1, 1), 5.0, small)})
    app = ExplorerApp(five_queries)
    async with app.run_test(size=NARROW) as pilot:
        await open_ablation(pilot, answered, wait_for, 4)
        await pilot.press("escape", "n")
        await answered(pilot, "what is baked")
        await pilot.press("b", "j", "j", "enter")
        await wait_for(pilot, lambda: app.explore.answer is not None and app.explore.answer.trace.config == NO_RERANKER)
        assert app.screen is app.explore
        assert app.explore.answer is not None
        assert app.explore.answer.question.query == "what is baked"
        assert "plain" in str(app.explore.query_one("#header", Static).visual)
        await pilot.press("b", "g", "enter")  # its index is made first
        await wait_for(pilot, lambda: app.explore.answer is not None and app.explore.answer.trace.config == small)
        assert app.explore.answer.question.query == "what is baked"
        assert "small · [red]" in str(app.explore.query_one("#header", Static).visual)
    app.close_lab()


async def test_c_sets_a_configuration_against_the_one_in_use(
    five_queries: Path, answered: Answered, wait_for: WaitFor
) -> None:
    keep_ablation(five_queries, CELLS)
    app = ExplorerApp(five_queries, config=FAST)
    async with app.run_test(size=WIDE) as pilot:
        await open_ablation(pilot, answered, wait_for)
        await pilot.press("G", "c")
        await wait_for(pilot, lambda: "This is the configuration in use" in text(app, "#trouble"))
        assert "in use" in text(app, "#detail")
        await pilot.press("g", "c")
        await wait_for(pilot, lambda: isinstance(app.screen, VersusScreen))
        assert "A fast" in text(app, "#sides")
        assert "B slow" in text(app, "#sides")
        assert f"{mean('fast'):.3f} {mean('slow'):.3f}" in line_of(app, "#measures", "ndcg@10")
        await pilot.press("escape")
        assert isinstance(app.screen, AblationScreen)
        await pilot.press("escape")
        assert app.screen is app.explore
    app.close_lab()


async def test_without_a_run_of_the_configuration_in_use_nothing_is_compared(
    five_queries: Path, answered: Answered, wait_for: WaitFor
) -> None:
    keep_ablation(five_queries, CELLS)
    app = ExplorerApp(five_queries)
    async with app.run_test(size=NARROW) as pilot:
        await open_ablation(pilot, answered, wait_for)
        await pilot.press("c")
        await wait_for(pilot, lambda: "none of these, and is not measured yet" in text(app, "#trouble"))
    app.close_lab()


async def test_with_none_kept_one_line_says_how_one_is_made(
    five_queries: Path, answered: Answered, wait_for: WaitFor
) -> None:
    app = ExplorerApp(five_queries)
    async with app.run_test(size=NARROW) as pilot:
        await answered(pilot, FIRST)
        await pilot.press("b")
        await wait_for(pilot, lambda: "`retrieval-lab ablate GRID` makes one" in text(app, "#state"))
        await pilot.press("j", "enter", "c", "o", "s", "l", "v", "a", "r")
        await wait_for(pilot, lambda: "`retrieval-lab ablate GRID` makes one" in text(app, "#state"))
        assert isinstance(app.screen, AblationScreen)
    app.close_lab()


async def test_broken_files_are_told_in_a_line_each_and_the_others_shown(
    five_queries: Path, answered: Answered, wait_for: WaitFor
) -> None:
    folder = keep_ablation(five_queries, CELLS, failed={"no [/] model": "the model [@click=app.quit] is \x1b[31mgone"})
    broken = next(path for path in (folder.path / "cells").iterdir() if json.loads(path.read_text())["name"] == "fast")
    broken.write_text('{"format": 1, "na', encoding="utf-8")
    app = ExplorerApp(five_queries)
    async with app.run_test(size=WIDE) as pilot:
        await open_ablation(pilot, answered, wait_for)
        assert names(app) == ["slow", "plain", "no [/] model"]
        assert "2 done, 1 failed ·" in text(app, "#title")
        assert line_of(app, "#unreadable", "not read").startswith(f"not read  cells/{broken.name}")
        assert "✗ no [/] model" in line_of(app, "#rows", "no [/]")
        assert "[@click=app.quit] is ␛[31mgone" in line_of(app, "#rows", "no [/]")
        await pilot.press("G", "enter")
        await wait_for(pilot, lambda: "This configuration failed" in text(app, "#trouble"))
        assert "the model [@click=app.quit]" in text(app, "#detail")
        (folder.path / "ablation.json").write_text("[1]")
        await pilot.press("r")
        await wait_for(pilot, lambda: "this is no ablation of format 1" in text(app, "#trouble"))
    app.close_lab()


async def test_r_reads_what_came_meanwhile_and_no_cell_twice(
    five_queries: Path, answered: Answered, wait_for: WaitFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = keep_ablation(five_queries, CELLS, pending=1)
    read: list[str] = []
    from_dict = Cell.from_dict

    def counted(data: object) -> Cell:
        found = from_dict(data)
        read.append(found.name)
        return found

    monkeypatch.setattr(Cell, "from_dict", counted)
    app = ExplorerApp(five_queries)
    async with app.run_test(size=NARROW) as pilot:
        screen = await open_ablation(pilot, answered, wait_for)
        assert "3 done, 1 pending" in text(app, "#title")
        await pilot.press("j")
        manifest = folder.manifest()
        keep_ablation(five_queries, {}, name="other")  # the newer one is not gone to
        keep_cell(five_queries, AblationFolder(folder.path), "late", (1, 1, 1, 1, 1), 3.0, PipelineConfig())
        made = next(path for path in (folder.path / "cells").iterdir() if path.stem not in manifest.keys)
        made.rename(made.with_stem("pending0"))
        await pilot.press("r")
        await wait_for(pilot, lambda: len(screen.rows) == 4 and screen.rows[0].of.name == "late")
        assert screen.row is not None
        assert screen.row.of.name == "plain"
        assert sorted(read) == ["fast", "late", "plain", "slow"]
        assert "4 done · best first · a: 1 more" in text(app, "#title")
        await pilot.press("escape", "b")
        await wait_for(pilot, lambda: screen is not app.screen and isinstance(app.screen, AblationScreen))
        assert len(read) == 4
    app.close_lab()


async def test_the_newest_comes_first_and_another_can_be_chosen(
    five_queries: Path, answered: Answered, wait_for: WaitFor
) -> None:
    for age, name in enumerate(("b [red]", "c", "a")):
        folder = keep_ablation(five_queries, {name: CELLS["plain"]}, name=name, rule=Rule(measure="mrr@10"))
        os.utime(folder.path / "ablation.json", (1000 - age, 1000 - age))
    app = ExplorerApp(five_queries)
    async with app.run_test(size=NARROW) as pilot:
        await open_ablation(pilot, answered, wait_for, 1)
        assert names(app) == ["b [red]"]
        assert "a: 2 more" in text(app, "#title")
        assert "mrr@10 (the rule's)" in text(app, "#state")
        await pilot.press("a")
        await wait_for(pilot, lambda: isinstance(app.screen, AblationChooser))
        await pilot.press("down", "enter")
        await wait_for(pilot, lambda: isinstance(app.screen, AblationScreen) and names(app) == ["c"])
    app.close_lab()


async def test_the_reports_decision_is_marked(five_queries: Path, answered: Answered, wait_for: WaitFor) -> None:
    folder = keep_ablation(five_queries, CELLS)
    app = ExplorerApp(five_queries)
    async with app.run_test(size=WIDE) as pilot:
        await open_ablation(pilot, answered, wait_for)
        assert "★" not in text(app, "#rows") + text(app, "#state")
        for strange in ("[", "[1]", '{"decision": 3}', '{"decision": {"chosen": null}}'):
            (folder.path / "metrics.json").write_text(strange)
            await pilot.press("r")
            await wait_for(pilot, lambda: "ndcg" in text(app, "#state"))
            assert "★" not in text(app, "#rows")
        (folder.path / "metrics.json").write_text('{"format": 1, "decision": {"chosen": "plain"}}')
        await pilot.press("r")
        await wait_for(pilot, lambda: "★" in text(app, "#state"))
        assert [line.split()[-1] for line in text(app, "#rows").splitlines() if "★" in line] == ["10.0"]
    app.close_lab()


async def test_the_plot_stands_beside_the_table_or_in_its_place(
    five_queries: Path, answered: Answered, wait_for: WaitFor
) -> None:
    keep_ablation(five_queries, CELLS)
    app = ExplorerApp(five_queries)
    async with app.run_test(size=WIDE) as pilot:
        screen = await open_ablation(pilot, answered, wait_for)
        for mark in ("◆1", "◆2", "◆3"):  # the better a cell is, the longer it takes
            assert mark in text(app, "#plot")
        await pilot.press("v")
        assert not screen.query_one("#plot").display
        await pilot.press("v")
        await pilot.resize_terminal(*NARROW)
        await wait_for(pilot, lambda: not screen.query_one("#table").display)
        assert "◆1" in text(app, "#plot")
        await pilot.press("v")
        await wait_for(pilot, lambda: screen.query_one("#table").display and not screen.query_one("#plot").display)
    app.close_lab()


async def test_reading_goes_on_behind_the_screen(
    five_queries: Path, answered: Answered, wait_for: WaitFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_ablation(five_queries, CELLS)
    gate, made = threading.Event(), AblationFolder.made

    def slow(self: AblationFolder, key: str) -> object:
        if key == self.manifest().keys[2]:
            assert gate.wait(10)
        return made(self, key)

    monkeypatch.setattr(AblationFolder, "made", slow)
    app = ExplorerApp(five_queries)
    async with app.run_test(size=NARROW) as pilot:
        await answered(pilot, FIRST)
        await pilot.press("b")
        await wait_for(pilot, lambda: isinstance(app.screen, AblationScreen) and "2 of 3" in text(app, "#state"))
        await pilot.press("escape")
        assert app.screen is app.explore
        gate.set()
        await wait_for(pilot, lambda: not [one for one in threading.enumerate() if one.name.startswith("ablation-")])
        assert app.screen is app.explore
    app.close_lab()


# --- drawing --------------------------------------------------------------------------------------------------------


def drawn(points: Sequence[Point], here: int | None = None, width: int = 47, height: int = 12) -> list[str]:
    lines = [line.plain for line in scatter(points, here, width, height)]
    assert len(lines) == height
    assert max(map(len, lines)) <= width
    return lines


def test_points_lie_by_the_logarithm_of_their_latency_and_by_their_quality() -> None:
    points = [Point(1, 1.0, 0.2, True), Point(2, 10.0, 0.6, True), Point(3, 100.0, 1.0, True)]
    lines = drawn(points)
    places = [next((line.index(f"◆{n}"), row) for row, line in enumerate(lines) if f"◆{n}" in line) for n in (1, 2, 3)]
    (left, low), (middle, between), (right, high) = places
    assert abs((middle - left) - (right - middle)) <= 1
    assert (high, low) == (0, 9)
    assert abs((between - high) - (low - between)) <= 1
    axis, labels = lines[-2:]
    assert lines[0].startswith("1.000┤")
    for label, place in (("1 ", left), ("10 ", middle), ("100", right)):
        assert abs(labels.index(label) - place) <= 1
        assert axis[place] == "┴"
    assert "┄" in lines[low]
    assert lines[between + 1][middle] in "┆┘"


def test_points_in_one_cell_share_a_label_and_the_one_of_the_cursor_is_reversed() -> None:
    points = [Point(number, 5.0, 0.5, is_front=False) for number in range(1, 6)] + [Point(6, 50.0, 0.9, True)]
    assert any("●1,2,3+2" in line for line in drawn(points))
    lines = scatter(points, 4, 47, 12)
    (line,) = [one for one in lines if "4,1,2+2" in one.plain]
    reversed_spans = [line.plain[span.start : span.end] for span in line.spans if "reverse" in str(span.style)]
    assert "".join(reversed_spans) == "●4,1,2+2"


def test_numbers_of_neighbours_never_run_together() -> None:
    """Along one line, each number that is shown stands right after its own point, or before it after a blank."""
    choose = random.Random(3)
    for _ in range(60):
        points = [Point(number, 10 ** choose.uniform(0, 2), 0.5, is_front=False) for number in range(1, 30)]
        (line,) = [line[6:] for line in drawn(points, width=60) if "●" in line]
        for found in re.finditer(r"[\d,+]+", line):
            before, after = line[found.start() - 1], line[found.end() : found.end() + 1]
            assert before == "●" or (before == " " and after == "●"), line


@pytest.mark.parametrize("ms", [[], [0.0], [0.0, 0.0], [math.pi], [1e-9, 1e9], [3.0, 3.1, 3.2]])
@pytest.mark.parametrize(("width", "height"), [(1, 1), (8, 3), (40, 10), (120, 50)])
def test_any_points_can_be_drawn_in_any_room(ms: list[float], width: int, height: int) -> None:
    points = [Point(number, one, number / 7, number % 2 == 0) for number, one in enumerate(ms, start=1)]
    lines = scatter(points, 1, width, height)
    assert len(lines) == max(3, height)


def test_of_a_long_name_every_part_stays() -> None:
    name = "vector+text · rrf 60 · cross-encoder · no MMR"
    assert short_name(name, 60) == name
    cut = short_name(name, 30)
    assert len(cut) <= 30
    assert cut.count("·") == 3
    assert len(short_name("a" * 50, 12)) == 12
