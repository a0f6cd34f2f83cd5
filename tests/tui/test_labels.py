"""Graded documents and questions that nothing answers, in the explorer."""

from __future__ import annotations

from pathlib import Path

from textual.widgets import Static

from retrieval_lab_tui.app import ExplorerApp
from tests.tui.driving import WIDE, Answered, WaitFor, shown

GOLDEN = """\
- {query_id: q1, query: how is a loaf baked, kind: k, relevant: {bread: 2, soup: 0}}
- {query_id: q2, query: who painted the moon, kind: no-answer, relevant: []}
- {query_id: q3, query: where do cranes sleep, kind: k, relevant: {gone: 1}}
"""


async def test_queries_of_every_level_are_shown_and_explained(
    small_corpus: Path, answered: Answered, wait_for: WaitFor
) -> None:
    (small_corpus / "golden.yaml").write_text(GOLDEN, encoding="utf-8")
    app = ExplorerApp(small_corpus)
    try:
        async with app.run_test(size=WIDE) as pilot:
            await answered(pilot, "how is a loaf baked")
            await wait_for(pilot, lambda: app.measuring.misses is not None)
            assert "FOUND" in shown(app, "#fate")
            assert "bread#000" in shown(app, "#fate")
            assert (app.measuring.misses, app.measuring.unlabelled) == ((), 1)
            await pilot.press("n")
            await answered(pilot, "who painted the moon")
            assert "NO ANSWER  no passage answers this question" in shown(app, "#fate")
            await pilot.press("w")
            await pilot.pause()
            await pilot.press("escape", "n")
            await answered(pilot, "where do cranes sleep")
            assert "NO LABEL  the corpus has no text of 'gone'" in shown(app, "#fate")
            assert app.explore.answer is not None
            assert app.explore.answer.journey is not None
            assert app.explore.answer.journey.lost_at == "chunking"
    finally:
        app.close_lab()


GRADED = """\
- {query_id: q1, query: how is a loaf baked, kind: k, relevant: {bread: 2, soup: 0}, fields: {topic: baking}}
- {query_id: q2, query: how are leeks boiled, kind: k, relevant: {soup: 1}, split: dev, fields: {topic: cooking}}
- {query_id: q3, query: who painted the moon, kind: no-answer, relevant: []}
"""


async def test_grades_stand_beside_the_marks(small_corpus: Path, answered: Answered, wait_for: WaitFor) -> None:
    (small_corpus / "golden.yaml").write_text(GRADED, encoding="utf-8")
    app = ExplorerApp(small_corpus)
    try:
        async with app.run_test(size=WIDE) as pilot:
            await answered(pilot, "how is a loaf baked")
            rows = {row.chunk_id: row for row in app.explore.answer.lists["final"]}  # type: ignore[union-attr]
            assert (rows["bread#000"].wanted, rows["bread#000"].grade) == (True, "2")
            assert (rows["soup#000"].wanted, rows["soup#000"].grade) == (False, "0")
            drawn = [strip.text for strip in app.screen._compositor.render_strips()]
            assert any("●2  1 " in line for line in drawn)
            assert any("○0  2 " in line for line in drawn)
            await pilot.press("n")
            await answered(pilot, "how are leeks boiled")
            rows = {row.chunk_id: row for row in app.explore.answer.lists["final"]}  # type: ignore[union-attr]
            assert {one.grade for one in rows.values()} == {"", "1"}
            await pilot.press("f")
            await wait_for(pilot, lambda: "∅" in "".join(s.text for s in app.screen._compositor.render_strips()))
    finally:
        app.close_lab()


async def test_measures_are_parted_by_any_label_field(
    small_corpus: Path, answered: Answered, wait_for: WaitFor
) -> None:
    (small_corpus / "golden.yaml").write_text(GRADED, encoding="utf-8")
    app = ExplorerApp(small_corpus)

    def text(selector: str) -> str:
        return str(app.screen.query_one(selector, Static).visual)

    try:
        async with app.run_test(size=WIDE) as pilot:
            await wait_for(pilot, lambda: app.measuring.measured is not None)
            await pilot.press("e")
            await wait_for(pilot, lambda: "recall@10" in text("#groups"))
            assert "k · 2" in text("#groups")
            assert "nothing answers 1: 0 of them pass the support floor of 0.25" in text("#groups")
            await pilot.press("g")
            assert "by split" in text("#title")
            assert "dev · 1" in text("#groups")
            await pilot.press("g")
            assert "by document" in text("#title")
            assert "docs · " in text("#groups")
            await pilot.press("g")
            assert "by topic" in text("#title")
            assert "baking · 1" in text("#groups")
            await pilot.press("right", "enter")
            await wait_for(pilot, lambda: app.screen.query("#rows, OptionList"))
            await pilot.press("enter")
            await answered(pilot, "how is a loaf baked")
    finally:
        app.close_lab()
