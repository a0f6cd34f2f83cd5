"""The two sides of hybrid retrieval over one table, and their fusion.

Every list is ordered to the last row: equal scores by chunk_id in code point order.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from time import perf_counter
from typing import Any, Final, Literal

from psycopg import Connection, sql

from retrieval_lab import textquery
from retrieval_lab.embed import Embedder, Vectors, embed_query
from retrieval_lab.errors import InputError
from retrieval_lab.extension import extension_schema
from retrieval_lab.statements import execute, is_idle
from retrieval_lab.store import CHUNKS, Table, vector_literal
from retrieval_lab.text import sendable
from retrieval_lab.types import Hit, Ranked, TextQuery

Scan = Literal["exact", "hnsw"]
"""How the vector side reads the table; None leaves the choice to the planner."""

RRF_K = 60

_MAX_EF_SEARCH = 1000
_NAMED_EXCLUSIONS = 8
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Candidates:
    """What the retrievers found for one query.

    `query_vector` is None when the query has nothing to embed. `lists` is in the order of fusion. `seconds` is wall
    time by step; `notes` says what was dropped.
    """

    query_vector: Vectors | None
    parsed: TextQuery
    lists: Mapping[str, tuple[Hit, ...]]
    notes: tuple[str, ...]
    seconds: Mapping[str, float]


def vector_search(
    conn: Connection[Any],
    embedder: Embedder,
    query: str,
    n: int = 50,
    *,
    scan: Scan | None = None,
    table: Table = CHUNKS,
) -> list[Hit]:
    """At most n chunks by cosine similarity to the query (score = 1 - cosine distance), best first.

    Chunks without a cosine (zero vectors) are left out; a query without words, or with a zero vector, finds
    nothing. Raises InputError when n is negative or the embedder returns something else than finite vectors of its
    dimension.
    """
    vector = embed_query(embedder, sendable(query)[0])
    return [] if vector is None else nearest(conn, vector, n, scan=scan, table=table)


def nearest(
    conn: Connection[Any], vector: Vectors, n: int, *, scan: Scan | None = None, table: Table = CHUNKS
) -> list[Hit]:
    """`vector_search` for a vector, shape (dims,).

    Runs in a transaction of its own, or in a savepoint inside an open one, so that the planner settings it makes end
    with it.
    """
    if _nothing_asked(n):
        return []
    # An index scan yields at most ef_search rows, those that were deleted since the last vacuum among them. A list that
    # is longer than that, or that the planner's choice left short, is read exactly.
    scans: tuple[Scan | None, ...] = ("exact",) if n > _MAX_EF_SEARCH else (scan,) if scan else (None, "exact")
    rows: list[tuple[str, float]] = []
    # Local settings end with a transaction however it ends, but outlive a savepoint unless that is rolled back. Only
    # then: a rollback makes psycopg forget all statements that it has prepared.
    with conn.transaction(force_rollback=not is_idle(conn)):
        statement = _nearest_sql(table, extension_schema(conn))
        for way in scans:
            if len(rows) < n:
                execute(conn, _SETTINGS[way], {"n": min(n, _MAX_EF_SEARCH)})
                rows = execute(conn, statement, {"vector": vector_literal(vector), "n": n}).fetchall()
    return _hits(rows)


def text_search(conn: Connection[Any], query: str, n: int = 50, *, table: Table = CHUNKS) -> list[Hit]:
    """At most n chunks that match any word or phrase of the query and none it excludes, best first.

    The score is `ts_rank_cd(tsv, q, 32)`: cover density, scaled to rank / (rank + 1) (PostgreSQL manual 12.3.3). A
    query without a positive term finds nothing; what had to be dropped is logged as a warning. Raises InputError
    when n is negative.
    """
    return matching(conn, _parsed(conn, query, table), n, table=table)


def matching(conn: Connection[Any], parsed: TextQuery, n: int, *, table: Table = CHUNKS) -> list[Hit]:
    """`text_search` for a parsed query."""
    if _nothing_asked(n) or not parsed.positive:
        return []
    parameters = {"q": parsed.alternatives, "excluded": parsed.exclusions, "n": n}
    return _hits(execute(conn, _matching_sql(table, bool(parsed.excluded)), parameters).fetchall())


def rrf(lists: Sequence[Sequence[Hit]], k: int = RRF_K) -> list[Ranked]:
    """All chunks of the lists by the sum of 1 / (k + rank) over the lists that hold them, then by chunk_id.

    Reciprocal rank fusion: Cormack, Clarke and Büttcher, SIGIR 2009. `ranks` has one entry for each list. A chunk
    repeated within a list counts there once, at its best rank. Raises InputError when k is negative.
    """
    if k < 0:
        raise InputError(f"rrf k is {k}; expected 0 or more")
    ranks: dict[str, list[int | None]] = {}
    for position, hits in enumerate(lists):
        for hit in hits:
            row = ranks.setdefault(hit.chunk_id, [None] * len(lists))
            best = row[position]
            row[position] = hit.rank if best is None else min(best, hit.rank)
    # fsum is exact before its one rounding, so the order of the lists cannot break a tie.
    scored = [(-math.fsum(1 / (k + r) for r in row if r is not None), chunk_id) for chunk_id, row in ranks.items()]
    return [
        Ranked(chunk_id, -score, rank, tuple(ranks[chunk_id]))
        for rank, (score, chunk_id) in enumerate(sorted(scored), start=1)
    ]


def candidates(
    conn: Connection[Any],
    embedder: Embedder,
    query: str,
    n: int,
    *,
    scan: Scan | None = None,
    table: Table = CHUNKS,
) -> Candidates:
    """The top n of the vector side and of the full-text side, under the names "vector" and "text"."""
    began = perf_counter()
    vector = embed_query(embedder, sendable(query)[0])
    embedded = perf_counter()
    by_vector = [] if vector is None else nearest(conn, vector, n, scan=scan, table=table)
    searched = perf_counter()
    parsed = _parsed(conn, query, table)
    by_text = matching(conn, parsed, n, table=table)
    seconds = {"embed": embedded - began, "vector": searched - embedded, "text": perf_counter() - searched}
    return Candidates(
        vector, parsed, {"vector": tuple(by_vector), "text": tuple(by_text)}, _notes(vector, parsed), seconds
    )


def search(
    conn: Connection[Any],
    embedder: Embedder,
    query: str,
    n: int = 50,
    top_k: int = 10,
    *,
    scan: Scan | None = None,
    table: Table = CHUNKS,
) -> list[Ranked]:
    """The first top_k of the fused top n of both sides; `ranks` is (vector rank, full-text rank).

    Raises InputError when n or top_k is negative.
    """
    if _nothing_asked(top_k):
        return []
    found = candidates(conn, embedder, query, n, scan=scan, table=table)
    return rrf(list(found.lists.values()))[:top_k]


def _parsed(conn: Connection[Any], query: str, table: Table) -> TextQuery:
    parsed = textquery.parse(conn, query, table.text_config)
    for note in parsed.notes:
        _log.warning(note)
    return parsed


def _notes(vector: Vectors | None, parsed: TextQuery) -> tuple[str, ...]:
    """What a person should know about how the query was read."""
    notes = list(parsed.notes)
    if vector is None:
        notes.append("vector search: nothing to embed in this query")
    if not parsed.positive:
        notes.append("full text: no terms to find, only stop words, symbols, exclusions or overlong words")
    if parsed.excluded:
        more = len(parsed.excluded) - _NAMED_EXCLUSIONS
        named = ", ".join(parsed.excluded[:_NAMED_EXCLUSIONS])
        notes.append(f"full text excluded: {named}{f' and {more} more' if more > 0 else ''}")
    return tuple(notes)


def _nothing_asked(n: int) -> bool:
    if n < 0:
        raise InputError(f"{n} results were asked for; expected 0 or more")
    return n == 0


def _hits(rows: Sequence[tuple[str, float]]) -> list[Hit]:
    return [Hit(chunk_id, float(score), rank) for rank, (chunk_id, score) in enumerate(rows, start=1)]


# Local to the transaction. Before the extension's library is loaded the setting has no value, hence the coalesce. A
# plan that a prepared statement kept from another time would not heed the choice of scan: each query is planned anew.
_FOR_THIS_QUERY: Final = """
    SELECT set_config('hnsw.ef_search', greatest(
        %(n)s, coalesce(nullif(current_setting('hnsw.ef_search', true), '')::int, 40))::text, true),
        set_config('plan_cache_mode', 'force_custom_plan', true)"""
_SETTINGS: Final[Mapping[Scan | None, bytes]] = {
    None: _FOR_THIS_QUERY.encode(),
    "exact": f"""{_FOR_THIS_QUERY}, set_config('enable_seqscan', 'on', true),
        set_config('enable_indexscan', 'off', true)""".encode(),
    "hnsw": f"""{_FOR_THIS_QUERY}, set_config('enable_seqscan', 'off', true),
        set_config('enable_indexscan', 'on', true)""".encode(),
}

# The inner query is what the HNSW index can answer. WITH TIES keeps every row that shares the last distance, so that
# the outer order decides between them and not the scan. NaN is the distance from a zero vector.
_NEAREST: Final = """
    SELECT id, 1 - distance FROM (
        SELECT {chunk_id} AS id, {embedding} OPERATOR({public}.<=>) %(vector)s::{public}.vector AS distance
        FROM {table}
        ORDER BY {embedding} OPERATOR({public}.<=>) %(vector)s::{public}.vector
        FETCH FIRST %(n)s ROWS WITH TIES
    ) AS candidates
    WHERE distance <> 'NaN'
    ORDER BY distance, id COLLATE "C"
    LIMIT %(n)s"""

_MATCHING: Final = """
    SELECT {chunk_id}, ts_rank_cd({tsv}, %(q)s::tsquery, 32) AS score FROM {table}
    WHERE {tsv} @@ %(q)s::tsquery{exclusion}
    ORDER BY score DESC, {chunk_id} COLLATE "C"
    LIMIT %(n)s"""
_EXCLUSION: Final = " AND NOT {tsv} @@ %(excluded)s::tsquery"


# Composing takes longer than a short query, so each statement is rendered once.
@lru_cache(maxsize=64)
def _nearest_sql(table: Table, extension: str) -> bytes:
    return sql.SQL(_NEAREST).format(**table.names(extension)).as_bytes(None)


@lru_cache(maxsize=64)
def _matching_sql(table: Table, excludes: bool) -> bytes:
    names = table.names("public")
    exclusion = sql.SQL(_EXCLUSION).format(**names) if excludes else sql.SQL("")
    return sql.SQL(_MATCHING).format(**names, exclusion=exclusion).as_bytes(None)
