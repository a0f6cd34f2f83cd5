"""The command `retrieval-lab calibrate`: choose the support floor below which a question gets no answer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from retrieval_lab.cli_options import CorpusArgument, DsnOption, JsonOption, opened_lab, print_json, progress_bar
from retrieval_lab.cli_pipeline import UNCHANGED, PipelineChoice, takes_pipeline
from retrieval_lab.cli_text import stdout
from retrieval_lab.paths import bundled_corpus
from retrieval_lab.text import printable

if TYPE_CHECKING:
    from retrieval_lab.evals.calibration import Calibration


@takes_pipeline
def calibrate(
    corpus: CorpusArgument = None,
    questions: Annotated[
        Path | None,
        typer.Option(
            "--questions",
            metavar="FILE",
            help="Questions without an answer in the corpus, one a line; else its off_corpus.txt, else the lab's own.",
        ),
    ] = None,
    most_refused: Annotated[
        float, typer.Option("--most-refused", metavar="SHARE", help="The share of golden queries that may be refused.")
    ] = 0.05,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the floor, and store nothing.")] = False,
    choice: PipelineChoice = UNCHANGED,
    dsn: DsnOption = None,
    as_json: JsonOption = False,
) -> None:
    """Choose the support floor of a pipeline, show how well it parts the questions, and store it in lab.yaml.

    Support is the share of a question that one of its passages covers. Of
    the floors that refuse at most 5% of the golden queries, the one is taken
    that refuses the most other questions. Both errors are told for questions
    that had no part in the choice. With --set, --embedder or --reranker, which
    lab.yaml does not have, and in a configuration that comes with the lab,
    nothing is stored.

    Example: [bold]retrieval-lab calibrate fixtures/corpus --dry-run[/bold]
    """
    from retrieval_lab.evals.calibration import calibrate
    from retrieval_lab.evals.off_corpus import off_corpus_path, read_questions

    asked = read_questions(questions or off_corpus_path(corpus or bundled_corpus()))
    with opened_lab(corpus, choice, dsn) as lab:
        with progress_bar("measuring") as step:
            found = calibrate(lab, asked, most_refused=most_refused, progress=step)
        if not as_json:
            _print(found)  # before it is stored, so that a file that cannot be written takes nothing with it
        is_kept = not (dry_run or choice.changes or choice.is_shipped(corpus))
        stored = _store(found, choice.file(corpus), lab.corpus) if is_kept else None
        if as_json:
            print_json({**found.to_dict(), "stored": None if stored is None else str(stored)})
        elif stored is not None:
            typer.echo(printable(f"stored as support_floor in {stored}"))
        elif not dry_run:
            typer.echo("not stored: the options change what lab.yaml says; write them into it and calibrate again")


def _store(found: Calibration, path: Path | None, corpus: Path) -> Path:
    from retrieval_lab.config_edit import write_setting
    from retrieval_lab.config_file import config_path

    target = path or config_path(corpus)
    write_setting(target, "support_floor", found.floor)
    return target


def _print(found: Calibration) -> None:
    from retrieval_lab.evals.calibration_text import calibration_lines

    for line in calibration_lines(found, min(stdout().width, 100)):
        typer.echo(line)
