"""Why a passage was lost, on screen: its journey, the words as read, the changes that rescue it, and trying one."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from textual.widgets import Static

from retrieval_lab.lab import Lab
from retrieval_lab.types import GoldenQuery
from retrieval_lab_tui import explaining
from retrieval_lab_tui.app import ExplorerApp
from retrieval_lab_tui.screens.explain import ExplainScreen
from tests.tui.driving import NARROW, WIDE, Answered, WaitFor, shown, write

MISS = "How many milliseconds does reranking 40 pairs take?"


def page(app: ExplorerApp, selector: str = "#page") -> str:
    return str(app.screen.query_one(selector, Static).visual)


async def test_the_stage_that_lost_a_miss_and_why_are_three_keys_away(
    app: ExplorerApp, answered: Answered, wait_for: WaitFor
) -> None:
    async with app.run_test(size=WIDE) as pilot:
        await wait_for(pilot, lambda: app.measuring.misses is not None)
        await pilot.press("m")
        await answered(pilot, MISS)
        await pilot.press("x")
        await wait_for(pilot, lambda: isinstance(app.screen, ExplainScreen))
        assert "lost at reranker" in page(app, "#title")
        assert "fused rank 1, reranked 14: beyond the first 10" in page(app, "#title")
        assert "absent: mani, millisecond, take" in page(app)
        assert "score 0.03125 = vector 0.01562 + text 0.01562" in page(app)
        await pilot.press("x")
        assert app.screen is app.explore


async def test_the_fate_line_shows_the_stage_that_lost_it(
    app: ExplorerApp, answered: Answered, wait_for: WaitFor
) -> None:
    async with app.run_test(size=WIDE) as pilot:
        await wait_for(pilot, lambda: app.measuring.misses is not None)
        await pilot.press("m")
        await answered(pilot, MISS)
        content = app.explore.query_one("#fate", Static).visual
        reversed_parts = [
            content.plain[span.start : span.end] for span in content.spans if "reverse" in str(span.style)
        ]  # type: ignore[attr-defined]
        assert reversed_parts == [" MISS ", "14"]


async def test_the_words_of_question_and_passage_are_shown_as_read(
    small_corpus: Path, answered: Answered, wait_for: WaitFor
) -> None:
    app = ExplorerApp(small_corpus)
    async with app.run_test(size=NARROW) as pilot:
        await answered(pilot, "how long does the loaf bake")
        await write(pilot, "loaf -bake")
        await answered(pilot, "loaf -bake")
        await pilot.press("X")
        await wait_for(pilot, lambda: isinstance(app.screen, ExplainScreen))
        await pilot.press("2")
        await wait_for(pilot, lambda: "english_stem" in page(app))
        assert '"-bake" was read as an exclusion of bake' in page(app)
        assert "meant?    loaf bake" in page(app)
        assert "The passage, as it was indexed" in page(app)
    app.close_lab()


async def test_operators_are_one_key_away(small_corpus: Path, answered: Answered, wait_for: WaitFor) -> None:
    app = ExplorerApp(small_corpus)
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, "how long does the loaf bake")
        await write(pilot, "loaf -bake")
        await wait_for(pilot, lambda: " excluded: bake " in shown(app, "#notes"))
        assert "O searches it as text" in shown(app, "#notes")
        await pilot.press("O")
        await wait_for(pilot, lambda: not app.explore.query_one("#notes").display)
        await pilot.press("O")
        await wait_for(pilot, lambda: " excluded: bake " in shown(app, "#notes"))
    app.close_lab()


async def test_rescues_are_searched_listed_and_tried(
    app: ExplorerApp, answered: Answered, wait_for: WaitFor, golden: list[GoldenQuery]
) -> None:
    async with app.run_test(size=WIDE) as pilot:
        await wait_for(pilot, lambda: app.measuring.misses is not None)
        await pilot.press("m")
        await answered(pilot, MISS)
        await pilot.press("x", "3")
        await wait_for(pilot, lambda: "Tried in vain" in page(app))
        lines = page(app).splitlines()
        assert lines[3].split()[:5] == ["vector.weight", "1.0", "→", "1.33", "9"]
        assert any("reranker.kind lexical → none" in line for line in lines)
        await pilot.press("enter")
        await wait_for(pilot, lambda: "FOUND" in shown(app, "#fate"))
        assert "final – → 9" in shown(app, "#moved")
        assert len(golden) == 48


async def test_a_word_more_is_tried_as_an_edit_of_the_query(
    small_corpus: Path, answered: Answered, wait_for: WaitFor
) -> None:
    (small_corpus / "lab.yaml").write_text("retrievers: {text: {}}\nreranker: none\n", encoding="utf-8")
    golden = "- {query_id: q1, query: cake, kind: k, doc_id: bread, anchor: forty minutes}\n"
    (small_corpus / "golden.yaml").write_text(golden, encoding="utf-8")
    app = ExplorerApp(small_corpus)
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, "cake")
        await pilot.press("x")
        await wait_for(pilot, lambda: isinstance(app.screen, ExplainScreen))
        assert "lost at pool" in page(app, "#title")
        await pilot.press("3")
        await wait_for(pilot, lambda: "Tried in vain" in page(app))
        await pilot.press("enter")
        await wait_for(pilot, lambda: "edited" in shown(app, "#header") and "FOUND" in shown(app, "#fate"))
    app.close_lab()


async def test_a_search_for_rescues_shows_its_progress_and_escape_stops_it(
    app: ExplorerApp, answered: Answered, wait_for: WaitFor, monkeypatch: Any
) -> None:
    stopped = threading.Event()

    def endless(*_: Any, progress: Any, cancelled: Any, **__: Any) -> Any:
        progress(3, 40, "vector.n [/]")
        while not cancelled():
            pass
        stopped.set()

    monkeypatch.setattr(explaining, "rescues", endless)
    async with app.run_test(size=WIDE) as pilot:
        await wait_for(pilot, lambda: app.measuring.misses is not None)
        await pilot.press("m")
        await answered(pilot, MISS)
        await pilot.press("x", "3")
        await wait_for(pilot, lambda: "trying 3 of 40: vector.n [/] · esc stops" in page(app))
        await pilot.press("escape")
        assert page(app) == "stopped"
        assert stopped.wait(5)
        await pilot.press("escape")
        assert app.screen is app.explore


async def test_a_question_without_a_passage_has_nothing_to_explain(small_corpus: Path, wait_for: WaitFor) -> None:
    (small_corpus / "golden.yaml").unlink()
    app = ExplorerApp(small_corpus)
    async with app.run_test(size=WIDE, notifications=True) as pilot:
        await wait_for(pilot, lambda: isinstance(app._lab, Lab))
        await pilot.press("x")
        assert next(iter(app._notifications)).title == "Nothing to explain"
    app.close_lab()
