"""The little of Markdown that chunking needs: lines with offsets, ATX headings, fenced code.

Fences follow CommonMark 0.31, section 4.5: up to three spaces of indentation; an info string after backticks holds no
backtick; the closing fence has the same character, is at least as long and has nothing after it; a fence that is not
closed runs to the end of the document.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

_FENCE_MARKS = "`~"
_HEADING = re.compile(r"(?P<marks>#{1,6}) (?P<title>.*)")
_FENCE_OPEN = re.compile(r" {0,3}(?:(?P<ticks>`{3,})[^`]*|(?P<tildes>~{3,}).*)$", re.DOTALL)
_FENCE_CLOSE = re.compile(r" {0,3}(?P<marks>`{3,}|~{3,})[ \t\r]*$")


class LineKind(Enum):
    BLANK = "blank"
    HEADING = "heading"
    FENCED = "fenced"
    """A fence line, or any line between two of them, blank or not."""
    TEXT = "text"


class Line(NamedTuple):
    """One line without its line end: text[start:end]. `level` and `title` are set for headings only.

    A tuple, since every line of a corpus becomes one.
    """

    kind: LineKind
    start: int
    end: int
    level: int = 0
    title: str = ""


def lines(text: str) -> Iterator[Line]:
    """Every line of the text in order, classified."""
    fence: str | None = None
    start = 0
    for raw in text.split("\n"):
        end = start + len(raw)
        first = raw.lstrip()[:1]
        if fence is not None:
            yield Line(LineKind.FENCED, start, end)
            if first == fence[0] and _closes(raw, fence):
                fence = None
        elif not first:
            yield Line(LineKind.BLANK, start, end)
        elif first in _FENCE_MARKS and (fence := _opened_fence(raw)) is not None:
            yield Line(LineKind.FENCED, start, end)
        elif first == "#" and (heading := _HEADING.match(raw)) is not None:
            yield Line(LineKind.HEADING, start, end, len(heading["marks"]), _title(heading["title"]))
        else:
            yield Line(LineKind.TEXT, start, end)
        start = end + 1


def opens_structure(line: str) -> bool:
    """Whether a line outside a fence is a heading or opens a fence."""
    return _HEADING.match(line) is not None or _opened_fence(line) is not None


def headings(text: str) -> Iterator[Line]:
    """The heading lines of the text in order."""
    return (line for line in lines(text) if line.kind is LineKind.HEADING)


def _title(text: str) -> str:
    """A heading's text without the marks that close it, which stand behind a blank or alone."""
    text = text.strip()
    unmarked = text.rstrip("#")
    closed = unmarked != text and (not unmarked or unmarked[-1] in " \t")
    return unmarked.strip() if closed else text


def _opened_fence(raw: str) -> str | None:
    """The marks of the fence that this line opens, or None."""
    match = _FENCE_OPEN.match(raw)
    return None if match is None else match["ticks"] or match["tildes"]


def _closes(raw: str, fence: str) -> bool:
    match = _FENCE_CLOSE.match(raw)
    return match is not None and match["marks"][0] == fence[0] and len(match["marks"]) >= len(fence)
