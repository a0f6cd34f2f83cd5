"""The marks in an answer that point at its sources: `[n]` alone, or all forms that models write."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from retrieval_lab.inline import DEFINITION, code_spans, links, masked
from retrieval_lab.markdown import LineKind, lines
from retrieval_lab.text import folded

# As many digits as `int` reads whatever the interpreter's limit.
PINNED = re.compile(r"\[([0-9]{1,600})\]")
BRACKETED = re.compile(r"[\[【]([^\[\]【】\n]{1,80})[\]】]")
# A bracket that says nothing but which source, whatever its form.
POINTER = re.compile(r"[\[【][^\[\]【】\n]{0,14}\d[\d\s,;.:–-]{0,20}[\]】]")

_NUMBER = r"(?:0|[1-9][0-9]{0,17})"
_ITEM = rf"{_NUMBER}(?: ?- ?{_NUMBER})?"
_GROUP = re.compile(rf"{_ITEM}(?: ?[,;] ?{_ITEM})*")
_ITEMS = re.compile(rf"(?P<first>{_NUMBER})(?: ?- ?(?P<last>{_NUMBER}))?")
# What a model writes for want of the right form. A citation of another kind, or of a place in a source.
_LOOKALIKE = re.compile(
    r"\^\S+|(?:\d|[ ,;.:&+#-]|and|to)*\d(?:\d|[ ,;.:&+#-]|and|to)*[a-z]?"
    r"|\d+ ?[:|†].*"
    r"|#? ?(?:sources?|src|ref(?:erence)?s?|doc(?:ument)?s?|passages?|chunks?|cit(?:ation|e)s?|(?:foot)?notes?|s|p|pp)"
    r"(?: ?[:.#-]| ) ?#?\d.*|(?:s|p|source|doc)\d+",
    re.IGNORECASE,
)
# Full-width forms of what stands in a marker, and the dashes that people take for a hyphen.
_FULL_WIDTH = {code + 0xFEE0: chr(code) for code in range(0x21, 0x7F)}
_DASHES = dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2014\u2212\uff5e"), "-")
_PLAIN = str.maketrans({**_FULL_WIDTH, **_DASHES, 0x3001: ",", 0xA0: " "})
_IDEOGRAPHS = re.compile("[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9d\U00020000-\U0003ffff]")


@dataclass(frozen=True, slots=True)
class NumberSpan:
    """Where one number stands: text[start:end], with its brackets where it is alone in them."""

    number: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Marker:
    """One bracket that cites: text[start:end].

    `numbers` are the source numbers that are valid, in the order written, a range in full. `spans` are the valid ones
    that are written out, `invalid` those outside 1..n; of a range only its ends are.
    """

    start: int
    end: int
    numbers: tuple[int, ...]
    spans: tuple[NumberSpan, ...]
    invalid: tuple[NumberSpan, ...]


@dataclass(frozen=True, slots=True)
class Unrecognised:
    """A bracket that looks like a citation in no form that is accepted: text[start:end]."""

    text: str
    start: int
    end: int


def pinned_markers(text: str, sources: int) -> list[Marker]:
    """Every `[n]`, wherever it stands."""
    return [
        _marker(match.start(), match.end(), [NumberSpan(int(match[1]), *match.span())], [], sources)
        for match in PINNED.finditer(text)
    ]


def all_markers(text: str, chunk_ids: Collection[str]) -> tuple[list[Marker], list[Unrecognised]]:
    """Markers in all accepted forms, and what looks like one; both in order.

    Accepted are `[1]`, `[1, 2]`, `[1; 2]`, `[1-3]` with any dash, and 【】 for the brackets. In code, links and
    subscripts (`rows[1]`: directly after a letter, other than an ideograph) and behind a backslash there are none.
    """
    found: list[Marker] = []
    strays: list[Unrecognised] = []
    known = {folded(chunk_id) for chunk_id in chunk_ids}
    for start, end, inside in _brackets(text):
        plain = inside.translate(_PLAIN)
        items = list(_ITEMS.finditer(plain)) if _GROUP.fullmatch(plain) else []
        if items and all(int(item["first"]) <= int(item["last"] or item["first"]) for item in items):
            found.append(_group(start, end, items, len(chunk_ids)))
        elif _LOOKALIKE.fullmatch(plain) or folded(inside) in known:
            strays.append(Unrecognised(text[start:end], start, end))
    return found, strays


def _group(start: int, end: int, items: list[re.Match[str]], sources: int) -> Marker:
    """The marker of a bracket whose inside begins one character after `start`."""
    spans: list[NumberSpan] = []
    between: list[int] = []
    for item in items:
        spans += [
            NumberSpan(int(item[name]), start + 1 + item.start(name), start + 1 + item.end(name))
            for name in ("first", "last")
            if item[name]
        ]
        if item["last"]:
            between += range(max(int(item["first"]) + 1, 1), min(int(item["last"]), sources + 1))
    if len(spans) == 1:
        spans = [NumberSpan(spans[0].number, start, end)]
    return _marker(start, end, spans, between, sources)


def _marker(start: int, end: int, spans: list[NumberSpan], between: list[int], sources: int) -> Marker:
    valid = tuple(span for span in spans if 1 <= span.number <= sources)
    invalid = tuple(span for span in spans if not 1 <= span.number <= sources)
    numbers = dict.fromkeys([*(span.number for span in valid), *between])
    return Marker(start, end, tuple(sorted(numbers) if between else numbers), valid, invalid)


def _brackets(text: str) -> Iterator[tuple[int, int, str]]:
    """Start, end and inside of every bracket that could cite."""
    visible = _prose(text)
    subscript_end = -1
    for match in BRACKETED.finditer(visible):
        before = visible[match.start() - 1 : match.start()]
        if match.start() == subscript_end or (visible[match.start()] == "[" and _subscripted(before)):
            subscript_end = match.end()
        elif before != "\\":
            yield *match.span(), match[1]


def _subscripted(before: str) -> bool:
    return (before.isalnum() or before == "_") and not _IDEOGRAPHS.match(before)


def _prose(text: str) -> str:
    """The text with blanks for code, links and definitions of links; all offsets stay."""
    hidden: list[tuple[int, int]] = []
    for line in lines(text):
        raw = text[line.start : line.end]
        if line.kind is LineKind.FENCED or DEFINITION.match(raw):
            hidden.append((line.start, line.end))
            continue
        spans = code_spans(raw) if "`" in raw else []
        spans += [(link.start, link.end) for link in links(masked(raw, spans))] if "](" in raw else []
        hidden += [(line.start + start, line.start + end) for start, end in spans]
    return masked(text, hidden, " ")
