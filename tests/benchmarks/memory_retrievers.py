"""The retrievers in memory, filtered against unfiltered, at the sizes of `portable_index`.

`python -m tests.benchmarks.memory_retrievers [N ...]` also prints what each takes to fit, its memory, and the growth.
"""

from __future__ import annotations

import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from retrieval_lab.corpus_index import CorpusIndex, IndexKeeper
from retrieval_lab.embed import HashEmbedder, QueryVectors
from retrieval_lab.ragindex import Index, IndexedChunk
from retrieval_lab.retrievers.base import RetrieverSettings, Surroundings
from retrieval_lab.retrievers.bm25 import Bm25Search, StemmedBm25Search
from retrieval_lab.retrievers.dense import FlatSearch, IvfSearch
from retrieval_lab.retrievers.tfidf import LsaSearch, TfIdfSearch
from retrieval_lab.store import Table
from retrieval_lab.types import EVERYTHING, Filter
from tests.benchmarks.portable_index import DIMS, SIZES, TOP, Case
from tests.benchmarks.timing import Ratio, compare

KINDS: tuple[RetrieverSettings, ...] = (
    Bm25Search(),
    StemmedBm25Search(),
    TfIdfSearch(),
    LsaSearch(),
    FlatSearch(),
    IvfSearch(),
)
QUERIES = 20
THIRD = Filter(sources=("a",))


class Ready(IndexKeeper):
    """Has the index of a case; a third of its chunks have the source `a`."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        texts = map(" ".join, case.documents)
        chunks = [IndexedChunk.of(f"c{row:06}", "d", text, source="abc"[row % 3]) for row, text in enumerate(texts)]
        self._index = Index.build(chunks, case.vectors, embedding_model="none")
        self._ready = CorpusIndex(self._index)

    def current(self, conn: Any, table: Table) -> CorpusIndex:  # noqa: ARG002
        return self._ready


def retrievers(
    case: Case, kinds: Sequence[RetrieverSettings] = KINDS
) -> Iterator[tuple[str, Callable[[Filter], None]]]:
    """Each kind by name, with what asks it all queries; the vectors of the queries are computed before."""
    nowhere: Any = None
    on = Surroundings(nowhere, QueryVectors(HashEmbedder(DIMS), kept=QUERIES), keeper=Ready(case))
    questions = case.questions[:QUERIES]
    on.vectors._known.update(zip(questions, case.points[:QUERIES], strict=True))
    for settings in kinds:
        retriever = settings.build(on)

        def ask(filter: Filter, retriever: Any = retriever) -> None:
            for question in questions:
                retriever.search(question, TOP, filter)

        yield settings.kind, ask


def ratios(n: int = SIZES[0]) -> Iterator[Ratio]:
    """Of the kinds that are fitted in seconds; the others search as they do."""
    for kind, ask in retrievers(Case(n), [one for one in KINDS if one.kind not in ("bm25-stemmed", "lsa")]):
        yield compare(
            f"{kind} in memory filtered to a third of {n:,} / unfiltered",
            lambda ask=ask: ask(THIRD),  # type: ignore[misc]
            lambda ask=ask: ask(EVERYTHING),  # type: ignore[misc]
            rounds=5,
            bound=3.0,
        )


def report(sizes: tuple[int, ...]) -> Iterator[str]:
    taken: dict[str, list[tuple[float, float, float]]] = {}
    for n in sizes:
        for kind, ask in retrievers(Case(n)):
            tracemalloc.start()
            first = _seconds(lambda ask=ask: ask(EVERYTHING))  # type: ignore[misc]
            kept = tracemalloc.get_traced_memory()[0] / 1e6
            tracemalloc.stop()
            each = min(_seconds(lambda ask=ask: ask(EVERYTHING)) for _ in range(3)) / QUERIES  # type: ignore[misc]
            taken.setdefault(kind, []).append((first - QUERIES * each, each, kept))
            ready = f"made ready in {first - QUERIES * each:.2f} s"
            yield f"{n:,} chunks: {kind} {ready}, a query {each * 1e3:.2f} ms, keeps {kept:.0f} MB"
    for kind, found in taken.items():
        if len(found) > 1:
            grown = [last / max(1e-9, start) for start, last in zip(found[0], found[-1], strict=True)]
            sizes_grown = f"for {sizes[-1] // sizes[0]}x the chunks"
            yield f"{kind:<14} ready {grown[0]:5.1f}x, query {grown[1]:5.1f}x, memory {grown[2]:5.1f}x {sizes_grown}"


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


if __name__ == "__main__":
    chosen = tuple(map(int, sys.argv[1:])) or SIZES
    for ratio in ratios(chosen[0]):
        print(ratio, flush=True)
    for line in report(chosen):
        print(line, flush=True)
