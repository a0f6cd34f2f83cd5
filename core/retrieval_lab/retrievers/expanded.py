"""A retriever that searches twice: for the query, and for the query expanded by what that found first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from retrieval_lab.expansion import rm3, with_words
from retrieval_lab.retrievers.base import Found, Retriever, TakesTerms, Terms, Traceable, found_by
from retrieval_lab.types import EVERYTHING, Expansion, Filter, Hit, Place

Texts = Callable[[Sequence[str]], Mapping[str, str]]
"""The indexed texts of chunks by id, without those that are gone."""


@dataclass(frozen=True, slots=True)
class _Reading:
    """What the second search is for: weights where the retriever is to take them, and the text in any case."""

    text: str
    weights: Terms | None = None
    expansion: Expansion | None = None


class ExpandedRetriever:
    """RM3 (`expansion.rm3`) around another retriever, under its name.

    The first search is for `feedback` chunks, however many are wanted. A retriever that takes terms is given their
    weights; any other searches the query with the new words behind it. Where the first search finds nothing or the
    query has no word, the second is for the query as it is.
    """

    def __init__(self, inner: Retriever, texts: Texts, *, feedback: int, terms: int, original_weight: float) -> None:
        self.name = inner.name
        self.inner = inner
        self._texts = texts
        self._feedback = feedback
        self._terms = terms
        self._original_weight = original_weight
        self._last: tuple[tuple[str, Filter], _Reading] | None = None

    def search(self, query: str, n: int, filter: Filter = EVERYTHING) -> list[Hit]:
        return list(self.find(query, n, filter).hits)

    def find(self, query: str, n: int, filter: Filter = EVERYTHING, *, explain: bool = False) -> Found:
        reading = self._read(query, filter)
        if reading.weights is not None and isinstance(self.inner, TakesTerms):
            found = self.inner.find_terms(reading.weights, n, filter, explain=explain)
        else:
            found = found_by(self.inner, reading.text, n, filter, explain=explain)
        return replace(found, expansion=reading.expansion)

    def places(self, query: str, chunk_ids: Sequence[str], filter: Filter = EVERYTHING) -> dict[str, Place]:
        """Where each of the chunks stands in the second search."""
        reading = self._read(query, filter)
        if reading.weights is not None and isinstance(self.inner, TakesTerms):
            return self.inner.places_of_terms(reading.weights, chunk_ids, filter)
        if isinstance(self.inner, Traceable):
            return self.inner.places(reading.text, chunk_ids, filter)
        return dict.fromkeys(chunk_ids, Place(None, reason=f"{self.name} does not say"))

    def second_query(self, query: str, filter: Filter = EVERYTHING) -> str:
        """The text of the second search."""
        return self._read(query, filter).text

    def _read(self, query: str, filter: Filter) -> _Reading:
        key = query, filter
        if self._last is None or self._last[0] != key:
            self._last = key, self._expanded(query, filter)
        return self._last[1]

    def _expanded(self, query: str, filter: Filter) -> _Reading:
        hits = self.inner.search(query, self._feedback, filter)
        texts = self._texts([hit.chunk_id for hit in hits])
        feedback = [hit for hit in hits if hit.chunk_id in texts]
        model = rm3(
            query,
            [texts[hit.chunk_id] for hit in feedback],
            [hit.score for hit in feedback],
            terms=self._terms,
            original_weight=self._original_weight,
        )
        if model is None or not feedback:
            return _Reading(query)
        weighted = isinstance(self.inner, TakesTerms)
        expansion = Expansion(model.shares, tuple(model.new), tuple(hit.chunk_id for hit in feedback), weighted)
        # Retrievers may read a text otherwise than as its words and their numbers: as pairs of words, or with less
        # for each repetition. Where nothing was changed, the text says it best.
        weights = model.counts if weighted and model.counts != model.asked else None
        return _Reading(with_words(query, model.new), weights, expansion)


def second_search(retriever: Retriever, query: str, filter: Filter = EVERYTHING) -> tuple[Retriever, str]:
    """The retriever that makes the list and the text that it searches: of one that expands, those of its second search.

    Any other is itself, and searches the query.
    """
    if isinstance(retriever, ExpandedRetriever):
        return retriever.inner, retriever.second_query(query, filter)
    return retriever, query
