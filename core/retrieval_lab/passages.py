"""The passages of a corpus, wherever they are kept: what is asked of them besides the searches of the retrievers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from psycopg import Connection

from retrieval_lab.diagnosis.displacement import Shared, shared_words
from retrieval_lab.diagnosis.nearby import Nearby, nearby
from retrieval_lab.errors import InputError
from retrieval_lab.lexemes import Lexemes
from retrieval_lab.pipeline import Stored
from retrieval_lab.store import Table, chunks_of, fetch
from retrieval_lab.support import Support, Terms, question_terms, supports
from retrieval_lab.types import Chunk, TextQuery


class Passages(Protocol):
    """The passages of a corpus with their vectors and the lexemes of their words, stop words left out."""

    def fetch(self, chunk_ids: Sequence[str]) -> Stored:
        """chunk_id -> (chunk, vector), in the order of the ids; unknown ids are left out."""

    def documents(self, doc_ids: Sequence[str]) -> list[Chunk]:
        """The chunks of the documents, by doc_id and in the order of each."""

    def indexed(self, chunk: Chunk) -> str:
        """What of the chunk is embedded and searched for words."""

    def question_terms(self, query: str, parsed: TextQuery) -> Terms:
        """As `support.question_terms`."""

    def supports(self, terms: Terms, chunk_ids: Sequence[str]) -> Mapping[str, Support]:
        """As `support.supports`."""

    def lexemes(self, words: Collection[str]) -> Mapping[str, str]:
        """The lexeme of each of the words, lower case, that has one."""

    def shared_words(self, sentence: str, chunk_ids: Sequence[str]) -> Shared:
        """As `displacement.shared_words`."""


def passage(passages: Passages, chunk_id: str) -> Chunk:
    """The chunk of this id. Raises InputError when there is none."""
    found = passages.fetch([chunk_id])
    if chunk_id not in found:
        raise InputError(f"no chunk {chunk_id!r} in this corpus; ids look like name#000")
    return found[chunk_id][0]


@dataclass(frozen=True, slots=True)
class StoredPassages:
    """The passages of a table of PostgreSQL, and the connection that reads it."""

    conn: Connection[Any]
    table: Table
    known: Lexemes = field(default_factory=Lexemes)
    """The lexemes that were asked for before."""

    def fetch(self, chunk_ids: Sequence[str]) -> Stored:
        return fetch(self.conn, chunk_ids, table=self.table)

    def documents(self, doc_ids: Sequence[str]) -> list[Chunk]:
        return chunks_of(self.conn, doc_ids, table=self.table)

    def indexed(self, chunk: Chunk) -> str:
        return self.table.indexed(chunk)

    def question_terms(self, query: str, parsed: TextQuery) -> Terms:
        return question_terms(self.conn, query, parsed, table=self.table)

    def supports(self, terms: Terms, chunk_ids: Sequence[str]) -> Mapping[str, Support]:
        return supports(self.conn, terms, chunk_ids, table=self.table)

    def lexemes(self, words: Collection[str]) -> Mapping[str, str]:
        return self.known.of(self.conn, words)

    def shared_words(self, sentence: str, chunk_ids: Sequence[str]) -> Shared:
        return shared_words(self.conn, sentence, chunk_ids, table=self.table)

    def nearby(self, chunk: Chunk, absent: Sequence[str], apart: Sequence[str]) -> Nearby:
        return nearby(self.conn, chunk, absent, apart, table=self.table)
