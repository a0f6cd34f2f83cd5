"""The command `retrieval-lab compare`: two kept runs against each other, and how `eval --baseline` prints the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.cells import cell_len

from retrieval_lab.cli_options import CorpusOption, JsonOption, print_json
from retrieval_lab.cli_text import counted, print_table, stdout
from retrieval_lab.paths import bundled_corpus
from retrieval_lab.shorten import shorten_middle
from retrieval_lab.text import printable
from retrieval_lab.wording import interval_text, setting_text, signed

if TYPE_CHECKING:
    from retrieval_lab.evals.comparison import Comparison
    from retrieval_lab.evals.runs import Run
    from retrieval_lab.evals.versus import Change, Move, Versus

_SHOWN_MOVES = 20
_GAP = 2
_LEAST_WIDTH = 10
_TITLES = ("A", "B", "B-A", "interval", "p", "win/tie/loss", "least")


def complete_run(ctx: typer.Context, incomplete: str) -> Iterator[str]:
    """The names of the runs that are kept of the corpus on the command line."""
    from retrieval_lab.evals.kept import stored_runs

    corpus = ctx.params.get("corpus") or bundled_corpus()
    yield from (name for name in stored_runs(Path(corpus)) if name.startswith(incomplete))


_Run = typer.Argument(help="A name, or a path ending in .json.", show_default=False, autocompletion=complete_run)


def compare(
    a: Annotated[str, _Run],
    b: Annotated[str, _Run],
    corpus: CorpusOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare two runs that `eval --save` kept, query by query. A is the baseline, B the system.

    Prints B minus A for each measure with its 95% interval, the p of a
    permutation test, on how many queries B wins, ties and loses, and the least
    difference that so many queries could have shown; then the queries that
    carry it, what differs between the configurations, and the queries that
    moved. Needs no database.

    Example: [bold]retrieval-lab compare before after --corpus fixtures/corpus[/bold]
    """
    # numpy takes a moment to import, which `--help` need not wait for.
    from retrieval_lab.evals.kept import resolve_run
    from retrieval_lab.evals.runs import Run
    from retrieval_lab.evals.versus import versus

    folder = corpus or bundled_corpus()
    baseline, system = (Run.load(resolve_run(name, folder)) for name in (a, b))
    found = versus(baseline, system)
    if as_json:
        print_json({"baseline": head(baseline), "system": head(system), **found.to_dict()})
    else:
        print_versus(found, baseline, system)
    warn(found)


def head(run: Run) -> dict[str, Any]:
    """What names a run in a JSON document."""
    return {"name": run.name, "created": run.created, "corpus": run.corpus.folder, "k": run.k}


def warn(found: Versus) -> None:
    """What else may have made the difference, on stderr."""
    for warning in found.warnings:
        typer.echo(f"warning: {printable(warning)}", err=True)


def print_versus(found: Versus, baseline: Run, system: Run) -> None:
    """The comparison for people, in the width of the terminal."""
    typer.echo(f"A  {_title(baseline)}")
    typer.echo(f"B  {_title(system)}")
    typer.echo(f"\n{counted(found.queries, 'query')}; B minus A with its 95% paired bootstrap interval;")
    typer.echo("least is the smallest difference that so many queries could have shown")
    if found.excluded:
        typer.echo(printable(f"not counted, no relevant chunk in A or in B: {', '.join(found.excluded)}"))
    typer.echo()
    print_table([("", False), *((title, True) for title in _TITLES)], list(_differences(found)))
    for title, lines in (("Carried by", _carried(found)), ("Configuration, A → B", _changed(found.changes))):
        _print_block(title, list(lines))
    _print_moves(found.moves, system.k)
    before, after = found.latency
    typer.echo(f"\nmedian latency a query: {before.median * 1e3:.1f} ms → {after.median * 1e3:.1f} ms")


def _title(run: Run) -> str:
    return printable(f"{run.name}  {run.created}  corpus {run.corpus.folder}, k {run.k}")


def _print_block(title: str, lines: Sequence[str]) -> None:
    if lines:
        typer.echo(f"\n{title}")
        for line in lines:
            typer.echo(f"  {printable(line)}")


# --- differences ---------------------------------------------------------------------------------------------------


def _differences(found: Versus) -> Iterator[tuple[str, ...]]:
    rows = [tuple(_numbers(one)) for one in found.measures.values()]
    used = sum(_GAP + max(map(len, column)) for column in zip(_TITLES, *rows, strict=True))
    label_width = max(_LEAST_WIDTH, stdout().width - used)
    for name, row in zip(found.measures, rows, strict=True):
        yield (shorten_middle(name, label_width), *row)


def _numbers(one: Comparison) -> Iterator[str]:
    yield f"{one.baseline:.3f}"
    yield f"{one.system:.3f}"
    yield signed(one.difference)
    yield interval_text(one.difference_interval)
    yield f"{one.p:.4f}"
    yield f"{one.counts.wins}/{one.counts.ties}/{one.counts.losses}"
    # Where all tie there is nothing to estimate it from, and 0 would promise that any difference shows.
    yield f"{one.detectable:.3f}" if one.detectable else "–"


def _carried(found: Versus) -> Iterator[str]:
    """The queries that carry each difference; measures that no query moved are left out."""
    label_width = max(map(cell_len, found.measures))
    id_width = max(_LEAST_WIDTH, (stdout().width - label_width) // 3 - len("  +0.000  "))
    for name, one in found.measures.items():
        if one.carriers:
            shown = (f"{shorten_middle(it.query_id, id_width)} {signed(it.difference)}" for it in one.carriers)
            yield f"{name.ljust(label_width)}  {',  '.join(shown)}"


def _changed(changes: Sequence[Change]) -> Iterator[str]:
    if not changes:
        yield "the same"
    for change in changes:
        yield f"{change.key}: {setting_text(change.baseline)} → {setting_text(change.system)}"


# --- the queries that moved ----------------------------------------------------------------------------------------


def _print_moves(moves: Sequence[Move], k: int) -> None:
    gained = sum(move.baseline is None for move in moves)
    lost = sum(move.system is None for move in moves)
    typer.echo(f"\nMoved: {counted(len(moves), 'query')}, {gained} gained and {lost} lost")
    if not moves:
        return
    typer.echo(f"rank of the first relevant chunk in the first {k}, A → B")
    shown = moves[:_SHOWN_MOVES]
    fixed = [
        (_rank(move.baseline), _rank(move.system), printable(move.query_id), printable(move.kind)) for move in shown
    ]
    used = sum(max(cell_len(row[column]) for row in fixed) for column in range(4)) + 1 + 5 * _GAP
    left = stdout().width - used
    rows = [(a, "→", b, *names, _cut(move.query, left)) for (a, b, *names), move in zip(fixed, shown, strict=True)]
    print_table([("", True), ("", False), ("", True), ("", False), ("", False), ("", False)], rows)
    if len(moves) > _SHOWN_MOVES:
        typer.echo(f"and {len(moves) - _SHOWN_MOVES} more; --json has all")


def _rank(rank: int | None) -> str:
    return "–" if rank is None else str(rank)


def _cut(text: str, width: int) -> str:
    """The beginning of the text in at most `width` cells."""
    text = printable(text)
    if cell_len(text) <= width:
        return text
    while text and cell_len(text) + 1 > width:
        text = text[:-1]
    return f"{text}…" if width > 0 else ""
