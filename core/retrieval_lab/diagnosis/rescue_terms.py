"""The query with one term less, or with one rare term of the wanted passage more."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from psycopg import Connection, sql

from retrieval_lab.lexemes import query_lexemes
from retrieval_lab.statements import execute
from retrieval_lab.store import Table
from retrieval_lab.text import has_words, sendable
from retrieval_lab.types import Chunk, TextQuery

DROPPED_TERMS = 64
"""How many terms of the query are tried without."""
ADDED_TERMS = 30
"""How many terms of the passage are tried."""

_TERM = re.compile(r'-?"[^"]*"|\S+')


@dataclass(frozen=True, slots=True)
class Edit:
    """One change of the query's words: `action` is `drop` or `add`, `term` the word or phrase, `query` what it becomes.

    `found_in` is the number of passages that hold an added term, None for a dropped one.
    """

    action: str
    term: str
    query: str
    found_in: int | None = None


def terms(query: str) -> list[str]:
    """The terms of a query as they stand in it: phrases in double quotes, else what white space separates."""
    return _TERM.findall(query)


def without_a_term(query: str) -> list[Edit]:
    """The query without each of its first DROPPED_TERMS terms in turn; what is left has at least one word.

    Terms whose loss makes the same query count once.
    """
    found: dict[str, Edit] = {}
    for match in list(_TERM.finditer(query))[:DROPPED_TERMS]:
        left = f"{query[: match.start()].rstrip()} {query[match.end() :].lstrip()}".strip()
        if has_words(left):
            found.setdefault(left, Edit("drop", match[0], left))
    return list(found.values())


def with_a_term(
    conn: Connection[Any], query: str, parsed: TextQuery, passages: Sequence[Chunk], table: Table
) -> list[Edit]:
    """The query with each of the ADDED_TERMS rarest terms of the passages in turn, the rarest first.

    A term is a lexeme that the text search configuration makes of the passages as they are indexed and that the query
    does not have. Rare are those which few passages of the corpus hold, of equal ones the first in the text. It is
    added as the word that stands there.
    """
    text = "\n\n".join(table.indexed(passage) for passage in passages)
    parameters = {
        "text": sendable(text)[0],
        "config": table.text_config,
        "known": list(query_lexemes(parsed)),
        "terms": ADDED_TERMS,
    }
    rows = execute(conn, _rare_sql(table), parameters).fetchall()
    base = query.rstrip()
    return [Edit("add", token, f"{base} {token}".strip(), int(found_in)) for token, found_in in rows]


# A token that does not begin with a letter or digit, such as a negative number, would be read as an operator.
_RARE: Final = """
    WITH tokens AS (
        SELECT token, lexeme, place
        FROM ts_debug(%(config)s::text::regconfig, %(text)s) WITH ORDINALITY
            AS parsed (alias, description, token, dictionaries, dictionary, lexemes, place),
            unnest(lexemes) AS lexeme
        WHERE token ~ '^[[:alnum:]]'
    ), first AS (
        SELECT DISTINCT ON (lexeme) lexeme, token, place FROM tokens
        WHERE lexeme <> ALL(%(known)s::text[])
        ORDER BY lexeme, place
    ), counted AS (
        SELECT token, place, (
            SELECT count(*) FROM {table}
            WHERE {tsv} @@ ('''' || replace(replace(lexeme, '\\', '\\\\'), '''', '''''') || '''')::tsquery) AS found_in
        FROM first
    )
    SELECT token, min(found_in) FROM counted
    GROUP BY token ORDER BY min(found_in), min(place) LIMIT %(terms)s"""


@lru_cache(maxsize=64)
def _rare_sql(table: Table) -> bytes:
    return sql.SQL(_RARE).format(**table.names("public")).as_bytes(None)
