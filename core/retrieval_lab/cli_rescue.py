"""The command `retrieval-lab rescue`: the changes that would have brought a missed passage, the smallest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from retrieval_lab.cli_options import (
    CorpusOption,
    DsnOption,
    GoldenOption,
    JsonOption,
    QuestionArgument,
    opened_lab,
    print_json,
    progress_bar,
)
from retrieval_lab.cli_pipeline import UNCHANGED, PipelineChoice, takes_pipeline
from retrieval_lab.cli_text import counted, print_table
from retrieval_lab.errors import InputError
from retrieval_lab.text import printable
from retrieval_lab.wording import interval_text, signed

if TYPE_CHECKING:
    from retrieval_lab.diagnosis.rescue import Rescue, Rescues
    from retrieval_lab.evals.summary import Estimate

_SHOWN_HINTS = 3


@takes_pipeline
def rescue(
    query: QuestionArgument = None,
    golden: GoldenOption = None,
    chunk: Annotated[
        str | None, typer.Option("--chunk", metavar="ID", help="The chunk that the question should find.")
    ] = None,
    reindex: Annotated[
        bool, typer.Option("--reindex", help="Also index the corpus in up to nine other ways, each for a moment.")
    ] = False,
    slow: Annotated[
        bool, typer.Option("--slow", help="With --reindex: also with an embedder that runs a model.")
    ] = False,
    corpus: CorpusOption = None,
    choice: PipelineChoice = UNCHANGED,
    dsn: DsnOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find every single change that brings a missed passage into the final list, the smallest first.

    Tried are the question without each of its terms, every number of the
    configuration in both directions, each stage switched off, and the question
    with a rare term of the passage; with --reindex also the heading path before
    each chunk's text and other sizes and overlaps of chunks. Of each change of
    the configuration: the other golden queries that it gains and loses, and
    what it does to recall and MRR over them, with 95% paired bootstrap
    intervals. What helped nothing is listed below.

    Example: [bold]retrieval-lab rescue --golden q08[/bold]
    """
    if query is not None and golden is not None:
        raise InputError('name one question: retrieval-lab rescue --golden ID, or "QUESTION" --chunk ID')
    if golden is None and (query is None or chunk is None):
        raise InputError(
            'name a passage: retrieval-lab rescue --golden ID, or retrieval-lab rescue "QUESTION" --chunk ID'
        )
    from retrieval_lab.diagnosis.rescues import rescues

    with opened_lab(corpus, choice, dsn) as lab:
        asked = lab.golden_query(golden) if golden is not None else query or ""
        with progress_bar("searching") as step:
            found = rescues(lab, asked, chunk, reindex=reindex, slow=slow, progress=step)
        if as_json:
            print_json(found.to_dict())
        else:
            _print(found, reindex=reindex)


def _print(found: Rescues, *, reindex: bool) -> None:
    k = found.config.top_k
    typer.echo(printable(found.query))
    typer.echo(printable(f"wanted: {', '.join(found.wanted) or found.unlabelled}"))
    if not found.is_miss:
        typer.echo(f"no miss: the passage stands at rank {found.before} of the final {k}, nothing needs to rescue it")
        return
    where = f"rank {found.before} in the final order without its cut" if found.before else "not in the pool"
    typer.echo(f"a miss: {where}, the final list has {k}\n")
    if found.rescues:
        _print_rescues(found)
    else:
        typer.echo("Nothing that was tried rescues it.")
    typer.echo("\nTried in vain")
    rows = [(one.setting, one.range, str(one.values), one.reason or "") for one in found.tried]
    print_table([("setting", False), ("values", False), ("tried", True), ("", False)], rows)
    if not reindex:
        typer.echo("\n--reindex tries other ways of indexing, too")


def _print_rescues(found: Rescues) -> None:
    hints = [one for one in found.rescues if one.cost == "hint"]
    left_out = {id(one) for one in hints[_SHOWN_HINTS:]}
    shown = [one for one in found.rescues if id(one) not in left_out]
    columns = [("change", False), ("rank", True), ("gained, lost", False), ("", False), ("", True), ("interval", False)]
    print_table(columns, [row for one in shown for row in _rows(one)])
    if left_out:
        typer.echo(f"and {counted(len(left_out), 'other term')} of the passage; --json has all")
    effect = next((one.effect for one in shown if one.effect), None)
    if effect is not None:
        typer.echo(
            f"gained, lost and means at {found.config.top_k}: over {counted(effect.queries, 'other golden query')}"
        )


def _rows(rescue: Rescue) -> Iterator[Sequence[str | Text]]:
    change, rank, effect = rescue.title, str(rescue.after), rescue.effect
    if effect is None:
        yield change, rank, "–", "", "", ""
        return
    yield change, rank, effect.moved, *_estimate("recall", effect.recall)
    yield "", "", "", *_estimate("MRR", effect.mrr)


def _estimate(name: str, estimate: Estimate) -> tuple[str, str, str]:
    return name, signed(estimate.value), interval_text(estimate.interval)
