"""Which of the words that a passage lacks stand right beside it: in its heading path, in the chunks before and after.

A cut between a passage and the words that a query asks with shows here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, Final

from psycopg import Connection, sql

from retrieval_lab.lexemes import lexemes_of
from retrieval_lab.statements import execute
from retrieval_lab.store import CHUNKS, Table
from retrieval_lab.stored import Stored, as_text
from retrieval_lab.text import sendable
from retrieval_lab.types import Chunk


@dataclass(frozen=True, slots=True)
class Neighbour:
    """The chunk before or after a passage in its document; `holds` are the lexemes that it has and the passage lacks.

    They are among those that the query asks for.
    """

    chunk_id: str
    holds: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Nearby:
    """Where the lexemes of the query that a passage lacks (`lacking`) stand beside it.

    `heading` are those in its heading path, which is empty of them where the path is indexed with the passage. `before`
    and `after` are None at the ends of the document.
    """

    lacking: tuple[str, ...]
    heading: tuple[str, ...]
    before: Neighbour | None
    after: Neighbour | None

    @property
    def neighbours(self) -> tuple[Neighbour, ...]:
        """Those of the two chunks that are there."""
        return tuple(one for one in (self.before, self.after) if one is not None)

    def to_dict(self) -> dict[str, Any]:
        """The value as JSON has it."""
        return {
            "lacking": list(self.lacking),
            "heading": list(self.heading),
            "before": _to_dict(self.before),
            "after": _to_dict(self.after),
        }

    @classmethod
    def from_stored(cls, data: Stored) -> Nearby:
        """What `to_dict` wrote. Raises InputError when it is broken."""
        return cls(
            lacking=data.each("lacking", as_text),
            heading=data.each("heading", as_text),
            before=_read(data.inner("before")) if data.has("before") else None,
            after=_read(data.inner("after")) if data.has("after") else None,
        )


def nearby(
    conn: Connection[Any], chunk: Chunk, absent: Sequence[str], apart: Sequence[str], *, table: Table = CHUNKS
) -> Nearby:
    """Where what the chunk lacks stands beside it.

    `absent` are the terms of the query that it lacks, `apart` the lexemes of absent phrases that it has all the same,
    both as `places.text_terms` gives them.
    """
    lacking = tuple(dict.fromkeys(one for term in absent for one in _lexemes(term) if one not in apart))
    parameters = {
        "lacking": list(lacking),
        "heading": sendable(chunk.heading_path)[0],
        "doc_id": chunk.doc_id,
        "start": chunk.start_char,
        "id": chunk.chunk_id,
    }
    found = {side: (chunk_id, held) for side, chunk_id, held in execute(conn, _nearby_sql(table), parameters)}
    return Nearby(
        lacking=lacking,
        heading=_in_order(lacking, found["heading"][1]),
        before=_neighbour(lacking, found.get("before")),
        after=_neighbour(lacking, found.get("after")),
    )


def _lexemes(term: str) -> list[str]:
    """The lexemes of a term as `lexemes.bare` shows it: a phrase has its lexemes in quotes, a single one has none."""
    return lexemes_of(term) if " <" in term and term.startswith("'") else [term]


def _neighbour(lacking: Sequence[str], row: tuple[str, Sequence[str]] | None) -> Neighbour | None:
    return None if row is None else Neighbour(row[0], _in_order(lacking, row[1]))


def _in_order(lacking: Sequence[str], held: Sequence[str]) -> tuple[str, ...]:
    return tuple(one for one in lacking if one in held)


_HELD: Final = "ARRAY(SELECT unnest(%(lacking)s::text[]) INTERSECT SELECT unnest(tsvector_to_array({held})))"
_NEIGHBOUR: Final = """
    SELECT {side}, id, {of_neighbour} FROM (
        SELECT {chunk_id} AS id, {tsv} AS tsv FROM {table}
        WHERE {doc_id} = %(doc_id)s
            AND ({start_char}, {chunk_id} COLLATE "C") {beyond} (%(start)s, %(id)s COLLATE "C")
        ORDER BY {start_char} {order}, {chunk_id} COLLATE "C" {order} LIMIT 1) AS {side_name}"""
_NEARBY: Final = "SELECT 'heading', NULL, {of_heading} UNION ALL ({before}) UNION ALL ({after})"


@lru_cache(maxsize=64)
def _nearby_sql(table: Table) -> bytes:
    names = table.names("public")
    of_neighbour = sql.SQL(_HELD).format(held=sql.Identifier("tsv"))
    heading = sql.SQL("to_tsvector({config}, %(heading)s)").format(**names)

    def neighbour(side: str, beyond: sql.SQL, order: sql.SQL) -> sql.Composed:
        more = {"side": sql.Literal(side), "side_name": sql.Identifier(side), "beyond": beyond, "order": order}
        return sql.SQL(_NEIGHBOUR).format(**names, **more, of_neighbour=of_neighbour)

    composed = sql.SQL(_NEARBY).format(
        of_heading=sql.SQL(_HELD).format(held=heading),
        before=neighbour("before", sql.SQL("<"), sql.SQL("DESC")),
        after=neighbour("after", sql.SQL(">"), sql.SQL("ASC")),
    )
    return composed.as_bytes(None)


def _to_dict(one: Neighbour | None) -> dict[str, Any] | None:
    return None if one is None else {**asdict(one), "holds": list(one.holds)}


def _read(data: Stored) -> Neighbour:
    return Neighbour(data.text("chunk_id"), data.each("holds", as_text))
