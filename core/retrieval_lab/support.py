"""How well passages support a question: the share of the question's idf mass that one of them covers.

A score of the reranker does not tell, since it grows with the length of the question and compares only within one
question. The measure here is absolute. The terms of a question are its lexemes, without stop words and what an operator
excludes. Each weighs its BM25 idf over the whole corpus of N passages, `ln(1 + (N - df + 0.5) / (df + 0.5))`, so a term
that no passage holds weighs most. A passage's support is

    sum of the weights of the terms that it holds / max(sum of all weights, LEAST_MASS * ln N) * min(1, held / ENOUGH)

with `held` the number of terms that it holds, and 1 when it holds every term. A term that only one of N passages holds
weighs about ln N: to share that much with some passage takes no more than chance, so a short question counts as one of
LEAST_MASS such terms. One or two terms are shared by chance even when they are rare, so fewer than ENOUGH count in
part. The support of a question is the best of the passages
`looked_at`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from psycopg import Connection, sql

from retrieval_lab.lexemes import lexemes_of
from retrieval_lab.statements import execute
from retrieval_lab.store import CHUNKS, Table, count
from retrieval_lab.text import storable
from retrieval_lab.textquery import shortened
from retrieval_lab.types import Stages, TextQuery

SUPPORT_FLOOR = 0.25
"""The support below which a question is refused, until a floor is calibrated."""

LEAST_MASS = 3.25
"""The least mass of a question, in terms that one passage holds."""

ENOUGH = 3
"""How many terms a passage must hold for their weights to count in full. Both were chosen on the bundled corpus."""

SOURCES = 5
"""How many passages of the final list a question is answered from, unless told otherwise."""

DEPTH = 20
"""How many passages of the reranked pool are looked at: a pipeline without reranker has the best one lower down."""


_UNREAD = TextQuery()


@dataclass(frozen=True, slots=True)
class Support:
    """How well one passage supports a question: a `share` of 0 to 1, and the `terms` it holds, the weightiest first."""

    share: float
    terms: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of a question: lexeme -> idf over the `passages` of the corpus, in the order of the alphabet."""

    weights: Mapping[str, float]
    passages: int

    @property
    def mass(self) -> float:
        """What a passage's terms are measured against."""
        return max(math.fsum(self.weights.values()), LEAST_MASS * math.log(max(self.passages, 1)))

    def support(self, lexemes: Collection[str]) -> Support:
        """The support that a passage with these lexemes gives."""
        held = sorted((term for term in self.weights if term in lexemes), key=lambda term: -self.weights[term])
        if not held:
            return Support(0.0)
        if len(held) == len(self.weights):
            return Support(1.0, tuple(held))
        covered = math.fsum(self.weights[term] for term in held)
        return Support(covered / self.mass * min(1.0, len(held) / ENOUGH), tuple(held))


def question_terms(conn: Connection[Any], query: str, parsed: TextQuery = _UNREAD, *, table: Table = CHUNKS) -> Terms:
    """The terms of the query with their idf; what `parsed` excludes is none of them."""
    excluded = [lexeme for term in parsed.excluded for lexeme in lexemes_of(term)]
    text = shortened(query)[0]
    rows = execute(conn, _terms_sql(table), {"config": table.text_config, "text": text, "excluded": excluded})
    passages = count(conn, table=table)
    return Terms({str(term): _idf(passages, int(df)) for term, df in rows}, passages)


def supports(
    conn: Connection[Any], terms: Terms, chunk_ids: Sequence[str], *, table: Table = CHUNKS
) -> dict[str, Support]:
    """The support that each of the passages gives, in their order; an unknown one gives none."""
    parameters = {"ids": storable(chunk_ids), "terms": list(terms.weights)}
    held = {str(chunk_id): set(lexemes) for chunk_id, lexemes in execute(conn, _held_sql(table), parameters)}
    return {chunk_id: terms.support(held.get(chunk_id, ())) for chunk_id in chunk_ids}


def looked_at(made: Stages, top_k: int = SOURCES) -> list[str]:
    """The passages whose support counts: the first top_k of the final list, then the first DEPTH of the pool."""
    return list(dict.fromkeys(row.chunk_id for row in (*made.final[:top_k], *made.reranked[:DEPTH])))


def best_support(conn: Connection[Any], made: Stages, *, table: Table = CHUNKS) -> float:
    """The support of a question: the best that one of the passages `looked_at` gives."""
    terms = question_terms(conn, made.query, made.parsed, table=table)
    return strongest(supports(conn, terms, looked_at(made), table=table))


def strongest(found: Mapping[str, Support]) -> float:
    """The best support that one of the passages gives, 0 without passages."""
    return max((one.share for one in found.values()), default=0.0)


def _idf(passages: int, df: int) -> float:
    return math.log(1 + (passages - df + 0.5) / (df + 0.5))


_TERMS: Final = """
    SELECT lexeme, (
        SELECT count(*) FROM {table}
        WHERE {tsv} @@ ('''' || replace(replace(lexeme, '\\', '\\\\'), '''', '''''') || '''')::tsquery)
    FROM unnest(tsvector_to_array(to_tsvector(%(config)s::text::regconfig, %(text)s))) AS lexeme
    WHERE lexeme <> ALL(%(excluded)s::text[])
    ORDER BY lexeme COLLATE "C"
"""
_HELD: Final = """
    SELECT {chunk_id}, ARRAY(SELECT unnest(%(terms)s::text[]) INTERSECT SELECT unnest(tsvector_to_array({tsv})))
    FROM {table} WHERE {chunk_id} = ANY(%(ids)s)
"""


@lru_cache(maxsize=64)
def _terms_sql(table: Table) -> bytes:
    return sql.SQL(_TERMS).format(**table.names("public")).as_bytes(None)


@lru_cache(maxsize=64)
def _held_sql(table: Table) -> bytes:
    return sql.SQL(_HELD).format(**table.names("public")).as_bytes(None)
