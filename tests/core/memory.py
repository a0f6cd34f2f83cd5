"""Retrievers in memory over texts of a test's own, without a server, and what a list must be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from retrieval_lab.corpus_index import CorpusIndex, IndexKeeper, indexed_chunk
from retrieval_lab.embed import HashEmbedder, QueryVectors
from retrieval_lab.ragindex import Index
from retrieval_lab.retrievers.base import Found, Surroundings
from retrieval_lab.store import CHUNKS, Table
from retrieval_lab.types import Chunk, Hit

DIMS = 64


class Ready(IndexKeeper):
    """Has one index, of a table that does not exist."""

    def __init__(self, corpus: CorpusIndex) -> None:
        super().__init__()
        self.corpus = corpus

    def current(self, conn: Any, table: Table) -> CorpusIndex:  # noqa: ARG002
        return self.corpus


def chunk_id(number: int) -> str:
    return f"doc{number // 2}#{number % 2:03}"


def chunks_of(texts: Sequence[str], heading: str = "") -> list[Chunk]:
    return [Chunk(chunk_id(i), f"doc{i // 2}", heading, 0, len(text), text) for i, text in enumerate(texts)]


def over(
    texts: Sequence[str], vectors: np.ndarray[Any, Any] | None = None, *, headings: Sequence[str] = (), dims: int = DIMS
) -> Surroundings:
    """Chunks of these texts, two a document, rows by chunk_id; with `headings`, which are indexed before the texts.

    Documents of even numbers are docs/docN.md from `file`, the others web/docN.md from `web`.
    """
    embedder = HashEmbedder(dims)
    table = replace(CHUNKS, contextual_headers=bool(headings))
    chunks = chunks_of(texts)
    if headings:
        chunks = [replace(chunk, heading_path=heading) for chunk, heading in zip(chunks, headings, strict=True)]
    if vectors is None:
        vectors = embedder.embed([table.indexed(chunk) for chunk in chunks]).reshape(len(chunks), dims)
    order = sorted(range(len(chunks)), key=lambda i: chunks[i].chunk_id)
    stored = []
    for i in order:
        source = "web" if i // 2 % 2 else "file"
        folder = "web" if i // 2 % 2 else "docs"
        stored.append(indexed_chunk(chunks[i], source=source, uri=f"{folder}/doc{i // 2}.md"))
    indexed = [table.indexed(chunks[i]) for i in order]
    index = Index.build(stored, vectors[order], embedding_model=embedder.name, texts=indexed)
    on: Any = None
    return Surroundings(on, QueryVectors(embedder), table, keeper=Ready(CorpusIndex(index, table)))


def assert_is_the_list(
    hits: Sequence[Hit], scores: Mapping[str, float], n: int, *, within: float = 1e-9, above: float = 0.0
) -> None:
    """The hits are the n best of the scores that are above a number, equal ones by chunk_id."""
    wanted = {one: score for one, score in scores.items() if score > above}
    assert [hit.rank for hit in hits] == list(range(1, min(n, len(wanted)) + 1))
    for hit in hits:
        assert hit.score == pytest.approx(wanted[hit.chunk_id], abs=within, rel=within)
    keys = [(-hit.score, hit.chunk_id) for hit in hits]
    assert keys == sorted(keys)
    listed = {hit.chunk_id for hit in hits}
    assert len(listed) == len(hits)
    lowest = hits[-1].score if hits else 0.0
    assert all(score <= lowest + within for one, score in wanted.items() if one not in listed) or n == 0


def assert_places_are_the_list(retriever: Any, query: str, ids: Sequence[str], **filter: Any) -> None:
    """The place of every chunk is that in a list as long as the corpus; those that the list lacks have a reason."""
    hits = retriever.search(query, len(ids) + 5, **filter)
    places = retriever.places(query, ids, **filter)
    listed = {hit.chunk_id: (hit.rank, hit.score) for hit in hits}
    assert {one: (place.rank, place.score) for one, place in places.items() if place.rank is not None} == listed
    assert all(place.reason for place in places.values() if place.rank is None)


def ids_of(found: Found | Sequence[Hit]) -> list[str]:
    return [hit.chunk_id for hit in (found.hits if isinstance(found, Found) else found)]
