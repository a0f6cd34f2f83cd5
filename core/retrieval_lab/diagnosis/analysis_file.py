"""RETRIEVAL_ANALYSIS.md as a value: what a Markdown text says about the misses, with every line of it kept.

The file belongs to a person. Three things in it have a meaning; everything else is kept byte for byte.

*The table.* Its header has the columns `query_id`, `failure` and `fix`, in any order and among others, of which `query`
and `notes` are known. Outer pipes, alignment and the line of dashes may be there or not, and an id or a kind may stand
in backticks or be emphasised. The rows of several such tables count together. What is fenced, in a comment or indented
by four is no table. `todo` stands where nobody has judged yet; in a note `<br>` is a line break.

*Sections.* What stands below a heading that is the name of a failure (`## vocabulary-gap`, `## Vocabulary gap`), down
to the next heading or table, is the text that a program writes for the failure.

*Paragraphs.* A person need not write sections. Each paragraph below the first table, a list item being one too, speaks
for the failures that it names and for the one whose name is the heading above it. A name may be written with a hyphen
or a space, in upper or lower case; only the table's cells must have it exactly.

`analysis_edits` has the changes, `analysis_store` reads and writes the file.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from retrieval_lab.diagnosis.kinds import Failure, Fix
from retrieval_lab.diagnosis.table_row import cells, is_delimiter, is_row
from retrieval_lab.markdown import Line, LineKind
from retrieval_lab.markdown import lines as markdown_lines
from retrieval_lab.text import has_words

QUERY_ID, FAILURE, FIX, QUERY, NOTES = "query_id", "failure", "fix", "query", "notes"
COLUMNS = (QUERY_ID, FAILURE, FIX)
"""The columns by which the table is known."""

TODO = "todo"
"""Stands for a failure or a fix that nobody has chosen yet."""

LEAST_WORDS = 25
"""So many words at least has the paragraph of a failure."""

BOM = "\ufeff"
"""The byte order mark that some editors put before a text; no line begins with it."""

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_INDENTED = ("    ", "\t")
_COMMENT = re.compile(r" {0,3}<!--")
_LIST_ITEM = re.compile(r" {0,3}(?:[-*+]|\d{1,9}[.)])\s")
_MARKED = re.compile(r"(?P<mark>`+|\*+|_+)(?P<text>.+)(?P=mark)")
_LINE_BREAK = re.compile(r"\s*<br\s*/?>\s*", re.IGNORECASE)
_PARTED = r"(?:-\s*|\s+)"  # a hyphen may end a line
_NAMES = {kind: re.compile(rf"(?<![\w-]){_PARTED.join(kind.split('-'))}(?![\w-])", re.IGNORECASE) for kind in Failure}


@dataclass(frozen=True, slots=True)
class Row:
    """The judgment of one miss as it is written, so `failure` and `fix` need not be in the vocabularies.

    `line` counts from 1; rows that differ in it alone are equal.
    """

    query_id: str
    failure: str = TODO
    fix: str = TODO
    notes: str = ""
    line: int | None = field(default=None, compare=False)

    @property
    def is_judged(self) -> bool:
        """Whether both kinds are of the vocabularies."""
        return self.failure in tuple(Failure) and self.fix in tuple(Fix)


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A block of text below the table; `section` is the failure whose name is the heading above it."""

    text: str
    line: int
    section: Failure | None

    @property
    def words(self) -> int:
        """How many words it has: what stands between white space and has a letter or digit."""
        return sum(has_words(word) for word in self.text.split())

    def names(self, kind: Failure) -> bool:
        """Whether it names the failure or stands below its heading."""
        return kind is self.section or _NAMES[kind].search(self.text) is not None


@dataclass(frozen=True, slots=True)
class Table:
    """A table of judgments: lines `header` up to `end`, from 0. `columns` has the place of each known column."""

    header: int
    end: int
    width: int
    columns: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Section:
    """What stands below a heading that is the name of a failure: lines `start` up to `end`, from 0."""

    kind: Failure
    start: int
    end: int
    level: int


@dataclass(frozen=True, slots=True)
class Document:
    """The lines of a file with their line ends, and what they say."""

    lines: tuple[str, ...]
    tables: tuple[Table, ...]
    rows: tuple[Row, ...]
    sections: tuple[Section, ...]
    paragraphs: tuple[Paragraph, ...]

    def row(self, query_id: str) -> Row | None:
        """The first row of a query."""
        return next((row for row in self.rows if row.query_id == query_id), None)

    def by_query(self) -> dict[str, Row]:
        """The first row of each query by its id."""
        return {row.query_id: row for row in reversed(self.rows)}

    def section(self, kind: Failure) -> Section | None:
        """The first section of a failure."""
        return next((section for section in self.sections if section.kind is kind), None)

    def paragraph(self, kind: Failure) -> str:
        """The text of the section of a failure, with `\\n` line ends; empty where there is none."""
        found = self.section(kind)
        return "" if found is None else "".join(self.lines[found.start : found.end]).replace("\r\n", "\n").strip()


def parse(text: str) -> Document:
    """What a text says. Any text is a document; `render` gives the same text back."""
    body = text.removeprefix(BOM)
    texts = [line.rstrip("\r\n") for line in _LINE.findall(body)]
    read = _Reader(texts, list(_classified(body))[: len(texts)])
    spans = list(read.table_spans())
    tables = [table for start, end in spans if (table := read.table(start, end)) is not None]
    return Document(
        lines=tuple(_LINE.findall(text)),
        tables=tuple(tables),
        rows=tuple(row for table in tables for row in read.rows(table)),
        sections=tuple(read.sections(tables)),
        paragraphs=tuple(read.paragraphs(spans, tables)),
    )


def render(document: Document) -> str:
    """The text of a document."""
    return "".join(document.lines)


def _classified(text: str) -> Iterator[Line]:
    """The lines of a text; those of comments count as fenced."""
    in_comment = False
    for line in markdown_lines(text):
        raw = text[line.start : line.end]
        if in_comment or (line.kind is LineKind.TEXT and _COMMENT.match(raw)):
            in_comment = "-->" not in raw
            yield line._replace(kind=LineKind.FENCED)
        else:
            yield line


class _Reader:
    """Finds tables, sections and paragraphs among the lines, which have neither a byte order mark nor line ends."""

    def __init__(self, texts: Sequence[str], parts: Sequence[Line]) -> None:
        self._texts = texts
        self._parts = parts

    def table_spans(self) -> Iterator[tuple[int, int]]:
        """Where every table begins and ends, whatever it is about."""
        at = 0
        while at < len(self._texts):
            end = self._table_end(at)
            if end > at:
                yield at, end
            at = max(end, at + 1)

    def _table_end(self, at: int) -> int:
        """Where the table ends whose header is this line, or the line itself when it is none."""
        if not (self._is_row(at) and self._is_row(at + 1)) or self._texts[at].startswith(_INDENTED):
            return at
        if not is_delimiter(self._texts[at + 1]) and not _is_ours(_columns(self._texts[at])):
            return at
        end = at + 2
        while self._is_row(end):
            end += 1
        return end

    def _is_row(self, at: int) -> bool:
        return at < len(self._texts) and self._parts[at].kind is LineKind.TEXT and is_row(self._texts[at])

    def table(self, start: int, end: int) -> Table | None:
        """The table between these lines if it has the columns of the judgments."""
        columns = _columns(self._texts[start])
        return Table(start, end, len(cells(self._texts[start])), columns) if _is_ours(columns) else None

    def rows(self, table: Table) -> Iterator[Row]:
        """The rows with anything in them."""
        for at in range(table.header + 1, table.end):
            found = cells(self._texts[at])
            if not any(found) or is_delimiter(self._texts[at]):
                continue
            value = {name: found[place] for name, place in table.columns.items() if place < len(found)}
            yield Row(
                query_id=_unmarked(value.get(QUERY_ID, ""), "`"),
                failure=_unmarked(value.get(FAILURE, "")),
                fix=_unmarked(value.get(FIX, "")),
                notes=_LINE_BREAK.sub("\n", value.get(NOTES, "")),
                line=at + 1,
            )

    def sections(self, tables: Sequence[Table]) -> Iterator[Section]:
        """The sections below the first table, anywhere when there is none."""
        headings = [at for at, part in enumerate(self._parts) if part.kind is LineKind.HEADING]
        borders = sorted([*headings, *(table.header for table in tables), len(self._texts)])
        for at in headings:
            kind = _kind_of(self._parts[at].title)
            if kind is not None and (not tables or at > tables[0].header):
                yield Section(kind, at + 1, borders[bisect_right(borders, at)], self._parts[at].level)

    def paragraphs(self, spans: Sequence[tuple[int, int]], tables: Sequence[Table]) -> Iterator[Paragraph]:
        """The blocks of text below the first table; there are none without a table."""
        in_table = {at for start, end in spans for at in range(start, end)}
        section: Failure | None = None
        block: list[int] = []
        for at, part in enumerate(self._parts):
            is_text = part.kind is LineKind.TEXT and at not in in_table
            if block and (not is_text or _LIST_ITEM.match(self._texts[at])):
                yield self._paragraph(block, section)
                block = []
            if part.kind is LineKind.HEADING:
                section = _kind_of(part.title)
            if is_text and tables and at >= tables[0].end:
                block.append(at)
        if block:
            yield self._paragraph(block, section)

    def _paragraph(self, block: Sequence[int], section: Failure | None) -> Paragraph:
        return Paragraph("\n".join(self._texts[at] for at in block), block[0] + 1, section)


def _columns(header: str) -> dict[str, int]:
    """The place of each known column, the first where one is repeated."""
    found: dict[str, int] = {}
    for place, cell in enumerate(cells(header)):
        name = re.sub(r"[\s-]", "_", _unmarked(cell).lower())
        if name in (*COLUMNS, QUERY, NOTES):
            found.setdefault(name, place)
    return found


def _is_ours(columns: Mapping[str, int]) -> bool:
    return all(name in columns for name in COLUMNS)


def _unmarked(text: str, marks: str = "`*_") -> str:
    """The text without the marks of a code span or of emphasis around the whole of it."""
    found = _MARKED.fullmatch(text)
    return found["text"].strip() if found is not None and found["mark"][0] in marks else text


def _kind_of(title: str) -> Failure | None:
    """The failure whose name a heading is."""
    name = _unmarked(title.removesuffix(":"))
    return next((kind for kind in Failure if _NAMES[kind].fullmatch(name)), None)
