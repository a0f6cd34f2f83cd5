"""Two pipelines on one question: choosing the other side, what both show, stepping, reading, indexing first."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Static

from retrieval_lab.config import PipelineConfig
from retrieval_lab.errors import EnvironmentMissing
from retrieval_lab.index import IndexingCancelled, Progress
from retrieval_lab.lab import Lab
from retrieval_lab.rerankers import CrossEncoderReranker
from retrieval_lab.retrievers.bm25 import Bm25Search
from retrieval_lab.retrievers.text import TextSearch
from retrieval_lab.settings import Bm25Reranker, HashEmbedding, NoReranker
from retrieval_lab_tui.app import ExplorerApp
from retrieval_lab_tui.comparing import differences
from retrieval_lab_tui.measuring import Measuring
from retrieval_lab_tui.screens.compare import CompareScreen
from retrieval_lab_tui.screens.explain import ExplainScreen
from retrieval_lab_tui.screens.sides import SideChooser
from retrieval_lab_tui.widgets.key_line import KeyLine
from retrieval_lab_tui.widgets.ranked_list import RankedList
from tests.tui.driving import NARROW, WIDE, Answered, WaitFor, write
from tests.tui.fakes import gated

MISS = "How many milliseconds does reranking 40 pairs take?"
NO_RERANKER = PipelineConfig(reranker=NoReranker(), mmr_lambda=None)


def side(app: ExplorerApp, name: str) -> RankedList:
    return app.screen.query_one(f"#list-{name}", RankedList)


def text(app: ExplorerApp, selector: str) -> str:
    return str(app.screen.query_one(selector, Static).visual)


async def compare_with(pilot: Pilot[None], wait_for: WaitFor, *typed: str) -> ExplorerApp:
    """Open the comparison with the first side that the words find."""
    app = pilot.app
    assert isinstance(app, ExplorerApp)
    await pilot.press("C")
    await wait_for(pilot, lambda: isinstance(app.screen, SideChooser))
    await pilot.press(*typed, "enter")
    await wait_for(pilot, lambda: isinstance(app.screen, CompareScreen))
    return app


async def test_final_lists_stand_side_by_side_with_where_the_other_has_each_passage(
    app: ExplorerApp, answered: Answered, wait_for: WaitFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Measuring, "start", lambda *_: None)
    with Lab.open() as lab:
        query = next(one for one in lab.golden if one.query == MISS)
        finals = [[row.chunk_id for row in lab.trace(query, config).final] for config in (None, NO_RERANKER)]
        wanted = lab.trace(query).relevant[0]
    async with app.run_test(size=WIDE) as pilot:
        await wait_for(pilot, lambda: app.explore.answer)
        app._ask_golden(7)
        await answered(pilot, MISS)
        await compare_with(pilot, wait_for, *"none")
        await wait_for(pilot, lambda: "in both" in text(app, "#title"))
        lists = [side(app, name).rows for name in ("left", "right")]
        assert [[row.chunk_id for row in rows] for rows in lists] == finals
        for row in lists[0]:
            there = finals[1].index(row.chunk_id) + 1 if row.chunk_id in finals[1] else None
            assert row.detail == move(row.rank, there)
        for row in lists[1]:
            there = finals[0].index(row.chunk_id) + 1 if row.chunk_id in finals[0] else None
            assert row.detail == ("new" if there is None else move(there, row.rank))
        both = len(set(finals[0]) & set(finals[1]))
        assert f"{both} of 10 in both" in text(app, "#title")
        assert "MISS → FOUND" in text(app, "#wanted")
        assert "rerank 14 → 1 · final – → 1" in text(app, "#wanted")
        assert "fused 1 · " in text(app, "#wanted")
        assert "reranker lexical · mmr_lambda 0.7" in str(side(app, "left").border_title)
        assert "reranker none · mmr_lambda –" in str(side(app, "right").border_title)
        assert [row.chunk_id for row in lists[1] if row.wanted] == [wanted]


def move(left: int, right: int | None) -> str:
    if right is None:
        return "gone"
    return "=" if left == right else f"{'▲' if right < left else '▼'}{abs(left - right):>2}"


async def test_the_cursor_marks_the_same_passage_on_the_other_side_and_enter_reads_it_among_the_lists(
    app: ExplorerApp, wait_for: WaitFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Measuring, "start", lambda *_: None)
    async with app.run_test(size=WIDE) as pilot:
        await wait_for(pilot, lambda: app.explore.answer)
        await compare_with(pilot, wait_for, *"none")
        await wait_for(pilot, lambda: "in both" in text(app, "#title"))
        left, right = side(app, "left"), side(app, "right")
        for _ in left.rows:
            assert right.linked == left.chunk_id
            await pilot.press("j")
        await pilot.press("tab", "g")
        assert left.linked == right.chunk_id == right.rows[0].chunk_id
        new = next(place for place, row in enumerate(right.rows) if row.detail == "new")
        await pilot.press(*["j"] * new)
        chosen = right.chunk_id
        assert chosen not in [row.chunk_id for row in left.rows]
        await pilot.press("enter")
        await wait_for(pilot, lambda: app.screen is app.explore)
        assert app.explore.chunk is not None
        assert app.explore.chunk.chunk_id == chosen


async def test_golden_queries_and_the_misses_of_either_side_are_stepped_through_without_leaving(
    app: ExplorerApp, answered: Answered, wait_for: WaitFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def know(self: Measuring, _: Lab, config: PipelineConfig) -> None:
        """The left side misses the third and the sixth query, the right side the fourth."""
        self.misses = (3,) if config == NO_RERANKER else (2, 5)

    monkeypatch.setattr(Measuring, "start", know)
    async with app.run_test(size=WIDE) as pilot:
        await wait_for(pilot, lambda: app.explore.answer)
        await compare_with(pilot, wait_for, *"none")
        await wait_for(pilot, lambda: "in both" in text(app, "#title"))
        assert app.labs.now is not None
        golden = app.labs.now.lab.golden
        for key, place in (("n", 1), ("p", 0), ("m", 2), ("m", 3), ("m", 5), ("m", 2), ("M", 5)):
            await pilot.press(key)
            await wait_for(pilot, lambda place=place: f" {place + 1} of 48" in text(app, "#title"))
            await wait_for(pilot, lambda: "in both" in text(app, "#title"))
            assert text(app, "#question") == golden[place].query
        await pilot.press("escape")
        assert app.screen is app.explore
        await answered(pilot, golden[5].query)


def with_gate(gate: threading.Event, dims: int) -> Any:
    """Opens labs; one with vectors of so many dimensions reports a step and waits for the gate."""

    def open_gated(*args: Any, progress: Any, cancelled: Any, **kwargs: Any) -> Lab:
        if args[1] is not None and args[1].embedder == HashEmbedding(dims):
            progress(Progress(1, 2, "bread"))
            while not gate.wait(0.01):
                if cancelled():
                    raise IndexingCancelled("stopped")
        return Lab.open(*args, progress=progress, cancelled=cancelled, **kwargs)

    return open_gated


async def test_the_other_side_is_indexed_first_with_progress_and_escape_leaves(
    small_corpus: Path, answered: Answered, wait_for: WaitFor
) -> None:
    (small_corpus / "lab.yaml").write_text("embedder: {kind: hash, dims: 64}\n", encoding="utf-8")
    gate = threading.Event()
    app = ExplorerApp(small_corpus, open_lab=with_gate(gate, 256))
    async with app.run_test(size=NARROW) as pilot:
        await answered(pilot, "how long does the loaf bake")
        await compare_with(pilot, wait_for, *"hash")
        await wait_for(pilot, lambda: "1 of 2 documents" in text(app, "#indexing"))
        assert [row.chunk_id for row in side(app, "left").rows] == ["bread#000", "soup#000"]
        await pilot.press("escape")
        await wait_for(pilot, lambda: app.screen is app.explore)
        assert not app.explore.query_one("#results").has_class("stale")
        await compare_with(pilot, wait_for, *"hash")
        await wait_for(pilot, lambda: "1 of 2 documents" in text(app, "#indexing"))
        gate.set()
        await wait_for(pilot, lambda: "2 of 2 in both" in text(app, "#title"))
        assert not app.screen.query_one("#indexing").display
        assert "embedder hash-64" in str(side(app, "left").border_title)
        assert "embedder hash-256" in str(side(app, "right").border_title)
    app.close_lab()


async def test_a_side_that_cannot_answer_says_why_and_the_other_stays(
    small_corpus: Path, answered: Answered, wait_for: WaitFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise EnvironmentMissing("model [/] is not in the cache: fetch it")

    monkeypatch.setattr(CrossEncoderReranker, "rerank", fail)
    app = ExplorerApp(small_corpus)
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, "how long does the loaf bake")
        await compare_with(pilot, wait_for, *"cross")
        await wait_for(pilot, lambda: "NOT ANSWERED" in text(app, "#wanted"))
        assert "right: model [/] is not in the cache: fetch it" in text(app, "#wanted")
        assert side(app, "left").rows
        await pilot.press("C")
        await wait_for(pilot, lambda: isinstance(app.screen, SideChooser))
        await pilot.press(*"none", "enter")
        await wait_for(pilot, lambda: "in both" in text(app, "#title"))
        await pilot.press("escape")
        assert app.screen is app.explore
    app.close_lab()


async def test_a_question_of_ones_own_is_compared_and_a_passage_explained_for_its_side(
    small_corpus: Path, answered: Answered, wait_for: WaitFor
) -> None:
    app = ExplorerApp(small_corpus)
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, "how long does the loaf bake")
        await write(pilot, "leeks")
        await answered(pilot, "leeks")
        await compare_with(pilot, wait_for, *"none")
        await wait_for(pilot, lambda: "in both" in text(app, "#title"))
        assert "your own" in text(app, "#wanted")
        await pilot.press("tab", "x")
        await wait_for(pilot, lambda: isinstance(app.screen, ExplainScreen))
        assert isinstance(app.screen, ExplainScreen)
        assert app.screen._explaining.config == NO_RERANKER
        assert app.screen.journey.chunk_id == "soup#000"
        await pilot.press("escape")
        assert isinstance(app.screen, CompareScreen)
    app.close_lab()


async def test_a_question_that_was_stopped_is_asked_again_for_both_sides(
    small_corpus: Path, answered: Answered, wait_for: WaitFor
) -> None:
    gates: dict[str, threading.Event] = {}
    app = ExplorerApp(small_corpus, open_lab=gated(gates, closed={"leeks"}))
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, "how long does the loaf bake")
        await write(pilot, "leeks")
        await wait_for(pilot, lambda: "leeks" in gates)
        await pilot.press("escape")
        gates["leeks"].set()
        await compare_with(pilot, wait_for, *"none")
        await wait_for(pilot, lambda: "in both" in text(app, "#title"))
        assert text(app, "#question") == "leeks"
    app.close_lab()


async def test_the_files_settings_can_be_compared_with_those_of_the_moment(
    small_corpus: Path, answered: Answered, wait_for: WaitFor
) -> None:
    app = ExplorerApp(small_corpus)
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, "how long does the loaf bake")
        await pilot.press("s", "up", "right", "escape")
        await wait_for(pilot, lambda: app.labs.live)
        await compare_with(pilot, wait_for, *"file")
        await wait_for(pilot, lambda: "in both" in text(app, "#title"))
        assert "top_k 15" in str(side(app, "left").border_title)
        assert "top_k 10" in str(side(app, "right").border_title)
    app.close_lab()


@pytest.mark.parametrize(("size", "beside"), [(NARROW, False), ((99, 40), False), ((100, 30), True), (WIDE, True)])
async def test_the_lists_stand_beside_each_other_where_there_is_room(
    small_corpus: Path, answered: Answered, wait_for: WaitFor, size: tuple[int, int], beside: bool
) -> None:
    app = ExplorerApp(small_corpus)
    async with app.run_test(size=size) as pilot:
        await answered(pilot, "how long does the loaf bake")
        await compare_with(pilot, wait_for, *"none")
        await wait_for(pilot, lambda: "in both" in text(app, "#title"))
        left, right = side(app, "left").region, side(app, "right").region
        assert (left.y == right.y) is beside
        assert (left.x == right.x) is not beside
        assert abs(left.height - right.height) <= 1
        assert sum(key.cell_length for key in app.screen.query_one(KeyLine).drawn_keys()) <= size[0]
        assert side(app, "left").scrollable_content_region.height >= 2 * side(app, "left").row_lines
    app.close_lab()


def test_differences_name_what_is_set_otherwise_and_nothing_else() -> None:
    default = PipelineConfig()
    assert differences(default, NO_RERANKER) == (
        "reranker lexical · mmr_lambda 0.7",
        "reranker none · mmr_lambda –",
    )
    assert differences(default, PipelineConfig(embedder=HashEmbedding(64))) == ("embedder hash-256", "embedder hash-64")
    assert differences(default, PipelineConfig(reranker=Bm25Reranker(b=0.5))) == ("reranker.b 0.75", "reranker.b 0.5")
    words = PipelineConfig(retrievers=(Bm25Search(), TextSearch(name="near", operators=False)))
    assert differences(default, words) == (
        "vector · text · no bm25 · no near",
        "no vector · no text · bm25 · near text",
    )
    assert differences(default, default) == ("the same settings", "the same settings")
