"""Places in a text that a reader should see, as (start, end) offsets in code points."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

Span = tuple[int, int]

_WORD = re.compile(r"\w+")


def word_spans(text: str, words: Collection[str]) -> list[Span]:
    """The places of the words, which are lower case, in order."""
    return [match.span() for match in _WORD.finditer(text) if match[0].lower() in words]


def anchor_spans(text: str, anchor: str) -> list[Span]:
    """The places of the anchor in order, whatever the case and however white space runs in it."""
    pattern = r"\s+".join(re.escape(part) for part in anchor.split())
    return [match.span() for match in re.finditer(pattern, text, re.IGNORECASE)] if pattern else []


def best_window(spans: Sequence[Span], length: int, width: int, lead: int) -> Span:
    """The window of at most `width` code points of a text of `length` that shows the most spans, as early as possible.

    It begins up to `lead` code points before its first span, for context. Without spans it is the beginning.
    """
    if length <= width or not spans:
        return 0, min(length, width)
    lefts = [max(0, start - lead) for start, _ in spans]
    shown = [sum(1 for start, end in spans if left <= start and end <= left + width) for left in lefts]
    left = lefts[shown.index(max(shown))]
    return left, min(left + width, length)
