"""An evaluation as tables: each measure of all queries and of each slice, with its interval, and what it rests on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import typer
from rich.cells import cell_len

from retrieval_lab.cli_text import counted, print_table, stdout
from retrieval_lab.shorten import shorten_middle
from retrieval_lab.text import printable

if TYPE_CHECKING:
    from retrieval_lab.evals.runs import Run
    from retrieval_lab.evals.slices import Coverage
    from retrieval_lab.evals.summary import Estimate, Group, Summary

_CELL = len("0.729 .60–.85")
_GAP = 2
_LABEL_WIDTH = 28
_KIND_WIDTH = 20


def print_summary(run: Run, summary: Summary, parts: Mapping[str, Group]) -> None:
    """The tables of all queries and of these parts of them, then the run's circumstances."""
    from retrieval_lab.evals.golden_text import golden_lines
    from retrieval_lab.evals.runs import measure_names

    groups = {"all": summary.all, **parts}
    names = measure_names(run.config)
    room = stdout().width - min(_LABEL_WIDTH, max(map(len, names)))
    for number, block in enumerate(_blocks(groups, room)):
        if number:
            typer.echo()
        titles = [shorten_middle(printable(kind), _KIND_WIDTH) for kind in block]
        print_table([("", False), *((title, False) for title in titles)], list(_rows(names, list(block.values()))))
    typer.echo()
    corpus, printed, latency = run.corpus, run.fingerprint, summary.latency
    scans = "".join(f", {name} {scan} scan" for name, scan in printed.scans.items())
    typer.echo(f"{counted(corpus.documents, 'document')}, {counted(corpus.chunks, 'chunk')}; ", nl=False)
    typer.echo(printable(f"embedder {printed.embedder}, reranker {printed.reranker}{scans}"))
    typer.echo(f"means with 95% percentile bootstrap intervals, {printed.resamples:,} resamples of the queries")
    typer.echo(f"a query takes {latency.median * 1e3:.1f} ms (median), 95% at most {latency.p95 * 1e3:.1f} ms")
    for line in golden_lines(run, summary):
        typer.echo(printable(line))
    for line in _coverage(summary.coverage, run.k):
        typer.echo(line)
    if summary.undefined:
        typer.echo(printable(f"not counted, no chunk is relevant: {', '.join(summary.undefined)}"))


def _blocks(groups: Mapping[str, Group], room: int) -> Iterator[dict[str, Group]]:
    """The groups in tables whose columns are no wider than the room beside the labels, at least one in each."""
    block: dict[str, Group] = {}
    used = 0
    for kind, group in groups.items():
        wide = _GAP + max(_CELL, min(_KIND_WIDTH, cell_len(printable(kind))))
        if block and used + wide > room:
            yield block
            block, used = {}, 0
        block[kind] = group
        used += wide
    yield block


def _rows(names: Sequence[str], groups: Sequence[Group]) -> Iterator[list[str]]:
    yield ["queries", *(str(group.queries) for group in groups)]
    for name in names:
        cells = (estimate_cell(group.measures.get(name)) for group in groups)
        yield [shorten_middle(name, _LABEL_WIDTH), *cells]


def estimate_cell(estimate: Estimate | None) -> str:
    """Such as `0.729 .60–.85`: the mean, and its interval to two places."""
    if estimate is None:
        return "–"
    if estimate.interval is None:
        return f"{estimate.value:.3f}"
    return f"{estimate.value:.3f} {_end(estimate.interval.low)}–{_end(estimate.interval.high)}"


def _end(value: float) -> str:
    """Two places in three cells: .85, and 1.0 for one."""
    text = f"{value:.2f}"
    return text[1:] if text.startswith("0") else text[:3]


def _coverage(found: Coverage, k: int) -> Iterator[str]:
    if found.documents is not None:
        yield f"the first five passages are of {found.documents:.1f} documents on the mean"
    if found.judged is not None:
        yield f"of the top {k} documents {found.judged:.0%} are judged; the rest counts as irrelevant"
