"""What Markdown makes of a stretch of text other than words: code spans and links, as offsets.

Code spans follow CommonMark 0.31, section 6.1 (a run of backticks closes at the next run of the same length), links
the inline form of section 6.3, with one pair of parentheses in the destination at most.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_TICKS = re.compile(r"`+")
_LINK = re.compile(
    r"!?\[(?P<label>[^\[\]\n]{0,500})\]"
    r"\([ \t]*(?:<[^<>\n]{0,2000}>|[^\s()]{0,2000}(?:\([^\s()]{0,500}\)[^\s()]{0,500})?)"
    r"(?:[ \t]+\"[^\"\n]{0,500}\")?[ \t]*\)"
)
# A definition of a link's target: `[1]: https://example.org`.
DEFINITION = re.compile(r" {0,3}\[[^\[\]\n]{1,200}\]:[ \t]+<?(?:[a-z][a-z0-9+.-]*:|[/#.])\S*[ \t]*$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Link:
    """An inline link or image: text[start:end], with the label between its square brackets."""

    start: int
    end: int
    label: str


def code_spans(text: str) -> list[tuple[int, int]]:
    """The (start, end) offsets of the code spans of one paragraph in order, backticks included."""
    runs = [match.span() for match in _TICKS.finditer(text)]
    places: dict[int, list[int]] = {}
    for number, (start, end) in reversed(list(enumerate(runs))):
        places.setdefault(end - start, []).append(number)
    spans = []
    number = 0
    while number < len(runs):
        start, end = runs[number]
        same = places[end - start]
        while same and same[-1] <= number:
            same.pop()
        if same:
            number = same.pop()
            spans.append((start, runs[number][1]))
        number += 1
    return spans


def links(text: str) -> list[Link]:
    """The inline links and images of one paragraph in order."""
    return [Link(*match.span(), match["label"]) for match in _LINK.finditer(text)]


def masked(text: str, spans: Iterable[tuple[int, int]], filler: str = "x") -> str:
    """The text with every character of the spans as the filler, so that all offsets stay."""
    pieces = list(text)
    for start, end in spans:
        pieces[start:end] = filler * (end - start)
    return "".join(pieces)
