"""Dashes that full-text search read as exclusions, and the query that was probably meant.

PostgreSQL decides: each dash is tried alone, with all others blanked, so that its rules need not be known here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from psycopg import Connection

from retrieval_lab.lexemes import bare
from retrieval_lab.statements import execute
from retrieval_lab.textquery import split
from retrieval_lab.types import TextQuery

MAX_TRIED: Final = 64
"""Dashes of one query that are tried; fewer in a long query, whose parsing takes its time."""
_MAX_TRIED_CHARS = 500_000

# A run of dashes that does not join two words, and what follows it: a quoted text, or up to a space or an operator.
_DASHED = re.compile(r'(?<![\w-])(?P<dashes>-+)(?P<space>\s*)(?P<operand>"[^"]*"?|[^\s"|&!()]+)')


@dataclass(frozen=True, slots=True)
class Dash:
    """One dash that became an exclusion: `written` is it with its word, from `start` up to `end` in the parsed text.

    `excluded` are the terms that it leaves out, `instead` what finds the word: without the dash, or in quotes with it
    where both are another lexeme, as in `-32600`.
    """

    start: int
    end: int
    written: str
    excluded: tuple[str, ...]
    instead: str


def excluding_dashes(conn: Connection[Any], text: str, parsed: TextQuery, config: str) -> tuple[Dash, ...]:
    """The dashes of the text that made the exclusions of its parsed form, in order."""
    if not parsed.excluded:
        return ()
    found = list(_DASHED.finditer(text))[: max(1, min(MAX_TRIED, _MAX_TRIED_CHARS // len(text)))]
    tried = [_with_only(text, found, place) for place in range(len(found))]
    rows = execute(conn, _TRY, {"config": config, "texts": tried, **_operands(found)}).fetchall()
    dashes = (_dash(match, parsed, *row) for match, row in zip(found, rows, strict=True))
    return tuple(dash for dash in dashes if dash is not None)


def meant(text: str, dashes: Sequence[Dash]) -> str:
    """The query without its exclusions: every dash's word as `instead` has it."""
    for dash in reversed(dashes):
        text = f"{text[: dash.start]}{dash.instead}{text[dash.end :]}"
    return text


def _with_only(text: str, found: Sequence[re.Match[str]], kept: int) -> str:
    for place, match in enumerate(found):
        if place != kept:
            start, end = match.span("dashes")
            text = f"{text[:start]}{' ' * (end - start)}{text[end:]}"
    return text


def _operands(found: Sequence[re.Match[str]]) -> dict[str, list[str]]:
    return {
        "dashed": [f"-{match['operand']}" if not match["space"] else match["operand"] for match in found],
        "plain": [match["operand"] for match in found],
    }


def _dash(match: re.Match[str], parsed: TextQuery, alone: str, same: bool) -> Dash | None:
    excluded = [term for term in split(alone)[1] if term in parsed.excluded]
    if not excluded:
        return None
    operand = match["operand"]
    instead = operand if same or operand.startswith('"') else f'"-{operand}"'
    return Dash(match.start(), match.end(), match[0], tuple(bare(term) for term in excluded), instead)


_TRY: Final = """
    SELECT websearch_to_tsquery(%(config)s::text::regconfig, text)::text,
        plainto_tsquery(%(config)s::text::regconfig, dashed)::text
            = plainto_tsquery(%(config)s::text::regconfig, plain)::text
    FROM unnest(%(texts)s::text[], %(dashed)s::text[], %(plain)s::text[])
        WITH ORDINALITY AS tried (text, dashed, plain, place)
    ORDER BY place"""
