"""What the commands share: their options, opening a corpus with progress on stderr, and printing JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from retrieval_lab.cli_completion import complete_golden
from retrieval_lab.cli_pipeline import PipelineChoice
from retrieval_lab.errors import FaultyInput, InputError

if TYPE_CHECKING:
    from retrieval_lab.lab import Lab


_CORPUS_HELP = "Folder with docs/, stories/ and golden.yaml; by default the bundled one."

CorpusArgument = Annotated[Path | None, typer.Argument(help=_CORPUS_HELP, show_default=False)]
CorpusOption = Annotated[Path | None, typer.Option("--corpus", help=_CORPUS_HELP, show_default=False)]
GoldenOption = Annotated[
    str | None,
    typer.Option(
        "--golden",
        metavar="ID",
        help="A query of golden.yaml, by its query_id.",
        autocompletion=complete_golden,
    ),
]
QuestionArgument = Annotated[str | None, typer.Argument(help="The question; put it in quotes.", show_default=False)]
DsnOption = Annotated[
    str | None, typer.Option("--dsn", help="A PostgreSQL server; else $RETRIEVAL_LAB_DSN, else embedded.")
]
IndexOption = Annotated[
    Path | None,
    typer.Option("--index", metavar="DIR", help="Search an index that export-index wrote; no server is needed."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


@contextmanager
def opened_lab(
    corpus: Path | None, choice: PipelineChoice, dsn: str | None, index: Path | None = None
) -> Iterator[Lab]:
    """The corpus, indexed, with progress on stderr; or in its place an `index` that is there.

    Files that were left out become an error at the end, after the command has done its work with the rest.
    """
    # The driver and numpy take a moment to import, which `--help` need not wait for.
    from retrieval_lab.lab import Lab

    if index is not None:
        if dsn is not None:
            raise InputError("--index needs no server: leave out --dsn")
        with choice.on_index(index, corpus).open() as over_index:
            yield over_index
        return
    effective = choice.configured(corpus)
    with progress_bar("indexing") as step:
        lab = Lab.open(corpus, effective.config, dsn, progress=lambda one: step(one.done, one.total))
    with lab:
        yield lab
    if lab.index.faults:
        raise FaultyInput(lab.index.faults)


class Step(Protocol):
    """Moves a progress bar; `what` is what is done now, if that changes."""

    def __call__(self, done: int, total: int, what: str | None = None) -> None: ...


@contextmanager
def progress_bar(title: str) -> Iterator[Step]:
    """A bar on stderr, if that is a terminal, that a call with (done, total) moves; it is gone at the end."""
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(escape(title), total=None)

        def step(done: int, total: int, what: str | None = None) -> None:
            bar.update(task, completed=done, total=total, description=escape(what or title))

        yield step


def print_json(document: Any) -> None:
    """One JSON document on stdout. Numbers that JSON does not have are an error of ours."""
    typer.echo(json.dumps(document, indent=2, allow_nan=False))
