"""Where sentences begin and end: by the pinned rules of `answer.check`, or as readers of Markdown see it."""

# ruff: noqa: RUF001 (full-width stops)

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import pairwise

from retrieval_lab.inline import DEFINITION, code_spans, masked
from retrieval_lab.markdown import Line, LineKind, lines
from retrieval_lab.markers import POINTER
from retrieval_lab.sentence_ends import sentence_ends
from retrieval_lab.text import has_words, trimmed


class Kind(Enum):
    SENTENCE = "sentence"
    TABLE_ROW = "table row"
    TABLE_HEADER = "table header"
    HEADING = "heading"
    LEAD_IN = "lead-in"
    """A sentence that ends in a colon at the end of its line: what follows makes the claim."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """text[start:end], without a list's mark before it. `quoted`: in a block quotation."""

    start: int
    end: int
    kind: Kind = Kind.SENTENCE
    quoted: bool = False


# --- the pinned rules ----------------------------------------------------------------------------------------------

_PINNED_END = re.compile(
    r"(?<!\bMr)(?<!\bMrs)(?<!\bMs)(?<!\bMme)(?<!\bDr)(?<!\bSt)"
    r"(?<!\b[Vv]s)(?<!\b[Ee]\.g)(?<!\b[Ii]\.e)(?<!\b[Ee]tc)\.(?=\s)|[!?](?=\s)"
)
_OPENING_MARKERS = re.compile(r"(?:\[[0-9]+\]\s*)+")


def pinned_sentences(text: str) -> list[Sentence]:
    """The sentences in order. A marker that opens one belongs to the one before, whatever lies between."""
    found: list[Sentence] = []
    for start, end in _pinned_pieces(text):
        opening = _OPENING_MARKERS.match(text, start, end) if found else None
        if opening:
            found[-1] = replace(found[-1], end=start + len(opening[0].rstrip()))
            start = opening.end()
        if has_words(text[start:end]):
            found.append(Sentence(start, end))
    return found


def _pinned_pieces(text: str) -> Iterator[tuple[int, int]]:
    """What lies between two ends of sentences, trimmed, empty pieces left out."""
    offset = 0
    for line in text.splitlines(keepends=True):
        cuts = [0, *(match.end() for match in _PINNED_END.finditer(line)), len(line)]
        for begin, stop in pairwise(cuts):
            if span := trimmed(text, offset + begin, offset + stop):
                yield span
        offset += len(line)


# --- Markdown and English ------------------------------------------------------------------------------------------

# One character each, so that offsets stay; what str.splitlines takes for the end of a line.
_LINE_ENDS = str.maketrans(dict.fromkeys("\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029", "\n"))
_PREFIX = re.compile(
    r"[^\S\n]*(?P<quote>(?:>[^\S\n]*)*)(?P<list>(?:[-*+•‣◦–][^\S\n]+|\(?\d{1,3}[.)][^\S\n]+|[a-z]\)[^\S\n]+)*)"
    r"(?:\[[ xX]\][^\S\n]+)?"
)
_TABLE_RULE = re.compile(r"\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$")
_UNDERLINE = re.compile(r"\s*(?:=+|-+)\s*$")
_NO_TEXT = re.compile(r"\s*(?:[-*_=~]\s*)+$")
_BOLD_LINE = re.compile(r"(\*\*|__)(?=\S)(?:(?!\1).)*(?<![.!?…。！？\s])\1:?\s*$")
_COLON_END = re.compile(r"[:：][*_]*$")
_STOPS = re.compile(r"[.!?。！？]")


def sentences(text: str, *, wrapped: bool = False) -> list[Sentence]:
    """The sentences, table rows and headings in order; code blocks, rules and definitions of links are left out.

    A line's end ends a sentence, unless the text is `wrapped`: then it does as in Markdown, at the end of a paragraph.
    Markers behind a full stop belong to the sentence before, and so does a line of nothing else.
    """
    flat = text.translate(_LINE_ENDS)
    found: list[Sentence] = []
    for block in _blocks(flat, wrapped):
        pieces = [block] if block.kind is not Kind.SENTENCE else _split(flat, block)
        for piece in pieces:
            inside = flat[piece.start : piece.end]
            if has_words(POINTER.sub(" ", inside)):
                found.append(piece)
            elif found and POINTER.search(inside):
                found[-1] = replace(found[-1], end=piece.end)
    return found


def _split(flat: str, block: Sentence) -> list[Sentence]:
    """The sentences of one paragraph, list item or line."""
    raw = flat[block.start : block.end]
    ends = sentence_ends(masked(raw, code_spans(raw)) if "`" in raw else raw)
    cuts = [0, *ends, len(raw)]
    spans = [trimmed(flat, block.start + a, block.start + b) for a, b in pairwise(cuts)]
    pieces = [replace(block, start=span[0], end=span[1]) for span in spans if span]
    if pieces and _COLON_END.search(POINTER.sub("", flat[pieces[-1].start : pieces[-1].end]).rstrip()):
        pieces[-1] = replace(pieces[-1], kind=Kind.LEAD_IN)
    return pieces


def _blocks(flat: str, wrapped: bool) -> list[Sentence]:
    """The paragraphs, list items, table rows and headings. Without `wrapped` each line is one."""
    blocks: list[Sentence] = []
    last: Line | None = None
    in_table = False
    for line in lines(flat):
        if line.kind in (LineKind.BLANK, LineKind.FENCED):
            in_table, last = False, None
        elif line.kind is LineKind.HEADING:
            blocks += _trimmed_block(flat, line.start + line.level, line.end, Kind.HEADING)
            in_table, last = False, None
        else:
            raw = flat[line.start : line.end]
            if _is_rule(raw):
                in_table = "|" in raw
                _promote(flat, blocks, last, in_table, raw)
                last = None
            elif not DEFINITION.match(raw):
                row = raw.lstrip().startswith("|") or (in_table and "|" in raw)
                continued = wrapped and last is not None and not row and blocks[-1].kind is Kind.SENTENCE
                last = line if _add(flat, blocks, line, row=row, continued=continued) else None
    return blocks


def _is_rule(raw: str) -> bool:
    return bool(_NO_TEXT.match(raw) or ("-" in raw and _TABLE_RULE.match(raw)))


def _promote(flat: str, blocks: list[Sentence], last: Line | None, table: bool, raw: str) -> None:
    """A rule directly below a line makes it a table's header, or the heading that it underlines."""
    if last is None:
        return
    above = flat[blocks[-1].start : blocks[-1].end]
    if table and "|" in above:
        blocks[-1] = replace(blocks[-1], kind=Kind.TABLE_HEADER)
    elif not table and _UNDERLINE.match(raw) and blocks[-1].kind is Kind.SENTENCE and not _STOPS.search(above):
        blocks[-1] = replace(blocks[-1], kind=Kind.HEADING)


def _add(flat: str, blocks: list[Sentence], line: Line, *, row: bool, continued: bool) -> bool:
    """Whether the line holds anything: it is added to the last block or becomes one."""
    prefix = _PREFIX.match(flat, line.start, line.end)
    quoted = bool(prefix and prefix["quote"])
    if continued and prefix and not prefix["list"] and not quoted and not blocks[-1].quoted:
        blocks[-1] = replace(blocks[-1], end=line.end)
        return True
    start = prefix.end() if prefix and not row else line.start
    kind = Kind.TABLE_ROW if row else Kind.HEADING if _BOLD_LINE.match(flat, start, line.end) else Kind.SENTENCE
    added = _trimmed_block(flat, start, line.end, kind, quoted)
    blocks += added
    return bool(added)


def _trimmed_block(flat: str, start: int, end: int, kind: Kind, quoted: bool = False) -> Sequence[Sentence]:
    span = trimmed(flat, start, end)
    return [Sentence(*span, kind, quoted)] if span else []
