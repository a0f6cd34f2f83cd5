"""The command `retrieval-lab import`: make a corpus folder of a test collection in another format."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from retrieval_lab.cli_options import JsonOption, print_json, progress_bar
from retrieval_lab.cli_text import counted
from retrieval_lab.errors import Fault, FaultyInput
from retrieval_lab.importing.formats import Format, Options, read_source
from retrieval_lab.text import printable

if TYPE_CHECKING:
    from retrieval_lab.importing.source import LeftOut

EXIT_LEFT_OUT = 2

SplitOption = Annotated[
    str | None, typer.Option("--split", metavar="NAME", help="beir: the labels of qrels/NAME.tsv alone; else all.")
]
TopicsOption = Annotated[Path | None, typer.Option("--topics", metavar="FILE", help="trec: the queries.")]
QrelsOption = Annotated[Path | None, typer.Option("--qrels", metavar="FILE", help="trec: the labels.")]
DocumentsOption = Annotated[
    Path | None,
    typer.Option("--documents", metavar="PATH", help="trec: a file or folder of <DOC> elements, or a corpus.jsonl."),
]


def import_(
    form: Annotated[Format, typer.Argument(metavar="FORMAT", help="beir, trec, squad or golden.", show_default=False)],
    path: Annotated[Path, typer.Argument(help="The folder or file to import.", show_default=False)],
    target: Annotated[Path, typer.Argument(metavar="DIR", help="The corpus folder to make.", show_default=False)],
    split: SplitOption = None,
    topics: TopicsOption = None,
    qrels: QrelsOption = None,
    documents: DocumentsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a corpus folder of a test collection, which every other command then takes.

    [bold]beir[/bold]    a folder with corpus.jsonl, queries.jsonl and qrels/*.tsv, packed or not

    [bold]trec[/bold]    a folder with topics, qrels and documents, or these named by options

    [bold]squad[/bold]   a JSON file of version 1.1 or 2

    [bold]golden[/bold]  another corpus folder of the lab

    Texts are taken literally. What is faulty is left out and told, as is all
    else that was left out; `check PATH` lists every single fault with its line.
    Exit code 2 when something faulty was left out.

    Example: [bold]retrieval-lab import beir scifact my-corpora/scifact[/bold]
    """
    from retrieval_lab.importing.folder import require_new

    require_new(target)
    if form is Format.GOLDEN:
        _copy(path, target, as_json=as_json)
        return
    _import(form, path, target, Options(split, topics, qrels, documents), as_json=as_json)


def _copy(path: Path, target: Path, *, as_json: bool) -> None:
    from retrieval_lab.importing.lab_folder import copy_corpus

    with progress_bar("copying") as step:
        made = copy_corpus(path, target, step)
    _tell(target, made.documents, made.queries, (), as_json=as_json)
    if made.faults:
        raise FaultyInput(made.faults)


def _import(form: Format, path: Path, target: Path, options: Options, *, as_json: bool) -> None:
    from retrieval_lab.importing.build import build
    from retrieval_lab.importing.folder import write_corpus

    with progress_bar("reading") as step:
        step(0, 1)
        source = read_source(form, path, options)
        built = build(source)
    notes = source.notes.summary()
    if not built.documents:
        raise FaultyInput(source.notes.faults or [Fault(path, None, "no documents, so there is nothing to import")])
    with progress_bar("writing") as step:
        write_corpus(built, target, f"{form} {path.resolve().name}", step)
    _tell(target, len(built.documents), len(built.golden.queries), notes, as_json=as_json)
    if any(one.faulty for one in notes):
        told = f"error: something faulty was left out; retrieval-lab check {path} --format {form} lists all of it"
        typer.echo(printable(told), err=True)
        raise typer.Exit(EXIT_LEFT_OUT)


def _tell(target: Path, documents: int, queries: int, notes: Sequence[LeftOut], *, as_json: bool) -> None:
    if as_json:
        left_out = [{"what": one.what, "count": one.count, "first": one.first, "fault": one.faulty} for one in notes]
        print_json({"corpus": str(target), "documents": documents, "queries": queries, "left_out": left_out})
        return
    typer.echo(printable(f"{target}: {counted(documents, 'document')}, {counted(queries, 'query')}"))
    for one in notes:
        typer.echo(printable(f"{'left out' if one.faulty else 'note'}: {one}"))
