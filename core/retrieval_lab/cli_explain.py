"""What `retrieval-lab trace` tells beyond the trace: the wanted passage's journey, and how the query was parsed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from retrieval_lab.text import printable

if TYPE_CHECKING:
    from retrieval_lab.diagnosis.journey import Journey
    from retrieval_lab.diagnosis.parse_view import ParseView


def explained(journey: Journey | None, view: ParseView | None) -> dict[str, Any]:
    """Both as JSON has them: `journey`, null without a wanted passage, and `parse` where it was asked for."""
    found: dict[str, Any] = {"journey": None if journey is None else journey.to_dict()}
    return found if view is None else {**found, "parse": view.to_dict()}


def print_explained(journey: Journey | None, view: ParseView | None, whole: bool) -> None:
    """Both on stdout; of the parse, unless the `whole` is wanted, only what was probably meant, on stderr."""
    from retrieval_lab.diagnosis.report import journey_report, parse_report

    if view is not None and whole:
        typer.echo(f"\n{parse_report(view)}")
    if journey is not None:
        typer.echo(f"\n{journey_report(journey)}")
    if view is not None and view.meant is not None:
        typer.echo(f"note: a dash before a word excludes it; was this meant? {printable(view.meant)}", err=True)
