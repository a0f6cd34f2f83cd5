"""An ablation against the evaluations that it consists of, a second one against the first, and what it needs.

Run alone (`python -m tests.benchmarks.ablating`) it prints its figures, too: how many queries x configurations it does
in a second, and the peak memory of a process by the number of cells that it has made.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from time import perf_counter

from retrieval_lab.ablation.executors import Executor, LocalExecutor
from retrieval_lab.ablation.folder import Ablation, AblationFolder
from retrieval_lab.ablation.grid import Grid, load_grid
from retrieval_lab.ablation.pool import pooled
from retrieval_lab.ablation.run import ablate, plan
from retrieval_lab.ablation.work import Outcome
from retrieval_lab.evals.resampling import bootstrap_interval
from retrieval_lab.index import Progress
from retrieval_lab.lab import Lab
from retrieval_lab.paths import bundled_corpus
from tests.benchmarks.timing import Ratio, compare

GRID = Path(__file__).parents[2] / "fixtures" / "grids" / "pipelines.yaml"
CONFIGURATIONS = 12
ROUNDS = 5


class _Unheard:
    """Hears of nothing but failures."""

    def indexing(self, progress: Progress) -> None:
        """Nobody watches."""

    def ended(self, outcome: Outcome) -> None:
        assert outcome.error is None, outcome.error


def grid() -> Grid:
    """The last twelve configurations of the shipped grid, from the cheapest to the dearest."""
    loaded = load_grid(GRID)
    return replace(loaded, specs=loaded.specs[-CONFIGURATIONS:])


def once(folder: Path, executor: Executor | None = None) -> Ablation:
    kept = AblationFolder(folder)
    return ablate(plan(grid(), bundled_corpus(), kept), kept, executor or LocalExecutor(), _Unheard())


def ratios() -> Iterator[Ratio]:
    specs = grid().specs
    with tempfile.TemporaryDirectory() as name, Lab.open() as lab:
        numbered = iter(range(100))
        title = f"ablate, {len(lab.golden)} queries x {len(specs)} configurations"
        yield compare(
            f"{title} / {len(specs)} times evaluate",
            lambda: once(Path(name) / str(next(numbered))),
            lambda: [lab.evaluate(config=spec.config) for spec in specs],
            rounds=ROUNDS,
            bound=1.0,
        )
        seconds = [_timed(Path(name) / "again") for _ in range(2)]
        yield Ratio("a second ablate / the first", seconds[1], seconds[0], bound=0.1)


def _timed(folder: Path, executor: Executor | None = None) -> float:
    began = perf_counter()
    once(folder, executor)
    return perf_counter() - began


def _figures() -> None:
    queries, specs = 0, grid().specs
    with tempfile.TemporaryDirectory() as name, Lab.open() as lab:
        queries = len(lab.golden)
        once(Path(name) / "warm")
        for jobs in (1, 2):
            rates = [
                queries * len(specs) / _timed(Path(name) / f"{jobs} {number}", LocalExecutor(jobs))
                for number in range(ROUNDS)
            ]
            interval = bootstrap_interval(rates)
            assert interval is not None
            mean = sum(rates) / len(rates)
            said = f"{mean:.0f} (95% interval {interval.low:.0f} to {interval.high:.0f}, {ROUNDS} ablations)"
            print(f"--jobs {jobs}: queries x configurations a second: {said}")
        folder = AblationFolder(Path(name) / "memory")
        todo = plan(grid(), bundled_corpus(), folder)
        folder.begin(todo.manifest)
        for outcome in pooled(todo.tasks, folder, 1):
            assert outcome.error is None, outcome.error
        peaks = [cell.memory / 1e6 for cell in folder.load().cells]
        print("peak memory of one process, MB, after each cell:", ", ".join(f"{peak:.0f}" for peak in peaks))


if __name__ == "__main__":
    for ratio in ratios():
        print(ratio, flush=True)
    _figures()
