"""Places in a text that a reader should see, as (start, end) offsets in code points."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence

from retrieval_lab.text import WORD, folded

Span = tuple[int, int]


def word_spans(text: str, words: Collection[str]) -> list[Span]:
    """The places of the words, which are lower case, in order."""
    return [match.span() for match in WORD.finditer(text) if match[0].lower() in words]


def anchor_spans(text: str, anchor: str) -> list[Span]:
    """The places of the anchor in order, compared as `metrics.relevant` compares: `text.folded` on both sides."""
    sought = folded(anchor)
    if not sought.strip():
        return []
    haystack, origin = _folded_with_origin(text)
    spans = []
    found = haystack.find(sought)
    while found >= 0:
        last = found + len(sought) - 1
        spans.append((origin[found], origin[last] + 1))
        found = haystack.find(sought, last + 1)
    return spans


def _folded_with_origin(text: str) -> tuple[str, list[int]]:
    """`folded(text)`, and for each of its characters the offset of the one in `text` that it comes from."""
    origin: list[int] = []
    pieces: list[str] = []
    for offset, char in enumerate(text):
        piece = folded(char)
        if piece == " " and pieces and pieces[-1] == " ":
            continue
        pieces.append(piece)
        origin += [offset] * len(piece)
    return "".join(pieces), origin


def best_window(spans: Sequence[Span], length: int, width: int, lead: int) -> Span:
    """The window of at most `width` code points of a text of `length` that shows the most spans, as early as possible.

    It begins up to `lead` code points before its first span, for context. Without spans it is the beginning.
    """
    if length <= width or not spans:
        return 0, min(length, width)
    lefts = [max(0, start - lead) for start, _ in spans]
    ends = [end for _, end in spans]
    # Spans are in order and do not overlap, so those in a window are neighbours.
    shown = [bisect_right(ends, left + width) - position for position, left in enumerate(lefts)]
    left = lefts[shown.index(max(shown))]
    return left, min(left + width, length)


def snippet(text: str, spans: Sequence[Span], width: int, lead: int) -> Span:
    """`best_window` of the text, begun at a word."""
    left, right = best_window(spans, len(text), width, lead)
    while 0 < left < right and not text[left - 1].isspace():
        left += 1
    return left, right
