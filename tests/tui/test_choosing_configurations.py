"""Switching to a pipeline by its name: at once, over another index, back; what the screen calls it; faulty files."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import OptionList, Static

from retrieval_lab.cli_pipeline import PipelineChoice
from retrieval_lab.config import PipelineConfig
from retrieval_lab.lab import Lab
from retrieval_lab.retrievers.text import TextSearch
from retrieval_lab.settings import HashEmbedding, NoReranker
from retrieval_lab_tui import cli
from retrieval_lab_tui.app import ExplorerApp
from retrieval_lab_tui.screens.compare import CompareScreen
from retrieval_lab_tui.screens.configurations import ConfigurationChooser
from retrieval_lab_tui.screens.sides import SideChooser
from tests.tui.driving import NARROW, WIDE, Answered, WaitFor, ranked, shown

QUESTION = "how long does the loaf bake"
FULL_TEXT = PipelineConfig(retrievers=(TextSearch(name="text"),), reranker=NoReranker(), mmr_lambda=None)


@pytest.fixture
def gate() -> threading.Event:
    """Open: an index of other vectors is made without waiting."""
    made = threading.Event()
    made.set()
    return made


@pytest.fixture
def app(small_corpus: Path, gate: threading.Event) -> Iterator[ExplorerApp]:
    """The explorer on a corpus with configurations of its own: one over another index, and one with two faults."""
    configs = small_corpus / "configs"
    configs.mkdir()
    (configs / "small.yaml").write_text("# Short vectors\nembedder: {kind: hash, dims: 16}\n", encoding="utf-8")
    (configs / "bad.yaml").write_text("# Bad\ntop_k: many\nrerank: none\n", encoding="utf-8")

    def open_lab(*args: Any, **kwargs: Any) -> Lab:
        if args[1] is not None and args[1].embedder != HashEmbedding():
            gate.wait(10)
        return Lab.open(*args, **kwargs)

    explorer = ExplorerApp(small_corpus, open_lab=open_lab)
    yield explorer
    explorer.close_lab()


async def choose(pilot: Pilot[None], wait_for: WaitFor, *typed: str) -> ExplorerApp:
    """Open the list of configurations and take the first that the words find."""
    app = pilot.app
    assert isinstance(app, ExplorerApp)
    await pilot.press("c")
    await wait_for(pilot, lambda: isinstance(app.screen, ConfigurationChooser))
    await pilot.press(*typed, "enter")
    return app


async def shows(pilot: Pilot[None], wait_for: WaitFor, name: str | None, *stages: str) -> None:
    """Waits for the answer of the pipeline of the moment, with these lists, under its name."""
    app = pilot.app
    assert isinstance(app, ExplorerApp)

    def is_there() -> bool:
        answer, now = app.explore.answer, app.labs.now
        return answer is not None and now is not None and answer.trace.config == now.config and app.labs.name == name

    await wait_for(pilot, is_there)
    assert app.explore.stages == (*stages, "fused", "final")
    header = shown(app, "#header")
    assert header.startswith(f" retrieval lab   {name} " if name else " retrieval lab  "), header
    if name is None:
        assert not re.match(r" retrieval lab +(full-text|vector|small|default) ", header)


def listed(app: ExplorerApp) -> list[str]:
    options = app.screen.query_one(OptionList)
    return [str(options.get_option_at_index(place).prompt) for place in range(options.option_count)]


async def test_the_question_on_the_screen_is_asked_with_it_at_once_and_with_the_next(
    app: ExplorerApp, small_corpus: Path, answered: Answered, wait_for: WaitFor
) -> None:
    with Lab.open(small_corpus, FULL_TEXT) as lab:
        expected = [(hit.chunk_id, hit.rank) for hit in lab.trace(lab.golden[0]).final]
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, QUESTION)
        await shows(pilot, wait_for, None, "vector", "text")
        await choose(pilot, wait_for, *"full")
        await shows(pilot, wait_for, "full-text", "text")
        assert app.screen is app.explore
        assert [(row.chunk_id, row.rank) for row in ranked(app, "final").rows] == expected
        assert app.explore.answer is not None
        assert app.explore.answer.question.query == QUESTION
        assert " full-text " in shown(app, "#moved")
        await pilot.press("c")
        await wait_for(pilot, lambda: isinstance(app.screen, ConfigurationChooser))
        options = app.screen.query_one(OptionList)
        assert options.highlighted is not None
        assert str(options.get_option_at_index(options.highlighted).prompt).startswith("▸ full-text")
        await pilot.press("down", "down", "enter")  # beyond small
        await shows(pilot, wait_for, "vector", "vector")
        await pilot.press("n")
        await answered(pilot, "how many carrots")
        await shows(pilot, wait_for, "vector", "vector")


async def test_the_name_goes_with_the_first_change_and_comes_back_with_the_settings(
    app: ExplorerApp, answered: Answered, wait_for: WaitFor
) -> None:
    async with app.run_test(size=NARROW) as pilot:
        await answered(pilot, QUESTION)
        await choose(pilot, wait_for, *"full")
        await shows(pilot, wait_for, "full-text", "text")
        await pilot.press("O")
        await shows(pilot, wait_for, None, "text")
        assert " other settings " in shown(app, "#moved")
        await pilot.press("O")
        await shows(pilot, wait_for, "full-text", "text")
        await pilot.press("u")
        await shows(pilot, wait_for, None, "vector", "text")
        await pilot.press("C")
        await wait_for(pilot, lambda: isinstance(app.screen, SideChooser))
        assert any(line.startswith("configuration vector ") for line in listed(app))
        await pilot.press(*"configuration full", "enter")
        await wait_for(pilot, lambda: isinstance(app.screen, CompareScreen))
        assert isinstance(app.screen, CompareScreen)
        assert app.screen.other == FULL_TEXT
        await wait_for(pilot, lambda: "in both" in str(app.screen.query_one("#title", Static).visual))


async def test_the_cursor_stays_on_its_chunk_where_the_new_list_has_it(
    app: ExplorerApp, answered: Answered, wait_for: WaitFor
) -> None:
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, QUESTION)
        await pilot.press("1", "G")
        assert ranked(app, "vector").chunk_id == "soup#000"
        await choose(pilot, wait_for, *"vector")
        await shows(pilot, wait_for, "vector", "vector")
        assert ranked(app, "vector").chunk_id == "soup#000"
        assert app.focused is ranked(app, "vector")
        assert app.explore.chunk is not None
        assert app.explore.chunk.chunk_id == "soup#000"
        await choose(pilot, wait_for, *"default")
        await shows(pilot, wait_for, "default", "vector", "text")
        assert ranked(app, "vector").chunk_id == "soup#000"
        # Full text does not find it, and has no list of the vectors: the cursor is on what it wants.
        await choose(pilot, wait_for, *"full")
        await shows(pilot, wait_for, "full-text", "text")
        assert app.focused is ranked(app, "final")
        assert ranked(app, "final").chunk_id == "bread#000"
        await pilot.press("n")  # with another question it goes to the wanted row again
        await answered(pilot, "how many carrots")
        assert ranked(app, "final").cursor == 0


async def test_one_over_another_index_is_made_in_the_background_under_its_name(
    app: ExplorerApp, gate: threading.Event, answered: Answered, wait_for: WaitFor
) -> None:
    gate.clear()
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, QUESTION)
        await choose(pilot, wait_for, *"full")
        await shows(pilot, wait_for, "full-text", "text")
        await choose(pilot, wait_for, *"small")
        await wait_for(pilot, lambda: app.explore.query_one("#switching").display)
        assert shown(app, "#switching").startswith(" small  opening the index…")
        assert app.explore.query_one("#results").has_class("stale")
        await shows(pilot, wait_for, "full-text", "text")  # it is that until the other is ready
        await pilot.press("escape")
        assert not app.explore.query_one("#switching").display
        await shows(pilot, wait_for, "full-text", "text")
        gate.set()
        await choose(pilot, wait_for, *"short vectors")
        await shows(pilot, wait_for, "small", "vector", "text")
        assert "hash-16 │" in shown(app, "#header")
        await pilot.press("r")
        await wait_for(
            pilot, lambda: app.labs.name is None and app.explore.stages == ("vector", "text", "fused", "final")
        )


async def test_a_faulty_file_is_listed_with_its_first_fault_and_cannot_be_chosen(
    app: ExplorerApp, answered: Answered, wait_for: WaitFor
) -> None:
    async with app.run_test(size=WIDE, notifications=True) as pilot:
        await answered(pilot, QUESTION)
        before = app.explore.answer
        await pilot.press("c")
        await wait_for(pilot, lambda: isinstance(app.screen, ConfigurationChooser))
        names = [line[2:].split()[0] for line in listed(app)]
        assert names == ["bad", "default", "full-text", "small", "vector"]
        assert listed(app)[0].startswith("✗ bad       bad.yaml:3: rerank: unknown key")
        assert listed(app)[3].split("  ")[-1].strip() == "Short vectors"
        await pilot.press(*"bad", "enter", "enter")
        assert isinstance(app.screen, ConfigurationChooser)
        assert any("bad.yaml:2: top_k: expected a whole number" in one.message for one in app._notifications)
        await pilot.click(OptionList, offset=(3, 0))
        assert isinstance(app.screen, ConfigurationChooser)
        await pilot.press("escape")
        assert app.screen is app.explore
        assert app.explore.answer is before


async def test_names_and_descriptions_are_text(small_corpus: Path, answered: Answered, wait_for: WaitFor) -> None:
    (small_corpus / "configs").mkdir()
    name = "[@click=app.quit]x[b]\x1b]52;c;eA==\x07"
    (small_corpus / "configs" / f"{name}.yaml").write_text("# [/] \x1b[31mred\ntop_k: 3\n", encoding="utf-8")
    (small_corpus / "configs" / f"{name}bad.yaml").write_text("top_k: '[/]'\n", encoding="utf-8")
    app = ExplorerApp(small_corpus)
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, QUESTION)
        await choose(pilot, wait_for, *"click", "down")
        await wait_for(pilot, lambda: isinstance(app.screen, ConfigurationChooser) or app.labs.name == name)
        assert isinstance(app.screen, ConfigurationChooser) or "[@click=app.quit]x[b]" in shown(app, "#header")
        await pilot.press("escape")
        drawn = app.export_screenshot()
        assert "\x1b" not in drawn
        assert app.is_running
    app.close_lab()


async def test_a_missing_folder_of_shipped_ones_is_said(
    app: ExplorerApp, answered: Answered, monkeypatch: pytest.MonkeyPatch
) -> None:
    from retrieval_lab import configurations, paths

    told: list[str] = []
    monkeypatch.setattr(app, "say", lambda _, text, **__: told.append(text))
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, QUESTION)
        monkeypatch.setattr(configurations, "bundled_configs", lambda: paths._bundled("nowhere", "x", "they are", "go"))
        await pilot.press("c")
        assert app.screen is app.explore
        assert "install retrieval-lab again" in told[0]
        await pilot.press("C")
        assert isinstance(app.screen, SideChooser)


@pytest.mark.parametrize(("overrides", "name"), [((), "full-text"), (("top_k=3",), None)])
async def test_the_command_line_takes_a_name_which_the_screen_shows(
    small_corpus: Path, answered: Answered, wait_for: WaitFor, overrides: tuple[str, ...], name: str | None
) -> None:
    choice = PipelineChoice(Path("full-text"), overrides=overrides)
    app = cli._explorer(small_corpus, choice, None)
    async with app.run_test(size=NARROW) as pilot:
        await answered(pilot, QUESTION)
        await shows(pilot, wait_for, name, "text")
        await pilot.press("r")
        await pilot.pause()
        await answered(pilot, QUESTION)
        await shows(pilot, wait_for, name, "text")
    app.close_lab()
