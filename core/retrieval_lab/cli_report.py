"""The command `retrieval-lab report`: write the report of an ablation again, from the cells that are kept."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from retrieval_lab.cli_options import CorpusArgument, JsonOption, print_json
from retrieval_lab.cli_text import counted, print_table
from retrieval_lab.errors import InputError
from retrieval_lab.paths import bundled_corpus
from retrieval_lab.text import printable

if TYPE_CHECKING:
    from retrieval_lab.report import Report


def complete_ablation(ctx: typer.Context, incomplete: str) -> Iterator[str]:
    """The names of the ablations that are kept of the corpus on the command line."""
    from retrieval_lab.ablation.folder import ablation_folders

    folders = ablation_folders(Path(ctx.params.get("corpus") or bundled_corpus()))
    yield from (folder.name for folder in folders if folder.name.startswith(incomplete))


def report(
    ablation: Annotated[
        str,
        typer.Argument(
            metavar="FOLDER|NAME",
            help="The folder of an ablation, with a slash in it, or the name of one that is kept of the corpus.",
            show_default=False,
            autocompletion=complete_ablation,
        ),
    ],
    corpus: CorpusArgument = None,
    plots: Annotated[bool, typer.Option("--plots/--no-plots", help="Draw the pictures (extra evals).")] = True,
    as_json: JsonOption = False,
) -> None:
    """Write the report of an ablation into its folder: which configuration to ship, why, and what stays open.

    Takes what is measured so far, and needs no database. report.md is for
    reading; metrics.json, per_query.csv and failures.csv have the numbers, and
    three PNG files the pictures. An earlier report is replaced.

    Example: [bold]retrieval-lab report first fixtures/corpus[/bold]
    """
    from retrieval_lab.report import write_report

    written = write_report(_folder(ablation, corpus or bundled_corpus()), plots=plots)
    if as_json:
        print_json({"files": [str(path) for path in written.files], **written.study.to_dict()})
    else:
        print_report(written)


def _folder(ablation: str, corpus: Path) -> Path:
    """The folder that is meant. Raises InputError when there is no such ablation."""
    from retrieval_lab.ablation.folder import ablation_folders, ablation_path

    if os.sep in ablation:
        return Path(ablation)
    if not ablation.strip():
        raise InputError("the name of the ablation is blank; expected a name, or a folder with a slash in it")
    names = [folder.name for folder in ablation_folders(corpus)]
    if ablation not in names:
        kept = f"of this corpus are kept {', '.join(names)}" if names else "none is kept of this corpus"
        raise InputError(f"there is no ablation {ablation!r}: {kept}; a folder has a slash in it, such as ./{ablation}")
    return ablation_path(ablation, corpus)


def print_report(written: Report) -> None:
    """The decision and the configurations, for people, and where the report lies."""
    made = written.study
    rule = made.ablation.manifest.rule
    rows = []
    for one in made.standings:
        verdict = made.decision.verdict(one.name)
        estimate = one.held_out.measures[made.measure]
        interval = f"{estimate.interval.low:.3f}…{estimate.interval.high:.3f}" if estimate.interval else "–"
        says = "ships" if one.name == made.decision.chosen else "; ".join(verdict.faults(rule)) or "not the simplest"
        rows.append((one.name, f"{estimate.value:.3f}", interval, str(verdict.complexity.points), says))
    print_table([("", False), (made.measure, True), ("interval", True), ("points", True), ("rule", False)], rows)
    chosen = made.decision.chosen
    decided = "no configuration passes the rule" if chosen is None else f"ship {chosen}"
    typer.echo()
    typer.echo(printable(f"{decided} ({counted(len(made.parts.held_out), 'query')} held out)"))
    typer.echo(printable(f"{written.path}"))
