"""Graded documents and questions that nothing answers, in the explorer."""

from __future__ import annotations

from pathlib import Path

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
