"""The command `retrieval-lab diagnose`: for each miss a proposed failure and fix, with the evidence."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.cells import cell_len

from retrieval_lab.cli_options import (
    CorpusArgument,
    DsnOption,
    GoldenOption,
    JsonOption,
    opened_lab,
    print_json,
    progress_bar,
)
from retrieval_lab.cli_pipeline import UNCHANGED, PipelineChoice, takes_pipeline
from retrieval_lab.cli_text import counted, stdout
from retrieval_lab.text import printable

if TYPE_CHECKING:
    from retrieval_lab.diagnosis.proposal import Proposal
    from retrieval_lab.lab import Lab

_INDENT = " " * 4


@takes_pipeline
def diagnose(
    corpus: CorpusArgument = None,
    golden: GoldenOption = None,
    rescues: Annotated[
        bool,
        typer.Option("--rescues", help="Take the fixes from rescues that are searched for, seconds for each miss."),
    ] = False,
    choice: PipelineChoice = UNCHANGED,
    dsn: DsnOption = None,
    as_json: JsonOption = False,
) -> None:
    """Propose for each miss of the golden set what failed and what would mend it, with the evidence in one line.

    The kinds are those of RETRIEVAL_ANALYSIS.md. They are proposed by rules
    from where the passage stood at every stage: a person who reads the miss
    may see it otherwise. [bold]analysis init --propose[/bold] puts them into the notes.

    Example: [bold]retrieval-lab diagnose fixtures/corpus[/bold]
    """
    with opened_lab(corpus, choice, dsn) as lab:
        found = _found(lab, golden, rescues=rescues)
        if as_json:
            proposals = [one.to_dict() for one in found]
            print_json({"corpus": lab.corpus.name, "queries": len(lab.golden), "proposals": proposals})
        elif golden is not None:
            _print_one(golden, found)
        else:
            _print(found, len(lab.golden))


def _found(lab: Lab, golden: str | None, *, rescues: bool) -> Sequence[Proposal]:
    from retrieval_lab.diagnosis.proposal import diagnoses, propose
    from retrieval_lab.diagnosis.rescues import rescues as find_rescues

    with progress_bar("diagnosing") as step:
        if golden is None:
            return diagnoses(lab, rescue=rescues, progress=step)
        query = lab.golden_query(golden)
        journey = lab.explain(query)
        searched = find_rescues(lab, query, progress=step) if rescues and journey.lost_at else None
    found = propose(journey, searched)
    return () if found is None else (found,)


def _print(found: Sequence[Proposal], queries: int) -> None:
    number = f"{len(found)} {'miss' if len(found) == 1 else 'misses'}"
    typer.echo(f"{number} of {counted(queries, 'golden query')}{'; proposed, not judged:' if found else ''}\n")
    if found:
        _print_proposals(found)


def _print_proposals(found: Sequence[Proposal]) -> None:
    """The kinds as a table, and below each row its evidence, which a column would cut."""
    rows = [("query_id", "failure", "fix"), *((printable(one.query_id or ""), one.failure, one.fix) for one in found)]
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    below = [[], *(_wrapped(one.evidence) for one in found)]
    for row, lines in zip(rows, below, strict=True):
        cells = (f"{cell}{' ' * (width - cell_len(cell))}" for cell, width in zip(row, widths, strict=True))
        typer.echo("  ".join(cells).rstrip())
        for line in lines:
            typer.echo(line)


def _wrapped(evidence: str) -> list[str]:
    return textwrap.wrap(printable(evidence), stdout().width, initial_indent=_INDENT, subsequent_indent=_INDENT)


def _print_one(query_id: str, found: Sequence[Proposal]) -> None:
    if found:
        typer.echo("proposed, not judged:\n")
        _print_proposals(found)
    else:
        why = "its passage is found, or its anchor is not in the document"
        typer.echo(printable(f"nothing to propose for {query_id}: {why}"))
