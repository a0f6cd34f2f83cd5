"""What a check of a golden set can find, and how it says so."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

_SHOWN_IDS = 8
_SHOWN_CHARS = 120


class Severity(StrEnum):
    """An error makes a measure wrong or undefined; a warning makes it easier, harder or less telling than it looks."""

    ERROR = "error"
    WARNING = "warning"


class Kind(StrEnum):
    """What was found. `labels.check_labels` defines each."""

    UNKNOWN_DOCUMENT = "unknown-document"
    LABEL_UNKNOWN_DOCUMENT = "label-unknown-document"
    LABEL_WITHOUT_TEXT = "label-without-text"
    NO_TEXT_RELEVANT = "no-text-relevant"
    ANCHOR_CUT = "anchor-cut"
    ANCHOR_WHITE_SPACE = "anchor-white-space"
    ANCHOR_MARKDOWN = "anchor-markdown"
    ANCHOR_QUOTES = "anchor-quotes"
    ANCHOR_UNICODE = "anchor-unicode"
    ANCHOR_ELSEWHERE = "anchor-elsewhere"
    ANCHOR_ABSENT = "anchor-absent"
    ANCHOR_REPEATED = "anchor-repeated"
    ANCHOR_SHARED = "anchor-shared"
    QUERY_WITHOUT_WORDS = "query-without-words"
    QUERY_LIKE_TITLE = "query-like-title"
    QUERY_IS_PASSAGE = "query-is-passage"
    QUERY_REPEATED = "query-repeated"
    DOCUMENT_SHORT = "document-short"
    DOCUMENTS_ALIKE = "documents-alike"
    PASSAGES_ALIKE = "passages-alike"
    TEXT_WITHOUT_SPACES = "text-without-spaces"
    CHUNK_LONG = "chunk-long"
    CHUNK_TRUNCATED = "chunk-truncated"
    TOKENS_NOT_COUNTED = "tokens-not-counted"
    VECTOR_ZERO = "vector-zero"
    VECTOR_NOT_FINITE = "vector-not-finite"

    @property
    def excludes(self) -> bool:
        """Whether a query with this finding has no relevant chunk, so that no measure counts it."""
        return self in _EXCLUDING


_EXCLUDING = frozenset(
    {
        Kind.UNKNOWN_DOCUMENT,
        Kind.NO_TEXT_RELEVANT,
        Kind.ANCHOR_CUT,
        Kind.ANCHOR_WHITE_SPACE,
        Kind.ANCHOR_MARKDOWN,
        Kind.ANCHOR_QUOTES,
        Kind.ANCHOR_UNICODE,
        Kind.ANCHOR_ELSEWHERE,
        Kind.ANCHOR_ABSENT,
    }
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that the check found. `message` is one line: what was found, what was expected, what to do.

    `file` and `line` (from 1) say where to mend it and are None where that is not known. `chunk_ids` are the chunks
    it is about. `text` is what to put in the place of an anchor, as it stands in the corpus.
    """

    severity: Severity
    kind: Kind
    message: str
    file: Path | None
    line: int | None
    query_id: str | None = None
    chunk_ids: tuple[str, ...] = ()
    text: str | None = None


def quoted(text: str) -> str:
    """The text as a double-quoted string that YAML reads back as it is, on one line and with nothing invisible in it.

    Runs of white space become one space, since anchors are compared like that.
    """
    return '"' + "".join(_escaped(char) for char in " ".join(text.split())) + '"'


def _escaped(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    if char.isprintable() and not unicodedata.combining(char):
        return char
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"


def excerpt(text: str) -> str:
    """`quoted`, cut where it is too long for a message."""
    line = " ".join(text.split())
    return quoted(line if len(line) <= _SHOWN_CHARS else line[: _SHOWN_CHARS - 1] + "…")


def listed(names: Sequence[str]) -> str:
    """The names with commas, at most eight of them and how many more there are."""
    shown = ", ".join(names[:_SHOWN_IDS])
    return shown if len(names) <= _SHOWN_IDS else f"{shown} and {len(names) - _SHOWN_IDS} more"
