"""The command `retrieval-lab funnel`: how many passages of the golden set each stage lets through."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from retrieval_lab.cli_options import (
    CorpusArgument,
    DsnOption,
    JsonOption,
    opened_lab,
    print_json,
    progress_bar,
)
from retrieval_lab.cli_pipeline import UNCHANGED, PipelineChoice, takes_pipeline
from retrieval_lab.cli_text import print_table, stdout

if TYPE_CHECKING:
    from retrieval_lab.diagnosis.funnel import Funnel


@takes_pipeline
def funnel(
    corpus: CorpusArgument = None,
    by_kind: Annotated[bool, typer.Option("--by-kind", help="Also a row for each kind of query.")] = False,
    choice: PipelineChoice = UNCHANGED,
    dsn: DsnOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show where the passages of the golden set are lost: at chunking, on no list, by the index, fusion, reranker, MMR.

    One passage a query counts, the best placed of its relevant chunks; a
    query whose anchor is in no chunk is lost at chunking. Shares are of all
    queries, with 95% Wilson intervals. --json has the fate of every query,
    and always the kinds.

    Example: [bold]retrieval-lab funnel fixtures/corpus --by-kind[/bold]
    """
    from retrieval_lab.diagnosis import funnel as funnels

    with opened_lab(corpus, choice, dsn) as lab:
        with progress_bar("following") as step:
            found = funnels.funnel(lab, progress=step)
        if as_json:
            print_json(found.to_dict())
        else:
            _print(found, by_kind=by_kind)


def _print(found: Funnel, *, by_kind: bool) -> None:
    from retrieval_lab.diagnosis.funnel_text import funnel_text, lost_text

    width = stdout().width
    typer.echo(funnel_text(found, width))
    if lost := lost_text(found, width):
        typer.echo(f"\nlost\n{lost}")
    if by_kind:
        typer.echo()
        _print_kinds(found)


def _print_kinds(found: Funnel) -> None:
    """A row for each kind; stages that lose nothing at all have no column."""
    from retrieval_lab.wording import share_text

    lossy = [step.stage for step in found.all.steps if step.lost]
    rows = []
    for kind, level in found.by_kind.items():
        lost = (str(len(level.step(stage).lost) or "·") for stage in lossy)
        rows.append((kind, str(level.queries), *lost, str(len(level.found)), share_text(level.share)))
    titles = [("kind", False), ("queries", True), *((stage, True) for stage in lossy), ("final", True), ("", True)]
    print_table(titles, rows)
