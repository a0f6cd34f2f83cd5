"""The command `retrieval-lab compare`: kept runs against one of them, and how `eval --baseline` prints two."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.cells import cell_len

from retrieval_lab.cli_options import CorpusOption, JsonOption, print_json
from retrieval_lab.cli_systems import (
    chosen_measure,
    detectable_text,
    letter,
    print_carriers,
    print_distributions,
    print_systems,
    win_tie_loss_text,
)
from retrieval_lab.cli_text import counted, print_table, stdout
from retrieval_lab.paths import bundled_corpus
from retrieval_lab.shorten import shorten_middle
from retrieval_lab.text import printable
from retrieval_lab.wording import interval_text, setting_text, signed

if TYPE_CHECKING:
    from retrieval_lab.evals.comparison import Comparison, Corrected
    from retrieval_lab.evals.runs import Run
    from retrieval_lab.evals.versus import Change, Move, Versus

_SHOWN_MOVES = 20
_GAP = 2
_LEAST_WIDTH = 10
_SIDES = ("A", "B", "B-A")
_TITLES = ("interval", "p", "win/tie/loss", "least")


def complete_run(ctx: typer.Context, incomplete: str) -> Iterator[str]:
    """The names of the runs that are kept of the corpus on the command line."""
    from retrieval_lab.evals.kept import stored_runs

    corpus = ctx.params.get("corpus") or bundled_corpus()
    yield from (name for name in stored_runs(Path(corpus)) if name.startswith(incomplete))


_RUN: dict[str, Any] = {
    "help": "A name, or a path ending in .json.",
    "show_default": False,
    "autocompletion": complete_run,
}


def compare(
    baseline: Annotated[str, typer.Argument(metavar="A", **_RUN)],
    systems: Annotated[list[str], typer.Argument(metavar="B [C ...]", **_RUN)],
    corpus: CorpusOption = None,
    plot: Annotated[bool, typer.Option("--plot", help="Draw how sure the difference of one measure is.")] = False,
    measure: Annotated[
        str | None, typer.Option("--measure", help="The measure that is drawn; by default ndcg at the cut.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Compare runs that `eval --save` kept, query by query. A is the baseline, all others are systems against it.

    Prints B minus A for each measure with its 95% interval, the p of a
    permutation test, on how many queries B wins, ties and loses, and the least
    difference that so many queries could have shown; then the queries that
    carry it, what differs between the configurations, and the queries that
    moved. Of more than two runs it prints the differences of each, and p also
    with Holm's correction for their number. Needs no database.

    Example: [bold]retrieval-lab compare before after --corpus fixtures/corpus[/bold]
    """
    # numpy takes a moment to import, which `--help` need not wait for.
    from retrieval_lab.evals.comparison import corrected
    from retrieval_lab.evals.versus import differences, versus

    if as_json and (plot or measure):
        raise typer.BadParameter("a JSON document has no plot; leave out --json, or --plot and --measure")
    first, *others = _loaded([baseline, *systems], corpus or bundled_corpus())
    found = [versus(first, other) for other in others]
    several = corrected([one.measures for one in found])
    if as_json:
        print_json(_document(found, several, first, others))
    elif len(others) == 1:
        print_versus(found[0], first, others[0])
    else:
        _print_several(found, several, first, others)
    if plot or measure:
        shown = chosen_measure(measure, [one.measures for one in found], f"ndcg@{first.k}")
        print_distributions([differences(first, other, shown) for other in others], shown)
    for one in found:
        warn(one)


def _loaded(names: Sequence[str], corpus: Path) -> list[Run]:
    from retrieval_lab.evals.kept import resolve_run
    from retrieval_lab.evals.runs import Run

    return [Run.load(resolve_run(name, corpus)) for name in names]


def _document(
    found: Sequence[Versus], several: Sequence[Corrected], first: Run, others: Sequence[Run]
) -> dict[str, Any]:
    """Two runs in one level, more in a list of systems, with the corrected p of each."""
    if len(others) == 1:
        return {"baseline": head(first), "system": head(others[0]), **found[0].to_dict()}
    systems = zip(others, found, several, strict=True)
    return {
        "baseline": head(first),
        "systems": [
            {"system": head(other), **one.to_dict(), "measures": with_holm.to_dict()}
            for other, one, with_holm in systems
        ],
    }


def _print_several(found: Sequence[Versus], several: Sequence[Corrected], first: Run, others: Sequence[Run]) -> None:
    for number, one in enumerate((first, *others)):
        typer.echo(f"{letter(number)}  {_title(one)}")
    typer.echo()
    for number, versus in enumerate(found, start=1):
        left_out = f"; not counted: {', '.join(versus.excluded)}" if versus.excluded else ""
        typer.echo(printable(f"{letter(number)}: {counted(versus.queries, 'query')}{left_out}"))
    print_systems(several)
    print_carriers(several, chosen_measure(None, [one.measures for one in found], f"ndcg@{first.k}"))


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
    print_differences(found.measures)
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


def print_differences(measures: Mapping[str, Comparison], sides: tuple[str, str, str] = _SIDES) -> None:
    """A table of all measures: of the baseline, of the system, and the difference; `sides` are the titles of these."""
    titles = (*sides, *_TITLES)
    rows = [tuple(_numbers(one)) for one in measures.values()]
    used = sum(_GAP + max(map(len, column)) for column in zip(titles, *rows, strict=True))
    label_width = max(_LEAST_WIDTH, stdout().width - used)
    names = [shorten_middle(name, label_width) for name in measures]
    columns = [("", False), *((title, True) for title in titles)]
    print_table(columns, [(name, *row) for name, row in zip(names, rows, strict=True)])


def _numbers(one: Comparison) -> Iterator[str]:
    yield f"{one.baseline:.3f}"
    yield f"{one.system:.3f}"
    yield signed(one.difference)
    yield interval_text(one.difference_interval)
    yield f"{one.p:.4f}"
    yield win_tie_loss_text(one)
    yield detectable_text(one)


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
    print_moves([(move.baseline, move.system, (move.query_id, move.kind), move.query) for move in shown])
    if len(moves) > _SHOWN_MOVES:
        typer.echo(f"and {len(moves) - _SHOWN_MOVES} more; --json has all")


def print_moves(moves: Sequence[tuple[int | None, int | None, Sequence[str], str]]) -> None:
    """A line for each move: the rank before and after, some words, and as much of a text as has room."""
    fixed = [(_rank(before), _rank(after), *map(printable, words)) for before, after, words, _ in moves]
    used = sum(max(map(cell_len, column)) for column in zip(*fixed, strict=True)) + 1 + (len(fixed[0]) + 1) * _GAP
    left = stdout().width - used
    rows = [(a, "→", b, *words, _cut(text, left)) for (a, b, *words), (*_, text) in zip(fixed, moves, strict=True)]
    print_table([("", True), ("", False), ("", True), *[("", False)] * (len(fixed[0]) - 1)], rows)


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
