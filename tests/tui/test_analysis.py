"""Working through the misses: the list, the judgment by key and by mouse, notes and paragraphs, and what is kept."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, Static, TextArea

from retrieval_lab.diagnosis.analysis_store import analysis_path, load_analysis
from retrieval_lab.diagnosis.kinds import Failure
from retrieval_lab.errors import EnvironmentMissing
from retrieval_lab.lab import Lab
from retrieval_lab.types import Chunk
from retrieval_lab_tui.app import ExplorerApp
from retrieval_lab_tui.screens.analysis import AnalysisScreen
from retrieval_lab_tui.screens.explain import ExplainScreen
from retrieval_lab_tui.screens.paragraph import ParagraphScreen
from tests.tui.driving import NARROW, WIDE, Answered, WaitFor

GOLDEN = """\
- {query_id: q1, query: how long does the loaf bake, kind: factual, doc_id: bread, anchor: forty minutes}
- {query_id: q2, query: how many carrots, kind: factual, doc_id: soup, anchor: three carrots}
- {query_id: q3, query: which pastry rises, kind: other, doc_id: soup, anchor: two potatoes}
- {query_id: q4, query: "!!!", kind: other, doc_id: bread, anchor: forty}
"""
WORDS = "This is a vocabulary-gap: " + "question and passage have no word in common, so that no list can reach it. " * 2


@pytest.fixture
def corpus(small_corpus: Path) -> Path:
    """Of four queries one is found, one has no passage, and two are misses: q3 and q4."""
    (small_corpus / "golden.yaml").write_text(GOLDEN, encoding="utf-8")
    (small_corpus / "lab.yaml").write_text("retrievers: {text: {}}\n", encoding="utf-8")
    return small_corpus


def text(app: ExplorerApp, selector: str) -> str:
    return str(app.screen.query_one(selector, Static).visual)


async def opened(app: ExplorerApp, pilot: Pilot[None], answered: Answered, wait_for: WaitFor) -> None:
    await answered(pilot, "how long does the loaf bake")
    await pilot.press("a")
    await wait_for(pilot, lambda: isinstance(app.screen, AnalysisScreen) and "misses" in text(app, "#title"))
    await wait_for(pilot, lambda: "The final" in text(app, "#final") or "The final" in text(app, "#passage"))


async def test_one_key_shows_for_every_miss_the_stage_that_lost_it_and_why(
    corpus: Path, answered: Answered, wait_for: WaitFor
) -> None:
    for size in (NARROW, WIDE):
        app = ExplorerApp(corpus)
        async with app.run_test(size=size) as pilot:
            await opened(app, pilot, answered, wait_for)
            assert "2 misses, 0 judged" in text(app, "#title")
            assert "lost at: pool 2" in text(app, "#title")
            rows = [line.split() for line in text(app, "#rows").splitlines()]
            assert [row[:2] for row in rows] == [["q3", "pool"], ["q4", "pool"]]
            assert "no word in common" in text(app, "#rows")
            assert "two potatoes" in text(app, "#passage")
            assert "proposed vocabulary-gap" in text(app, "#passage")
        app.close_lab()


async def test_a_judgment_is_kept_at_once_and_shown(corpus: Path, answered: Answered, wait_for: WaitFor) -> None:
    app = ExplorerApp(corpus)
    async with app.run_test(size=WIDE) as pilot:
        await opened(app, pilot, answered, wait_for)
        await pilot.press("1")
        await wait_for(pilot, lambda: "vocabulary-gap" in text(app, "#rows"))
        await pilot.press("0")
        await wait_for(pilot, lambda: "2 misses, 1 judged" in text(app, "#title"))
        await pilot.press("j", "3")
        await wait_for(pilot, lambda: "ranking" in text(app, "#rows"))
        document = load_analysis(analysis_path(corpus))
        assert [(row.query_id, row.failure, row.fix) for row in document.rows] == [
            ("q3", "vocabulary-gap", "better-embedder"),
            ("q4", "ranking", "todo"),
        ]
    app.close_lab()


async def test_a_kind_can_be_clicked(corpus: Path, answered: Answered, wait_for: WaitFor) -> None:
    app = ExplorerApp(corpus)
    async with app.run_test(size=NARROW) as pilot:
        await opened(app, pilot, answered, wait_for)
        await pilot.click("#rows", offset=(3, 1))
        lines = text(app, "#kinds").splitlines()
        place = next((line.index("anchor"), number) for number, line in enumerate(lines) if "anchor" in line)
        await pilot.click("#kinds", offset=place)
        await wait_for(pilot, lambda: analysis_path(corpus).exists())
        row = load_analysis(analysis_path(corpus)).row("q4")
        assert row is not None
        assert row.failure == "anchor-ambiguity"
    app.close_lab()


async def test_notes_and_a_paragraph_are_written_and_a_persons_own_text_stays(
    corpus: Path, answered: Answered, wait_for: WaitFor
) -> None:
    own = "# Ours\n\nWritten by hand.\n"
    analysis_path(corpus).write_text(own, encoding="utf-8")
    app = ExplorerApp(corpus)
    async with app.run_test(size=WIDE, notifications=True) as pilot:
        await opened(app, pilot, answered, wait_for)
        await pilot.press("p")
        assert "Choose its failure first" in next(iter(app._notifications)).message
        await pilot.press("1")
        await wait_for(pilot, lambda: "vocabulary-gap" in text(app, "#rows"))
        assert text(app, "#rows").startswith("½ q3")
        await pilot.press("t")
        app.screen.query_one("#notes", Input).value = "a | b"
        await pilot.press("enter")
        await wait_for(pilot, lambda: "notes a | b" in text(app, "#passage"))
        await pilot.press("t", "space", "left_square_bracket", "slash", "right_square_bracket", "enter")
        await wait_for(pilot, lambda: "notes a | b [/]" in text(app, "#passage"))
        await pilot.press("p")
        await wait_for(pilot, lambda: isinstance(app.screen, ParagraphScreen))
        app.screen.query_one(TextArea).text = WORDS
        await pilot.press("ctrl+s")
        await wait_for(pilot, lambda: "vocabulary-gap: " in analysis_path(corpus).read_text(encoding="utf-8"))
        await pilot.press("p", "escape", "escape")
        await wait_for(pilot, lambda: app.screen is app.explore)
    app.close_lab()
    document = load_analysis(analysis_path(corpus))
    assert document.paragraph(Failure.VOCABULARY_GAP).strip() == WORDS.strip()
    row = document.row("q3")
    assert row is not None
    assert row.notes == "a | b [/]"
    assert analysis_path(corpus).read_text(encoding="utf-8").startswith(own)


async def test_a_file_that_cannot_be_read_is_told_and_the_misses_are_shown_all_the_same(
    corpus: Path, answered: Answered, wait_for: WaitFor
) -> None:
    analysis_path(corpus).write_bytes(b"\xff\xfe")
    app = ExplorerApp(corpus)
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, "how long does the loaf bake")
        await pilot.press("a")
        await wait_for(pilot, lambda: isinstance(app.screen, AnalysisScreen) and "q3" in text(app, "#rows"))
        assert "not UTF-8" in text(app, "#trouble")
        await pilot.press("1")
        await pilot.pause(0.2)
        assert analysis_path(corpus).read_bytes() == b"\xff\xfe"
    app.close_lab()


async def test_from_a_miss_to_its_explanation_and_back_and_to_its_lists(
    corpus: Path, answered: Answered, wait_for: WaitFor
) -> None:
    app = ExplorerApp(corpus)
    async with app.run_test(size=WIDE) as pilot:
        await opened(app, pilot, answered, wait_for)
        await pilot.press("x")
        await wait_for(pilot, lambda: isinstance(app.screen, ExplainScreen))
        assert "lost at pool" in text(app, "#title")
        await pilot.press("escape")
        assert isinstance(app.screen, AnalysisScreen)
        await pilot.press("j", "enter")
        await answered(pilot, "!!!")
        assert app.screen is app.explore
    app.close_lab()


async def test_nothing_is_asked_of_the_server_on_the_screens_thread(
    corpus: Path, answered: Answered, wait_for: WaitFor
) -> None:
    """A passage that no list holds is fetched beside its trace, and a server that went away is told."""
    screen, asked = threading.get_ident(), set()

    class WatchedLab(Lab):
        gone = False

        def chunks(self, chunk_ids: Sequence[str]) -> dict[str, Chunk]:
            asked.add(threading.get_ident())
            if self.gone:
                raise EnvironmentMissing("the server is gone")
            return super().chunks(chunk_ids)

    app = ExplorerApp(corpus, open_lab=WatchedLab.open)
    async with app.run_test(size=WIDE) as pilot:
        await opened(app, pilot, answered, wait_for)
        assert "two potatoes" in text(app, "#passage")
        assert asked
        assert screen not in asked
        app._lab.gone = True  # type: ignore[union-attr]
        await pilot.press("j")
        await wait_for(pilot, lambda: "the server is gone" in text(app, "#trouble"))
        await pilot.resize_terminal(*NARROW)
        assert app.is_running
    app.close_lab()
