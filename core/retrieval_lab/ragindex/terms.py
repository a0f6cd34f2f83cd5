"""The terms of a text, as every program that reads the index must find them."""

from __future__ import annotations

from retrieval_lab.text import words

# The two characters that `str.lower` does not lower by themselves: one becomes two code points, the other depends on
# its place in the word.
_LOWERED = str.maketrans({"\u0130": "i", "\u03a3": "\u03c3"})


def terms(text: str) -> list[str]:
    """The terms in order: runs of Unicode letters, digits and `_`, lower-cased code point by code point.

    That is Go's `unicode.ToLower`: dotted capital I becomes i, every capital sigma the same small one.
    """
    return words(text.translate(_LOWERED) if not text.isascii() else text)
