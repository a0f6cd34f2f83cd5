"""Runs as the tests want them: kept with ranks that they choose, listed on the screen, and set against each other."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType

from textual.pilot import Pilot
from textual.widgets import Static

from retrieval_lab.ablation.cell import Cell, Failure
from retrieval_lab.ablation.folder import AblationFolder, Manifest, ablation_path
from retrieval_lab.ablation.rule import Rule
from retrieval_lab.config import PipelineConfig
from retrieval_lab.evals import runs
from retrieval_lab.evals.kept import resolve_run
from retrieval_lab.evals.records import QueryRecord
from retrieval_lab.evals.runs import Run
from retrieval_lab.lab import Lab
from retrieval_lab.settings import NoReranker, RrfFusion
from retrieval_lab_tui.app import ExplorerApp
from retrieval_lab_tui.screens.runs import RunsScreen
from retrieval_lab_tui.screens.versus import VersusScreen
from tests.tui.driving import Answered, WaitFor

GOLDEN = """\
- {query_id: q1, query: how long does the loaf bake, kind: factual, doc_id: bread, anchor: forty minutes}
- {query_id: q2, query: what is baked, kind: factual, doc_id: bread, anchor: the loaf}
- {query_id: q3, query: potatoes, kind: factual, doc_id: soup, anchor: two potatoes}
- {query_id: q4, query: leeks, kind: other, doc_id: soup, anchor: leeks}
- {query_id: q5, query: boil, kind: other, doc_id: soup, anchor: Boil}
"""
FIRST = "how long does the loaf bake"
BEFORE: Sequence[int | None] = (1, None, 2, 4, 1)
AFTER: Sequence[int | None] = (1, 1, 1, 5, None)
NO_RERANKER = PipelineConfig(reranker=NoReranker(), mmr_lambda=None)


def ndcg(rank: int | None) -> float:
    """With one relevant chunk, at this rank."""
    return 0.0 if rank is None else 1 / math.log2(rank + 1)


_MADE: dict[int, Run] = {}


def evaluated(corpus: Path, k: int) -> Run:
    """A run of the five queries, which is the same in every test."""
    if k not in _MADE:
        with Lab.open(corpus, PipelineConfig()) as lab:
            _MADE[k] = runs.run(lab, k=k)
    return _MADE[k]


def keep(
    corpus: Path,
    name: str,
    ranks: Sequence[int | None],
    *,
    config: PipelineConfig | None = None,
    created: str = "2026-11-30T10:00:00+00:00",
    golden_hash: str | None = None,
) -> Run:
    """Keep a run of the corpus as if it had found each query's chunk at this rank."""
    found = ranked_run(corpus, name, ranks, config or PipelineConfig())
    kept = replace(
        found, created=created, corpus=replace(found.corpus, golden_hash=golden_hash or found.corpus.golden_hash)
    )
    kept.save(resolve_run(name, corpus))
    return kept


def ranked_run(corpus: Path, name: str, ranks: Sequence[int | None], config: PipelineConfig) -> Run:
    """A run of the corpus as if it had found each query's chunk at this rank."""
    made = evaluated(corpus, config.top_k)
    queries = tuple(_at(record, rank) for record, rank in zip(made.queries, ranks, strict=True))
    return replace(made, name=name, config=config, queries=queries)


def keep_ablation(
    corpus: Path,
    cells: Mapping[str, tuple[Sequence[int | None], float, PipelineConfig]],
    *,
    name: str = "grid",
    failed: Mapping[str, str] = MappingProxyType({}),
    pending: int = 0,
    rule: Rule | None = None,
) -> AblationFolder:
    """Keep an ablation whose cells found each query's chunk at these ranks, in so many milliseconds a query.

    `failed` has an error for each name; so many cells more are pending.
    """
    folder = AblationFolder(ablation_path(name, corpus))
    waiting = [f"pending{number}" for number in range(pending)]
    keys = [_key(one) for one in (*cells, *failed)] + waiting
    folder.begin(Manifest(name=name, corpus=str(corpus), keys=tuple(keys), rule=rule or Rule()))
    for one, (ranks, ms, config) in cells.items():
        keep_cell(corpus, folder, one, ranks, ms, config)
    for number, (one, error) in enumerate(failed.items()):
        folder.keep(_key(one), Failure(one, PipelineConfig(fusion=RrfFusion(k=900 + number)), error))
    return folder


def keep_cell(
    corpus: Path, folder: AblationFolder, name: str, ranks: Sequence[int | None], ms: float, config: PipelineConfig
) -> None:
    run = ranked_run(corpus, name, ranks, config)
    timed = replace(run, queries=tuple(replace(record, seconds=ms / 1e3) for record in run.queries))
    folder.keep(_key(name), Cell(name=name, run=timed, index_seconds=None, memory=0))


def _key(name: str) -> str:
    """As a file is called: a name may have anything in it."""
    return sha256(name.encode()).hexdigest()[:20]


def _at(record: QueryRecord, rank: int | None) -> QueryRecord:
    values: Mapping[str, float] = {"mrr": 1 / rank if rank else 0.0, "ndcg": ndcg(rank)}
    found = float(rank is not None)
    measures = {name: values.get(name.partition("@")[0], found) for name in record.measures}
    return replace(record, ranks={**record.ranks, "final": rank}, measures=measures)


def text(app: ExplorerApp, selector: str) -> str:
    return str(app.screen.query_one(selector, Static).visual)


def line_of(app: ExplorerApp, selector: str, word: str) -> str:
    return next(line for line in text(app, selector).splitlines() if word in line)


def names(app: ExplorerApp) -> list[str]:
    assert isinstance(app.screen, RunsScreen)
    return [run.title for run in app.screen._runs]


async def list_runs(pilot: Pilot[None], answered: Answered, wait_for: WaitFor, *, measured: bool = False) -> RunsScreen:
    app = pilot.app
    assert isinstance(app, ExplorerApp)
    await answered(pilot, FIRST)
    if measured:
        await wait_for(pilot, lambda: app.measuring.measured)
    await pilot.press("R")
    await wait_for(pilot, lambda: isinstance(app.screen, RunsScreen) and app.screen._kept is not None)
    assert isinstance(app.screen, RunsScreen)
    return app.screen


async def set_against(pilot: Pilot[None], wait_for: WaitFor, baseline: str, system: str) -> VersusScreen:
    """From the runs, compare two of them by their names."""
    app = pilot.app
    assert isinstance(app, ExplorerApp)
    for name, key in ((baseline, "space"), (system, "enter")):
        await pilot.press("g", *["j"] * names(app).index(name), key)
    await wait_for(pilot, lambda: isinstance(app.screen, VersusScreen))
    assert isinstance(app.screen, VersusScreen)
    return app.screen
