"""One run against another: by kind and measure, the queries that changed, and their lists side by side."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from retrieval_lab.config import PipelineConfig
from retrieval_lab.lab import Lab
from retrieval_lab.settings import HashEmbedding
from retrieval_lab_tui.app import ExplorerApp
from retrieval_lab_tui.screens.compare import CompareScreen
from retrieval_lab_tui.screens.runs import RunsScreen
from retrieval_lab_tui.screens.versus import VersusScreen
from retrieval_lab_tui.widgets.key_line import KeyLine
from retrieval_lab_tui.widgets.ranked_list import RankedList
from tests.tui.driving import NARROW, WIDE, Answered, WaitFor
from tests.tui.keeping import (
    AFTER,
    BEFORE,
    GOLDEN,
    NO_RERANKER,
    keep,
    line_of,
    list_runs,
    names,
    ndcg,
    set_against,
    text,
)
from tests.tui.test_comparing import with_gate


def exact_p(differences: Sequence[float]) -> float:
    """Two-sided sign-flip test by enumeration."""
    observed = abs(sum(differences))
    sums = [
        abs(sum(sign * one for sign, one in zip(signs, differences, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(differences))
    ]
    return sum(one >= observed - 1e-12 for one in sums) / len(sums)


@pytest.mark.usefixtures("unmeasured")
async def test_a_comparison_has_means_difference_p_and_counts_of_all_and_of_each_kind(
    five_queries: Path, answered: Answered, wait_for: WaitFor
) -> None:
    keep(five_queries, "before", BEFORE)
    keep(five_queries, "after", AFTER, config=NO_RERANKER)
    app = ExplorerApp(five_queries)
    async with app.run_test(size=WIDE) as pilot:
        await list_runs(pilot, answered, wait_for)
        await set_against(pilot, wait_for, "before", "after")
        assert "reranker lexical · mmr_lambda 0.7" in line_of(app, "#sides", "A before")
        assert "reranker none · mmr_lambda –" in line_of(app, "#sides", "B after")
        a, b = [ndcg(rank) for rank in BEFORE], [ndcg(rank) for rank in AFTER]

        def expect(places: slice, counts: str) -> None:
            ours, theirs = a[places], b[places]
            gain = [new - old for old, new in zip(ours, theirs, strict=True)]
            line = line_of(app, "#measures", "ndcg@10")
            assert f"{sum(ours) / len(ours):.3f} {sum(theirs) / len(theirs):.3f}  {sum(gain) / len(gain):+.3f}" in line
            assert line.split()[-2:] == [f"{exact_p(gain):.3f}", counts]

        assert text(app, "#kinds").split() == ["all", "5", "factual", "3", "other", "2"]
        expect(slice(0, 5), "2/1/2")
        await pilot.press("right")
        expect(slice(0, 3), "2/1/0")
        await pilot.press("right")
        expect(slice(3, 5), "0/0/2")
        await pilot.press("right", "c")
        await wait_for(pilot, lambda: "B before" in text(app, "#sides"))
        a, b = b, a
        expect(slice(0, 5), "2/1/2")
    app.close_lab()


@pytest.mark.usefixtures("unmeasured")
async def test_the_queries_that_changed_stand_below_by_the_measure_and_those_that_carry_it_are_marked(
    five_queries: Path, answered: Answered, wait_for: WaitFor
) -> None:
    keep(five_queries, "before", BEFORE)
    keep(five_queries, "after", AFTER)
    app = ExplorerApp(five_queries)
    async with app.run_test(size=NARROW) as pilot:
        await list_runs(pilot, answered, wait_for)
        await set_against(pilot, wait_for, "before", "after")

        def rows() -> list[tuple[str, bool, str]]:
            lines = text(app, "#queries").splitlines()
            queries = [next(word for word in line.split() if word.startswith("q")) for line in lines]
            return [
                (name, "★" in line, line.partition(name)[0].split("0 ")[-1].strip())
                for name, line in zip(queries, lines, strict=True)
            ]

        gain = {
            f"q{place}": ndcg(new) - ndcg(old) for place, (old, new) in enumerate(zip(BEFORE, AFTER, strict=True), 1)
        }
        order = sorted((name for name in gain if gain[name]), key=lambda name: -abs(gain[name]))
        assert [name for name, _, _ in rows()] == order == ["q2", "q5", "q3", "q4"]
        assert sum(gain.values()) > 0
        assert {name for name, carries, _ in rows() if carries} == {"q2", "q3"}  # only these point its way
        assert "– → 1" in line_of(app, "#queries", "q2")
        assert "1 → –" in line_of(app, "#queries", "q5")
        assert "2 → 1" in line_of(app, "#queries", "q3")
        assert "4 queries changed · 1 gained, 1 lost" in text(app, "#changed")
        await pilot.press("right", "right")
        assert [name for name, _, _ in rows()] == ["q5", "q4"]
        await pilot.press("left", "left", "M", "M")
        assert "by hit@10" in text(app, "#changed")
        assert [name for name, _, _ in rows()] == ["q2", "q5", "q3", "q4"]  # equal ones by the change of 1 / rank
        assert "+0.000" in line_of(app, "#queries", "q3")
    app.close_lab()


@pytest.mark.usefixtures("unmeasured")
async def test_equal_runs_have_p_1_an_interval_of_zero_and_no_query_that_changed(
    five_queries: Path, answered: Answered, wait_for: WaitFor
) -> None:
    keep(five_queries, "one", BEFORE)
    keep(five_queries, "two", BEFORE)
    app = ExplorerApp(five_queries)
    async with app.run_test(size=NARROW) as pilot:
        await list_runs(pilot, answered, wait_for)
        screen = await set_against(pilot, wait_for, "one", "two")
        lines = text(app, "#measures").splitlines()
        assert len(lines) == len(screen.found.measures)
        for line in lines:
            assert line.split()[-3:] == ["+.000…+.000", "1.000", "0/5/0"]
        assert "0 queries changed" in text(app, "#changed")
        await pilot.press("j", "enter", "G")
        assert app.screen is screen
    app.close_lab()


@pytest.mark.usefixtures("unmeasured")
async def test_enter_opens_the_query_in_both_pipelines_though_neither_is_that_of_the_moment(
    five_queries: Path, answered: Answered, wait_for: WaitFor
) -> None:
    no_mmr = PipelineConfig(mmr_lambda=None)
    (five_queries / "lab.yaml").write_text("mmr_lambda: 0.3\n", encoding="utf-8")
    keep(five_queries, "before", BEFORE, config=no_mmr)
    keep(five_queries, "after", AFTER, config=NO_RERANKER)
    with Lab.open(five_queries) as lab:
        query = lab.golden[4]
        finals = [[row.chunk_id for row in lab.trace(query, config).final] for config in (no_mmr, NO_RERANKER)]
    app = ExplorerApp(five_queries)
    async with app.run_test(size=WIDE) as pilot:
        await list_runs(pilot, answered, wait_for)
        screen = await set_against(pilot, wait_for, "before", "after")
        await pilot.press("j", "enter")
        await wait_for(pilot, lambda: isinstance(app.screen, CompareScreen) and "in both" in text(app, "#title"))
        assert text(app, "#question") == query.query
        lists = [app.screen.query_one(f"#list-{side}", RankedList) for side in ("left", "right")]
        assert [[row.chunk_id for row in one.rows] for one in lists] == finals
        assert [str(one.border_title)[:14] for one in lists] == ["reranker lexic", "reranker none "]
        await pilot.press("m")  # the misses of the runs: q2 before, q5 after
        await wait_for(pilot, lambda: text(app, "#question") == "what is baked" and "in both" in text(app, "#title"))
        await pilot.press("escape")
        assert app.screen is screen
        await pilot.press("enter")
        await wait_for(pilot, lambda: isinstance(app.screen, CompareScreen) and "in both" in text(app, "#title"))
        chosen = app.screen.query_one("#list-left", RankedList).chunk_id
        await pilot.press("enter")
        await wait_for(pilot, lambda: app.screen is app.explore)
        assert app.explore.chunk is not None
        assert app.explore.chunk.chunk_id == chosen
    app.close_lab()


@pytest.mark.usefixtures("unmeasured")
async def test_an_index_that_is_not_open_is_made_first_and_escape_comes_back_to_the_comparison(
    five_queries: Path, answered: Answered, wait_for: WaitFor
) -> None:
    keep(five_queries, "before", BEFORE, config=PipelineConfig(embedder=HashEmbedding(64)))
    keep(five_queries, "after", AFTER)
    gate = threading.Event()
    app = ExplorerApp(five_queries, open_lab=with_gate(gate, 64))
    async with app.run_test(size=NARROW) as pilot:
        await list_runs(pilot, answered, wait_for)
        screen = await set_against(pilot, wait_for, "before", "after")
        await pilot.press("enter")
        await wait_for(pilot, lambda: isinstance(app.screen, CompareScreen))
        await wait_for(pilot, lambda: "hash-64" in text(app, "#indexing") and "1 of 2 doc" in text(app, "#indexing"))
        await pilot.press("escape")
        assert app.screen is screen
        await pilot.press("enter")
        await wait_for(pilot, lambda: isinstance(app.screen, CompareScreen) and "1 of 2" in text(app, "#indexing"))
        gate.set()
        await wait_for(pilot, lambda: "in both" in text(app, "#title"))
        assert "embedder hash-64" in str(app.screen.query_one("#list-left", RankedList).border_title)
    app.close_lab()


@pytest.mark.usefixtures("unmeasured")
async def test_a_query_that_golden_yaml_has_no_more_is_not_asked(
    five_queries: Path, answered: Answered, wait_for: WaitFor
) -> None:
    keep(five_queries, "before", BEFORE)
    keep(five_queries, "after", AFTER)
    (five_queries / "golden.yaml").write_text(GOLDEN.splitlines(keepends=True)[0], encoding="utf-8")
    app = ExplorerApp(five_queries)
    async with app.run_test(size=WIDE, notifications=True) as pilot:
        await list_runs(pilot, answered, wait_for)
        screen = await set_against(pilot, wait_for, "before", "after")
        await pilot.press("enter")
        await wait_for(pilot, lambda: [one for one in app._notifications if "no query 'q2' any more" in one.message])
        assert app.screen is screen
    app.close_lab()


# --- sizes, keys, mouse ---------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("unmeasured")
async def test_every_line_fits_and_the_footer_is_whole_at_every_size(
    five_queries: Path, answered: Answered, wait_for: WaitFor
) -> None:
    keep(five_queries, "before", BEFORE)
    keep(five_queries, "after", AFTER)
    app = ExplorerApp(five_queries)
    async with app.run_test(size=NARROW) as pilot:
        await list_runs(pilot, answered, wait_for)
        for against in (False, True):
            if against:
                await set_against(pilot, wait_for, "before", "after")
            for size in (NARROW, (120, 40), (160, 45), (1, 1), (40, 10), WIDE):
                await pilot.resize_terminal(*size)
                await pilot.pause()
                check_width(app, size[0])
    app.close_lab()


def check_width(app: ExplorerApp, width: int) -> None:
    if width < NARROW[0]:
        return  # it need not fit, only stand
    assert sum(key.cell_length for key in app.screen.query_one(KeyLine).drawn_keys()) <= width
    for selector in ("#heads", "#rows" if isinstance(app.screen, RunsScreen) else "#measures"):
        lines = text(app, selector).splitlines()
        assert max(map(len, lines)) <= width - 2, selector


@pytest.mark.usefixtures("unmeasured")
async def test_runs_kinds_measures_and_queries_can_be_clicked(
    five_queries: Path, answered: Answered, wait_for: WaitFor
) -> None:
    keep(five_queries, "before", BEFORE, created="2026-01-03T00:00:00+00:00")
    keep(five_queries, "after", AFTER)
    app = ExplorerApp(five_queries)
    async with app.run_test(size=NARROW) as pilot:
        screen = await list_runs(pilot, answered, wait_for)
        assert names(app) == ["after", "before"]
        await pilot.click("#rows", offset=(8, 2))
        assert screen.run is not None
        assert screen.run.name == "before"
        await pilot.click("#rows", offset=(8, 0))
        await pilot.click("#rows", offset=(8, 1))  # its second line
        await wait_for(pilot, lambda: isinstance(app.screen, VersusScreen))
        kinds = text(app, "#kinds")
        await pilot.click("#kinds", offset=(kinds.index("other") + 1, 0))
        assert len(text(app, "#queries").splitlines()) == 2
        await pilot.click("#measures", offset=(5, 3))
        assert "by mrr@10" in text(app, "#changed")
        await pilot.click("#queries", offset=(20, 1))
        await pilot.click("#queries", offset=(20, 1))
        await wait_for(pilot, lambda: isinstance(app.screen, CompareScreen))
        assert text(app, "#question") == "leeks"
    app.close_lab()
