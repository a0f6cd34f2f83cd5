"""The command `retrieval-lab ablate`: many configurations over one golden set, taken up where it stopped."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from retrieval_lab.cli_options import CorpusArgument, DsnOption, JsonOption, Step, print_json, progress_bar
from retrieval_lab.cli_text import counted, print_table, stdout
from retrieval_lab.corpus import GOLDEN_FILE
from retrieval_lab.errors import Fault, FaultyInput, InputError
from retrieval_lab.extras import MissingExtra
from retrieval_lab.paths import bundled_corpus
from retrieval_lab.shorten import shorten_middle
from retrieval_lab.text import printable

if TYPE_CHECKING:
    from retrieval_lab.ablation.cell import Cell
    from retrieval_lab.ablation.folder import Ablation, AblationFolder
    from retrieval_lab.ablation.run import Plan
    from retrieval_lab.ablation.work import Outcome
    from retrieval_lab.evals.summary import Estimate
    from retrieval_lab.index import Progress

EXIT_FAILED = 1
REPORT = "report.md"

_MEGABYTE = 1e6
_GAP = 2
_LEAST_NAME = 12


def ablate(
    grid: Annotated[Path, typer.Argument(help="A YAML file of lists; docs/ablation.md describes it.")],
    corpus: CorpusArgument = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Keep the cells here; else in ablations/GRID of the corpus."),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", min=1, metavar="N", help="Processes at most; by default as many as idle processors."),
    ] = None,
    executor: Annotated[
        str | None,
        typer.Option("--executor", metavar="ADDRESS", help="Work on a Dask cluster instead: dask://HOST:PORT."),
    ] = None,
    dsn: DsnOption = None,
    without_report: Annotated[
        bool, typer.Option("--no-report", help="Keep the cells, and write no report of them.")
    ] = False,
    only_list: Annotated[
        bool, typer.Option("--list", help="Show the cells, and what is left out and why; run nothing.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Evaluate every configuration of a grid over the golden set, and keep each as soon as it is done.

    What is done already is not done again, so an ablation that was stopped, or killed, goes on where it was, and a
    grid that grew costs what is new. At the end a report says which configuration to ship, by the rule
    that the grid set. A configuration that fails is reported and does not stop the others.

    Exit code 1 when a configuration failed, 2 when files or queries had to be left out.

    Example: [bold]retrieval-lab ablate fixtures/grids/pipelines.yaml --list[/bold], then without [bold]--list[/bold]
    """
    from retrieval_lab.ablation.executors import executor_of
    from retrieval_lab.ablation.folder import AblationFolder, ablation_path
    from retrieval_lab.ablation.grid import load_grid
    from retrieval_lab.ablation.run import ablate, plan

    by = executor_of(executor, jobs)
    folder_of_corpus = corpus or bundled_corpus()
    loaded = load_grid(grid)
    folder = AblationFolder(out or ablation_path(loaded.name, folder_of_corpus))
    planned = plan(loaded, folder_of_corpus, folder, dsn)
    if only_list:
        _list(planned, [spec.name for spec in loaded.specs], as_json=as_json)
        return
    outdated = _report_is_outdated(planned, folder)
    with _watching(len(planned.tasks)) as watch:
        made = ablate(planned, folder, by, watch)
    _tell(made, folder, as_json=as_json)
    if outdated and not without_report:
        _report(made, folder, dsn)
    _judge(made, planned)


# --- before ---------------------------------------------------------------------------------------------------------


def _list(planned: Plan, names: Sequence[str], *, as_json: bool) -> None:
    done = [key in planned.done for key in planned.manifest.keys]
    if as_json:
        print_json(
            {
                "name": planned.manifest.name,
                "corpus": planned.manifest.corpus,
                "level": planned.manifest.level,
                "cells": [
                    {"name": name, "key": key, "done": is_done}
                    for name, key, is_done in zip(names, planned.manifest.keys, done, strict=True)
                ],
                "left_out": _left_out(planned.manifest.left_out),
            }
        )
        return
    print_table(
        [("configuration", False), ("", False)],
        [[name, "done" if is_done else ""] for name, is_done in zip(names, done, strict=True)],
    )
    if planned.manifest.left_out:
        typer.echo()
        print_table([("left out", False), ("why", False)], planned.manifest.left_out)
    typer.echo()
    typer.echo(f"{counted(len(names), 'configuration')}, {sum(done)} done; ", nl=False)
    typer.echo(f"{len(planned.manifest.left_out)} left out; labels count at the level of the {planned.manifest.level}")


def _left_out(pairs: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"name": name, "reason": reason} for name, reason in pairs]


# --- meanwhile ------------------------------------------------------------------------------------------------------


@contextmanager
def _watching(total: int) -> Iterator[_Watch]:
    with progress_bar("indexing") as step:
        yield _Watch(step, total)


class _Watch:
    """Moves a bar on a terminal; elsewhere, as in the log of a job, writes a line a cell. Failures are always told."""

    def __init__(self, step: Step, total: int) -> None:
        self._step = step
        self._total = total
        self._done = 0
        self._began = time.monotonic()

    def indexing(self, progress: Progress) -> None:
        """Show how far the index is."""
        self._step(progress.done, progress.total, "indexing")

    def ended(self, outcome: Outcome) -> None:
        """Show how far the cells are."""
        self._done += 1
        self._step(self._done, self._total, "evaluating")
        said = "done" if outcome.error is None else f"failed: {outcome.error}"
        if outcome.error is not None or not typer.get_text_stream("stderr").isatty():
            took = f"{time.monotonic() - self._began:.0f} s"
            typer.echo(printable(f"{self._done} of {self._total}, {took}: {outcome.task.name}: {said}"), err=True)


def _report_is_outdated(planned: Plan, folder: AblationFolder) -> bool:
    """Whether there is no report of just these cells and this rule, also where the one before was not waited for."""
    report = folder.path / REPORT
    if planned.tasks or planned.renamed or not report.exists():
        return True
    try:
        before = folder.manifest()
    except InputError:  # lost or broken, and written anew
        return True
    return (
        before != planned.manifest
        or max(map(folder.written, planned.manifest.keys), default=0) > report.stat().st_mtime_ns
    )


def _report(made: Ablation, folder: AblationFolder, dsn: str | None) -> None:
    """Write the report; what keeps it from being written does not undo the work."""
    from retrieval_lab.report.concluding import conclude

    if not made.cells:
        return
    try:
        with progress_bar("asking in other words") as step:
            report = conclude(folder.path, dsn, progress=step)
    except (InputError, MissingExtra) as error:
        typer.echo(printable(f"no report: {error}"), err=True)
    else:
        typer.echo(printable(f"the report is {report.path}"), err=True)


# --- after ----------------------------------------------------------------------------------------------------------


def _tell(made: Ablation, folder: AblationFolder, *, as_json: bool) -> None:
    from retrieval_lab.cli_eval_text import estimate_cell
    from retrieval_lab.evals.summary import latency

    rule = made.manifest.rule
    measures = tuple(dict.fromkeys((rule.measure, rule.target_measure)))
    rows = [(cell, [_estimate(cell, measure) for measure in measures]) for cell in made.cells]
    rows.sort(key=lambda row: -1.0 if row[1][0] is None else row[1][0].value, reverse=True)
    if as_json:
        print_json(_document(made, folder, measures, rows))
        return
    titles = [*measures, "ms", "p95", "index s", "MB"]
    numbers = [[*map(estimate_cell, means), *_costs(cell, latency(cell.run))] for cell, means in rows]
    wide = sum(_GAP + max(map(len, column)) for column in zip(titles, *numbers, strict=True))
    room = max(_LEAST_NAME, stdout().width - wide)
    print_table(
        [("configuration", False), *((title, True) for title in titles)],
        [[shorten_middle(printable(cell.name), room), *row] for (cell, _), row in zip(rows, numbers, strict=True)],
    )
    if made.failures:
        typer.echo()
        print_table([("failed", False), ("why", False)], [[one.name, one.error] for one in made.failures])
    typer.echo()
    typer.echo(f"{counted(len(made.cells), 'configuration')}, {len(made.failures)} failed; means over ", nl=False)
    typer.echo(f"all queries with 95% bootstrap intervals, labels at the level of the {made.manifest.level}")
    typer.echo("ms: the median of a query, p95: what 95% stay within; index s: making the index; MB: peak memory")
    typer.echo(printable(f"kept in {folder.path}"), err=True)


def _estimate(cell: Cell, measure: str) -> Estimate | None:
    from retrieval_lab.evals.summary import estimate

    return estimate(cell.run.defined, measure)


def _costs(cell: Cell, latency: Any) -> list[str]:
    index = "–" if cell.index_seconds is None else f"{cell.index_seconds:.1f}"
    return [f"{latency.median * 1e3:.1f}", f"{latency.p95 * 1e3:.1f}", index, f"{cell.memory / _MEGABYTE:.0f}"]


def _document(
    made: Ablation,
    folder: AblationFolder,
    measures: Sequence[str],
    rows: Sequence[tuple[Cell, Sequence[Estimate | None]]],
) -> dict[str, Any]:
    from retrieval_lab.evals.summary import latency

    def described(cell: Cell, means: Sequence[Estimate | None]) -> dict[str, Any]:
        found, time_of_query = zip(measures, means, strict=True), latency(cell.run)
        return {
            "name": cell.name,
            "queries": len(cell.run.defined),
            "measures": {name: None if mean is None else mean.to_dict() for name, mean in found},
            "latency": {"median": time_of_query.median, "p95": time_of_query.p95},
            "index_seconds": cell.index_seconds,
            "memory": cell.memory,
            "processes": cell.processes,
            "config": cell.config.to_dict(),
        }

    return {
        "name": made.manifest.name,
        "folder": str(folder.path),
        "corpus": made.manifest.corpus,
        "level": made.manifest.level,
        "rule": made.manifest.rule.to_dict(),
        "cells": [described(cell, means) for cell, means in rows],
        "failed": [{"name": one.name, "error": one.error, "config": one.config.to_dict()} for one in made.failures],
        "left_out": _left_out(made.manifest.left_out),
    }


def _judge(made: Ablation, planned: Plan) -> None:
    """End with the exit code that the outcome has."""
    if made.failures:
        raise typer.Exit(EXIT_FAILED)
    golden = Path(made.manifest.corpus) / GOLDEN_FILE
    undefined = {
        one.query_id: Fault(golden, None, one.undefined or "", one.query_id)
        for cell in made.cells
        for one in cell.run.queries
        if one.is_unlabelled
    }
    if planned.faults or undefined:
        raise FaultyInput([*planned.faults, *undefined.values()])
