"""How the effect of a change on golden queries is printed: their measures, and where their best answers stand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from retrieval_lab.cli_compare import print_differences, print_moves
from retrieval_lab.cli_text import print_table

if TYPE_CHECKING:
    from retrieval_lab.evals.effects import Effect, Moved

SIDES = ("before", "after", "change")
SHOWN = 10
"""How many of the queries that lost most are printed."""

_TITLES = ("found before", "after", "lost", "gained", "median move")


def print_effect(effect: Effect) -> None:
    """Two tables: each measure before and after with what is known of the change, then the best answers of each list.

    A median move above 0 says that answers sank.
    """
    print_differences(effect.measures, SIDES)
    typer.echo("\nthe best answer of each query")
    rows = [
        (
            name,
            str(one.before),
            str(one.after),
            str(len(one.lost)),
            str(len(one.gained)),
            "–" if one.median_move is None else f"{one.median_move + 0.0:+g}",
        )
        for name, one in effect.ranks.items()
    ]
    print_table([("", False), *((title, True) for title in _TITLES)], rows)


def print_worse(effect: Effect, k: int) -> None:
    """The queries that lost most, as they were asked after the change, with the rank of their best answer."""
    if not effect.worse:
        return
    typer.echo(f"\nlost most: rank in the first {k}, before → after")
    print_moves([_move(one) for one in effect.worse[:SHOWN]])
    print_more(len(effect.worse))


def print_more(number: int) -> None:
    """That more than SHOWN are there, if so."""
    if number > SHOWN:
        typer.echo(f"and {number - SHOWN} more; --json has all")


def _move(one: Moved) -> tuple[int | None, int | None, tuple[str, ...], str]:
    return one.ranks_before["final"], one.ranks_after["final"], (one.query_id, one.kind), one.after
