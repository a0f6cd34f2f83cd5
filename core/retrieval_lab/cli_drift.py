"""The command `retrieval-lab drift`: what a second snapshot of a corpus does to its golden set."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from retrieval_lab.cli_compare import print_moves
from retrieval_lab.cli_effect import SHOWN, print_effect, print_more
from retrieval_lab.cli_options import CorpusArgument, DsnOption, JsonOption, opened_lab, print_json, progress_bar
from retrieval_lab.cli_pipeline import UNCHANGED, PipelineChoice, takes_pipeline
from retrieval_lab.cli_text import counted, print_table
from retrieval_lab.errors import FaultyInput
from retrieval_lab.text import printable

if TYPE_CHECKING:
    from retrieval_lab.evals.drift import Documents, Drift, Overtaken
    from retrieval_lab.lab import Lab


@takes_pipeline
def drift(
    against: Annotated[
        Path, typer.Option("--against", metavar="DIR", help="Another snapshot of the corpus; it needs no golden.yaml.")
    ],
    corpus: CorpusArgument = None,
    split: Annotated[
        str | None, typer.Option("--split", metavar="NAME", help="The queries of this split alone.")
    ] = None,
    choice: PipelineChoice = UNCHANGED,
    dsn: DsnOption = None,
    as_json: JsonOption = False,
) -> None:
    """Ask the golden queries of a corpus in a second snapshot of it, too, and show what its drift did to them.

    Documents that are new, gone or changed; golden queries that lost their
    label, each with the reason, which no mean counts; of the others every
    measure with the 95% interval of its change, the best answer's rank in
    every list, and what stands before the answers that sank. Both snapshots are
    searched under the configuration of the first, each by an index of its own;
    neither folder is changed.

    Example: [bold]retrieval-lab drift fixtures/corpus --against next/corpus[/bold]
    """
    # numpy takes a moment to import, which `--help` need not wait for.
    from retrieval_lab.evals import drift as measured
    from retrieval_lab.lab import Lab

    with opened_lab(corpus, choice, dsn) as first:
        first.require_golden()
        with progress_bar("indexing") as step:
            second = Lab.open(against, first.config, dsn, progress=lambda one: step(one.done, one.total))
        with second:
            with progress_bar("asking") as step:
                found = measured.drift(first, second, split=split, progress=step)
            if as_json:
                print_json({"corpus": str(first.corpus), "against": str(second.corpus), **found.to_dict()})
            else:
                _print(found, first, second)
            if second.index.faults:
                raise FaultyInput([*first.index.faults, *second.index.faults])


def _print(found: Drift, first: Lab, second: Lab) -> None:
    documents = found.documents
    typer.echo(printable(f"before  {first.corpus}  {counted(documents.before, 'document')}"))
    typer.echo(printable(f"after   {second.corpus}  {counted(documents.after, 'document')}"))
    _print_documents(documents)
    compared = 0 if found.effect is None else found.effect.queries
    typer.echo(f"\n{counted(found.queries, 'golden query')} with an answer: {compared} compared, {len(found.lost)} not")
    if found.lost:
        print_table([("", False)] * 3, [(one.query_id, one.why, one.detail) for one in found.lost])
    if found.narrowed:
        typer.echo(f"\nrelevant documents that are not in both, left out of the labels of {len(found.narrowed)}:")
        for query_id, doc_ids in found.narrowed.items():
            typer.echo(printable(f"  {query_id}  {_named(doc_ids)}"))
    if found.effect is None:
        return
    typer.echo("\nbefore, after, and the change with its 95% paired bootstrap interval; a median move above 0 says")
    typer.echo("that answers sank; least is the smallest change that so many queries could have shown\n")
    print_effect(found.effect)
    _print_sunk(found)


def _print_documents(documents: Documents) -> None:
    for title, doc_ids in (("new", documents.new), ("gone", documents.gone), ("changed", documents.changed)):
        typer.echo(printable(f"{len(doc_ids):>4} {title}{': ' if doc_ids else ''}{_named(doc_ids)}"))
    for gone, new in documents.renamed.items():
        typer.echo(printable(f"     {gone} has the same text as {new}"))


def _named(doc_ids: Sequence[str]) -> str:
    more = f" and {len(doc_ids) - SHOWN} more" if len(doc_ids) > SHOWN else ""
    return f"{', '.join(doc_ids[:SHOWN])}{more}"


def _print_sunk(found: Drift) -> None:
    """The answers that sank, with what stands before them now and did not before."""
    worse = () if found.effect is None else found.effect.worse
    by_new = sum(bool(found.overtaken[one.query_id].new) for one in worse)
    typer.echo(f"\nanswers that sank: {len(worse)}, {by_new} of them with a new document before them")
    if not worse:
        return
    typer.echo(f"rank in the first {found.config.top_k}, and the documents that stand before it only now")
    shown = worse[:SHOWN]
    print_moves(
        [
            (
                one.ranks_before["final"],
                one.ranks_after["final"],
                (one.query_id, _before_it(found.overtaken[one.query_id])),
                one.after,
            )
            for one in shown
        ]
    )
    print_more(len(worse))


def _before_it(what: Overtaken) -> str:
    """Such as `2 new, 1 changed`."""
    counts = (("new", what.new), ("changed", what.changed), ("same", what.others))
    words = [f"{len(doc_ids)} {name}" for name, doc_ids in counts if doc_ids]
    return ", ".join([*words, *(["its own changed"] if what.answer_changed else [])]) or "none"
