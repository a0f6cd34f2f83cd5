"""The whole explorer over a portable index: every key does its work, or says in one line why it cannot."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from textual.pilot import Pilot
from textual.widgets import Static

from retrieval_lab import database
from retrieval_lab.ablation.cell import Cell
from retrieval_lab.ablation.folder import AblationFolder, Manifest, ablation_path
from retrieval_lab.ablation.rule import Rule
from retrieval_lab.cli_pipeline import PipelineChoice
from retrieval_lab.config import PipelineConfig
from retrieval_lab.offline import IndexLab
from retrieval_lab.portable import export_index
from retrieval_lab.server import Server
from retrieval_lab_tui import cli
from retrieval_lab_tui.app import ExplorerApp
from retrieval_lab_tui.screens.ablation import AblationScreen
from retrieval_lab_tui.screens.analysis import AnalysisScreen
from retrieval_lab_tui.screens.cited import CitedScreen
from retrieval_lab_tui.screens.compare import CompareScreen
from retrieval_lab_tui.screens.explain import ExplainScreen
from retrieval_lab_tui.screens.measures import MeasuresScreen
from retrieval_lab_tui.screens.runs import RunsScreen
from retrieval_lab_tui.screens.settings import SettingsScreen
from retrieval_lab_tui.screens.sides import SideChooser
from tests.core.evals.made import ranked as ranked_run
from tests.tui.driving import NARROW, WIDE, Answered, WaitFor, ranked, shown, write

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "corpus"
QUESTION = "how long does the loaf bake"
Open = Callable[..., ExplorerApp]
SnapCompare = Callable[..., bool]


@pytest.fixture(autouse=True)
def _no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: Any, **__: Any) -> Any:
        raise AssertionError("an index needs no server")

    monkeypatch.setattr(database.Database, "open", none)
    monkeypatch.setattr(Server, "start", none)
    monkeypatch.setattr(psycopg, "connect", none)


@pytest.fixture
def open_index(tmp_path: Path) -> Iterator[Open]:
    """Exports a corpus, and opens the explorer on the index as `explore --index` does."""
    opened: list[ExplorerApp] = []

    def explorer(made_of: Path, corpus: Path | None, golden: Path | None = None) -> ExplorerApp:
        folder = tmp_path / "shelf"
        export_index(made_of, PipelineConfig().indexing).index.write(folder)
        opened.append(cli._over_index(PipelineChoice().on_index(folder, corpus, golden)))
        return opened[-1]

    yield explorer
    for app in opened:
        app.close_lab()


def said(app: ExplorerApp) -> str:
    return list(app._notifications)[-1].message if list(app._notifications) else ""


async def test_it_shows_what_the_index_holds_with_the_labels_of_the_corpus(
    small_corpus: Path,
    open_index: Open,
    answered: Answered,
    wait_for: WaitFor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app, edited = open_index(small_corpus, small_corpus), list[str]()
    async with app.run_test(size=WIDE, notifications=True) as pilot:
        await answered(pilot, QUESTION)
        assert "index shelf · no server · 2 docs · 2 chunks" in shown(app, "#header")
        assert app.explore.stages == ("bm25", "flat", "fused", "final")
        assert "FOUND" in shown(app, "#fate")
        assert ranked(app, "final").chunk_id == "bread#000"
        await wait_for(pilot, lambda: app.measuring.unlabelled == 1)
        await pilot.press("n")
        await answered(pilot, "how many carrots")
        assert "NO LABEL" in shown(app, "#fate")
        await pilot.press("p")
        await answered(pilot, QUESTION)
        monkeypatch.setattr(ExplorerApp, "_run", lambda _, editor: edited.append(" ".join(editor.command)))
        monkeypatch.setenv("EDITOR", "nano")
        await pilot.press("o")
        assert str(small_corpus / "docs" / "bread.md") in edited[0]
        await pilot.press("y")
        await wait_for(pilot, lambda: app.clipboard == "bread#000")
        await pilot.press("right_square_bracket")
        await wait_for(pilot, lambda: "no chunk there" in said(app))


async def test_every_screen_opens_over_it(
    small_corpus: Path, open_index: Open, answered: Answered, wait_for: WaitFor
) -> None:
    app = open_index(small_corpus, small_corpus)

    def on(screen: type, selector: str, text: str) -> Callable[[], bool]:
        return lambda: isinstance(app.screen, screen) and text in str(app.screen.query_one(selector, Static).visual)

    async with app.run_test(size=WIDE, notifications=True) as pilot:
        await answered(pilot, QUESTION)
        await wait_for(pilot, lambda: app.measuring.measured is not None)
        await pilot.press("x")
        await wait_for(pilot, on(ExplainScreen, "#title", "not lost"))
        await pilot.press("2")
        await wait_for(pilot, on(ExplainScreen, "#page", "lower case"))
        await pilot.press("3")
        await wait_for(pilot, on(ExplainScreen, "#page", "an index has no PostgreSQL"))
        await pilot.press("escape")
        for key, screen in (("e", MeasuresScreen), ("R", RunsScreen), ("a", AnalysisScreen), ("A", CitedScreen)):
            await pilot.press(key)
            await wait_for(pilot, lambda screen=screen: isinstance(app.screen, screen))  # type: ignore[misc]
            await pilot.press("escape")
            await wait_for(pilot, lambda: app.screen is app.explore)
        await pilot.press("C")
        await wait_for(pilot, lambda: isinstance(app.screen, SideChooser))
        assert isinstance(app.screen, SideChooser)
        assert app.screen.found(["reranker"])
        assert not app.screen.found(["embedder"])  # the index has one
        await pilot.press("enter")
        await wait_for(pilot, lambda: isinstance(app.screen, CompareScreen))


async def test_settings_that_the_index_serves_change_the_lists_and_are_not_saved(
    small_corpus: Path, open_index: Open, answered: Answered, wait_for: WaitFor
) -> None:
    app = open_index(small_corpus, small_corpus)
    async with app.run_test(size=NARROW, notifications=True) as pilot:
        await answered(pilot, QUESTION)
        first = app.explore.answer
        await pilot.press("s", "j", "j", "j", "right")  # bm25.k1
        await wait_for(pilot, lambda: app.explore.answer is not first)
        assert app.explore.answer is not None
        assert app.explore.answer.trace.config.retrievers[0].k1 == 1.3  # type: ignore[attr-defined]
        await pilot.press("w")
        await wait_for(pilot, lambda: "an index has no settings to save" in said(app))
        assert isinstance(app.screen, SettingsScreen)
    assert not (small_corpus / "lab.yaml").exists()


async def test_without_a_corpus_it_answers_questions_of_ones_own(
    small_corpus: Path, open_index: Open, answered: Answered, wait_for: WaitFor
) -> None:
    app = open_index(small_corpus, None)
    async with app.run_test(size=WIDE, notifications=True) as pilot:
        await wait_for(pilot, lambda: "no golden queries" in shown(app, "#fate"))
        await write(pilot, "leeks")
        await answered(pilot, "leeks")
        assert ranked(app, "final").chunk_id == "soup#000"
        for key in ("n", "m", "e", "a", "f"):
            await pilot.press(key)
            await wait_for(pilot, lambda: "An index has no golden queries" in said(app))
        await pilot.press("o")
        await wait_for(pilot, lambda: "an index has no files to open" in said(app))
        await pilot.press("O")
        await wait_for(pilot, lambda: "This pipeline has none" in said(app))


async def test_labels_of_a_file_of_ones_own(
    small_corpus: Path, open_index: Open, tmp_path: Path, answered: Answered
) -> None:
    (small_corpus / "golden.yaml").rename(tmp_path / "mine.yaml")
    app = open_index(small_corpus, None, tmp_path / "mine.yaml")
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, QUESTION)
        assert "FOUND" in shown(app, "#fate")


async def test_a_configuration_of_an_ablation_that_the_index_does_not_serve_is_not_opened(
    small_corpus: Path, open_index: Open, answered: Answered, wait_for: WaitFor
) -> None:
    folder = AblationFolder(ablation_path("grid", small_corpus))
    folder.begin(Manifest(name="grid", corpus="kitchen", keys=("k1",), rule=Rule(measure="mrr@2")))
    folder.keep("k1", Cell(name="in PostgreSQL", run=ranked_run("x", 1, 2), index_seconds=None, memory=0))
    app = open_index(small_corpus, small_corpus)
    async with app.run_test(size=NARROW) as pilot:
        await answered(pilot, QUESTION)
        before = app.labs.now
        await pilot.press("b")
        await wait_for(pilot, lambda: isinstance(app.screen, AblationScreen) and app.screen.rows)
        await pilot.press("enter")
        await wait_for(pilot, lambda: "does not work on an index" in str(app.screen.query_one("#trouble").render()))
        assert isinstance(app.screen, AblationScreen)
        assert app.labs.now == before


async def test_an_index_that_was_exported_again_is_told_and_opened_again(
    small_corpus: Path, open_index: Open, tmp_path: Path, answered: Answered, wait_for: WaitFor
) -> None:
    app = open_index(small_corpus, small_corpus)
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, QUESTION)
        (small_corpus / "docs" / "tea.md").write_text("# Tea\n\nSteep it.\n", encoding="utf-8")
        export_index(small_corpus, PipelineConfig().indexing).index.write(tmp_path / "shelf")
        app.look_at_files()
        await wait_for(pilot, lambda: "files changed" in shown(app, "#header"))
        await pilot.press("r")
        await wait_for(pilot, lambda: "3 docs" in shown(app, "#header"))
        lab = app._lab
        assert isinstance(lab, IndexLab)
        assert set(lab.chunks(["tea#000"])) == {"tea#000"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--index", "no-such"], "no such folder; an index is a folder with"),
        (["--index", "INDEX", "--dsn", "x"], "leave out --dsn"),
        (["--index", "INDEX", "--set", "retrievers.text.n=5"], "does not work on an index"),
        (["--index", "INDEX", "--golden", "no.yaml"], "not there"),
        (["--golden", "no.yaml"], "--golden goes with --index"),
        (["--index", "INDEX", "--bundle", "b.json"], "give --bundle alone"),
    ],
)
def test_what_is_wrong_is_told_before_the_screen_opens(
    arguments: list[str],
    message: str,
    small_corpus: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(cli, "_require_terminal", lambda: None)
    monkeypatch.chdir(tmp_path)
    export_index(small_corpus, PipelineConfig().indexing).index.write(tmp_path / "INDEX")
    assert cli.main(["explore", *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("size", [(80, 24), (160, 45)], ids=["80x24", "160x45"])
def test_over_an_index(open_index: Open, snap_compare: SnapCompare, size: tuple[int, int]) -> None:
    """The first miss over an index: its name and `no server` above, lists of BM25 and vectors, red where it is lost."""
    app = open_index(FIXTURES, FIXTURES)

    async def to_a_miss(pilot: Pilot[Any]) -> None:
        await until(pilot, lambda: app.measuring.misses is not None)
        before = app.explore.answer
        await pilot.press("m")
        await until(pilot, lambda: app.explore.answer is not before)

    assert snap_compare(app, terminal_size=size, run_before=to_a_miss)


async def until(pilot: Pilot[Any], condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        await pilot.pause(0.02)
    await pilot.pause()
