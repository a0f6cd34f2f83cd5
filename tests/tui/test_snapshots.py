"""What the screens look like. Each docstring says what a person should see; the state behind it is tested elsewhere.

Accept a deliberate change with `make snapshots`, after looking at the pictures.
"""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Static

from retrieval_lab import configurations, metrics
from retrieval_lab.ablation import folder as ablation_folder
from retrieval_lab.ablation.cell import Cell, Failure
from retrieval_lab.ablation.folder import Manifest
from retrieval_lab.ablation.rule import Rule
from retrieval_lab.answering import Claude
from retrieval_lab.config import PipelineConfig
from retrieval_lab.errors import EnvironmentMissing
from retrieval_lab.evals import kept, runs
from retrieval_lab.index import Progress
from retrieval_lab.lab import Lab
from retrieval_lab.retrievers.base import Retriever
from retrieval_lab.retrievers.text import TextSearch
from retrieval_lab.retrievers.vector import VectorRetriever, VectorSearch
from retrieval_lab.settings import HashEmbedding, NoReranker
from retrieval_lab.trace import Trace
from retrieval_lab_tui import cited
from retrieval_lab_tui.app import ExplorerApp
from retrieval_lab_tui.screens.ablation import AblationScreen
from retrieval_lab_tui.screens.compare import CompareScreen
from retrieval_lab_tui.screens.confirm import Confirm
from retrieval_lab_tui.screens.runs import RunsScreen
from retrieval_lab_tui.screens.sides import SideChooser
from retrieval_lab_tui.screens.versus import VersusScreen
from retrieval_lab_tui.widgets.opening import Opening
from tests.tui.fakes import FixedClock, gated, never_open, streamed

SIZES = pytest.mark.parametrize(
    "size", [(80, 24), (120, 40), (160, 45), (240, 70)], ids=["80x24", "120x40", "160x45", "240x70"]
)
TWO_SIZES = pytest.mark.parametrize("size", [(80, 24), (160, 45)], ids=["80x24", "160x45"])
SnapCompare = Callable[..., bool]


@pytest.fixture
def app() -> Iterator[ExplorerApp]:
    explorer = ExplorerApp()
    yield explorer
    explorer.close_lab()


@pytest.fixture(autouse=True)
def _steady_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    """An HNSW graph differs from build to build, and so may the rank that a passage has through it."""
    monkeypatch.setattr(VectorRetriever, "through_index", VectorRetriever.search)


def keys(*pressed: str, golden: int = 0) -> Callable[[Pilot[Any]], Any]:
    """Waits for the first answer, steps to a golden query, then presses the keys."""

    async def run(pilot: Pilot[Any]) -> None:
        app = pilot.app
        assert isinstance(app, ExplorerApp)
        await until(pilot, lambda: app.explore.answer is not None and app.measuring.misses is not None)
        for _ in range(golden):
            before = app.explore.answer
            await pilot.press("n")
            await until(pilot, lambda before=before: app.explore.answer is not before)
        await pilot.press(*pressed)
        await pilot.pause()

    return run


async def until(pilot: Pilot[Any], condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        await pilot.pause(0.02)
    await pilot.pause()


@SIZES
def test_found(app: ExplorerApp, snap_compare: SnapCompare, size: tuple[int, int]) -> None:
    """The first golden query: FOUND in green, its chunk marked in every list, the anchor reversed in the passage."""
    assert snap_compare(app, terminal_size=size, run_before=keys())


@SIZES
def test_missed(app: ExplorerApp, snap_compare: SnapCompare, size: tuple[int, int]) -> None:
    """A miss: MISS in red, ranks up to the reranker, no mark in the final list; the cursor is on the vector list."""
    assert snap_compare(app, terminal_size=size, run_before=keys("1", golden=7))


@SIZES
def test_missed_in_the_light(app: ExplorerApp, snap_compare: SnapCompare, size: tuple[int, int]) -> None:
    """The same on a light ground: every word legible, MISS and the marks as visible as in the dark."""

    async def light(pilot: Pilot[Any]) -> None:
        await keys("1", "d", golden=7)(pilot)

    assert snap_compare(app, terminal_size=size, run_before=light)


@SIZES
def test_missed_without_colour(
    snap_compare: SnapCompare, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same in greys: the focused list has a heavier frame, the anchor is reversed, terms are underlined."""
    monkeypatch.setenv("NO_COLOR", "1")
    app = ExplorerApp()
    assert snap_compare(app, terminal_size=size, run_before=keys("1", golden=7))
    app.close_lab()


@TWO_SIZES
def test_picker(app: ExplorerApp, snap_compare: SnapCompare, size: tuple[int, int]) -> None:
    """Eleven conceptual misses, each with a red cross and its rank in the pool, under an empty line to type in."""
    assert snap_compare(app, terminal_size=size, run_before=keys("f", "f3", "f2"))


@TWO_SIZES
def test_measures(
    app: ExplorerApp, snap_compare: SnapCompare, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All queries and the three kinds side by side where they fit: numbers, bars of their intervals, the ends."""
    monkeypatch.setattr(metrics, "perf_counter", lambda: 0.0)
    assert snap_compare(app, terminal_size=size, run_before=keys("e", "down", "right"))


@TWO_SIZES
def test_settings(app: ExplorerApp, snap_compare: SnapCompare, size: tuple[int, int]) -> None:
    """The settings at the lower right, the reranker under the cursor is none and was lexical; the miss is found."""
    assert snap_compare(app, terminal_size=size, run_before=settings)


async def settings(pilot: Pilot[Any]) -> None:
    await keys("s", *["j"] * 11, "left", golden=7)(pilot)
    app = pilot.app
    assert isinstance(app, ExplorerApp)
    await until(
        pilot,
        lambda: (
            app.explore.answer is not None
            and app.explore.answer.before is not None
            and app.measuring.misses is not None
        ),
    )


@TWO_SIZES
def test_why(app: ExplorerApp, snap_compare: SnapCompare, size: tuple[int, int]) -> None:
    """The stage that lost the passage in red above; its way stage by stage, BM25 term by term, what stands above it."""
    assert snap_compare(app, terminal_size=size, run_before=keys("x", golden=7))


@TWO_SIZES
def test_answer(app: ExplorerApp, snap_compare: SnapCompare, size: tuple[int, int]) -> None:
    """Who answered on which support; the sentence with its link; the sources with their bars, the cited one below."""
    assert snap_compare(app, terminal_size=size, run_before=answer(golden=3))


@TWO_SIZES
def test_refused(app: ExplorerApp, snap_compare: SnapCompare, size: tuple[int, int]) -> None:
    """REFUSED on a yellow ground, nobody was asked, and every source's bar ends before the floor."""

    async def run(pilot: Pilot[Any]) -> None:
        question = "How do I grow basil on a balcony?"
        await keys("slash", *("space" if char == " " else char for char in question), "enter")(pilot)
        await until(pilot, lambda: app.explore.answer is not None and app.explore.answer.question.query == question)
        await answer()(pilot)

    assert snap_compare(app, terminal_size=size, run_before=run)


@TWO_SIZES
def test_answering(
    app: ExplorerApp, snap_compare: SnapCompare, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half an answer of Claude's under a spinner with its seconds, and how to stop it."""
    clock, gate = FixedClock(), threading.Event()
    app.explore.clock = clock
    monkeypatch.setattr(cited, "usual_answerer", lambda: Claude(query_fn=streamed(HALF, gate)))

    async def run(pilot: Pilot[Any]) -> None:
        await keys("A", golden=3)(pilot)
        await until(pilot, lambda: "nine days" in str(app.screen.query_one("#text", Static).visual))
        clock.now += 2.4
        await until(pilot, lambda: "2.4 s" in str(app.screen.query_one("#state", Static).visual))

    assert snap_compare(app, terminal_size=size, run_before=run)
    gate.set()


@TWO_SIZES
def test_answer_with_doubts(
    app: ExplorerApp, snap_compare: SnapCompare, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a light ground: one sentence of three begins with a mark, and the number without a source is named."""
    monkeypatch.setattr(cited, "usual_answerer", lambda: Claude(query_fn=streamed(WHOLE)))

    async def run(pilot: Pilot[Any]) -> None:
        await answer("d", golden=3)(pilot)

    assert snap_compare(app, terminal_size=size, run_before=run)


HALF = "Rerunning the pipeline from the scans takes Dunmorrow nine days [3]. Disk is cheap "
WHOLE = "Rerunning from the scans takes nine days [3]. Disk is cheap beside OCR. See also the others [1][2][9]."


def answer(*before: str, golden: int = 0) -> Callable[[Pilot[Any]], Any]:
    """Steps to a golden query, presses the keys, and has it answered."""

    async def run(pilot: Pilot[Any]) -> None:
        await keys(*before, "A", golden=golden)(pilot)
        state = pilot.app.screen.query_one("#state", Static)
        await until(pilot, lambda: "cited" in str(state.visual) or "nobody" in str(state.visual))

    return run


@TWO_SIZES
def test_analysis(app: ExplorerApp, snap_compare: SnapCompare, size: tuple[int, int]) -> None:
    """All misses with the stage that lost each, the kinds with their keys, the passage and the final list below."""

    async def run(pilot: Pilot[Any]) -> None:
        await keys("a")(pilot)
        await until(pilot, lambda: "The final" in str(app.screen.query_one("#final", Static).visual))

    assert snap_compare(app, terminal_size=size, run_before=run)


@TWO_SIZES
def test_help(app: ExplorerApp, snap_compare: SnapCompare, size: tuple[int, int]) -> None:
    """All keys with what they do, and what the marks mean, over the lists."""
    assert snap_compare(app, terminal_size=size, run_before=keys("question_mark"))


@TWO_SIZES
def test_indexing(snap_compare: SnapCompare, size: tuple[int, int]) -> None:
    """A progress bar over half its length in the middle, the document's name above it."""
    app = ExplorerApp(open_lab=never_open(Progress(20, 32, "hybrid-search")))

    async def run(pilot: Pilot[Any]) -> None:
        await until(pilot, lambda: "20 of 32" in str(app.explore.query_one(Opening).query_one("Static").visual))

    assert snap_compare(app, terminal_size=size, run_before=run)
    app.close_lab()


@TWO_SIZES
def test_failed(snap_compare: SnapCompare, size: tuple[int, int]) -> None:
    """Why the corpus could not be opened, and the keys that help, in the middle of the screen."""

    def open_failing(*_: Any, **__: Any) -> Lab:
        raise EnvironmentMissing("no connection to the database: start that server or correct the DSN [/]")

    app = ExplorerApp(open_lab=open_failing)

    async def run(pilot: Pilot[Any]) -> None:
        await until(pilot, lambda: app.explore.query_one(Opening).has_class("failed"))

    assert snap_compare(app, terminal_size=size, run_before=run)


@TWO_SIZES
def test_not_answered(snap_compare: SnapCompare, size: tuple[int, int]) -> None:
    """The last answer dimmed under NOT ANSWERED, which says in which stage the server went and which key asks again."""

    class FailingLab(Lab):
        def trace(self, query: Any, *args: Any, **kwargs: Any) -> Trace:
            if isinstance(query, str):
                raise EnvironmentMissing("the server is gone in the text stage (terminated); ask again to reconnect")
            return super().trace(query, *args, **kwargs)

    app = ExplorerApp(open_lab=FailingLab.open)

    async def run(pilot: Pilot[Any]) -> None:
        await keys("slash", *"leeks", "enter")(pilot)
        await until(pilot, lambda: app.explore.query_one("#results").has_class("stale"))

    assert snap_compare(app, terminal_size=size, run_before=run)
    app.close_lab()


@TWO_SIZES
def test_asking(snap_compare: SnapCompare, size: tuple[int, int]) -> None:
    """The answer before stands; at the upper right the seconds that the question takes, and how to stop it."""
    clock, gates = FixedClock(), {}
    app = ExplorerApp(open_lab=gated(gates, closed={"slow leeks"}), clock=clock)

    async def run(pilot: Pilot[Any]) -> None:
        await keys("slash", *("space" if char == " " else char for char in "slow leeks"), "enter")(pilot)
        await until(pilot, lambda: "slow leeks" in gates)
        clock.now += 3.2
        await until(pilot, lambda: "3.2 s" in str(app.explore.query_one("#header", Static).visual))

    assert snap_compare(app, terminal_size=size, run_before=run)
    gates["slow leeks"].set()
    app.close_lab()


@TWO_SIZES
def test_leaving_while_indexing(snap_compare: SnapCompare, size: tuple[int, int]) -> None:
    """A question over the progress bar: what is done, that it stays, yes and no."""
    app = ExplorerApp(open_lab=never_open(Progress(20, 32, "hybrid-search")))

    async def run(pilot: Pilot[Any]) -> None:
        await until(pilot, lambda: "20 of 32" in str(app.explore.query_one(Opening).query_one("Static").visual))
        await pilot.press("q")
        await until(pilot, lambda: isinstance(app.screen, Confirm))

    assert snap_compare(app, terminal_size=size, run_before=run)
    app.close_lab()


@TWO_SIZES
def test_switching(snap_compare: SnapCompare, size: tuple[int, int]) -> None:
    """The settings with hash-64 under the cursor; above the dimmed lists a bar over half its length, and the count."""

    def open_slowly(corpus: Any, config: Any, *args: Any, progress: Any, cancelled: Any) -> Lab:
        if config is not None and config.embedder != HashEmbedding():
            return never_open(Progress(20, 32, "hybrid-search"))(progress=progress, cancelled=cancelled)
        return Lab.open(corpus, config, *args, progress=progress, cancelled=cancelled)

    app = ExplorerApp(open_lab=open_slowly)

    async def run(pilot: Pilot[Any]) -> None:
        await keys("s", "right")(pilot)
        await until(pilot, lambda: "20 of 32" in str(app.explore.query_one("#switching", Static).visual))

    assert snap_compare(app, terminal_size=size, run_before=run)
    app.close_lab()


async def compare(pilot: Pilot[Any], *first: str) -> None:
    await keys(*first, golden=7)(pilot)
    await pilot.press("C")
    await until(pilot, lambda: isinstance(pilot.app.screen, SideChooser))
    await pilot.press(*"none", "enter")
    await until(pilot, lambda: isinstance(pilot.app.screen, CompareScreen))
    await until(pilot, lambda: "in both" in str(pilot.app.screen.query_one("#title", Static).visual))
    await pilot.press("j")
    await pilot.pause()


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (160, 45)], ids=["80x24", "120x40", "160x45"])
def test_compare(app: ExplorerApp, snap_compare: SnapCompare, size: tuple[int, int]) -> None:
    """Two final lists, beside each other where there is room: what differs in their titles, how each passage moved."""
    assert snap_compare(app, terminal_size=size, run_before=compare)


@TWO_SIZES
def test_compare_in_the_light(app: ExplorerApp, snap_compare: SnapCompare, size: tuple[int, int]) -> None:
    """The same on a light ground."""

    async def light(pilot: Pilot[Any]) -> None:
        await compare(pilot, "d")

    assert snap_compare(app, terminal_size=size, run_before=light)


@TWO_SIZES
def test_choosing_the_other_side(app: ExplorerApp, snap_compare: SnapCompare, size: tuple[int, int]) -> None:
    """What can be compared with, and what to know of each before it is chosen."""
    assert snap_compare(app, terminal_size=size, run_before=keys("C"))


class Noon(datetime):
    """A clock that stands at noon."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
        return datetime(2026, 11, 30, 12, tzinfo=tz)


@pytest.fixture
def kept_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of four other pipelines, kept an hour after each other, and a file that is none."""
    monkeypatch.setattr(kept, "corpus_home", lambda _: tmp_path)
    monkeypatch.setattr(runs, "datetime", Noon)
    monkeypatch.setattr(metrics, "perf_counter", lambda: 0.0)
    configs = {
        "no-reranker": PipelineConfig(reranker=NoReranker(), mmr_lambda=None),
        "without-mmr": PipelineConfig(mmr_lambda=None),
        "text-only": PipelineConfig(retrievers=(TextSearch(),)),
        "five": PipelineConfig(top_k=5),
    }
    with Lab.open() as lab:
        for hour, (name, config) in enumerate(configs.items(), start=8):
            made = replace(runs.run(lab, config), name=name, created=f"2026-11-30T{hour:02}:00:00+00:00")
            made.save(kept.resolve_run(name, lab.corpus))
    (tmp_path / "runs" / "half.json").write_text('{"format": 1, "na', encoding="utf-8")


async def list_runs(pilot: Pilot[Any], *first: str) -> None:
    await keys(*first)(pilot)
    await pilot.press("R")
    await until(pilot, lambda: isinstance(pilot.app.screen, RunsScreen) and pilot.app.screen.baseline is not None)


async def set_against(pilot: Pilot[Any], *first: str) -> None:
    await list_runs(pilot, *first)
    screen = pilot.app.screen
    assert isinstance(screen, RunsScreen)
    while screen.run is None or screen.run.name != "no-reranker":
        await pilot.press("j")
    await pilot.press("space", "g", "enter")
    await until(pilot, lambda: isinstance(pilot.app.screen, VersusScreen))


@TWO_SIZES
@pytest.mark.usefixtures("kept_runs")
def test_runs(app: ExplorerApp, snap_compare: SnapCompare, size: tuple[int, int]) -> None:
    """The run of the moment, then the kept ones by nDCG, intervals under one axis; one cannot be compared, one read."""
    assert snap_compare(app, terminal_size=size, run_before=list_runs)


@TWO_SIZES
@pytest.mark.usefixtures("kept_runs")
def test_versus(app: ExplorerApp, snap_compare: SnapCompare, size: tuple[int, int]) -> None:
    """What differs above; each difference as a bar around 0; the queries that changed most below, three starred."""
    assert snap_compare(app, terminal_size=size, run_before=set_against)


@TWO_SIZES
@pytest.mark.usefixtures("kept_runs")
def test_versus_in_the_light(app: ExplorerApp, snap_compare: SnapCompare, size: tuple[int, int]) -> None:
    """The same on a light ground."""

    async def light(pilot: Pilot[Any]) -> None:
        await set_against(pilot, "d")

    assert snap_compare(app, terminal_size=size, run_before=light)


@pytest.fixture
def kept_ablation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight configurations in made-up times, of which one failed and one is not done, with a report's decision."""
    monkeypatch.setattr(ablation_folder, "corpus_home", lambda _: tmp_path)
    lists: dict[str, tuple[Retriever, ...]] = {
        "text": (TextSearch(),),
        "vector": (VectorSearch(),),
        "vector+text": (VectorSearch(), TextSearch()),
    }
    with Lab.open() as lab:
        folder = ablation_folder.AblationFolder(ablation_folder.ablation_path("first [grid]", lab.corpus))
        cells = {}
        for place, (name, retrievers) in enumerate(lists.items()):
            plain = PipelineConfig(retrievers=retrievers, reranker=NoReranker(), mmr_lambda=None)
            cells[f"{name} · no reranker · no MMR"] = (plain, 4.0 + 3 * place)
            cells[f"{name} · lexical · MMR 0.7"] = (PipelineConfig(retrievers=retrievers), 15.0 + 9 * place)
        folder.begin(Manifest(name="first [grid]", corpus="corpus", keys=(*cells, "failed", "pending"), rule=Rule()))
        for name, (config, ms) in cells.items():
            made = runs.run(lab, config)
            timed = replace(made, queries=tuple(replace(record, seconds=ms / 1e3) for record in made.queries))
            folder.keep(name, Cell(name=name, run=timed, index_seconds=2.5, memory=0))
        error = "sentence [model] is not on this machine: retrieval-lab doctor says how to get it"
        folder.keep("failed", Failure("minilm · lexical · MMR 0.7", PipelineConfig(top_k=9), error))
    chosen = "vector+text · no reranker · no MMR"
    (folder.path / "metrics.json").write_text(json.dumps({"format": 1, "decision": {"chosen": chosen}}))


async def list_configurations(pilot: Pilot[Any], *then: str) -> None:
    await keys("b")(pilot)
    await until(pilot, lambda: isinstance(pilot.app.screen, AblationScreen) and len(pilot.app.screen.rows) == 7)
    await pilot.press("j", *then)
    await pilot.pause()


@TWO_SIZES
@pytest.mark.usefixtures("kept_ablation")
def test_ablation(app: ExplorerApp, snap_compare: SnapCompare, size: tuple[int, int]) -> None:
    """Six configurations by nDCG with bars, one starred, one failed; wide, the plot beside them with the cursor's."""
    assert snap_compare(app, terminal_size=size, run_before=list_configurations)


@TWO_SIZES
@pytest.mark.usefixtures("kept_ablation")
def test_ablation_turned(app: ExplorerApp, snap_compare: SnapCompare, size: tuple[int, int]) -> None:
    """What is held out, by another measure, the fastest first; narrow, the plot in place of the table."""

    async def turned(pilot: Pilot[Any]) -> None:
        await list_configurations(pilot, "s", "s", "l", "o", "o", "v")

    assert snap_compare(app, terminal_size=size, run_before=turned)


EIGHT = PipelineConfig(
    retrievers=(
        VectorSearch(name="vector"),
        TextSearch(name="text"),
        VectorSearch(name="near", n=100),
        TextSearch(name="plain", operators=False),
        TextSearch(name="a-list-whose-name-has-40-characters-rest", n=20),
        VectorSearch(name="deep", n=200),
        TextSearch(name="half", weight=0.5),
        VectorSearch(name="shown-only", weight=0),
    )
)


@pytest.mark.parametrize("size", [(80, 24), (160, 45), (200, 60)], ids=["80x24", "160x45", "200x60"])
def test_eight_lists(snap_compare: SnapCompare, size: tuple[int, int]) -> None:
    """Four of ten lists, or tabs, with how many follow at both ends; the passage's rank in each list, or a count."""
    app = ExplorerApp(config=EIGHT)
    assert snap_compare(app, terminal_size=size, run_before=keys("1", *["right"] * 4, golden=7))
    app.close_lab()


@TWO_SIZES
def test_why_of_eight_lists(snap_compare: SnapCompare, size: tuple[int, int]) -> None:
    """Each list on lines of its own, a long name above its line; of what stands above, in how many lists it is."""
    app = ExplorerApp(config=EIGHT)
    assert snap_compare(app, terminal_size=size, run_before=keys("x", golden=7))
    app.close_lab()


@TWO_SIZES
def test_configurations(
    app: ExplorerApp, snap_compare: SnapCompare, size: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names with descriptions, the one of the moment under the cursor; a faulty file with a red cross and its fault."""
    shipped = configurations.bundled_configs()
    folder = tmp_path / "shipped"
    shutil.copytree(shipped, folder)
    (folder / "broken.yaml").write_text("# Never shown\ntop_k: many\n", encoding="utf-8")
    monkeypatch.setattr(configurations, "bundled_configs", lambda: folder)
    assert snap_compare(app, terminal_size=size, run_before=keys("c"))


@TWO_SIZES
def test_another_configuration(app: ExplorerApp, snap_compare: SnapCompare, size: tuple[int, int]) -> None:
    """Full text alone: its name above, three lists or tabs, what moved against the file's settings."""

    async def run(pilot: Pilot[Any]) -> None:
        await keys("2", "c", *"full", "enter", golden=7)(pilot)
        await until(
            pilot, lambda: app.explore.stages == ("text", "fused", "final") and app.measuring.misses is not None
        )

    assert snap_compare(app, terminal_size=size, run_before=run)
