"""The real app on the real server, and a condition to wait for instead of a clock."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from retrieval_lab import configurations, metrics, pipeline
from retrieval_lab.claude_login import KEY_VARIABLES
from retrieval_lab.database import Database
from retrieval_lab.evals import runs
from retrieval_lab.lab import Lab
from retrieval_lab.paths import bundled_corpus
from retrieval_lab.types import GoldenQuery
from retrieval_lab_tui import measuring, preferences
from retrieval_lab_tui.app import ExplorerApp
from retrieval_lab_tui.measuring import Measuring
from tests.tui.keeping import GOLDEN

SHIPPED = Path(__file__).parent / "configs"
Condition = Callable[[], object]
WaitFor = Callable[[Pilot[None], Condition], Awaitable[None]]


@pytest.fixture(autouse=True)
def _steady_screen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, database: Database) -> None:  # noqa: ARG001 - keeps the server up
    for variable in ("NO_COLOR", "TEXTUAL_THEME", "TEXTUAL_COLOR_SYSTEM", "COLUMNS", "LINES"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(tmp_path / "models"))  # the screen says which models are there
    for variable in KEY_VARIABLES:  # nobody is logged in
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "nobody"))
    monkeypatch.setattr(Input, "_toggle_cursor", lambda _: None)
    monkeypatch.setattr(pipeline, "perf_counter", lambda: 0.0)  # the lists' titles show times
    monkeypatch.setattr(configurations, "bundled_configs", lambda: SHIPPED)  # more may come, which the screen lists
    monkeypatch.setattr(preferences, "data_dir", lambda: tmp_path)  # the server's folder is that of all tests
    monkeypatch.chdir(tmp_path)  # where pictures of the screen are saved


_MEASURED: dict[Any, Any] = {}


@pytest.fixture(autouse=True)
def _measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bundled golden set is measured once for each pipeline: every app that opens it does so, which takes a second.

    Labs of tests' own, and other corpora, are measured each time.
    """

    def once(make: Callable[..., Any]) -> Callable[..., Any]:
        def remembered(of: Any, config: Any = None, **options: Any) -> Any:
            lab = of if isinstance(of, Lab) else None
            if lab is not None and (type(lab) is not Lab or lab.corpus != bundled_corpus()):
                return make(of, config, **options)
            # A test that sets the clocks wants its own times.
            clocks = (metrics.perf_counter, runs.datetime)
            key = (make, id(of)) if lab is None else (make, *clocks, lab.schema, config or lab.config)
            if key not in _MEASURED:
                # With what it was made of, whose id it would lose otherwise.
                _MEASURED[key] = of, make(of, config, **options) if lab else make(of)
            return _MEASURED[key][1]

        return remembered

    for name in ("run", "summarise", "funnel"):
        monkeypatch.setattr(measuring, name, once(getattr(measuring, name)))


@pytest.fixture
def wait_for() -> WaitFor:
    """Pauses until the condition holds; fails after twenty seconds."""

    async def wait(pilot: Pilot[None], condition: Condition) -> None:
        deadline = time.monotonic() + 20
        while not condition():
            assert time.monotonic() < deadline, "the condition did not come true"
            await pilot.pause(0.02)
        await pilot.pause()

    return wait


@pytest.fixture
def answered(wait_for: WaitFor) -> Callable[[Pilot[None], str], Awaitable[None]]:
    """Waits until the answer on screen is the one to this question."""

    async def wait(pilot: Pilot[None], query: str) -> None:
        app = pilot.app
        assert isinstance(app, ExplorerApp)
        await wait_for(pilot, lambda: app.explore.answer is not None and app.explore.answer.question.query == query)

    return wait


@pytest.fixture
def small_corpus(tmp_path: Path) -> Path:
    """Two documents, two golden queries: the second has no chunk that holds its anchor."""
    docs = tmp_path / "corpus" / "docs"
    docs.mkdir(parents=True)
    (docs / "bread.md").write_text("# Bread\n\nBake the loaf for forty minutes.\n", encoding="utf-8")
    (docs / "soup.md").write_text("# Soup\n\nBoil the leeks with two potatoes.\n", encoding="utf-8")
    golden = """\
- {query_id: q1, query: how long does the loaf bake, kind: factual, doc_id: bread, anchor: forty minutes}
- {query_id: q2, query: how many carrots, kind: factual, doc_id: soup, anchor: three carrots}
"""
    (docs.parent / "golden.yaml").write_text(golden, encoding="utf-8")
    return docs.parent


@pytest.fixture
def app() -> Iterator[ExplorerApp]:
    """The explorer on the bundled corpus."""
    explorer = ExplorerApp()
    yield explorer
    explorer.close_lab()


@pytest.fixture
def golden() -> list[GoldenQuery]:
    with Lab.open() as lab:
        return list(lab.golden)


@pytest.fixture
def five_queries(small_corpus: Path) -> Path:
    """Five golden queries of two kinds."""
    (small_corpus / "golden.yaml").write_text(GOLDEN, encoding="utf-8")
    return small_corpus


@pytest.fixture
def unmeasured(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run of the moment never comes."""
    monkeypatch.setattr(Measuring, "start", lambda *_: None)
