"""The two sides of hybrid retrieval over one table, and the search that fuses them.

Every list is ordered to the last row: equal scores by chunk_id in code point order.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Literal, LiteralString

from psycopg import Connection, sql

from retrieval_lab import textquery
from retrieval_lab.embed import Embedder, Vectors, embed_query
from retrieval_lab.errors import InputError
from retrieval_lab.extension import extension_schema
from retrieval_lab.filtering import Shape, condition, parameters, shape
from retrieval_lab.fusion import RRF_K as RRF_K
from retrieval_lab.fusion import rrf as rrf
from retrieval_lab.statements import execute, is_idle
from retrieval_lab.store import CHUNKS, Table, vector_literal
from retrieval_lab.text import sendable
from retrieval_lab.types import EVERYTHING, Filter, Hit, Ranked, TextQuery

Scan = Literal["exact", "hnsw"]
"""How the vector side reads the table; None leaves the choice to the planner."""

MAX_EF_SEARCH = 1000
"""No HNSW scan yields more rows (pgvector's README, "HNSW", Query Options); longer lists are read exactly."""

_log = logging.getLogger(__name__)


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
    conn: Connection[Any],
    vector: Vectors,
    n: int,
    *,
    scan: Scan | None = None,
    table: Table = CHUNKS,
    filter: Filter = EVERYTHING,
) -> list[Hit]:
    """`vector_search` for a vector, shape (dims,), among the chunks that the filter lets through.

    Runs in a transaction of its own, or in a savepoint inside an open one, so that the planner settings it makes end
    with it.
    """
    return nearest_explained(conn, vector, n, scan=scan, table=table, filter=filter, explain=False)[0]


def nearest_explained(
    conn: Connection[Any],
    vector: Vectors,
    n: int,
    *,
    scan: Scan | None = None,
    table: Table = CHUNKS,
    filter: Filter = EVERYTHING,
    explain: bool = True,
) -> tuple[list[Hit], tuple[str, ...]]:
    """What `nearest` returns, and how the server read the table: the lines of EXPLAIN, vectors shortened."""
    if _nothing_asked(n):
        return [], ()
    # An index scan yields at most ef_search rows, those that were deleted since the last vacuum among them; one with a
    # filter goes on looking, but not for ever. A list that is longer than that, or that the planner's choice or the
    # filter left short, is read exactly.
    scans: tuple[Scan | None, ...] = (scan, "exact") if _may_end_early(scan, filter) else (scan,)
    if n > MAX_EF_SEARCH:
        scans = ("exact",)
    rows: list[tuple[str, float]] = []
    # Local settings end with a transaction however it ends, but outlive a savepoint unless that is rolled back. Only
    # then: a rollback makes psycopg forget all statements that it has prepared.
    with conn.transaction(force_rollback=not is_idle(conn)):
        statement = _nearest_sql(table, extension_schema(conn), shape(filter))
        given = {"vector": vector_literal(vector), "n": n, **parameters(filter)}
        for way in scans:
            if len(rows) < n:
                execute(conn, _SETTINGS[way], {"n": min(n, MAX_EF_SEARCH)})
                if way == "hnsw" and filter:
                    execute(conn, _GO_ON)
                rows = execute(conn, statement, given).fetchall()
        return _hits(rows), _plan(conn, statement, given) if explain else ()


def _may_end_early(scan: Scan | None, filter: Filter) -> bool:
    return scan is None or (scan == "hnsw" and bool(filter))


def count_embedded(conn: Connection[Any], *, table: Table = CHUNKS, filter: Filter = EVERYTHING) -> int:
    """The number of chunks that vector search can find: those the filter lets through, without zero vectors."""
    return _count(conn, _embedded_sql(table, extension_schema(conn), shape(filter)), parameters(filter))


def text_search(conn: Connection[Any], query: str, n: int = 50, *, table: Table = CHUNKS) -> list[Hit]:
    """At most n chunks that match any word or phrase of the query and none it excludes, best first.

    The score is `ts_rank_cd(tsv, q, 32)`: cover density, scaled to rank / (rank + 1) (PostgreSQL manual 12.3.3). A
    query without a positive term finds nothing; what had to be dropped is logged as a warning. Raises InputError
    when n is negative.
    """
    parsed = textquery.parse(conn, query, table.text_config)
    for note in parsed.notes:
        _log.warning(note)
    return matching(conn, parsed, n, table=table)


def matching(
    conn: Connection[Any],
    parsed: TextQuery,
    n: int,
    *,
    table: Table = CHUNKS,
    filter: Filter = EVERYTHING,
) -> list[Hit]:
    """`text_search` for a parsed query."""
    if _nothing_asked(n) or not parsed.positive:
        return []
    statement = _matching_sql(table, bool(parsed.excluded), shape(filter))
    return _hits(execute(conn, statement, _matching_parameters(parsed, n, filter)).fetchall())


def count_matching(
    conn: Connection[Any], parsed: TextQuery, *, table: Table = CHUNKS, filter: Filter = EVERYTHING
) -> int:
    """The number of chunks that `matching` would find without a cut."""
    if not parsed.positive:
        return 0
    statement = _count_matching_sql(table, bool(parsed.excluded), shape(filter))
    return _count(conn, statement, _matching_parameters(parsed, 0, filter))


def matching_plan(
    conn: Connection[Any],
    parsed: TextQuery,
    n: int,
    *,
    table: Table = CHUNKS,
    filter: Filter = EVERYTHING,
) -> tuple[str, ...]:
    """How the server reads the table for `matching`: the lines of EXPLAIN."""
    if _nothing_asked(n) or not parsed.positive:
        return ()
    statement = _matching_sql(table, bool(parsed.excluded), shape(filter))
    return _plan(conn, statement, _matching_parameters(parsed, n, filter))


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
    by_vector = vector_search(conn, embedder, query, n, scan=scan, table=table)
    return rrf([by_vector, text_search(conn, query, n, table=table)])[:top_k]


def _matching_parameters(parsed: TextQuery, n: int, filter: Filter) -> dict[str, object]:
    return {"q": parsed.alternatives, "excluded": parsed.exclusions, "n": n, **parameters(filter)}


def _count(conn: Connection[Any], statement: bytes, given: Mapping[str, object]) -> int:
    row = execute(conn, statement, given).fetchone()
    return int(row[0]) if row else 0


def _plan(conn: Connection[Any], statement: bytes, given: Mapping[str, object]) -> tuple[str, ...]:
    rows = execute(conn, b"EXPLAIN (COSTS OFF) " + statement, given)
    return tuple(_VECTOR_LITERAL.sub("'[…]'", str(line)) for (line,) in rows)


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
_VECTOR_LITERAL: Final = re.compile(r"'\[[^']*\]'")
_SETTINGS: Final[Mapping[Scan | None, bytes]] = {
    None: _FOR_THIS_QUERY.encode(),
    "exact": f"""{_FOR_THIS_QUERY}, set_config('enable_seqscan', 'on', true),
        set_config('enable_indexscan', 'off', true)""".encode(),
    "hnsw": f"""{_FOR_THIS_QUERY}, set_config('enable_seqscan', 'off', true),
        set_config('enable_indexscan', 'on', true)""".encode(),
}

# An index scan that a filter left short goes on where it ended, in order (pgvector's README, "Iterative Index Scans",
# from 0.8.0 on).
_GO_ON: Final = b"""
    SELECT set_config('hnsw.iterative_scan', 'strict_order', true) FROM pg_extension
    WHERE extname = 'vector' AND string_to_array(extversion, '.')::int[] >= '{0,8,0}'"""

# The inner query is what the HNSW index can answer. WITH TIES keeps every row that shares the last distance, so that
# the outer order decides between them and not the scan. NaN is the distance from a zero vector.
_NEAREST: Final = """
    SELECT id, 1 - distance FROM (
        SELECT {chunk_id} AS id, {embedding} OPERATOR({public}.<=>) %(vector)s::{public}.vector AS distance
        FROM {table} WHERE {allowed}
        ORDER BY {embedding} OPERATOR({public}.<=>) %(vector)s::{public}.vector
        FETCH FIRST %(n)s ROWS WITH TIES
    ) AS candidates
    WHERE distance <> 'NaN'
    ORDER BY distance, id COLLATE "C"
    LIMIT %(n)s"""

_MATCHING: Final = """
    SELECT {chunk_id}, ts_rank_cd({tsv}, %(q)s::tsquery, 32) AS score FROM {table}
    WHERE {tsv} @@ %(q)s::tsquery{exclusion} AND {allowed}
    ORDER BY score DESC, {chunk_id} COLLATE "C"
    LIMIT %(n)s"""
_EXCLUSION: Final = " AND NOT {tsv} @@ %(excluded)s::tsquery"
_COUNT_MATCHING: Final = "SELECT count(*) FROM {table} WHERE {tsv} @@ %(q)s::tsquery{exclusion} AND {allowed}"
_COUNT_EMBEDDED: Final = "SELECT count(*) FROM {table} WHERE {public}.vector_norm({embedding}) > 0 AND {allowed}"


# Composing takes longer than a short query, so each statement is rendered once.
@lru_cache(maxsize=64)
def _nearest_sql(table: Table, extension: str, given: Shape) -> bytes:
    return _rendered(_NEAREST, table, given, extension)


@lru_cache(maxsize=64)
def _embedded_sql(table: Table, extension: str, given: Shape) -> bytes:
    return _rendered(_COUNT_EMBEDDED, table, given, extension)


@lru_cache(maxsize=64)
def _matching_sql(table: Table, excludes: bool, given: Shape) -> bytes:
    return _rendered(_MATCHING, table, given, excludes=excludes)


@lru_cache(maxsize=64)
def _count_matching_sql(table: Table, excludes: bool, given: Shape) -> bytes:
    return _rendered(_COUNT_MATCHING, table, given, excludes=excludes)


def _rendered(
    statement: LiteralString, table: Table, given: Shape, extension: str = "public", *, excludes: bool = False
) -> bytes:
    names = table.names(extension)
    exclusion = sql.SQL(_EXCLUSION if excludes else "").format(**names)
    return sql.SQL(statement).format(**names, exclusion=exclusion, allowed=condition(given, table)).as_bytes(None)
