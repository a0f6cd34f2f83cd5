"""The pipeline: retrievers, fusion, reranking, diversity. It exists once; every call, plain or traced, runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter

import numpy as np

from retrieval_lab.embed import QueryVectors, Vectors
from retrieval_lab.errors import Cancelled, InputError
from retrieval_lab.fusion import RRF_K, rrf
from retrieval_lab.mmr import Pick, mmr, mmr_pick
from retrieval_lab.rerankers import Reranker
from retrieval_lab.retrievers.base import Found, Retriever, found_by
from retrieval_lab.types import EVERYTHING, Chunk, Filter, Hit, Ranked, Search, Stages, TextQuery

Stored = Mapping[str, tuple[Chunk, Vectors]]
Fusion = Callable[[Sequence[Sequence[Hit]], Sequence[float]], list[Ranked]]


def reciprocal_rank(lists: Sequence[Sequence[Hit]], weights: Sequence[float]) -> list[Ranked]:
    """`fusion.rrf` with its default k."""
    return rrf(lists, RRF_K, weights)


@dataclass(frozen=True, slots=True)
class Leg:
    """One retriever of a pipeline, the depth of its list and its weight in fusion."""

    retriever: Retriever
    n: int
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A pipeline over one connection, ready to run.

    The first `n` of the fused list are fetched by `fetch` and, with a reranker, put into its order. `mmr_lambda` None
    leaves out MMR. The first `top_k` are final.
    """

    legs: tuple[Leg, ...]
    fetch: Callable[[Sequence[str]], Stored]
    vectors: QueryVectors
    reranker: Reranker | None
    n: int
    top_k: int
    mmr_lambda: float | None
    fusion: Fusion = reciprocal_rank
    filter: Filter = EVERYTHING

    def run(self, query: str, *, explain: bool = False, cancelled: Callable[[], bool] = lambda: False) -> Stages:
        """Every stage of one query. `explain` keeps the server's plans and the stop words, too.

        Raises InputError for negative counts and a lambda outside 0 to 1, and Cancelled before a stage when
        `cancelled` holds.
        """
        for count in (self.n, self.top_k):
            if count < 0:
                raise InputError(f"{count} results were asked for; expected 0 or more")
        timings: dict[str, float] = {}
        stage = partial(_stage, timings, cancelled)
        found: dict[str, Found] = {}
        for leg in self.legs:
            with stage(leg.retriever.name):
                found[leg.retriever.name] = found_by(leg.retriever, query, leg.n, self.filter, explain=explain)
        with stage("fusion"):
            fused = self._fused(list(found.values()))
        with stage("fetch"):
            stored = self.fetch([row.chunk_id for row in fused[: self.n]])
            # A chunk may be deleted between two statements.
            pool = [row for row in fused[: self.n] if row.chunk_id in stored]
        with stage("rerank"):
            reranked = pool if self.reranker is None else _reranked(self.reranker, query, pool, stored)
        with stage("mmr"):
            final = self._diversified(query, reranked, stored)
        return Stages(
            query=query,
            parsed=next((one.parsed for one in found.values() if one.parsed is not None), TextQuery()),
            lists={name: one.hits for name, one in found.items()},
            searches={
                leg.retriever.name: Search(leg.n, one.plan, one.matching, one.expansion)
                for leg, one in zip(self.legs, found.values(), strict=True)
            },
            fused=tuple(fused),
            reranked=tuple(reranked),
            final=tuple(final),
            chunks={chunk_id: chunk for chunk_id, (chunk, _) in stored.items()},
            notes=tuple(note for one in found.values() for note in one.notes),
            timings=timings,
        )

    def fused(self, query: str) -> list[Ranked]:
        """Retrieval and fusion alone: `Stages.fused` of the query."""
        return self._fused([found_by(leg.retriever, query, leg.n, self.filter) for leg in self.legs])

    def _fused(self, found: Sequence[Found]) -> list[Ranked]:
        return self.fusion([one.hits for one in found], [leg.weight for leg in self.legs])

    def _diversified(self, query: str, reranked: Sequence[Ranked], stored: Stored) -> Sequence[Ranked]:
        if self.mmr_lambda is None:
            return reranked[: self.top_k]
        return mmr(self._compared(query), reranked, _vectors(stored), lam=self.mmr_lambda, top_k=self.top_k)

    def pick(self, query: str, reranked: Sequence[Ranked], chunk_id: str) -> Pick | None:
        """How MMR saw a chunk of the reranked pool; None in a pipeline without MMR, or when the pool lacks it.

        Raises InputError when the index no longer holds the pool.
        """
        row = next((place for place, one in enumerate(reranked) if one.chunk_id == chunk_id), None)
        if row is None or self.mmr_lambda is None:
            return None
        vectors = _vectors(self.fetch([one.chunk_id for one in reranked]))
        return mmr_pick(self._compared(query), reranked, vectors, row, lam=self.mmr_lambda, top_k=self.top_k)

    def _compared(self, query: str) -> Vectors:
        """What MMR compares with when all scores are equal."""
        vector = self.vectors.of(query)
        return np.zeros(self.vectors.dims, dtype=np.float32) if vector is None else vector


def _vectors(stored: Stored) -> dict[str, Vectors]:
    return {chunk_id: vector for chunk_id, (_, vector) in stored.items()}


def _reranked(reranker: Reranker, query: str, pool: Sequence[Ranked], stored: Stored) -> list[Ranked]:
    """The whole pool in the reranker's order, with the ranks that fusion gave."""
    ranks = {row.chunk_id: row.ranks for row in pool}
    chunks = [stored[row.chunk_id][0] for row in pool]
    return [replace(row, ranks=ranks[row.chunk_id]) for row in reranker.rerank(query, chunks, len(chunks))]


@contextmanager
def _stage(timings: dict[str, float], cancelled: Callable[[], bool], name: str) -> Iterator[None]:
    """Keeps how long the stage took; an error gets a note of the stage."""
    if cancelled():
        raise Cancelled(f"stopped before the {name} stage")
    began = perf_counter()
    try:
        yield
    except Exception as error:
        error.add_note(f"in the {name} stage")
        raise
    timings[name] = perf_counter() - began
