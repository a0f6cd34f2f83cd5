"""The commands `retrieval-lab analysis`: begin RETRIEVAL_ANALYSIS.md, see how far it is, check it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
from retrieval_lab.cli_text import counted
from retrieval_lab.corpus import GOLDEN_FILE
from retrieval_lab.errors import Fault, FaultyInput
from retrieval_lab.text import printable

if TYPE_CHECKING:
    from retrieval_lab.diagnosis.analysis_check import Agreement, Key, Misses, Status
    from retrieval_lab.lab import Lab

EXIT_FAILED = 1

app = typer.Typer(no_args_is_help=True, help="Why passages were missed, as a person judges it: RETRIEVAL_ANALYSIS.md.")

KeyOption = Annotated[
    Path | None,
    typer.Option("--key", metavar="KEY.yaml", help="Judgments to agree with: query ids with lists of failures."),
]


@app.command()
@takes_pipeline
def init(
    corpus: CorpusArgument = None,
    propose: Annotated[
        bool, typer.Option("--propose", help="Write a proposed failure and fix, with the evidence, into empty notes.")
    ] = False,
    choice: PipelineChoice = UNCHANGED,
    dsn: DsnOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write RETRIEVAL_ANALYSIS.md beside the corpus, with a row for each miss, or add the rows that it lacks.

    A miss is a golden query none of whose relevant chunks is in the final
    list. Its failure and its fix are 'todo' until you write them, in any
    editor. What is in the file stays as it is. With --propose the notes of
    rows that nobody has judged or noted say what `diagnose` proposes; failure
    and fix stay 'todo', since they are yours. Exit code 2 when a miss has an
    id that no row can hold.

    Example: [bold]retrieval-lab analysis init fixtures/corpus[/bold]
    """
    from retrieval_lab.diagnosis.analysis_edits import add_notes, add_rows, can_hold
    from retrieval_lab.diagnosis.analysis_file import Document, Row
    from retrieval_lab.diagnosis.analysis_store import analysis_path, edit_analysis

    with opened_lab(corpus, choice, dsn) as lab:
        misses = _misses(lab)
        notes = _proposed(lab) if propose else {}
        added: list[str] = []
        noted: list[str] = []

        def change(document: Document) -> Document:
            there = document.by_query()
            added[:] = [one for one in misses.ids if one not in there and can_hold(one)]
            grown = add_rows(document, map(Row, added), queries=misses.queries)
            grown, noted[:] = add_notes(grown, {one: notes[one] for one in misses.ids if one in notes})
            return grown

        document = edit_analysis(lab.corpus, change)
        path = analysis_path(lab.corpus)
        left_out = [one for one in misses.ids if not can_hold(one)]
        if as_json:
            rows = {"rows": len(document.rows), "added": added, "proposed": noted, "left_out": left_out}
            print_json({"file": str(path), "misses": len(misses.ids), **rows})
        else:
            proposed = f", {counted(len(noted), 'proposal')} noted" if propose else ""
            typer.echo(printable(f"{path}: {counted(len(added), 'row')} added{proposed}, {_count(misses)}"))
        if left_out:
            why = "no row of a table can hold this id; rename it"
            raise _faulty([Fault(lab.corpus / GOLDEN_FILE, None, why, one) for one in left_out])


@app.command()
@takes_pipeline
def status(
    corpus: CorpusArgument = None,
    key: KeyOption = None,
    choice: PipelineChoice = UNCHANGED,
    dsn: DsnOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say how many misses are judged, how often each failure and each fix was chosen, and what is still to do.

    Example: [bold]retrieval-lab analysis status fixtures/corpus[/bold]
    """
    from retrieval_lab.diagnosis import analysis_check
    from retrieval_lab.diagnosis.analysis_file import parse
    from retrieval_lab.diagnosis.analysis_store import analysis_path, load_analysis

    judged = _key(key)
    with opened_lab(corpus, choice, dsn) as lab:
        path = analysis_path(lab.corpus)
        exists = path.exists()
        document = load_analysis(path) if exists else parse("")
        misses = _misses(lab)
        found = analysis_check.status(document, misses)
        agreement = None if judged is None else analysis_check.agreement(document, misses, judged)
        if as_json:
            print_json({"file": str(path), "exists": exists, **found.to_dict(), "agreement": _agreement(agreement)})
        else:
            typer.echo(
                printable(f"{path}{'' if exists else ' (not there yet; `retrieval-lab analysis init` makes it)'}")
            )
            typer.echo("\n".join(map(printable, _described(found, agreement))))
        _require_sound(judged, misses)


@app.command()
@takes_pipeline
def check(
    corpus: CorpusArgument = None,
    key: KeyOption = None,
    choice: PipelineChoice = UNCHANGED,
    dsn: DsnOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check that each miss has a row and no other query has, that all kinds are known, and that each is explained.

    Each failure used needs a paragraph of at least 25 words below the table
    that names it or stands under its name as a heading. With --key, at least
    70% of the judgments must be among those that it accepts. Everything that
    is wrong is listed at once with file and line. Exit code 1 when there is
    something, 2 when a file cannot be read or the key is faulty.

    Example: [bold]retrieval-lab analysis check fixtures/corpus[/bold]
    """
    from retrieval_lab.diagnosis.analysis_check import agreement, check_analysis
    from retrieval_lab.diagnosis.analysis_store import analysis_path, load_analysis

    judged = _key(key)
    with opened_lab(corpus, choice, dsn) as lab:
        path = analysis_path(lab.corpus)
        document = load_analysis(path)
        misses = _misses(lab)
        faults = check_analysis(document, path, misses, judged)
        agreed = None if judged is None else agreement(document, misses, judged)
        if as_json:
            counts = {"misses": len(misses.ids), "rows": len(document.rows)}
            found = [fault.to_dict() for fault in faults]
            print_json({"file": str(path), **counts, "faults": found, "agreement": _agreement(agreed)})
        else:
            for fault in faults:
                typer.echo(printable(str(fault)))
            agrees = f"; {agreed}" if agreed is not None else ""
            typer.echo(
                f"{counted(len(faults), 'fault')} in {counted(len(document.rows), 'row')}, {_count(misses)}{agrees}"
            )
        _require_sound(judged, misses)
    if faults:
        raise typer.Exit(EXIT_FAILED)


def _misses(lab: Lab) -> Misses:
    from retrieval_lab.diagnosis.analysis_check import Misses
    from retrieval_lab.evals.runs import run

    with progress_bar("evaluating") as step:
        records = run(lab, progress=step).queries
    return Misses(
        ids=tuple(record.query_id for record in records if record.is_miss),
        unlabelled=tuple(record.query_id for record in records if not record.relevant),
        queries={record.query_id: record.query for record in records},
    )


def _proposed(lab: Lab) -> dict[str, str]:
    """The notes that propose a failure and a fix, by query id."""
    from retrieval_lab.diagnosis.proposal import diagnoses

    with progress_bar("diagnosing") as step:
        return {one.query_id: one.note for one in diagnoses(lab, progress=step) if one.query_id is not None}


def _key(path: Path | None) -> Key | None:
    """The key, read before the work. Raises FaultyInput."""
    if path is None:
        return None
    from retrieval_lab.diagnosis.analysis_check import read_key

    key = read_key(path)
    if key.faults:
        raise _faulty(key.faults)
    return key


def _require_sound(key: Key | None, misses: Misses) -> None:
    from retrieval_lab.diagnosis.analysis_check import unknown_ids

    if key is not None and (faults := unknown_ids(key, misses)):
        raise _faulty(faults)


def _faulty(faults: Sequence[Fault]) -> FaultyInput:
    """The error of these faults, whose ids and values cannot steer the terminal."""
    return FaultyInput(
        [
            replace(fault, message=printable(fault.message), query_id=printable(fault.query_id or "") or None)
            for fault in faults
        ]
    )


def _count(misses: Misses) -> str:
    number = len(misses.ids)
    return f"{number} {'miss' if number == 1 else 'misses'} of {counted(len(misses.queries), 'golden query')}"


def _agreement(found: Agreement | None) -> dict[str, Any] | None:
    return None if found is None else found.to_dict()


def _described(found: Status, agreement: Agreement | None) -> Iterator[str]:
    """The lines for people."""
    yield f"{len(found.judged)} of {found.misses} {'miss is' if found.misses == 1 else 'misses are'} judged"
    for title, counts in (("failure", found.failures), ("fix", found.fixes)):
        used = [f"{kind} {number}" for kind, number in counts.items() if number]
        if used:
            yield f"{title}: {', '.join(used)}"
    lists: Sequence[tuple[str, Sequence[str]]] = (
        ("still to judge", found.todo),
        ("without a row (`retrieval-lab analysis init` adds it)", found.absent),
        ("rows of no miss", found.stale),
        ("failures without a paragraph of 25 words", found.lacking),
        ("not counted, no chunk is relevant", found.unlabelled),
    )
    yield from (f"{title}: {', '.join(names)}" for title, names in lists if names)
    if agreement is not None:
        yield str(agreement)
