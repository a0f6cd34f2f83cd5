"""Other settings that need another index: made while the old lists stand, stopped, refused, kept open, saved."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Static

from retrieval_lab.config import PipelineConfig
from retrieval_lab.config_file import effective_config
from retrieval_lab.diagnosis.rescue import Cost, Rescue
from retrieval_lab.errors import EnvironmentMissing
from retrieval_lab.evals.versus import Change
from retrieval_lab.index import IndexingCancelled, Progress
from retrieval_lab.lab import Lab
from retrieval_lab.rerankers import CrossEncoderReranker
from retrieval_lab.settings import (
    ChunkerSettings,
    DocumentChunker,
    HashEmbedding,
    MarkdownChunker,
    ModelEmbedding,
    SentenceChunker,
    WordChunker,
)
from retrieval_lab_tui.app import ExplorerApp
from retrieval_lab_tui.labs import Labs
from retrieval_lab_tui.screens.explain import ExplainScreen
from retrieval_lab_tui.screens.settings import SettingsScreen
from retrieval_lab_tui.switching import index_name
from tests.tui.driving import NARROW, WIDE, Answered, WaitFor, ranked, shown, write

QUESTION = "how long does the loaf bake"


class Opener:
    """Opens labs, counts them by the dimensions of their vectors, and lets those of other indexes wait for a gate."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.opened: list[int] = []
        self.labs: list[Lab] = []

    def __call__(self, *args: Any, progress: Any, cancelled: Any) -> Lab:
        config = args[1]
        if config is not None and isinstance(config.embedder, ModelEmbedding):
            raise EnvironmentMissing("model [/] is not in the cache: fetch it")
        if config is not None:
            progress(Progress(1, 2, "bread"))
            while not self.gate.wait(0.01):
                if cancelled():
                    raise IndexingCancelled("stopped")
        lab = Lab.open(*args, progress=progress, cancelled=cancelled)
        self.opened.append(lab.embedder.dims)
        self.labs.append(lab)
        return lab


@pytest.fixture
def opener() -> Opener:
    return Opener()


@pytest.fixture
def app(small_corpus: Path, opener: Opener) -> Iterator[ExplorerApp]:
    """The explorer on a corpus whose file says hash-64; the choices are that, hash-256 and a model that is missing."""
    (small_corpus / "lab.yaml").write_text("embedder: {kind: hash, dims: 64}\n", encoding="utf-8")
    explorer = ExplorerApp(small_corpus, open_lab=opener)
    yield explorer
    explorer.close_lab()


def panel(app: ExplorerApp) -> str:
    return str(app.screen.query_one(Static).visual)


def vectors(app: ExplorerApp) -> list[float]:
    """The scores of the vector list on the screen."""
    assert app.explore.answer is not None
    return [hit.score for hit in app.explore.answer.trace.vector]


async def switched(pilot: Pilot[None], wait_for: WaitFor, name: str) -> None:
    """Waits until the header names the embedder, and the answer on the screen is made with it."""
    app = pilot.app
    assert isinstance(app, ExplorerApp)

    def is_there() -> bool:
        answer = app.explore.answer
        now = app.labs.now
        return (
            f"{name} │" in shown(app, "#header")
            and answer is not None
            and now is not None
            and (answer.trace.config == now.config and not app._jobs.running("ask"))
        )

    await wait_for(pilot, is_there)


async def test_the_old_lists_stand_dimmed_under_the_progress_until_the_new_index_answers(
    app: ExplorerApp, opener: Opener, answered: Answered, wait_for: WaitFor, small_corpus: Path
) -> None:
    opener.gate.clear()
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, QUESTION)
        before = app.explore.answer
        await pilot.press("s")
        assert "embedder          ‹ hash-64 ›" in panel(app)
        assert "bge-small-en-v1.5  not in the cache" in panel(app)
        await pilot.press("right")
        await wait_for(pilot, lambda: "1 of 2 documents" in shown(app, "#switching"))
        assert shown(app, "#switching").startswith(" hash-256  indexing ████████████████████░░░░░░░░░░░░░░░░░░░░")
        assert "indexing █████░░░░░ 1 of 2 · esc stops" in panel(app)
        assert app.explore.query_one("#results").has_class("stale")
        assert app.explore.answer is before
        assert "hash-64 │" in shown(app, "#header")
        opener.gate.set()
        await switched(pilot, wait_for, "hash-256")
        assert not app.explore.query_one("#switching").display
        assert not app.explore.query_one("#results").has_class("stale")
        assert "other settings" in shown(app, "#moved")
        assert app.explore.answer is not None
        assert app.explore.answer.before == (before.trace if before else None)
        with Lab.open(small_corpus, PipelineConfig(embedder=HashEmbedding(256))) as lab:
            assert vectors(app) == [hit.score for hit in lab.trace(lab.golden[0]).vector]
        await wait_for(pilot, lambda: app.measuring.measured is not None)
        assert app.measuring.measured is not None
        assert app.measuring.measured.run.config.embedder == HashEmbedding(256)


async def test_switching_back_opens_nothing_again(
    app: ExplorerApp, opener: Opener, answered: Answered, wait_for: WaitFor
) -> None:
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, QUESTION)
        first = vectors(app)
        opener.gate.clear()
        await pilot.press("s", "right")
        await wait_for(pilot, lambda: "1 of 2 documents" in shown(app, "#switching"))
        await pilot.press("escape")
        assert isinstance(app.screen, SettingsScreen)  # escape stopped it: nothing is switched, nothing closed
        opener.gate.set()
        await pilot.press("right")
        await switched(pilot, wait_for, "hash-256")
        second = vectors(app)
        assert first != second
        await pilot.press("escape", "u")
        await switched(pilot, wait_for, "hash-64")
        assert vectors(app) == first
        assert not app.explore.query_one("#moved").display
        await pilot.press("s", "right", "left", "right")
        await switched(pilot, wait_for, "hash-256")
        assert vectors(app) == second
        assert opener.opened == [64, 256]


async def test_escape_stops_it_and_the_old_index_goes_on(
    app: ExplorerApp, opener: Opener, answered: Answered, wait_for: WaitFor
) -> None:
    opener.gate.clear()
    async with app.run_test(size=NARROW) as pilot:
        await answered(pilot, QUESTION)
        await pilot.press("s", "right")
        await wait_for(pilot, lambda: "1 of 2 documents" in shown(app, "#switching"))
        await pilot.press("escape")
        await wait_for(pilot, lambda: not app.explore.query_one("#switching").display)
        assert "‹ hash-64 ›" in panel(app)
        await pilot.press("right")
        await wait_for(pilot, lambda: "1 of 2 documents" in shown(app, "#switching"))
        await pilot.press("escape", "escape")
        assert app.screen is app.explore
        await pilot.press("s", "right")
        app.pop_screen()  # as a click beside it might: the switch goes on without the settings
        await wait_for(pilot, lambda: app.explore.query_one("#switching").display)
        await write(pilot, "leeks")
        await answered(pilot, "leeks")
        assert app.explore.query_one("#results").has_class("stale")
        await pilot.press("escape")
        await wait_for(pilot, lambda: not app.explore.query_one("#results").has_class("stale"))
        opener.gate.set()
        await pilot.pause(0.3)
        assert opener.opened == [64]
        assert app.labs.now is not None
        assert app.labs.now.config.embedder == HashEmbedding(64)


async def test_a_model_that_is_missing_is_told_and_the_setting_goes_back(
    app: ExplorerApp, answered: Answered, wait_for: WaitFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []  # a notification may be gone before a slow machine looks for it
    monkeypatch.setattr(app, "say", lambda _, text, **__: told.append(text))
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, QUESTION)
        before = app.explore.answer
        await pilot.press("s", "left")
        await wait_for(pilot, lambda: "model [/] is not in the cache: fetch it" in panel(app))
        assert "‹ hash-64 ›" in panel(app)
        assert app.explore.answer is before
        assert not app.explore.query_one("#results").has_class("stale")
        await pilot.press("escape")
        await wait_for(pilot, lambda: app.screen is app.explore)
        assert app.labs.now is not None
        app._use(replace(app.labs.now.config, embedder=ModelEmbedding()))
        await wait_for(pilot, lambda: told == ["model [/] is not in the cache: fetch it"])


async def test_a_model_whose_index_is_there_but_which_cannot_be_loaded_is_no_switch(small_corpus: Path) -> None:
    """The index of before needs its model for the first question only; then it would be too late."""

    class Broken:
        dims, name = 256, "broken"

        def embed(self, _: Any) -> Any:
            raise EnvironmentMissing("model gone")

    opened = []

    def open_broken(config: PipelineConfig | None, *_: Any) -> Lab:
        lab = Lab.open(small_corpus, config)
        lab.embedder = Broken()
        opened.append(lab)
        return lab

    labs = Labs(open_broken)
    with pytest.raises(EnvironmentMissing, match="model gone"):
        labs.open(PipelineConfig(), lambda _: None, lambda: False)
    assert labs.all == ()
    assert opened[0]._questions._closed


async def test_w_saves_the_embedder_and_the_file_is_what_the_next_start_reads(
    app: ExplorerApp, opener: Opener, answered: Answered, wait_for: WaitFor, small_corpus: Path
) -> None:
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, QUESTION)
        await pilot.press("s", "right")
        await switched(pilot, wait_for, "hash-256")
        await pilot.press("w", "escape")
        assert effective_config(small_corpus).config == PipelineConfig()
        await wait_for(pilot, lambda: not app.explore.query_one("#moved").display)
        assert not app.labs.live
        assert app.labs.changed_files() == ()  # neither lab takes what was just written for news
        first = list(opener.labs)
        await pilot.press("r")
        await wait_for(pilot, lambda: len(opener.labs) == 3)
        await switched(pilot, wait_for, "hash-256")
        await wait_for(pilot, lambda: all(lab._questions._closed for lab in first))
    app.close_lab()
    assert all(lab._questions._closed and lab._background._closed for lab in opener.labs)


async def test_steps_in_quick_succession_open_the_last_choice_only(
    app: ExplorerApp, opener: Opener, answered: Answered, wait_for: WaitFor
) -> None:
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, QUESTION)
        assert app.labs.now is not None
        for dims in (8, 16, 32):
            app._use(replace(app.labs.now.config, embedder=HashEmbedding(dims)))
        await switched(pilot, wait_for, "hash-32")
        assert opener.opened == [64, 32]
        await pilot.press("s")
        assert "hash-32" in panel(app)


@pytest.mark.parametrize(
    ("chunker", "name"),
    [
        (MarkdownChunker(800, 2), "chunks of 800, overlap 2"),
        (WordChunker(100, 20), "chunks of 100 words, overlap 20"),
        (SentenceChunker(), "chunks of 5 sentences, overlap 1"),
        (DocumentChunker(), "whole documents"),
    ],
)
async def test_another_chunker_is_indexed_by_its_name_and_its_settings_stay_steppable(
    app: ExplorerApp, opener: Opener, answered: Answered, wait_for: WaitFor, chunker: ChunkerSettings, name: str
) -> None:
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, QUESTION)
        assert app.labs.now is not None
        config = replace(app.labs.now.config, chunker=chunker)
        assert index_name(config, app.labs.now.config) == name
        opener.gate.clear()
        app._use(config)
        await wait_for(pilot, lambda: name in shown(app, "#switching"))
        opener.gate.set()
        await wait_for(pilot, lambda: app.explore.answer is not None and app.explore.answer.trace.config == config)
        await pilot.press("s")
        assert isinstance(app.screen, SettingsScreen)
        await pilot.press("down", "right")
        await wait_for(pilot, lambda: app.labs.now is not None and app.labs.now.config != config)
        assert app.labs.now.config.chunker == chunker


async def test_a_rescue_that_needs_another_index_is_tried_on_it(
    app: ExplorerApp, answered: Answered, wait_for: WaitFor
) -> None:
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, QUESTION)
        await pilot.press("x")
        await wait_for(pilot, lambda: isinstance(app.screen, ExplainScreen))
        assert app.labs.now is not None
        config = replace(app.labs.now.config, chunker=MarkdownChunker(12), contextual_headers=True)
        rescue = Rescue(
            cost=Cost.INDEX,
            setting="chunker.max_chars",
            step=None,
            changed=(Change("chunker.max_chars", 1200, 12),),
            edit=None,
            before=None,
            after=1,
            chunk_id="bread#000",
            effect=None,
            no_effect=None,
            config=config,
        )
        app.screen.post_message(ExplainScreen.RescueWanted(rescue))
        await wait_for(pilot, lambda: app.explore.answer is not None and app.explore.answer.trace.config == config)
        assert app.screen is app.explore
        assert len(ranked(app, "vector").rows) > 2
        await pilot.press("u")
        await wait_for(pilot, lambda: len(ranked(app, "vector").rows) == 2)


async def test_a_cross_encoder_that_cannot_be_loaded_is_one_clear_line_over_the_lists_of_before(
    app: ExplorerApp, answered: Answered, wait_for: WaitFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise EnvironmentMissing("model x could not be loaded: run once with network access")

    monkeypatch.setattr(CrossEncoderReranker, "rerank", fail)
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, QUESTION)
        before = app.explore.answer
        rows = ranked(app, "final").rows
        await pilot.press("s", *["j"] * 11, "right")
        await wait_for(pilot, lambda: "NOT ANSWERED" in shown(app, "#fate"))
        assert "model x could not be loaded: run once with network access" in shown(app, "#fate")
        assert app.explore.answer is before
        assert ranked(app, "final").rows == rows
        await pilot.press("left")
        await wait_for(pilot, lambda: "NOT ANSWERED" not in shown(app, "#fate"))


def test_what_is_opened_after_the_end_is_closed(small_corpus: Path) -> None:
    labs = Labs(lambda config, *_: Lab.open(small_corpus, config))
    labs.close()
    served = labs.open(None, lambda _: None, lambda: False)
    assert served.lab._questions._closed
    assert labs.all == ()


async def test_an_embedder_can_be_clicked(app: ExplorerApp, answered: Answered, wait_for: WaitFor) -> None:
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, QUESTION)
        await pilot.press("s")
        row = next(place for place, line in enumerate(panel(app).split("\n")) if line.strip() == "hash-256")
        await pilot.click(Static, offset=(4, row))
        await switched(pilot, wait_for, "hash-256")
