"""Where any chunk stands on each side of hybrid retrieval, counted over the whole corpus, or why it stands nowhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, LiteralString

from psycopg import Connection, sql

from retrieval_lab.embed import Vectors
from retrieval_lab.extension import extension_schema
from retrieval_lab.filtering import Shape, condition, shape
from retrieval_lab.filtering import parameters as filter_parameters
from retrieval_lab.lexemes import bare, lexemes_of
from retrieval_lab.statements import execute
from retrieval_lab.store import CHUNKS, Table, vector_literal
from retrieval_lab.text import storable
from retrieval_lab.types import EVERYTHING, Filter, Place, TextQuery

NOT_STORED = "not in the index"
FILTERED = "left out by the filter"
NOTHING_TO_EMBED = "nothing to embed in the query"
ZERO_VECTOR = "its vector is zero"
NO_TERMS = "no terms in the query"
NO_WORD_IN_COMMON = "no word in common"


def vector_places(
    conn: Connection[Any],
    vector: Vectors | None,
    chunk_ids: Sequence[str],
    *,
    table: Table = CHUNKS,
    filter: Filter = EVERYTHING,
) -> dict[str, Place]:
    """Each chunk's rank among all by cosine similarity, as `hybrid.nearest` orders them; `vector` None finds none.

    One exact scan, whatever scan the list was made by.
    """
    if vector is None:
        return dict.fromkeys(chunk_ids, Place(None, reason=NOTHING_TO_EMBED))
    statement = _vector_sql(table, extension_schema(conn), shape(filter))
    parameters = {"vector": vector_literal(vector), **_which(chunk_ids, filter)}
    rows = {row[0]: row[1:] for row in execute(conn, statement, parameters)}
    return {chunk_id: _vector_place(rows.get(chunk_id)) for chunk_id in chunk_ids}


def _vector_place(row: tuple[Any, ...] | None) -> Place:
    if row is None:
        return Place(None, reason=NOT_STORED)
    allowed, is_zero, score, rank = row
    if not allowed:
        return Place(None, reason=FILTERED)
    return Place(None, reason=ZERO_VECTOR) if is_zero else Place(int(rank), float(score))


def text_places(
    conn: Connection[Any],
    parsed: TextQuery,
    chunk_ids: Sequence[str],
    *,
    table: Table = CHUNKS,
    filter: Filter = EVERYTHING,
) -> dict[str, Place]:
    """Each chunk's rank among all that match, as `hybrid.matching` orders them; the reason names what excluded it."""
    if not parsed.positive:
        return dict.fromkeys(chunk_ids, Place(None, reason=NO_TERMS))
    parameters = {
        "q": parsed.alternatives,
        "excluded": parsed.exclusions,
        "terms": list(parsed.excluded),
        **_which(chunk_ids, filter),
    }
    rows = {row[0]: row[1:] for row in execute(conn, _text_sql(table, shape(filter)), parameters)}
    return {chunk_id: _text_place(rows.get(chunk_id)) for chunk_id in chunk_ids}


def _text_place(row: tuple[Any, ...] | None) -> Place:
    if row is None:
        return Place(None, reason=NOT_STORED)
    allowed, excluded_by, matches, score, rank = row
    if not allowed:
        return Place(None, reason=FILTERED)
    if excluded_by:
        return Place(None, reason=f"excluded by {', '.join(excluded_by)}")
    return Place(int(rank), float(score)) if matches else Place(None, reason=NO_WORD_IN_COMMON)


@dataclass(frozen=True, slots=True)
class TermMatches:
    """Which terms of a query hit one chunk.

    `matched` and `absent` are those of the terms to find that it holds and lacks, `excluded` those of the terms to
    leave out that it holds. Terms are as `lexemes.bare` shows them. `apart` are the lexemes of absent phrases that it
    holds all the same, only not as the phrase wants them.
    """

    matched: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()


def text_terms(conn: Connection[Any], parsed: TextQuery, chunk_id: str, *, table: Table = CHUNKS) -> TermMatches:
    """The terms of the query that hit the chunk and those that do not; nothing hits a chunk that is not there."""
    in_phrases = [lexeme for phrase in parsed.phrases for lexeme in lexemes_of(phrase)]
    parameters = {"id": chunk_id, "terms": [*parsed.positive, *parsed.excluded], "lexemes": in_phrases}
    found = execute(conn, _terms_sql(table), parameters).fetchone() if storable([chunk_id]) else None
    hit, held = (set(found[0]), set(found[1])) if found else (set(), set())
    missed = [phrase for phrase in parsed.phrases if phrase not in hit]
    return TermMatches(
        matched=tuple(bare(term) for term in parsed.positive if term in hit),
        absent=tuple(bare(term) for term in parsed.positive if term not in hit),
        excluded=tuple(bare(term) for term in parsed.excluded if term in hit),
        apart=tuple(dict.fromkeys(one for phrase in missed for one in lexemes_of(phrase) if one in held)),
    )


def _which(chunk_ids: Sequence[str], filter: Filter) -> dict[str, object]:
    return {"ids": storable(chunk_ids), **filter_parameters(filter)}


# Ranks are counted rather than sorted for: one pass over the distances for each chunk that is asked about.
_VECTOR: Final = """
    WITH found AS MATERIALIZED (
        SELECT {chunk_id} AS id, {embedding} OPERATOR({public}.<=>) %(vector)s::{public}.vector AS distance,
            {allowed} AS allowed
        FROM {table}
    )
    SELECT id, allowed, distance = 'NaN', 1 - distance, (
        SELECT count(*) FROM found AS other
        WHERE other.allowed AND other.distance <> 'NaN' AND (
            other.distance < wanted.distance
            OR other.distance = wanted.distance AND other.id COLLATE "C" <= wanted.id COLLATE "C"))
    FROM found AS wanted WHERE id = ANY(%(ids)s)"""

_TEXT: Final = """
    WITH found AS MATERIALIZED (
        SELECT {chunk_id} AS id, {tsv} AS tsv, {allowed} AS allowed, {tsv} @@ %(q)s::tsquery AS matches
        FROM {table} WHERE {tsv} @@ %(q)s::tsquery OR {chunk_id} = ANY(%(ids)s)
    ), ranked AS MATERIALIZED (
        SELECT id, ts_rank_cd(tsv, %(q)s::tsquery, 32) AS score FROM found
        WHERE allowed AND matches AND (%(excluded)s = '' OR NOT tsv @@ %(excluded)s::tsquery)
    )
    SELECT wanted.id, allowed,
        (SELECT array_agg(term) FROM unnest(%(terms)s::text[]) AS term WHERE wanted.tsv @@ term::tsquery),
        matches, score, (
        SELECT count(*) FROM ranked AS other
        WHERE other.score > ranked.score
            OR other.score = ranked.score AND other.id COLLATE "C" <= wanted.id COLLATE "C")
    FROM found AS wanted LEFT JOIN ranked ON ranked.id = wanted.id WHERE wanted.id = ANY(%(ids)s)"""


_TERMS: Final = """
    SELECT ARRAY(SELECT term FROM unnest(%(terms)s::text[]) AS term WHERE {tsv} @@ term::tsquery),
        ARRAY(SELECT unnest(%(lexemes)s::text[]) INTERSECT SELECT unnest(tsvector_to_array({tsv})))
    FROM {table} WHERE {chunk_id} = %(id)s"""


@lru_cache(maxsize=64)
def _terms_sql(table: Table) -> bytes:
    return sql.SQL(_TERMS).format(**table.names("public")).as_bytes(None)


@lru_cache(maxsize=64)
def _vector_sql(table: Table, extension: str, given: Shape) -> bytes:
    return _rendered(_VECTOR, table, given, extension)


@lru_cache(maxsize=64)
def _text_sql(table: Table, given: Shape) -> bytes:
    return _rendered(_TEXT, table, given)


def _rendered(statement: LiteralString, table: Table, given: Shape, extension: str = "public") -> bytes:
    return sql.SQL(statement).format(**table.names(extension), allowed=condition(given, table)).as_bytes(None)
