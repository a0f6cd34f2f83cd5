"""What full-text search makes of a query: alternatives to find, terms to exclude.

`websearch_to_tsquery` joins the words of a question with AND, and no passage holds them all. Its result is taken
apart at the top level: positive terms (words and phrases) become alternatives, negated ones stay exclusions.
Lexemes are used as PostgreSQL prints them, never parsed again, so that nothing is stemmed twice.

The text form of a tsquery is described in the PostgreSQL manual, "Text Search Types" (8.11.2).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import Connection
from psycopg.pq import TransactionStatus

from retrieval_lab.text import sendable
from retrieval_lab.types import TextQuery

MAX_WORDS = 10_000
"""Words of a query that are parsed; PostgreSQL refuses some hundred thousand, after seconds."""
MAX_CHARS = 1_000_000
MAX_TERMS = 256
"""Alternatives that are searched: the cost of ts_rank_cd grows with the square of their number and beyond."""

_LONGEST_WORD = 2000  # bytes; to_tsquery raises beyond 2046
_TOKEN = re.compile(
    r"\s*(?:(?P<lexeme>'(?:[^'\\]|''|\\.)*'(?::[*A-D]+)?)|(?P<phrase><(?:-|\d+)>)|(?P<mark>[&|!()]))", re.DOTALL
)


def parse(conn: Connection[Any], query: str, config: str = "english") -> TextQuery:
    """The query as full-text search understands it.

    Takes any string: NULs, lone surrogates and words beyond the limits are dropped, and a query that PostgreSQL
    refuses is read once more as plain words; `notes` tells. `config` names a text search configuration of the
    server.
    """
    text, notes = _shortened(query)
    printed = _websearch(conn, text, config)
    if printed is None:
        notes.append("full text could not read the operators of this query and took its words alone")
        printed = _websearch(conn, _plain_words(text), config) or ""
    positive, excluded = split(printed)
    if len(positive) > MAX_TERMS:
        notes.append(f"full text searched the first {MAX_TERMS} of {len(positive)} distinct terms")
        positive = positive[:MAX_TERMS]
    return TextQuery(positive, excluded, tuple(notes))


def split(tsquery: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(positive, negated) terms of a printed tsquery, each once, in order of appearance.

    A term is a lexeme, or a phrase in parentheses. One under an even number of negations is positive.
    """
    terms = dict.fromkeys(_Parser(tsquery).terms())
    return (
        tuple(term.text for term in terms if not term.negated),
        tuple(term.text for term in terms if term.negated),
    )


def _shortened(query: str) -> tuple[str, list[str]]:
    notes = []
    text, replaced = sendable(query)
    if replaced:
        notes.append(f"{replaced} characters that PostgreSQL cannot take were left out")
    found = text[:MAX_CHARS].split(maxsplit=MAX_WORDS)
    if len(text) > MAX_CHARS or len(found) > MAX_WORDS:
        text = " ".join(found[:MAX_WORDS])
        notes.append(f"full text read the first {MAX_WORDS:,} words (at most {MAX_CHARS:,} characters) of this query")
    return text, notes


def _websearch(conn: Connection[Any], text: str, config: str) -> str | None:
    """The printed tsquery, or None when PostgreSQL raises (33 hyphens in a row, an endless word)."""
    try:
        with _savepoint(conn):
            row = conn.execute("SELECT websearch_to_tsquery(%s::text::regconfig, %s)::text", (config, text)).fetchone()
    except (psycopg.errors.InternalError, psycopg.errors.ProgramLimitExceeded, psycopg.DataError):
        return None
    return str(row[0]) if row else ""


def _savepoint(conn: Connection[Any]) -> AbstractContextManager[object]:
    """Keeps the caller's transaction alive through an error; a statement of its own on autocommit needs none."""
    alone = conn.autocommit and conn.info.transaction_status == TransactionStatus.IDLE
    return nullcontext() if alone else conn.transaction()


def _plain_words(text: str) -> str:
    kept = (word for word in re.findall(r"\w+", text) if len(word.encode()) <= _LONGEST_WORD)
    return " ".join(kept)


@dataclass(frozen=True, slots=True)
class _Term:
    text: str
    negated: bool


class _Parser:
    """Reads `a | b`, `a & b`, `a <N> b`, `!a`, `( a )` and lexemes, loosest operator first.

    AND and OR only separate terms here; a phrase is kept whole, with its text as printed.
    """

    def __init__(self, tsquery: str) -> None:
        self._tokens = [match[0].strip() for match in _TOKEN.finditer(tsquery)]
        self._next = 0

    def terms(self) -> Iterator[_Term]:
        yield from self._alternatives(negated=False)

    def _peek(self) -> str | None:
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    def _take(self) -> str:
        self._next += 1
        return self._tokens[self._next - 1]

    def _alternatives(self, *, negated: bool) -> list[_Term]:
        found = self._phrase(negated=negated)
        while self._peek() in ("&", "|"):
            self._take()
            found += self._phrase(negated=negated)
        return found

    def _phrase(self, *, negated: bool) -> list[_Term]:
        """Operands joined by `<N>`: one term; an operand alone: whatever it holds."""
        start = self._next
        found = self._operand(negated=negated)
        if not _is_phrase_operator(self._peek()):
            return found
        while _is_phrase_operator(self._peek()):
            self._take()
            self._operand(negated=negated)
        return [_Term(f"( {' '.join(self._tokens[start : self._next])} )", negated)]

    def _operand(self, *, negated: bool) -> list[_Term]:
        while self._peek() == "!":
            self._take()
            negated = not negated
        if self._peek() is None:
            return []
        token = self._take()
        if token != "(":
            return [_Term(token, negated)]
        start = self._next - 1
        found = self._alternatives(negated=negated)
        if self._peek() == ")":
            self._take()
        if len(found) > 1 and all(term.negated for term in found):
            # Excluding "a & b" is less than excluding a and excluding b.
            return [_Term(" ".join(self._tokens[start : self._next]), negated=True)]
        return found


def _is_phrase_operator(token: str | None) -> bool:
    return token is not None and token.startswith("<")
