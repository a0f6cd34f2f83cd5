"""Full-text search of PostgreSQL: any word or phrase of the query, by cover density."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from retrieval_lab import textquery
from retrieval_lab.hybrid import count_matching, matching_plan
from retrieval_lab.hybrid import matching as matched
from retrieval_lab.places import TermMatches, text_places, text_terms
from retrieval_lab.retrievers.base import Found, RetrieverSettings, Surroundings
from retrieval_lab.types import EVERYTHING, Filter, Hit, Place, TextQuery

_NAMED_EXCLUSIONS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSearch(RetrieverSettings):
    """Chunks that match any term of the query, by ts_rank_cd.

    With `operators`, quotes make phrases and a dash before a word excludes it, as in a web search; without, both are
    punctuation.
    """

    kind: ClassVar[str] = "text"
    score_name: ClassVar[str] = "ts_rank_cd"

    name: str = "text"
    operators: bool = True

    @property
    def extends(self) -> bool:
        return True

    def build(self, surroundings: Surroundings) -> TextRetriever:
        return TextRetriever(self.name, self.operators, surroundings)


class TextRetriever:
    """`hybrid.text_search` as a retriever."""

    def __init__(self, name: str, operators: bool, surroundings: Surroundings) -> None:
        self.name = name
        self._operators = operators
        self._on = surroundings
        self._last: tuple[str, TextQuery] | None = None

    def search(self, query: str, n: int, filter: Filter = EVERYTHING) -> list[Hit]:
        return list(self.find(query, n, filter).hits)

    def find(self, query: str, n: int, filter: Filter = EVERYTHING, *, explain: bool = False) -> Found:
        parsed = self._parsed(query)
        conn, table = self._on.conn, self._on.table
        hits = tuple(matched(conn, parsed, n, table=table, filter=filter))
        if not explain:
            return Found(hits, parsed, notes=self._notes(parsed))
        read = replace(parsed, stop_words=textquery.stop_words(conn, query, table.text_config))
        plan = matching_plan(conn, parsed, n, table=table, filter=filter)
        matching = count_matching(conn, parsed, table=table, filter=filter)
        return Found(hits, read, plan, self._notes(parsed), matching)

    def places(self, query: str, chunk_ids: Sequence[str], filter: Filter = EVERYTHING) -> dict[str, Place]:
        return text_places(self._on.conn, self._parsed(query), chunk_ids, table=self._on.table, filter=filter)

    def terms(self, query: str, chunk_id: str) -> TermMatches:
        """Which terms of the query hit the chunk."""
        return text_terms(self._on.conn, self._parsed(query), chunk_id, table=self._on.table)

    def _parsed(self, query: str) -> TextQuery:
        if self._last is None or self._last[0] != query:
            config = self._on.table.text_config
            self._last = query, textquery.parse(self._on.conn, query, config, operators=self._operators)
        return self._last[1]

    def _notes(self, parsed: TextQuery) -> tuple[str, ...]:
        """What a person should know about how the query was read."""
        notes = list(parsed.notes)
        if not parsed.positive:
            what = "only stop words, symbols, exclusions or overlong words"
            notes.append(f"{self.name}: no terms to find, {what}")
        if parsed.excluded:
            more = len(parsed.excluded) - _NAMED_EXCLUSIONS
            named = ", ".join(parsed.excluded[:_NAMED_EXCLUSIONS])
            notes.append(f"{self.name} excluded: {named}{f' and {more} more' if more > 0 else ''}")
        return tuple(notes)
