"""What full-text search makes of a query: alternatives to find, terms to exclude.

`websearch_to_tsquery` joins the words of a question with AND, and no passage holds them all. Its result is taken
apart at the top level: positive terms (words and phrases) become alternatives, negated ones stay exclusions.
Lexemes are used as PostgreSQL prints them, never parsed again, so that nothing is stemmed twice.

The text form of a tsquery is described in the PostgreSQL manual, "Text Search Types" (8.11.2).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Final, LiteralString

import psycopg
from psycopg import Connection

from retrieval_lab.statements import execute, is_idle
from retrieval_lab.text import WORD, sendable
from retrieval_lab.types import TextQuery

MAX_WORDS = 10_000
"""Words of a query that are parsed; PostgreSQL refuses some hundred thousand, after seconds."""
MAX_CHARS = 1_000_000
MAX_LEXEMES = 256
"""Lexemes that are searched, those in phrases too: the cost of ts_rank_cd grows with the square of their number."""
MAX_PHRASE = 32
"""Lexemes of one phrase; a longer one is taken as its words."""

_LONGEST_WORD = 2046  # bytes; PostgreSQL leaves out what is longer
_TOO_MANY_HYPHENS = re.compile(r"-{33,}")  # PostgreSQL takes each for a negation and has room for 32
_TOKEN = re.compile(
    r"\s*(?:(?P<lexeme>'(?:[^'\\]|''|\\.)*'(?::[*A-D]+)?)|(?P<phrase><(?:-|\d+)>)|(?P<mark>[&|!()]))", re.DOTALL
)


def parse(conn: Connection[Any], query: str, config: str = "english", *, operators: bool = True) -> TextQuery:
    """The query as full-text search understands it.

    Takes any string: NULs, lone surrogates and words beyond the limits are dropped, and a query that PostgreSQL
    refuses is read once more as plain words; `notes` tells. `config` names a text search configuration of the
    server. Without `operators` quotes and dashes are punctuation: there are no phrases and no exclusions.
    """
    text, notes = shortened(query)
    reading = _WEB_SEARCH if operators else _PLAIN
    printed = _read(conn, reading, text, config)
    if printed is None:
        notes.append("full text could not read the operators of this query and took its words alone")
        printed = _read(conn, reading, " ".join(WORD.findall(text)), config) or ""
    positive, excluded = split(printed)
    affordable, left_out = _affordable(positive)
    return TextQuery(affordable, excluded, (*notes, *left_out))


def stop_words(conn: Connection[Any], query: str, config: str = "english") -> tuple[str, ...]:
    """The words of the query that the configuration's dictionaries drop, each once, in order of appearance.

    A word that is no stop word but that the parser takes for something else, such as a blank, is not among them.
    """
    text, _ = shortened(query)
    rows = execute(
        conn,
        "SELECT lower(token) FROM ts_debug(%s::text::regconfig, %s) WHERE lexemes = '{}' AND dictionary IS NOT NULL",
        (config, text),
    )
    return tuple(dict.fromkeys(word for (word,) in rows))


def split(tsquery: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(positive, negated) terms of a printed tsquery, each once, in order of appearance.

    A term is a lexeme, or a phrase in parentheses. One under an even number of negations is positive.
    """
    terms = dict.fromkeys(_Parser(tsquery).terms())
    return (
        tuple(term.text for term in terms if not term.negated),
        tuple(term.text for term in terms if term.negated),
    )


def _affordable(positive: Sequence[str]) -> tuple[tuple[str, ...], list[str]]:
    """The terms that are searched, in order, and what is said about the others."""
    notes = []
    terms: list[str] = []
    for term in positive:
        lexemes = [token for token in _tokens(term) if token.startswith("'")]
        terms += lexemes if len(lexemes) > MAX_PHRASE else [term]
        if len(lexemes) > MAX_PHRASE:
            notes.append(f"a phrase of {len(lexemes)} words was searched as its words")
    terms = list(dict.fromkeys(terms))
    room = MAX_LEXEMES
    kept: list[str] = []
    for term in terms:
        room -= sum(token.startswith("'") for token in _tokens(term))
        if room < 0:
            notes.append(f"full text searched the first {len(kept)} of {len(terms)} distinct terms")
            break
        kept.append(term)
    return tuple(kept), notes


def shortened(query: str) -> tuple[str, list[str]]:
    """The query as it is sent to be parsed, and what was changed in it, a line each."""
    notes = []
    text, replaced = sendable(query)
    if replaced:
        notes.append(f"characters left out because PostgreSQL cannot take them: {replaced}")
    text, replaced = _TOO_MANY_HYPHENS.subn(" ", text)
    if replaced:
        notes.append("full text took a row of hyphens for a space")
    found = text[:MAX_CHARS].split(maxsplit=MAX_WORDS)
    if len(text) > MAX_CHARS or len(found) > MAX_WORDS:
        text = " ".join(found[:MAX_WORDS])
        notes.append(f"full text read the first {MAX_WORDS:,} words (at most {MAX_CHARS:,} characters) of this query")
    overlong = [word for word in WORD.findall(text) if len(word.encode()) > _LONGEST_WORD]
    if overlong:
        notes.append(f"words left out because they are longer than {_LONGEST_WORD:,} bytes: {len(overlong)}")
    return text, notes


_WEB_SEARCH: Final = "SELECT websearch_to_tsquery(%s::text::regconfig, %s)::text"
_PLAIN: Final = "SELECT plainto_tsquery(%s::text::regconfig, %s)::text"


def _read(conn: Connection[Any], reading: LiteralString, text: str, config: str) -> str | None:
    """The printed tsquery, or None when PostgreSQL refuses the query (too deep, too long)."""
    try:
        with _savepoint(conn):
            row = execute(conn, reading, (config, text)).fetchone()
    except (psycopg.errors.InternalError, psycopg.errors.ProgramLimitExceeded, psycopg.DataError):
        return None
    return str(row[0]) if row else ""


def _savepoint(conn: Connection[Any]) -> AbstractContextManager[object]:
    """Keeps the caller's transaction alive through an error; where there is none, nothing needs to be kept."""
    return nullcontext() if is_idle(conn) else conn.transaction()


def _tokens(tsquery: str) -> list[str]:
    return [match[0].strip() for match in _TOKEN.finditer(tsquery)]


@dataclass(frozen=True, slots=True)
class _Term:
    text: str
    negated: bool


class _Parser:
    """Reads `a | b`, `a & b`, `a <N> b`, `!a`, `( a )` and lexemes, loosest operator first.

    AND and OR only separate terms here; a phrase is kept whole, with its text as printed.
    """

    def __init__(self, tsquery: str) -> None:
        self._tokens = _tokens(tsquery)
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
