"""The explorer driven by keyboard and mouse on the real server; its state is asserted, not its picture."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from textual.widgets import Input, Static

from retrieval_lab.trace import Trace
from retrieval_lab.types import GoldenQuery
from retrieval_lab_tui.answer import movement
from retrieval_lab_tui.app import ExplorerApp
from retrieval_lab_tui.screens.help import HelpScreen
from retrieval_lab_tui.widgets.passage import Passage
from tests.tui.driving import NARROW, WIDE, Answered, WaitFor, ranked, shown, write


async def test_it_opens_on_the_first_golden_query_of_the_bundled_corpus(
    app: ExplorerApp, answered: Answered, golden: list[GoldenQuery]
) -> None:
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, golden[0].query)
        assert [str(ranked(app, stage).border_title) for stage in app.explore.stages] == [
            "Vector · 50 · 0 ms",
            "Full text · 50 · 0 ms",
            "Fused · 50 of 89 · 0 ms",
            "Final · 10 · 0 ms",
        ]
        assert "q01 factual · 1 of 48" in shown(app, "#header")
        assert "32 docs" in shown(app, "#header")


async def test_the_anchor_is_marked_in_each_list_that_holds_it(
    app: ExplorerApp, answered: Answered, golden: list[GoldenQuery]
) -> None:
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, golden[0].query)
        answer = app.explore.answer
        assert answer is not None
        assert answer.trace.relevant == ("agent-loops#002",)
        for stage in app.explore.stages:
            marked = [row.chunk_id for row in ranked(app, stage).rows if row.wanted]
            assert marked == ["agent-loops#002"], stage


async def test_next_and_previous_step_through_the_golden_queries_and_wrap(
    app: ExplorerApp, answered: Answered, golden: list[GoldenQuery]
) -> None:
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, golden[0].query)
        await pilot.press("n")
        await answered(pilot, golden[1].query)
        assert app.explore.query_one("#query", Input).value == golden[1].query
        await pilot.press("p", "p")
        await answered(pilot, golden[-1].query)
        assert "48 of 48" in shown(app, "#header")


async def test_a_miss_says_so_with_the_ranks_beyond_the_lists(
    app: ExplorerApp, answered: Answered, golden: list[GoldenQuery]
) -> None:
    missed = next(i for i, query in enumerate(golden) if query.query_id == "q22")
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, golden[0].query)
        for step in range(1, missed + 1):
            await pilot.press("n")
            await answered(pilot, golden[step].query)
        assert "vector 246 of 687 › text 140 of 687 › fused – › rerank – › final >10" in shown(app, "#fate")
        assert "MISS" in shown(app, "#fate")


async def test_a_question_of_ones_own_marks_nothing(
    app: ExplorerApp, answered: Answered, golden: list[GoldenQuery]
) -> None:
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, golden[0].query)
        await write(pilot, "who painted the inn sign?")
        await answered(pilot, "who painted the inn sign?")
        assert not any(row.wanted for stage in app.explore.stages for row in ranked(app, stage).rows)
        assert "your own" in shown(app, "#fate")
        assert app.focused is ranked(app, "final")


async def test_what_full_text_excluded_is_said(app: ExplorerApp, answered: Answered, golden: list[GoldenQuery]) -> None:
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, golden[0].query)
        await write(pilot, "git commit -m")
        await answered(pilot, "git commit -m")
        notes = app.explore.query_one("#notes", Static)
        assert notes.display
        assert " excluded: m " in str(notes.visual)
        await pilot.press("n")
        await answered(pilot, golden[1].query)
        assert not notes.display


async def test_the_chunk_under_the_cursor_is_linked_in_the_other_lists_and_its_passage_shown(
    app: ExplorerApp, answered: Answered, golden: list[GoldenQuery]
) -> None:
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, golden[0].query)
        await pilot.press("1", "j", "down")
        await pilot.pause()
        chunk_id = ranked(app, "vector").chunk_id
        assert ranked(app, "vector").cursor == 2
        assert chunk_id is not None
        assert {ranked(app, stage).linked for stage in app.explore.stages} == {chunk_id}
        assert chunk_id in str(app.explore.query_one(Passage).border_title)
        await pilot.press("k", "G")
        assert ranked(app, "vector").cursor == 49
        await pilot.press("g")
        assert ranked(app, "vector").cursor == 0


async def test_lists_are_reached_by_number_arrow_and_tab(
    app: ExplorerApp, answered: Answered, golden: list[GoldenQuery]
) -> None:
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, golden[0].query)
        for key, stage in (("1", "vector"), ("right", "text"), ("l", "fused"), ("tab", "final"), ("h", "fused")):
            await pilot.press(key)
            await pilot.pause()
            assert app.focused is ranked(app, stage), key
            assert app.explore.active == stage
        await pilot.press("enter")
        assert app.focused is app.explore.query_one(Passage)
        await pilot.press("escape")
        assert app.focused is ranked(app, "fused")


async def test_below_140_columns_one_list_is_shown_under_tabs(
    app: ExplorerApp, answered: Answered, golden: list[GoldenQuery]
) -> None:
    async with app.run_test(size=NARROW) as pilot:
        await answered(pilot, golden[0].query)
        assert [stage for stage in app.explore.stages if ranked(app, stage).display] == ["final"]
        assert "1 Vector ●1" in shown(app, "#tabs")
        assert "2 Full text ●4" in shown(app, "#tabs")
        await pilot.press("2")
        await pilot.pause()
        assert [stage for stage in app.explore.stages if ranked(app, stage).display] == ["text"]
        await pilot.resize_terminal(*WIDE)
        await pilot.pause()
        assert [stage for stage in app.explore.stages if ranked(app, stage).display] == list(app.explore.stages)


async def test_a_click_moves_the_cursor(app: ExplorerApp, answered: Answered, golden: list[GoldenQuery]) -> None:
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, golden[0].query)
        vector = ranked(app, "vector")
        await pilot.click(vector, offset=(5, 1 + 3 * vector.row_lines))
        await pilot.pause()
        assert vector.cursor == 3
        assert app.explore.active == "vector"


async def test_help_lists_the_keys_and_closes(app: ExplorerApp, answered: Answered, golden: list[GoldenQuery]) -> None:
    async with app.run_test(size=NARROW) as pilot:
        await answered(pilot, golden[0].query)
        await pilot.press("question_mark")
        assert isinstance(app.screen, HelpScreen)
        await pilot.press("escape")
        assert app.screen is app.explore


async def test_q_leaves(app: ExplorerApp, answered: Answered, golden: list[GoldenQuery]) -> None:
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, golden[0].query)
        await pilot.press("q")
    assert app.return_code == 0


async def test_an_anchor_in_no_chunk_is_said(small_corpus: Path, answered: Answered) -> None:
    app = ExplorerApp(small_corpus)
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, "how long does the loaf bake")
        assert "FOUND" in shown(app, "#fate")
        await pilot.press("n")
        await answered(pilot, "how many carrots")
        assert "no chunk of 'soup' holds the anchor 'three carrots'" in shown(app, "#fate")
    app.close_lab()


@pytest.mark.parametrize(("before", "after", "text"), [(4, 1, "▲ 3"), (1, 3, "▼ 2"), (2, 2, "="), (40, 5, "▲35")])
def test_movement_is_the_change_of_rank(before: int, after: int, text: str) -> None:
    assert movement(before, after) == text


async def test_after_a_miss_the_wanted_row_is_in_view_wherever_it_is(
    app: ExplorerApp, answered: Answered, golden: list[GoldenQuery]
) -> None:
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, golden[0].query)
        for query in golden[1:8]:
            await pilot.press("n")
            await answered(pilot, query.query)
        for stage in ("vector", "text", "fused"):
            lines = ranked(app, stage).row_lines
            row = next(row.rank - 1 for row in ranked(app, stage).rows if row.wanted)
            top = ranked(app, stage).scroll_offset.y
            assert top <= row * lines < top + ranked(app, stage).scrollable_content_region.height, stage


async def test_page_keys_in_a_palette_without_room_close_nothing(
    app: ExplorerApp, answered: Answered, golden: list[GoldenQuery]
) -> None:
    async with app.run_test(size=(80, 5)) as pilot:
        await answered(pilot, golden[0].query)
        await pilot.press("ctrl+p", "pagedown", "pageup", "pagedown")
        await pilot.resize_terminal(80, 3)
        await pilot.press("pagedown", "pageup", "escape")
        assert app.is_running


async def test_a_screen_that_is_too_small_says_so_and_comes_back(
    app: ExplorerApp, answered: Answered, golden: list[GoldenQuery], wait_for: WaitFor
) -> None:
    async with app.run_test(size=NARROW) as pilot:
        await answered(pilot, golden[0].query)
        for size in ((39, 24), (80, 9)):
            await pilot.resize_terminal(*size)
            await wait_for(pilot, lambda: app.explore.has_class("too-small"))
            assert [widget.id for widget in app.explore.children if widget.display] == ["small"]
        await pilot.resize_terminal(40, 10)
        await wait_for(pilot, lambda: not app.explore.has_class("too-small"))
        assert ranked(app, "final").display


async def test_the_lists_are_those_of_the_configuration(small_corpus: Path, answered: Answered) -> None:
    """One retriever of a name that a widget has too, one approximate, no reranker."""
    lists = "retrievers: {query: {kind: text}, near: {kind: vector, scan: hnsw, weight: 0.5}}\nreranker: none\n"
    (small_corpus / "lab.yaml").write_text(lists, encoding="utf-8")
    app = ExplorerApp(small_corpus)
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, "how long does the loaf bake")
        assert app.explore.stages == ("query", "near", "fused", "final")
        assert [str(ranked(app, stage).border_subtitle) for stage in app.explore.stages] == [
            "ts_rank_cd",
            "cosine · HNSW",
            "RRF · query·near ranks",
            "score RRF · move",
        ]
        assert "none │ k 10" in shown(app, "#header")
        await pilot.press("2")
        assert app.focused is ranked(app, "near")
        await pilot.press("6")
        assert app.focused is ranked(app, "near")
        (small_corpus / "lab.yaml").write_text(
            "retrievers: {text: {}}\nexpansion: rm3\nfusion: minmax\n", encoding="utf-8"
        )
        await pilot.press("r")
        await pilot.pause()
        await answered(pilot, "how long does the loaf bake")
        assert app.explore.stages == ("text", "fused", "final")
        assert app.explore.active == "final"
        assert str(ranked(app, "fused").border_subtitle) == "min-max sum · text ranks"
        assert ranked(app, "fused").rows[0].score == "1.000"  # the best of the only list
        assert "│ minmax │" in shown(app, "#header")
        assert app.explore.query_one("#notes").display
        assert "text expanded with " in shown(app, "#notes")
    app.close_lab()


async def test_the_wanted_passage_and_the_chunks_beside_it_can_be_read(
    app: ExplorerApp, answered: Answered, wait_for: WaitFor, golden: list[GoldenQuery]
) -> None:
    def passage() -> str:
        return str(app.explore.query_one("#passage").border_title).split()[0]

    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, golden[0].query)
        await wait_for(pilot, lambda: app.measuring.misses is not None)
        await pilot.press("m")
        await answered(pilot, "How many milliseconds does reranking 40 pairs take?")
        assert passage() != "interview-rag-answers#012"
        await pilot.press("w")
        assert passage() == "interview-rag-answers#012"
        await pilot.press("left_square_bracket")
        await wait_for(pilot, lambda: passage() == "interview-rag-answers#011")
        await pilot.press("right_square_bracket")
        await wait_for(pilot, lambda: passage() == "interview-rag-answers#012")
        await pilot.press("y")
        assert app.clipboard == "interview-rag-answers#012"
        await pilot.press("Y")
        assert "rerank 40 pairs" in app.clipboard
        await pilot.press("t")
        assert Trace.from_dict(json.loads(app.clipboard)).query == "How many milliseconds does reranking 40 pairs take?"


async def test_questions_asked_before_come_back_with_the_arrow_keys_also_in_the_next_run(
    small_corpus: Path, answered: Answered
) -> None:
    app = ExplorerApp(small_corpus)
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, "how long does the loaf bake")
        for question in ("leeks", "potatoes"):
            await write(pilot, question)
            await answered(pilot, question)
    app.close_lab()
    again = ExplorerApp(small_corpus)
    async with again.run_test(size=WIDE) as pilot:
        await answered(pilot, "how long does the loaf bake")
        line = again.explore.query_one("#query", Input)
        await pilot.press("slash", "up")
        assert line.value == "potatoes"
        await pilot.press("up", "up")
        assert line.value == "leeks"
        await pilot.press("down", "down")
        assert line.value == "how long does the loaf bake"
        await pilot.press("up", "enter")
        await answered(pilot, "potatoes")
    again.close_lab()
