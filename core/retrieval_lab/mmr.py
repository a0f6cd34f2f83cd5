"""Maximal marginal relevance: a list that repeats itself less.

Carbonell and Goldstein, "The Use of MMR, Diversity-Based Reranking for Reordering Documents and Producing
Summaries", SIGIR 1998.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retrieval_lab.errors import InputError
from retrieval_lab.types import Ranked

MMR_LAMBDA = 0.7

Embeddings = Mapping[str, NDArray[Any]] | Sequence[NDArray[Any]] | NDArray[Any]


def mmr(
    query_vec: NDArray[Any],
    candidates: Sequence[Ranked],
    embeddings: Embeddings,
    *,
    lam: float = MMR_LAMBDA,
    top_k: int,
) -> list[Ranked]:
    """The first top_k picks, ranks renumbered from 1, each with the score and `ranks` it came with.

    Every pick has the highest `lam * relevance - (1 - lam) * redundancy` among what is left, ties to the earlier
    candidate. Relevance is the candidate's score scaled to [0, 1] (by the maximum when none is negative, else
    min-max), or its cosine to the query when all scores are equal; redundancy is its highest cosine to a pick, 0
    before the first.

    `embeddings` are rows aligned with the candidates or a mapping by chunk_id; `query_vec` has their dimension.
    Neither needs to be of unit length, and a zero vector has cosine 0 to everything. Raises InputError when lam
    lies outside 0 to 1, top_k is negative, or a candidate has no embedding.
    """
    if not 0 <= lam <= 1:
        raise InputError(f"MMR lambda is {lam}; expected 0 (diversity alone) to 1 (relevance alone)")
    if top_k < 0:
        raise InputError(f"{top_k} results were asked for; expected 0 or more")
    if not candidates:
        return []
    relevance, vectors = _measured(query_vec, candidates, embeddings)
    return [
        replace(candidates[row], rank=rank) for rank, row in enumerate(picks(relevance, vectors, lam, top_k), start=1)
    ]


@dataclass(frozen=True, slots=True)
class Pick:
    """How MMR saw one candidate: `value` is `lam * relevance - penalty`, and the highest value is picked next.

    `rank` is when it is picked if picking goes on through all candidates. `penalty` is `(1 - lam) * cosine`, where
    `cosine` is the highest one to what was picked before, at most the first top_k, and `because` the chunk_id of that
    pick, the earliest of equals; 0 and None for the first pick.
    """

    rank: int
    relevance: float
    penalty: float
    value: float
    because: str | None
    cosine: float


def mmr_pick(
    query_vec: NDArray[Any],
    candidates: Sequence[Ranked],
    embeddings: Embeddings,
    row: int,
    *,
    lam: float = MMR_LAMBDA,
    top_k: int,
) -> Pick:
    """How `mmr` comes to pick, or not to pick, `candidates[row]`. Raises InputError as it does."""
    relevance, vectors = _measured(query_vec, candidates, embeddings)
    order = picks(relevance, vectors, lam, len(candidates))
    rank = order.index(row) + 1
    before = order[: min(rank - 1, top_k)]
    cosines = _cosines(vectors[before], vectors[row])
    because = int(np.argmax(cosines)) if before else None
    cosine = 0.0 if because is None else float(cosines[because])
    return Pick(
        rank=rank,
        relevance=float(relevance[row]),
        penalty=(1 - lam) * cosine,
        value=float(_values(relevance[row], cosine, lam)),
        because=None if because is None else candidates[before[because]].chunk_id,
        cosine=cosine,
    )


def _measured(
    query_vec: NDArray[Any], candidates: Sequence[Ranked], embeddings: Embeddings
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The relevance of each candidate, shape (n,), and their unit vectors, shape (n, dims)."""
    vectors = _unit_rows(_aligned(candidates, embeddings))
    return _relevance(candidates, vectors, _unit_rows(np.asarray(query_vec, dtype=np.float64)[None])[0]), vectors


def _values(relevance: Any, redundancy: Any, lam: float) -> Any:
    return lam * relevance - (1 - lam) * redundancy


def picks(relevance: NDArray[np.float64], vectors: NDArray[np.float64], lam: float, top_k: int) -> list[int]:
    """The rows that `mmr` picks, in its order, given their relevance, shape (n,), and unit vectors, shape (n, dims)."""
    picked: list[int] = []
    redundancy = np.zeros(len(relevance))
    open_rows = np.ones(len(relevance), dtype=bool)
    while len(picked) < min(top_k, len(relevance)):
        value = np.where(open_rows, _values(relevance, redundancy, lam), -np.inf)
        row = int(np.argmax(value))  # the first of equal values, that is, the earlier candidate
        cosines = _cosines(vectors, vectors[row])
        redundancy = np.maximum(redundancy, cosines) if picked else cosines
        picked.append(row)
        open_rows[row] = False
    return picked


def _relevance(
    candidates: Sequence[Ranked], vectors: NDArray[np.float64], query: NDArray[np.float64]
) -> NDArray[np.float64]:
    scores = np.array([candidate.score for candidate in candidates], dtype=np.float64)
    lowest, highest = scores.min(), scores.max()
    relevance: NDArray[np.float64]
    if lowest == highest:
        relevance = _cosines(vectors, query)
    elif lowest >= 0:
        relevance = scores / highest
    else:
        relevance = (scores - lowest) / (highest - lowest)
    return relevance


def _cosines(unit_rows: NDArray[np.float64], unit_vector: NDArray[np.float64]) -> NDArray[np.float64]:
    # Not a matrix product: BLAS rounds by the place of the row, so that equal vectors would no longer tie.
    cosines: NDArray[np.float64] = (unit_rows * unit_vector).sum(axis=1)
    return cosines


def _aligned(candidates: Sequence[Ranked], embeddings: Embeddings) -> NDArray[np.float64]:
    if isinstance(embeddings, Mapping):
        missing = [candidate.chunk_id for candidate in candidates if candidate.chunk_id not in embeddings]
        if missing:
            raise InputError(f"no embedding for chunk {missing[0]}")
        return np.array([embeddings[candidate.chunk_id] for candidate in candidates], dtype=np.float64)
    if len(embeddings) != len(candidates):
        raise InputError(f"{len(embeddings)} embeddings for {len(candidates)} candidates; expected one for each")
    return np.asarray(embeddings, dtype=np.float64)


def _unit_rows(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: NDArray[np.float64] = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
    return unit
