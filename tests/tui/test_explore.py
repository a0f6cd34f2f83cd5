"""The explorer driven by keyboard and mouse on the real server; its state is asserted, not its picture."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from textual.containers import Vertical
from textual.pilot import Pilot
from textual.widgets import ContentSwitcher, Input, Static

from retrieval_lab.config import PipelineConfig
from retrieval_lab.config_file import effective_config
from retrieval_lab.errors import EnvironmentMissing, FaultyInput
from retrieval_lab.evals.kept import stored_runs
from retrieval_lab.index import Progress
from retrieval_lab.lab import Lab
from retrieval_lab.settings import RrfFusion
from retrieval_lab.trace import Trace
from retrieval_lab.types import GoldenQuery
from retrieval_lab_tui.answer import movement
from retrieval_lab_tui.app import ExplorerApp
from retrieval_lab_tui.screens.help import HelpScreen
from retrieval_lab_tui.screens.picker import Picker
from retrieval_lab_tui.widgets.opening import Opening
from retrieval_lab_tui.widgets.passage import Passage
from retrieval_lab_tui.widgets.ranked_list import RankedList

WIDE = (200, 60)
NARROW = (80, 24)

Answered = Callable[[Pilot[None], str], Awaitable[None]]
WaitFor = Callable[[Pilot[None], Callable[[], object]], Awaitable[None]]


@pytest.fixture
def app() -> Iterable[ExplorerApp]:
    """The explorer on the bundled corpus."""
    explorer = ExplorerApp()
    yield explorer
    explorer.close_lab()


@pytest.fixture
def golden() -> list[GoldenQuery]:
    with Lab.open() as lab:
        return list(lab.golden)


def ranked(app: ExplorerApp, stage: str) -> RankedList:
    return app.explore.query_one(f"#list-{stage}", RankedList)


def shown(app: ExplorerApp, selector: str) -> str:
    return str(app.explore.query_one(selector, Static).visual)


async def write(pilot: Pilot[None], text: str) -> None:
    await pilot.press("slash")
    pilot.app.screen.query_one("#query", Input).value = text
    await pilot.press("enter")


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
        assert "excluded: 'm'" in str(notes.visual)
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


async def test_a_storm_of_sizes_breaks_nothing(app: ExplorerApp, answered: Answered, golden: list[GoldenQuery]) -> None:
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, golden[0].query)
        await pilot.press("1", "j")
        for size in ((20, 5), (1, 1), (1, 24), (2, 24), (139, 35), (140, 36), NARROW, WIDE):
            await pilot.resize_terminal(*size)
            await pilot.press("j", "n", "p")
        await answered(pilot, golden[0].query)
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


class GatedLab(Lab):
    """A lab whose answers wait for a gate, question by question."""

    gates: dict[str, threading.Event]

    def trace(self, query: str | GoldenQuery, config: PipelineConfig | None = None) -> Trace:
        text = query.query if isinstance(query, GoldenQuery) else query
        self.gates.setdefault(text, threading.Event()).wait(10)
        return super().trace(query, config)


async def test_a_newer_question_replaces_one_that_is_still_running(
    small_corpus: Path, answered: Answered, wait_for: WaitFor
) -> None:
    gates: dict[str, threading.Event] = {}

    def open_gated(*args: Any, **kwargs: Any) -> Lab:
        lab = GatedLab.open(*args, **kwargs)
        lab.gates = gates
        return lab

    app = ExplorerApp(small_corpus, open_lab=open_gated)
    async with app.run_test(size=WIDE) as pilot:
        await wait_for(pilot, lambda: "how long does the loaf bake" in gates)
        assert "asking" in shown(app, "#header")
        await write(pilot, "leeks")
        await wait_for(pilot, lambda: "leeks" in gates)
        gates["leeks"].set()
        await answered(pilot, "leeks")
        gates["how long does the loaf bake"].set()
        await pilot.pause(0.2)
        assert app.explore.answer is not None
        assert app.explore.answer.question.query == "leeks"
    app.close_lab()


async def test_escape_stops_a_running_question_and_the_last_answer_stands(
    small_corpus: Path, answered: Answered, wait_for: WaitFor
) -> None:
    gates = {"how long does the loaf bake": threading.Event()}
    gates["how long does the loaf bake"].set()

    def open_gated(*args: Any, **kwargs: Any) -> Lab:
        lab = GatedLab.open(*args, **kwargs)
        lab.gates = gates
        return lab

    app = ExplorerApp(small_corpus, open_lab=open_gated)
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, "how long does the loaf bake")
        await write(pilot, "leeks")
        await wait_for(pilot, lambda: "leeks" in gates)
        await pilot.press("escape")
        gates["leeks"].set()
        await pilot.pause(0.2)
        assert app.explore.answer is not None
        assert app.explore.answer.question.query == "how long does the loaf bake"
        assert "asking" not in shown(app, "#header")
    app.close_lab()


async def test_an_anchor_in_no_chunk_is_said(small_corpus: Path, answered: Answered) -> None:
    app = ExplorerApp(small_corpus)
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, "how long does the loaf bake")
        assert "FOUND" in shown(app, "#fate")
        await pilot.press("n")
        await answered(pilot, "how many carrots")
        assert "no chunk of 'soup' holds the anchor 'three carrots'" in shown(app, "#fate")
    app.close_lab()


async def test_a_failed_question_dims_the_last_answer_says_why_and_r_asks_again(
    small_corpus: Path, answered: Answered, wait_for: WaitFor
) -> None:
    failures = [EnvironmentMissing("the server is gone [/]")]

    class FailingOnceLab(Lab):
        def trace(self, query: str | GoldenQuery, config: PipelineConfig | None = None) -> Trace:
            if query == "leeks" and failures:
                raise failures.pop()
            return super().trace(query, config)

    app = ExplorerApp(small_corpus, open_lab=FailingOnceLab.open)
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, "how long does the loaf bake")
        await write(pilot, "leeks")
        await wait_for(pilot, lambda: "NOT ANSWERED  the server is gone [/]" in shown(app, "#fate"))
        assert app.explore.query_one("#results").has_class("stale")
        assert app.explore.answer is not None
        assert app.explore.answer.question.query == "how long does the loaf bake"
        await pilot.press("r")
        await answered(pilot, "leeks")
        assert not app.explore.query_one("#results").has_class("stale")
        assert "NOT ANSWERED" not in shown(app, "#fate")
    app.close_lab()


async def test_escape_puts_back_the_question_that_stands_on_the_screen(small_corpus: Path, answered: Answered) -> None:
    app = ExplorerApp(small_corpus)
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, "how long does the loaf bake")
        query = app.explore.query_one("#query", Input)
        await pilot.press("slash", *"draft", "escape")
        await pilot.pause()
        assert query.value == "how long does the loaf bake"
        await pilot.press("slash", "backspace", "enter")
        await pilot.pause()
        assert query.value == "how long does the loaf bake"
        assert app.focused is ranked(app, "final")
    app.close_lab()


async def test_a_corpus_that_cannot_be_opened_says_why_and_r_tries_again(
    small_corpus: Path, answered: Answered, wait_for: WaitFor
) -> None:
    tries = []

    def open_second_time(*args: Any, **kwargs: Any) -> Lab:
        tries.append(1)
        if len(tries) == 1:
            raise EnvironmentMissing("no server [/]: start one")
        return Lab.open(*args, **kwargs)

    app = ExplorerApp(small_corpus, open_lab=open_second_time)
    async with app.run_test(size=NARROW) as pilot:
        opening = app.explore.query_one(Opening)
        await wait_for(pilot, lambda: opening.has_class("failed"))
        assert "no server [/]: start one" in str(opening.query_one(Static).visual)
        await pilot.press("n", "j", "enter", "escape")
        await pilot.press("r")
        await answered(pilot, "how long does the loaf bake")
    app.close_lab()


async def test_indexing_shows_its_progress(small_corpus: Path, wait_for: WaitFor, answered: Answered) -> None:
    gate = threading.Event()

    def open_slowly(*args: Any, progress: Callable[[Progress], None], **kwargs: Any) -> Lab:
        progress(Progress(12, 32, "hybrid-search"))
        gate.wait(10)
        return Lab.open(*args, progress=progress, **kwargs)

    app = ExplorerApp(small_corpus, open_lab=open_slowly)
    async with app.run_test(size=NARROW) as pilot:
        text = app.explore.query_one(Opening).query_one(Static)
        await wait_for(pilot, lambda: "Indexing 12 of 32 documents · hybrid-search" in str(text.visual))
        assert app.explore.query_one("#body", ContentSwitcher).current == "opening"
        gate.set()
        await answered(pilot, "how long does the loaf bake")
    app.close_lab()


async def test_a_corpus_without_golden_queries_waits_for_a_question(
    small_corpus: Path, answered: Answered, wait_for: WaitFor
) -> None:
    (small_corpus / "golden.yaml").unlink()
    app = ExplorerApp(small_corpus)
    async with app.run_test(size=WIDE, notifications=True) as pilot:
        await wait_for(pilot, lambda: "press / to write a question" in shown(app, "#fate"))
        await pilot.press("n")
        assert "no golden queries" in next(iter(app._notifications)).message
        await write(pilot, "potatoes")
        await answered(pilot, "potatoes")
        assert ranked(app, "final").chunk_id == "soup#000"
    app.close_lab()


async def test_faults_of_the_corpus_are_counted_listed_and_gone_once_they_are_mended(
    small_corpus: Path, wait_for: WaitFor
) -> None:
    golden = (small_corpus / "golden.yaml").read_text(encoding="utf-8")
    (small_corpus / "docs" / "broken.md").write_bytes(b"# Broken\n\nnot \xff UTF-8\n")
    (small_corpus / "golden.yaml").write_text("- {query_id: 7}\n", encoding="utf-8")
    app = ExplorerApp(small_corpus)
    async with app.run_test(size=WIDE) as pilot:
        await wait_for(pilot, lambda: "! 3 problems" in shown(app, "#header"))
        await pilot.press("exclamation_mark")
        listed = str(app.screen.query_one(Static).visual)
        assert "broken.md:3: not UTF-8" in listed
        assert "golden.yaml:1" in listed
        await pilot.press("escape")
        assert isinstance(app.problem, FaultyInput)
        (small_corpus / "docs" / "broken.md").unlink()
        (small_corpus / "golden.yaml").write_text(golden, encoding="utf-8")
        await pilot.press("r")
        await wait_for(pilot, lambda: "1 of 2" in shown(app, "#header"))
        assert "problem" not in shown(app, "#header")
        assert app.problem is None
    app.close_lab()


@pytest.mark.parametrize(("before", "after", "text"), [(4, 1, "▲ 3"), (1, 3, "▼ 2"), (2, 2, "="), (40, 5, "▲35")])
def test_movement_is_the_change_of_rank(before: int, after: int, text: str) -> None:
    assert movement(before, after) == text


async def test_q_leaves_while_the_corpus_is_being_opened() -> None:
    cancelled_seen = threading.Event()

    def open_never(*_: Any, cancelled: Callable[[], bool], **__: Any) -> Lab:
        while not cancelled():
            threading.Event().wait(0.01)
        cancelled_seen.set()
        raise EnvironmentMissing("left")

    app = ExplorerApp(open_lab=open_never)
    async with app.run_test(size=NARROW) as pilot:
        await pilot.pause()
        await pilot.press("q")
    assert app.return_code == 0
    app.close_lab()
    assert cancelled_seen.wait(5)


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


async def test_what_is_typed_while_the_corpus_opens_is_no_command_and_no_question(
    small_corpus: Path, answered: Answered
) -> None:
    gate = threading.Event()

    def open_slowly(*args: Any, **kwargs: Any) -> Lab:
        gate.wait(10)
        return Lab.open(*args, **kwargs)

    app = ExplorerApp(small_corpus, open_lab=open_slowly)
    async with app.run_test(size=NARROW) as pilot:
        await pilot.press("slash", "x", "enter")
        assert app.explore.query_one("#query", Input).value == ""
        gate.set()
        await answered(pilot, "how long does the loaf bake")
    app.close_lab()


async def test_r_sees_changed_files_and_asks_the_same_question_again(small_corpus: Path, answered: Answered) -> None:
    app = ExplorerApp(small_corpus)
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, "how long does the loaf bake")
        await write(pilot, "leeks")
        await answered(pilot, "leeks")
        before = app.explore.answer
        (small_corpus / "docs" / "soup.md").write_text("# Soup\n\nNo vegetables at all.\n", encoding="utf-8")
        await pilot.press("r")
        while app.explore.answer is before or app.explore.answer is None:
            await pilot.pause(0.02)
        assert app.explore.answer.question.query == "leeks"
        assert "No vegetables" in app.explore.answer.chunks["soup#000"].text
    app.close_lab()


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
        (small_corpus / "lab.yaml").write_text("retrievers: {text: {}}\n", encoding="utf-8")
        await pilot.press("r")
        await pilot.pause()
        await answered(pilot, "how long does the loaf bake")
        assert app.explore.stages == ("text", "fused", "final")
        assert app.explore.active == "final"
    app.close_lab()


async def test_a_faulty_lab_yaml_is_told_with_its_line(small_corpus: Path, wait_for: WaitFor) -> None:
    (small_corpus / "lab.yaml").write_text("top_k: 5\nrerankr: none\n", encoding="utf-8")
    app = ExplorerApp(small_corpus)
    async with app.run_test(size=WIDE) as pilot:
        await wait_for(pilot, lambda: app.problem is not None)
        assert "lab.yaml:2: rerankr: unknown key" in str(app.problem)
    app.close_lab()


async def test_the_golden_set_is_measured_behind_the_first_answer_and_m_goes_from_miss_to_miss(
    app: ExplorerApp, answered: Answered, wait_for: WaitFor, golden: list[GoldenQuery]
) -> None:
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, golden[0].query)
        await wait_for(pilot, lambda: app.measuring.misses is not None)
        assert [golden[place].query_id for place in app.measuring.misses or ()][:3] == ["q08", "q11", "q22"]
        await wait_for(pilot, lambda: "1 of 48, 13 missed" in shown(app, "#header"))
        for key, query_id, place in (
            ("m", "q08", "8 of 48, miss 1 of 13"),
            ("m", "q11", "11 of 48, miss 2 of 13"),
            ("M", "q08", "8 of 48, miss 1 of 13"),
            ("M", "q32", "miss 13 of 13"),
            ("m", "q08", "8 of 48, miss 1 of 13"),
        ):
            await pilot.press(key)
            await answered(pilot, next(query.query for query in golden if query.query_id == query_id))
            assert place in shown(app, "#header")
            assert "MISS" in shown(app, "#fate")


async def test_the_picker_narrows_by_words_kind_and_miss_and_asks_what_is_chosen(
    app: ExplorerApp, answered: Answered, wait_for: WaitFor, golden: list[GoldenQuery]
) -> None:
    def title() -> str:
        return str(app.screen.query_one(Vertical).border_title)

    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, golden[0].query)
        await wait_for(pilot, lambda: app.measuring.misses is not None)
        await pilot.press("f")
        await wait_for(pilot, lambda: isinstance(app.screen, Picker) and "48 of 48" in title())
        await pilot.press("f3")
        assert "13 of 48" in title()
        await pilot.press("f2")
        assert "11 of 48" in title()
        await pilot.press("f2", *"pairs")
        await pilot.pause()
        assert "1 of 48" in title()
        await pilot.press("enter")
        await answered(pilot, "How many milliseconds does reranking 40 pairs take?")
        await pilot.press("f", "escape")
        assert app.screen is app.explore


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


async def test_a_setting_is_changed_while_the_lists_stand_beside_and_what_moved_is_said(
    app: ExplorerApp, answered: Answered, wait_for: WaitFor, golden: list[GoldenQuery]
) -> None:
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, golden[0].query)
        await wait_for(pilot, lambda: app.measuring.misses is not None)
        await pilot.press("m")
        await answered(pilot, "How many milliseconds does reranking 40 pairs take?")
        await pilot.press("s", *["j"] * 8, "left")
        await wait_for(pilot, lambda: "none" in shown(app, "#header") and "FOUND" in shown(app, "#fate"))
        assert "reranked 14 → 1 · final – → 1" in shown(app, "#moved")
        assert str(ranked(app, "final").border_subtitle) == "score RRF · move"
        await wait_for(pilot, lambda: app.measuring.misses is not None and len(app.measuring.misses) == 11)
        await pilot.press("escape", "u")
        await wait_for(pilot, lambda: "MISS" in shown(app, "#fate"))
        assert not app.explore.query_one("#moved").display
        assert "lexical │ λ 0.7" in shown(app, "#header")


async def test_settings_are_saved_to_the_file_and_one_that_does_not_fit_is_refused(
    small_corpus: Path, answered: Answered, wait_for: WaitFor
) -> None:
    (small_corpus / "lab.yaml").write_text("top_k: 5  # five\nfusion: {n: 5}\n", encoding="utf-8")
    app = ExplorerApp(small_corpus)
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, "how long does the loaf bake")
        await pilot.press("s", "up", "right")
        assert "top_k is 10; expected at most 5" in str(app.screen.query_one(Static).visual)
        await pilot.press("up", "left")
        await wait_for(pilot, lambda: "λ 0.6" in shown(app, "#header"))
        await pilot.press("w", "escape")
        assert effective_config(small_corpus).config == PipelineConfig(top_k=5, fusion=RrfFusion(n=5), mmr_lambda=0.6)
        assert "# five" in (small_corpus / "lab.yaml.bak").read_text(encoding="utf-8")
        await wait_for(pilot, lambda: not app.explore.query_one("#moved").display)
    app.close_lab()


async def test_an_edited_golden_query_keeps_its_label_and_is_compared(
    app: ExplorerApp, answered: Answered, wait_for: WaitFor, golden: list[GoldenQuery]
) -> None:
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, golden[0].query)
        await wait_for(pilot, lambda: app.measuring.misses is not None)
        await pilot.press("m")
        await answered(pilot, "How many milliseconds does reranking 40 pairs take?")
        await write(pilot, "How many ms does reranking 40 pairs take?")
        await answered(pilot, "How many ms does reranking 40 pairs take?")
        assert "q08 factual, edited · 8 of 48" in shown(app, "#header")
        assert "edited" in shown(app, "#moved")
        assert "→" in shown(app, "#moved")
        assert any(row.wanted for row in ranked(app, "fused").rows)
        await write(pilot, "who painted the inn sign?")
        await answered(pilot, "who painted the inn sign?")
        assert "your own" in shown(app, "#fate")
        assert not app.explore.query_one("#moved").display


async def test_the_measures_have_intervals_and_lead_to_the_queries_behind_them(
    small_corpus: Path, answered: Answered, wait_for: WaitFor
) -> None:
    golden = """\
- {query_id: q1, query: how long does the loaf bake, kind: factual, doc_id: bread, anchor: forty minutes}
- {query_id: q2, query: how many carrots, kind: factual, doc_id: soup, anchor: three carrots}
- {query_id: q3, query: potatoes, kind: other, doc_id: soup, anchor: two potatoes}
- {query_id: q4, query: "!!!", kind: other, doc_id: soup, anchor: leeks}
"""
    (small_corpus / "golden.yaml").write_text(golden, encoding="utf-8")
    app = ExplorerApp(small_corpus)
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, "how long does the loaf bake")
        await wait_for(pilot, lambda: app.measuring.measured is not None)
        await pilot.press("e")
        await pilot.pause()

        def on_screen(selector: str) -> str:
            return str(app.screen.query_one(selector, Static).visual)

        assert on_screen("#groups").splitlines()[0].split() == ["all", "·", "3", "factual", "·", "1", "other", "·", "2"]
        recall = next(line for line in on_screen("#groups").splitlines() if line.startswith("recall@10"))
        assert re.findall(r"[01]\.\d{3}", recall) == ["0.667", "1.000", "0.500"]
        assert "not counted, no chunk holds the anchor: q2" in on_screen("#groups")
        await pilot.press("c")
        await wait_for(pilot, lambda: "No run is kept yet" in on_screen("#against"))
        await pilot.press("w")
        await wait_for(pilot, lambda: stored_runs(small_corpus))
        await pilot.press("c")
        await wait_for(pilot, lambda: "permutation p" in on_screen("#against"))
        assert "+0.000" in on_screen("#against")
        await pilot.press("left", "enter")
        await wait_for(pilot, lambda: isinstance(app.screen, Picker))
        assert "2 of 2 · by recall@10" in str(app.screen.query_one(Vertical).border_title)
        await pilot.press("down", "enter")
        await answered(pilot, "potatoes")
        assert app.screen is app.explore
    app.close_lab()


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
