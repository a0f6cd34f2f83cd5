"""The command `retrieval-lab index`: bring the index of a corpus in step with its files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from retrieval_lab.cli_options import DsnOption, JsonOption, opened_lab, print_json
from retrieval_lab.cli_pipeline import UNCHANGED, PipelineChoice, takes_pipeline
from retrieval_lab.cli_text import counted
from retrieval_lab.text import printable

if TYPE_CHECKING:
    from retrieval_lab.lab import Lab


@takes_pipeline
def index(
    corpus: Annotated[Path, typer.Argument(help="Folder with docs/ and stories/.", show_default=False)],
    choice: PipelineChoice = UNCHANGED,
    dsn: DsnOption = None,
    as_json: JsonOption = False,
) -> None:
    """Index what is new or changed in a corpus, forget what is gone, and say what was done.

    Every command that searches does this first, so it is needed only to do it ahead of time. An interrupted run is
    taken up where it stopped. Exit code 2 when files had to be left out.

    Example: [bold]retrieval-lab index fixtures/corpus --set chunker.max_chars=800[/bold]
    """
    with opened_lab(corpus, choice, dsn) as lab:
        if as_json:
            print_json(_document(lab))
        else:
            typer.echo(_described(lab))


def _document(lab: Lab) -> dict[str, Any]:
    return {
        "corpus": str(lab.corpus),
        "schema": lab.schema,
        "indexed": list(lab.index.indexed),
        "unchanged": lab.index.unchanged,
        "removed": list(lab.index.removed),
        "chunks": lab.index.chunks,
        "faults": [str(fault) for fault in lab.index.faults],
    }


def _described(lab: Lab) -> str:
    report = lab.index
    done = [
        f"{counted(len(report.indexed), 'document')} indexed",
        f"{report.unchanged} unchanged",
        f"{len(report.removed)} removed",
    ]
    return f"{printable(str(lab.corpus))}: {', '.join(done)}; {counted(report.chunks, 'chunk')} in schema {lab.schema}"
