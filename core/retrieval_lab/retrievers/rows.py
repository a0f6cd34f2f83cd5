"""What the retrievers over the index in memory share: from a score for each row to a list, and to the place of any."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from retrieval_lab.corpus_index import CorpusIndex
from retrieval_lab.places import FILTERED, NOT_STORED
from retrieval_lab.ragindex.ranking import Mask, best, require_count
from retrieval_lab.retrievers.base import Found, Indexed, Terms
from retrieval_lab.types import EVERYTHING, Filter, Hit, Place

Asked = TypeVar("Asked")
"""A query as the retriever understands it."""


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """What a query makes of all rows, shape (n,): which rows it `finds` at all, and their `scores`, once asked for.

    `reason` says why it does not find the others, `note` why it finds none.
    """

    finds: Mask
    scores: Callable[[], NDArray[np.float64]]
    reason: str
    note: str | None = None


class RowRetriever(ABC, Generic[Asked]):
    """A retriever over the rows of an index in memory; the rows stand in the order of their chunk_ids."""

    def __init__(self, name: str, on: Indexed) -> None:
        self.name = name
        self._on = on

    @abstractmethod
    def _asked(self, query: str) -> Asked:
        """The query as the retriever understands it."""

    @abstractmethod
    def _scored(self, asked: Asked) -> Scored:
        """What the query makes of every row."""

    @abstractmethod
    def _method(self) -> str:
        """How the list is made, in a few words."""

    def search(self, query: str, n: int, filter: Filter = EVERYTHING) -> list[Hit]:
        return list(self.find(query, n, filter).hits)

    def find(self, query: str, n: int, filter: Filter = EVERYTHING, *, explain: bool = False) -> Found:
        return self._find(self._asked(query), n, filter, explain)

    def places(self, query: str, chunk_ids: Sequence[str], filter: Filter = EVERYTHING) -> dict[str, Place]:
        return self._places(self._asked(query), chunk_ids, filter)

    @cached_property
    def _corpus(self) -> CorpusIndex:
        return self._on.corpus_index()

    def _find(self, asked: Asked, n: int, filter: Filter, explain: bool) -> Found:
        require_count(n)
        scored, allowed = self._scored(asked), self._corpus.index.mask(filter)
        keep = scored.finds if allowed is None else scored.finds & allowed
        rows = self._listed(asked, scored, n, keep)
        chunk_ids = self._corpus.chunk_ids
        hits = tuple(Hit(chunk_ids[row], score, rank) for rank, (row, score) in enumerate(rows, start=1))
        matching = int(np.count_nonzero(keep))
        said = (scored.note, self._missing(len(hits), n, matching))
        notes = tuple(f"{self.name}: {note}" for note in said if note is not None)
        if not explain:
            return Found(hits, notes=notes)
        return Found(hits, plan=(f"In memory: {self._method()}",), notes=notes, matching=matching)

    def _missing(self, returned: int, n: int, matching: int) -> str | None:  # noqa: ARG002
        """What to say of a list that is shorter than it should be; only an approximate search has one."""
        return None

    def _listed(self, asked: Asked, scored: Scored, n: int, keep: Mask) -> list[tuple[int, float]]:  # noqa: ARG002
        """(row, score) of the n best rows to keep, equal scores by row."""
        scores = scored.scores()
        rows = best(scores, n, keep)
        return list(zip(rows.tolist(), scores[rows].tolist(), strict=True))

    def _places(self, asked: Asked, chunk_ids: Sequence[str], filter: Filter) -> dict[str, Place]:
        scored, allowed = self._scored(asked), self._corpus.index.mask(filter)
        keep = scored.finds if allowed is None else scored.finds & allowed
        scores = scored.scores()

        def place(chunk_id: str) -> Place:
            row = self._corpus.rows.get(chunk_id)
            if row is None:
                return Place(None, reason=NOT_STORED)
            if not keep[row]:
                return Place(None, reason=scored.reason if allowed is None or allowed[row] else FILTERED)
            before = np.count_nonzero(keep & (scores > scores[row]))
            tied = np.count_nonzero(keep[:row] & (scores[:row] == scores[row]))
            return Place(int(before + tied) + 1, float(scores[row]))

        return {chunk_id: place(chunk_id) for chunk_id in chunk_ids}


class TermRetriever(RowRetriever[Asked]):
    """A retriever of rows that weighs the words of a query, and so can be given their weights."""

    @abstractmethod
    def _weighted(self, terms: Terms) -> Asked:
        """The words with their weights as the retriever understands a query."""

    def find_terms(self, terms: Terms, n: int, filter: Filter = EVERYTHING, *, explain: bool = False) -> Found:
        return self._find(self._weighted(terms), n, filter, explain)

    def places_of_terms(self, terms: Terms, chunk_ids: Sequence[str], filter: Filter = EVERYTHING) -> dict[str, Place]:
        return self._places(self._weighted(terms), chunk_ids, filter)
