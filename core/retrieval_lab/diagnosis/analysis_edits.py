"""Changes of an analysis: functions from a document to another one that touch no line but those they are about.

A change that would alter how the rest of the file is read is refused: a text that opens a code fence and never closes
it would swallow what follows. Line ends are those of the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from retrieval_lab.diagnosis.analysis_file import (
    BOM,
    COLUMNS,
    FAILURE,
    FIX,
    LEAST_WORDS,
    NOTES,
    QUERY,
    QUERY_ID,
    TODO,
    Document,
    Row,
    Section,
    Table,
    parse,
    render,
)
from retrieval_lab.diagnosis.kinds import MEANINGS, Failure, Fix
from retrieval_lab.diagnosis.table_row import is_delimiter, with_cells
from retrieval_lab.diagnosis.table_row import row as written_row
from retrieval_lab.errors import InputError
from retrieval_lab.text import sendable

_USUAL_LEVEL = 2
_HEADER = [written_row((*COLUMNS, QUERY, NOTES)), written_row(["---"] * (len(COLUMNS) + 2))]
_INTRODUCTION = [
    "# Retrieval analysis",
    "",
    "One row for each golden query whose passage is missed: what failed, and what would mend it. Below the table, a",
    f"paragraph of at least {LEAST_WORDS} words for each failure used, under a heading with its name.",
    "",
    "What failed:",
    "",
    *(f"- `{kind}`: {MEANINGS[kind]}" for kind in Failure),
    "",
    "What would mend it:",
    "",
    *(f"- `{kind}`: {MEANINGS[kind]}" for kind in Fix),
    "",
]


def add_rows(document: Document, rows: Iterable[Row], *, queries: Mapping[str, str] | None = None) -> Document:
    """Add those of the rows whose query has none yet, at the end of the table, which is made where it is missing.

    `queries` has the question by query id, for a column `query`, if the table has one. Raises InputError for an id
    that no row can hold, and when the file ends in a fence or a comment that is never closed.
    """
    if not document.tables:
        document = _with_table(document)
    there = {row.query_id for row in document.rows}
    new = {row.query_id: row for row in rows if row.query_id not in there}
    for query_id in new:
        if not can_hold(query_id):
            raise InputError(f"query id {query_id!r} cannot stand in a row of a table; rename it in the golden set")
    table = document.tables[-1]
    questions = queries or {}
    made = [_new_row(table, row, questions.get(row.query_id, "")) for row in new.values()]
    return _spliced(document, table.end, table.end, made)


def set_row(
    document: Document, query_id: str, *, failure: str | None = None, fix: str | None = None, notes: str | None = None
) -> Document:
    """Change what is given of the first row of a query, or add a row; a column for notes is made when it is missing.

    Raises InputError as `add_rows` does.
    """
    if document.row(query_id) is None:
        document = add_rows(document, [Row(query_id)])
    row = document.row(query_id)
    if row is None or row.line is None:
        raise InputError(f"no row can be made for query id {query_id!r}")
    wanted = {FAILURE: (row.failure, failure), FIX: (row.fix, fix), NOTES: (row.notes, notes)}
    changed = {
        name: _clean(new) for name, (old, new) in wanted.items() if new is not None and _clean(new) != _clean(old)
    }
    if not changed:
        return document
    table = next(table for table in document.tables if table.header < row.line - 1 < table.end)
    if NOTES in changed and NOTES not in table.columns:
        document = _with_notes(document, table)
    places = {NOTES: table.width, **table.columns}
    return _rewritten(document, row.line - 1, {places[name]: _in_cell(text) for name, text in changed.items()})


def add_notes(document: Document, notes: Mapping[str, str]) -> tuple[Document, list[str]]:
    """Put notes, by query id, into rows that are neither judged nor noted; the document and the ids that got one.

    A row that a person has begun stays as it is, as does a query without a row.
    """
    noted = []
    for query_id, note in notes.items():
        row = document.row(query_id)
        if row is not None and (row.failure, row.fix, row.notes) == (TODO, TODO, ""):
            document = set_row(document, query_id, notes=note)
            noted.append(query_id)
    return document, noted


def remove_row(document: Document, query_id: str) -> Document:
    """Remove every row of a query; nothing happens when there is none."""
    gone = {row.line for row in document.rows if row.query_id == query_id}
    kept = (line for number, line in enumerate(document.lines, start=1) if number not in gone)
    return parse("".join(kept)) if gone else document


def set_paragraph(document: Document, kind: Failure, text: str) -> Document:
    """Put the text below the heading of a failure in the place of what stands there; the heading is made at the end.

    Raises InputError for a text that would not be read back as it is: one with a heading, with a table of judgments or
    with a code fence that is not closed.
    """
    wanted = _clean(text)
    if wanted == document.paragraph(kind):
        return document
    section = document.section(kind)
    made = _appended(document, kind, wanted) if section is None else _replaced(document, section, wanted)
    others = [other for other in Failure if other is not kind]
    if (
        made.paragraph(kind) != wanted
        or made.rows != document.rows
        or any(made.paragraph(other) != document.paragraph(other) for other in others)
    ):
        raise InputError(
            f"the paragraph for {kind} cannot be kept: it would be read otherwise than it is written; expected text"
            " without headings and without a table of judgments, every code fence and comment closed, here and above"
        )
    return made


def can_hold(query_id: str) -> bool:
    """Whether a row can hold a query id so that it is read back the same."""
    line = written_row([_in_cell(_clean(query_id)), *COLUMNS[1:]])
    read = parse("\n".join([*_HEADER, line])).rows
    return bool(query_id) and [row.query_id for row in read] == [query_id]


# --- lines ---------------------------------------------------------------------------------------------------------


def _with_table(document: Document) -> Document:
    """The document with an empty table before the paragraphs; a blank one gets an introduction, too."""
    if not render(document).removeprefix(BOM).strip():
        made = _spliced(document, 0, len(document.lines), [*_INTRODUCTION, *_HEADER])
    else:
        # The heading stands above what it heads.
        place = document.sections[0].start - 1 if document.sections else len(document.lines)
        before = [""] if place and document.lines[place - 1].strip() else []
        after = [""] if place < len(document.lines) else []
        made = _spliced(document, place, place, [*before, *_HEADER, *after])
    if not made.tables:
        raise InputError("the file ends in a code fence or a comment that is never closed; close it")
    return made


def _new_row(table: Table, row: Row, query: str) -> str:
    texts = {QUERY_ID: row.query_id, FAILURE: row.failure, FIX: row.fix, NOTES: _clean(row.notes)}
    texts[QUERY] = " ".join(query.split())
    by_place = {place: _in_cell(texts[name]) for name, place in table.columns.items()}
    return written_row(by_place.get(place, "") for place in range(table.width))


def _replaced(document: Document, section: Section, text: str) -> Document:
    """The blank lines around what is replaced stay."""
    filled = [at for at in range(section.start, section.end) if document.lines[at].strip()]
    if filled:
        return _spliced(document, filled[0], filled[-1] + 1, text.split("\n") if text else [])
    is_last = section.end == len(document.lines)
    return _spliced(document, section.start, section.end, ["", *text.split("\n"), *([] if is_last else [""])])


def _appended(document: Document, kind: Failure, text: str) -> Document:
    level = document.sections[-1].level if document.sections else _USUAL_LEVEL
    blank = [""] if document.lines and document.lines[-1].strip() else []
    return _spliced(
        document,
        len(document.lines),
        len(document.lines),
        [*blank, f"{'#' * level} {kind}", "", *text.split("\n")],
    )


def _spliced(document: Document, start: int, end: int, texts: Sequence[str]) -> Document:
    """The document with its lines `start` up to `end` replaced by these, which get its line end."""
    if start == end and not texts:
        return document
    mark, lines = _without_mark(document)
    line_end = "\r\n" if lines and lines[0].endswith("\r\n") else "\n"
    before = lines[:start]
    if before and texts and not before[-1].endswith("\n"):
        before[-1] += line_end
    return parse("".join([mark, *before, *(f"{text}{line_end}" for text in texts), *lines[end:]]))


def _rewritten(document: Document, at: int, texts: Mapping[int, str]) -> Document:
    """The document with cells of one of its lines replaced."""
    mark, lines = _without_mark(document)
    text = lines[at].rstrip("\r\n")
    lines[at] = with_cells(text, texts) + lines[at][len(text) :]
    return parse("".join([mark, *lines]))


def _with_notes(document: Document, table: Table) -> Document:
    """The document with a column for notes in the table. Rows need no cell for it: short ones count as filled up."""
    below = document.lines[table.header + 1]
    if is_delimiter(below.rstrip("\r\n")):
        document = _rewritten(document, table.header + 1, {table.width: "---"})
    return _rewritten(document, table.header, {table.width: NOTES})


def _without_mark(document: Document) -> tuple[str, list[str]]:
    """The byte order mark, or nothing, and the lines without it."""
    lines = list(document.lines)
    if not lines or not lines[0].startswith(BOM):
        return "", lines
    return BOM, [line for line in (lines[0].removeprefix(BOM), *lines[1:]) if line]


def _clean(text: str) -> str:
    """The text as a file can hold it, with `\n` line ends and no blanks around it."""
    return sendable(text.replace("\r\n", "\n").replace("\r", "\n"))[0].strip()


def _in_cell(text: str) -> str:
    return "<br>".join(line.strip() for line in text.split("\n"))
