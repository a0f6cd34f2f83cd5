"""The CSV files of a report. What a spreadsheet would take for a formula is text in them."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from io import StringIO

from retrieval_lab.evals.runs import Run
from retrieval_lab.report.study import Study

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
_PER_QUERY = ("configuration", "query_id", "split", "kind", "best_rank")
_FAILURES = ("query_id", "kind", "query", "value", "best_rank", "lost_at", "cause", "labelled", "retrieved")


def per_query_csv(made: Study) -> str:
    """A row for each configuration and query, in the order of the grid and the golden set.

    `split` is empty for a query that counts in neither part, a measure where the configuration does not have it or it
    is undefined, `best_rank` where no labelled passage is in the final list. `seconds`, the last column, is timed.
    """
    runs = [(cell.name, cell.run) for cell in made.ablation.cells]
    measures = list(dict.fromkeys(name for _, run in runs for name in _measures(run)))
    rows = (
        (
            name,
            record.query_id,
            made.parts.name_of(record.query_id),
            record.kind,
            record.ranks["final"],
            *(record.measures.get(measure) for measure in measures),
            record.seconds,
        )
        for name, run in runs
        for record in run.queries
    )
    return _written([*_PER_QUERY, *measures, "seconds"], rows)


def failures_csv(made: Study) -> str:
    """A row for each held-out query of the configuration looked at with less than the full value, the worst first.

    Ids are parted by a space.
    """
    rows = (
        (
            one.query_id,
            one.kind,
            one.query,
            one.value,
            one.rank,
            one.lost_at,
            one.cause,
            " ".join(one.labelled),
            " ".join(one.retrieved),
        )
        for one in made.worst
    )
    return _written(_FAILURES, rows)


def _measures(run: Run) -> Iterable[str]:
    return next((record.measures for record in run.queries if record.measures), ())


def _written(header: Sequence[str], rows: Iterable[Sequence[str | float | None]]) -> str:
    text = StringIO(newline="")
    # Every text in quotes: the module leaves a lone carriage return bare otherwise.
    writer = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    writer.writerow(header)
    writer.writerows([_cell(value) for value in row] for row in rows)
    return text.getvalue()


def _cell(value: str | float | None) -> str | float:
    """Numbers as they are; a text that begins like a formula behind an apostrophe, as spreadsheets mark text."""
    if value is None:
        return ""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
