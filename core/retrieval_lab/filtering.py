"""What a filter lets through: as a condition of SQL, and of paths as a regular expression."""

from __future__ import annotations

import re
from typing import Any, Final, LiteralString

from psycopg import Connection, sql

from retrieval_lab.statements import execute
from retrieval_lab.store import Table
from retrieval_lab.text import storable
from retrieval_lab.types import Filter

_CONDITIONS: Final[dict[str, LiteralString]] = {
    "doc_ids": "{doc_id} = ANY(%(doc_ids)s)",
    "sources": "{doc_id} IN (SELECT doc_id FROM {documents} WHERE source = ANY(%(sources)s))",
    "paths": "{doc_id} IN (SELECT doc_id FROM {documents} WHERE uri ~ ANY(%(paths)s))",
}
_WILD = re.compile(r"\*\*|\*|\?|[^*?]+")
_MEANING = {"**": ".*", "*": "[^/]*", "?": "[^/]"}
_SPECIAL = re.compile(r"[^\w\s/-]")

Shape = tuple[str, ...]
"""The parts of a filter that are given, which is all of it that the text of a statement depends on."""


def shape(filter: Filter) -> Shape:
    """The shape of the filter, empty when it lets everything through."""
    return tuple(part for part in _CONDITIONS if getattr(filter, part))


def condition(shape: Shape, table: Table) -> sql.Composable:
    """The condition on a row of the table that the filter lets it through; its parameters are `parameters`."""
    names = table.names("public")
    parts = [sql.SQL(_CONDITIONS[part]).format(**names) for part in shape]
    return sql.SQL(" AND ").join(parts) if parts else sql.SQL("TRUE")


def parameters(filter: Filter) -> dict[str, list[str]]:
    """The parameters of `condition`."""
    return {
        "doc_ids": storable(filter.doc_ids),
        "sources": storable(filter.sources),
        "paths": [f"^(?:{path_regex(pattern)})$" for pattern in storable(filter.paths)],
    }


def passes_any(conn: Connection[Any], filter: Filter, table: Table) -> bool:
    """Whether the filter lets any row of the table through."""
    statement = sql.SQL("SELECT EXISTS (SELECT FROM {table} WHERE {allowed})").format(
        **table.names("public"), allowed=condition(shape(filter), table)
    )
    row = execute(conn, statement, parameters(filter)).fetchone()
    return row is not None and bool(row[0])


def path_regex(pattern: str) -> str:
    """A regular expression of the paths that fit the pattern, which Python and PostgreSQL read alike.

    `*` stands for any characters but `/`, `**` for any at all, `?` for one that is no `/`.
    """
    return "".join(_MEANING.get(part) or _SPECIAL.sub(r"\\\g<0>", part) for part in _WILD.findall(pattern))


def describe(filter: Filter) -> str:
    """The parts of the filter that are given, in words."""
    words = {"doc_ids": "the documents", "sources": "the sources", "paths": "the paths"}
    return " and ".join(f"{words[part]} {', '.join(getattr(filter, part))}" for part in shape(filter))
