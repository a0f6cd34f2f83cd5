"""Which words of a text full-text search matched."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from psycopg import Connection

from retrieval_lab.statements import execute
from retrieval_lab.types import TextQuery

_LEXEME = re.compile(r"'((?:[^'\\]|''|\\.)*)'", re.DOTALL)
_ESCAPED = re.compile(r"''|\\(.)", re.DOTALL)


def query_lexemes(parsed: TextQuery) -> frozenset[str]:
    """The lexemes of all positive terms, those inside phrases too."""
    return frozenset(lexeme for term in parsed.positive for lexeme in lexemes_of(term))


def lexemes_of(term: str) -> list[str]:
    """The lexemes of a term in tsquery text form, as they are stored: without quotes and escapes."""
    return [_ESCAPED.sub(lambda match: match[1] or "'", match[1]) for match in _LEXEME.finditer(term)]


def bare(term: str) -> str:
    """A term for reading: a single lexeme as it is stored, a phrase as PostgreSQL prints it without parentheses."""
    if term.startswith("'") and (lexemes := lexemes_of(term)) and len(lexemes) == 1:
        return lexemes[0]
    return term.removeprefix("( ").removesuffix(" )")


class Lexemes:
    """The lexeme of each word as the server's parser and dictionaries make it, asked once a word.

    A word that the parser splits, or that is a stop word, has none.
    """

    def __init__(self, config: str = "english") -> None:
        self._config = config
        self._known: dict[str, str | None] = {}

    def of(self, conn: Connection[Any], words: Collection[str]) -> dict[str, str]:
        """The lexeme of each of the words that has one."""
        self._learn(conn, [word for word in words if word not in self._known])
        return {word: lexeme for word in words if (lexeme := self._known[word]) is not None}

    def matching(self, conn: Connection[Any], words: Collection[str], parsed: TextQuery) -> frozenset[str]:
        """Those of the words whose lexeme is one of the query's."""
        self._learn(conn, [word for word in words if word not in self._known])
        wanted = query_lexemes(parsed)
        return frozenset(word for word in words if self._known[word] in wanted)

    def _learn(self, conn: Connection[Any], words: list[str]) -> None:
        if not words:
            return
        rows = execute(
            conn,
            """
            SELECT word, CASE WHEN cardinality(lexemes) = 1 THEN lexemes[1] END
            FROM (SELECT word, tsvector_to_array(to_tsvector(%s::text::regconfig, word)) AS lexemes
                  FROM unnest(%s::text[]) AS word) AS parsed
            """,
            (self._config, words),
        )
        self._known.update((str(word), lexeme) for word, lexeme in rows)
