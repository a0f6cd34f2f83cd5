"""What counts as a word, how texts are compared, and making any string safe to send."""

from __future__ import annotations

import re
from collections.abc import Iterable

WORD = re.compile(r"\w+")
_WHITE_SPACE = re.compile(r"\s+")
# PostgreSQL's text type holds no NUL, and UTF-8 has no lone surrogates.
_UNSENDABLE = re.compile("[\x00\ud800-\udfff]")


def words(text: str) -> list[str]:
    """The words of a text in order: runs of `\\w`, lower case."""
    return WORD.findall(text.lower())


def has_words(text: str) -> bool:
    """Whether there is at least one word, that is, anything to search for."""
    return WORD.search(text) is not None


def trimmed(text: str, start: int, end: int) -> tuple[int, int] | None:
    """Start and end of text[start:end] without the white space at its ends; None when there is nothing else."""
    piece = text[start:end]
    if not piece.strip():
        return None
    return start + len(piece) - len(piece.lstrip()), end - len(piece) + len(piece.rstrip())


def folded(text: str) -> str:
    """The text in lower case, each run of white space made one space: the form in which anchors are compared."""
    return _WHITE_SPACE.sub(" ", text.lower())


def sendable(text: str) -> tuple[str, int]:
    """The text with NULs and lone surrogates turned into spaces, and how many there were."""
    return _UNSENDABLE.subn(" ", text)


def storable(texts: Iterable[str]) -> list[str]:
    """Those of the texts that PostgreSQL can hold, and so can have."""
    return [text for text in texts if not _UNSENDABLE.search(text)]


def printable(text: str) -> str:
    """The text with every character that is not for reading as an escape, so that none can steer the terminal."""
    return "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in text)
