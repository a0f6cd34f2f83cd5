"""How several systems against one baseline are printed, whatever their runs were read from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from string import ascii_uppercase
from typing import TYPE_CHECKING

import typer

from retrieval_lab.cli_text import print_table, stdout
from retrieval_lab.shorten import shorten_middle
from retrieval_lab.text import printable
from retrieval_lab.wording import interval_text, signed

if TYPE_CHECKING:
    from retrieval_lab.evals.comparison import Comparison, Corrected
    from retrieval_lab.evals.resampling import Values

_TITLES = ("mean", "-A", "interval", "p", "Holm", "win/tie/loss", "least")
_GAP = 2
_SHORTEST_NAME = 10
_LONGEST_NAME = 20
_WIDEST_PLOT = 100


def letter(number: int) -> str:
    """What run of this number, from 0, is called in tables: A to Z, then its number."""
    return ascii_uppercase[number] if number < len(ascii_uppercase) else f"#{number + 1}"


def print_systems(systems: Sequence[Corrected]) -> None:
    """A table of all measures: the baseline A, and each system with its difference and what is known of it."""
    typer.echo(
        "-A is the difference to A with its 95% paired bootstrap interval; p is that of a permutation test, Holm"
    )
    typer.echo("the same corrected for the number of systems; least is the smallest difference that could have shown\n")
    columns = [("", False), ("", False), *((title, True) for title in _TITLES)]
    rows = list(_rows(systems))
    numbers = [("", "", *_TITLES), *rows]
    used = sum(_GAP + max(len(row[column]) for row in numbers) for column in range(1, len(columns)))
    label_width = max(_SHORTEST_NAME, stdout().width - used)
    print_table(columns, [(shorten_middle(name, label_width), *row) for name, *row in rows])


def _rows(systems: Sequence[Corrected]) -> Iterator[tuple[str, ...]]:
    names = dict.fromkeys(name for one in systems for name in one.measures)
    for name in names:
        having = [(number, one) for number, one in enumerate(systems, start=1) if name in one.measures]
        baseline = having[0][1].measures[name].baseline
        yield (name, letter(0), f"{baseline:.3f}", *[""] * (len(_TITLES) - 1))
        for number, one in having:
            yield ("", letter(number), *_numbers(one.measures[name], one.p[name]))


def _numbers(one: Comparison, corrected: float) -> Iterator[str]:
    yield f"{one.system:.3f}"
    yield signed(one.difference)
    yield interval_text(one.difference_interval)
    yield f"{one.p:.4f}"
    yield f"{corrected:.4f}"
    yield win_tie_loss_text(one)
    yield detectable_text(one)


def win_tie_loss_text(one: Comparison) -> str:
    """On how many queries the system is better, as good, worse."""
    return f"{one.counts.wins}/{one.counts.ties}/{one.counts.losses}"


def detectable_text(one: Comparison) -> str:
    """The smallest detectable difference; a dash where all tie, for 0 would promise that any difference shows."""
    return f"{one.detectable:.3f}" if one.detectable else "–"


def print_carriers(systems: Sequence[Corrected], measure: str) -> None:
    """The queries that carry the difference of each system on one measure."""
    typer.echo(f"\nCarried by, {printable(measure)}")
    for number, one in enumerate(systems, start=1):
        found = one.measures[measure].carriers if measure in one.measures else ()
        shown = (f"{shorten_middle(it.query_id, _LONGEST_NAME)} {signed(it.difference)}" for it in found)
        typer.echo(printable(f"  {letter(number)}  {',  '.join(shown) or '–'}"))


def print_distributions(differences: Sequence[Values], measure: str) -> None:
    """The bootstrap distribution of each system's mean difference to A on one measure."""
    from retrieval_lab.evals.distribution_text import distribution_lines

    for number, values in enumerate(differences, start=1):
        typer.echo(f"\n{printable(measure)}, {letter(number)} minus A: means of resampled queries, full inside 95%")
        for line in distribution_lines(values, min(stdout().width, _WIDEST_PLOT)):
            typer.echo(line)


def chosen_measure(measure: str | None, systems: Sequence[Mapping[str, Comparison]], preferred: str) -> str:
    """The measure that was named, else the preferred one, else the first that all systems have.

    Raises InputError when the named one is not among them.
    """
    from retrieval_lab.errors import InputError

    names = [name for name in systems[0] if all(name in one for one in systems)]
    if measure is None:
        return preferred if preferred in names else names[0]
    if measure not in names:
        raise InputError(f"the measure {measure!r} is not compared here; these are: {', '.join(names)}")
    return measure
