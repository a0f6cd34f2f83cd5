"""Prints all ratios; the exit code is 1 when one that has a bound passes it."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from retrieval_lab.chunker import chunk
from retrieval_lab.corpus import load_documents
from retrieval_lab.database import Database
from retrieval_lab.embed import HashEmbedder
from retrieval_lab.paths import bundled_corpus
from retrieval_lab.types import Document
from tests.benchmarks import (
    chunking,
    embedding,
    explaining,
    exploring,
    indexing,
    memory_retrievers,
    models,
    portable_index,
    scoring,
    searching,
    statistics,
    tracing,
)
from tests.benchmarks.timing import Ratio


def main() -> int:
    documents = load_documents(bundled_corpus())
    texts = [piece.text for document in documents for piece in chunk(document)]
    ratios: list[Ratio] = []
    for ratio in _ratios(documents, texts):
        print(ratio, flush=True)
        ratios.append(ratio)
    return 0 if all(ratio.kept for ratio in ratios) else 1


def _ratios(documents: list[Document], texts: list[str]) -> Iterator[Ratio]:
    yield from chunking.ratios(documents)
    yield from embedding.ratios(texts)
    yield from models.ratios(texts)
    yield from statistics.ratios()
    yield from scoring.ratios()
    yield from portable_index.ratios()
    yield from memory_retrievers.ratios()
    embedder = HashEmbedder()
    with Database.open() as database, database.connect() as conn:
        yield from indexing.ratios(conn, embedder)
        yield from searching.ratios(conn, embedder)
    yield from tracing.ratios()
    yield from explaining.ratios()
    yield from exploring.ratios()


if __name__ == "__main__":
    sys.exit(main())
