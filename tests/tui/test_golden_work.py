"""Working through a golden set: misses, the picker, other settings, edited queries, measures."""

from __future__ import annotations

import re
from pathlib import Path

from textual.containers import Vertical
from textual.widgets import Static

from retrieval_lab.config import PipelineConfig
from retrieval_lab.config_file import effective_config
from retrieval_lab.evals.kept import stored_runs
from retrieval_lab.settings import RrfFusion
from retrieval_lab.types import GoldenQuery
from retrieval_lab_tui.app import ExplorerApp
from retrieval_lab_tui.screens.picker import Picker
from tests.tui.driving import WIDE, Answered, WaitFor, ranked, shown, write


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


async def test_a_setting_is_changed_while_the_lists_stand_beside_and_what_moved_is_said(
    app: ExplorerApp, answered: Answered, wait_for: WaitFor, golden: list[GoldenQuery]
) -> None:
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, golden[0].query)
        await wait_for(pilot, lambda: app.measuring.misses is not None)
        await pilot.press("m")
        await answered(pilot, "How many milliseconds does reranking 40 pairs take?")
        await pilot.press("s", *["j"] * 11, "left")
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
        await pilot.press("w")
        await wait_for(pilot, lambda: stored_runs(small_corpus))
        await pilot.press("left", "enter")
        await wait_for(pilot, lambda: isinstance(app.screen, Picker))
        assert "2 of 2 · by recall@10" in str(app.screen.query_one(Vertical).border_title)
        await pilot.press("down", "enter")
        await answered(pilot, "potatoes")
        assert app.screen is app.explore
    app.close_lab()
