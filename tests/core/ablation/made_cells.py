"""Small ablations for tests: a grid, a watch that remembers, and cells without what the clock makes different."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from retrieval_lab.ablation.cell import Cell
from retrieval_lab.ablation.executors import Executor, LocalExecutor
from retrieval_lab.ablation.folder import Ablation, AblationFolder
from retrieval_lab.ablation.grid import load_grid
from retrieval_lab.ablation.run import Plan, ablate, plan
from retrieval_lab.ablation.work import Outcome
from retrieval_lab.evals.runs import Run
from retrieval_lab.index import Progress

GRID = "retrievers: [{text: }, {vector: , text: }]\nreranker: [none, lexical]\nmmr_lambda: [null]\n"
CELLS = ["text · no reranker", "text · lexical", "vector+text · no reranker", "vector+text · lexical"]


class Heard:
    """A watch that keeps what it hears."""

    def __init__(self) -> None:
        self.indexed: list[Progress] = []
        self.outcomes: list[Outcome] = []

    def indexing(self, progress: Progress) -> None:
        self.indexed.append(progress)

    def ended(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)

    @property
    def names(self) -> list[str]:
        return [outcome.task.name for outcome in self.outcomes]


def planned(corpus: Path, folder: Path, grid: str = GRID) -> Plan:
    path = corpus.parent / "grid.yaml"
    path.write_text(grid, encoding="utf-8")
    return plan(load_grid(path), corpus, AblationFolder(folder))


def made(
    corpus: Path, folder: Path, grid: str = GRID, executor: Executor | None = None, heard: Heard | None = None
) -> Ablation:
    """The ablation of a grid, in this process unless told."""
    return ablate(planned(corpus, folder, grid), AblationFolder(folder), executor or LocalExecutor(1), heard or Heard())


def timeless(cells: Sequence[Cell]) -> list[tuple[str, Run]]:
    """The cells by name without what the clock and the machine make different."""
    found = [
        (
            cell.name,
            replace(cell.run, created="", queries=tuple(replace(one, seconds=0.0) for one in cell.run.queries)),
        )
        for cell in cells
    ]
    return sorted(found, key=lambda one: one[0])
