"""The command `retrieval-lab export`: labels and ranked lists as TREC files, for other tools to score."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from retrieval_lab.cli_options import CorpusArgument, DsnOption, opened_lab, progress_bar
from retrieval_lab.cli_pipeline import UNCHANGED, PipelineChoice, takes_pipeline
from retrieval_lab.cli_text import counted
from retrieval_lab.errors import InputError
from retrieval_lab.text import printable


@takes_pipeline
def export(
    corpus: CorpusArgument = None,
    qrels: Annotated[Path | None, typer.Option("--qrels", metavar="FILE", help="Write the labels there.")] = None,
    run: Annotated[
        Path | None, typer.Option("--run", metavar="FILE", help="Run the golden queries and write their lists there.")
    ] = None,
    split: Annotated[
        str | None, typer.Option("--split", metavar="NAME", help="Run the queries of this split alone.")
    ] = None,
    tag: Annotated[str, typer.Option("--tag", metavar="NAME", help="What the run is called in the file.")] = "lab",
    choice: PipelineChoice = UNCHANGED,
    dsn: DsnOption = None,
) -> None:
    """Write the golden set's labels as qrels, and what a pipeline finds as a run, in the form of trec_eval.

    Graded documents have the ids of the collection that was imported; labels by
    an anchor are of chunks. Scores are strictly decreasing, so that every
    reader keeps the order. A name that ends in .gz is packed. Ids are
    percent-encoded where a reader would part them.

    Example: [bold]retrieval-lab export my-corpus --qrels q.txt --run r.txt --reranker none[/bold]
    """
    from retrieval_lab.exporting import qrels as labels
    from retrieval_lab.exporting import run_lists
    from retrieval_lab.trec import write_qrels, write_run

    if qrels is None and run is None:
        raise InputError("nothing to write; give --qrels FILE, --run FILE or both")
    with opened_lab(corpus, choice, dsn) as lab:
        if qrels is not None:
            found = labels(lab)
            write_qrels(qrels, found)
            written = sum(map(len, found.grades.values()))
            typer.echo(printable(f"{qrels}: {counted(written, 'label')} of {counted(len(found.grades), 'query')}"))
        if run is not None:
            with progress_bar("running") as step:
                lists = run_lists(lab, split=split, progress=step)
            write_run(run, tag, lists)
            written = sum(map(len, lists.values()))
            typer.echo(printable(f"{run}: {counted(written, 'row')} of {counted(len(lists), 'query')}"))
