"""Reranking the fused pool, and the whole pipeline from query to final list."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from time import perf_counter
from typing import Any, Final, Protocol

import numpy as np
from pgvector import Vector
from psycopg import Connection, sql

from retrieval_lab.embed import Embedder, Vectors
from retrieval_lab.errors import InputError
from retrieval_lab.extension import extension_schema
from retrieval_lab.hybrid import Scan, candidates, rrf
from retrieval_lab.mmr import MMR_LAMBDA, mmr
from retrieval_lab.models import load_model, model_cache_dir
from retrieval_lab.statements import execute
from retrieval_lab.store import CHUNKS, Table
from retrieval_lab.text import sendable, words
from retrieval_lab.types import Chunk, Ranked, Stages

__all__ = ["CrossEncoderReranker", "LexicalReranker", "Reranker", "fetch", "mmr", "pipeline", "stages"]

BM25_K1 = 1.2
BM25_B = 0.75


class Reranker(Protocol):
    """Anything that puts chunks into a new order for a query."""

    def rerank(self, query: str, chunks: Sequence[Chunk], top_k: int) -> list[Ranked]:
        """The best top_k of the chunks, ranks from 1, `ranks` empty."""


class LexicalReranker:
    """BM25 with statistics of the candidates alone: needs no model, rewards rare words of the query.

    Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009), with idf
    `ln(1 + (N - df + 0.5) / (df + 0.5))`, which is never negative.
    """

    def __init__(self, k1: float = BM25_K1, b: float = BM25_B) -> None:
        """Raises InputError when k1 is negative or b lies outside 0 to 1."""
        if k1 < 0 or not 0 <= b <= 1:
            raise InputError(f"BM25 k1 is {k1} and b is {b}; expected k1 of 0 or more and b from 0 to 1")
        self.k1 = k1
        self.b = b

    def rerank(self, query: str, chunks: Sequence[Chunk], top_k: int) -> list[Ranked]:
        """The best top_k of the chunks by BM25, ties in the order given."""
        terms = list(dict.fromkeys(words(query)))
        counts = [Counter(words(chunk.text)) for chunk in chunks]
        lengths = [count.total() for count in counts]
        average = sum(lengths) / len(lengths) if any(lengths) else 1.0
        found_in = {term: sum(term in count for count in counts) for term in terms}
        idf = {term: math.log(1 + (len(chunks) - df + 0.5) / (df + 0.5)) for term, df in found_in.items()}
        scores = []  # fsum, so that chunks with equal terms of the sum tie, in whatever order the terms come
        for count, length in zip(counts, lengths, strict=True):
            norm = self.k1 * (1 - self.b + self.b * length / average)
            held = ((idf[term], count[term]) for term in terms if term in count)
            scores.append(math.fsum(weight * tf * (self.k1 + 1) / (tf + norm) for weight, tf in held))
        return _ranked(chunks, scores, top_k)


class CrossEncoderReranker:
    """A cross-encoder through fastembed (extra `models`), loaded when it first ranks a non-empty list."""

    def __init__(self, model: str = "Xenova/ms-marco-MiniLM-L-6-v2", cache_dir: str | Path | None = None) -> None:
        """`cache_dir` is where the model's files lie: by default $FASTEMBED_CACHE_PATH, else ~/.cache/fastembed."""
        self.model = model
        self.cache_dir = model_cache_dir(cache_dir)
        self._model: Any = None

    def rerank(self, query: str, chunks: Sequence[Chunk], top_k: int) -> list[Ranked]:
        """The best top_k of the chunks by the model's score (a logit), ties in the order given.

        Raises as `models.load_model` does.
        """
        if not chunks:
            return []
        if self._model is None:
            self._model = load_model("fastembed.rerank.cross_encoder", "TextCrossEncoder", self.model, self.cache_dir)
        texts = [chunk.text for chunk in chunks]
        scores = [float(score) for score in self._model.rerank(sendable(query)[0], texts)]
        return _ranked(chunks, scores, top_k)


def _ranked(chunks: Sequence[Chunk], scores: Sequence[float], top_k: int) -> list[Ranked]:
    if top_k < 0:
        raise InputError(f"{top_k} results were asked for; expected 0 or more")
    order = sorted(range(len(chunks)), key=lambda row: -scores[row])[:top_k]
    return [Ranked(chunks[row].chunk_id, scores[row], rank, ()) for rank, row in enumerate(order, start=1)]


def fetch(
    conn: Connection[Any], chunk_ids: Sequence[str], *, table: Table = CHUNKS
) -> dict[str, tuple[Chunk, Vectors]]:
    """chunk_id -> (chunk, embedding of shape (dims,)), in the order of the ids; unknown ids are left out."""
    if not chunk_ids:
        return {}
    statement = _fetch_sql(table, extension_schema(conn))
    # bytea in text form would be twice as long and need decoding.
    rows = execute(conn, statement, {"ids": list(chunk_ids)}, binary=True).fetchall()
    found = {row[0]: (Chunk(*row[:6]), _vector(row[6])) for row in rows}
    return {chunk_id: found[chunk_id] for chunk_id in chunk_ids if chunk_id in found}


def _vector(sent: bytes) -> Vectors:
    return np.asarray(Vector.from_binary(sent).to_numpy(), dtype=np.float32)


_FETCH: Final = """
    SELECT {chunk_id}, {doc_id}, {heading_path}, {start_char}, {end_char}, {text}, {public}.vector_send({embedding})
    FROM {table} WHERE {chunk_id} = ANY(%(ids)s)"""


@lru_cache(maxsize=64)
def _fetch_sql(table: Table, extension: str) -> bytes:
    return sql.SQL(_FETCH).format(**table.names(extension)).as_bytes(None)


def pipeline(
    conn: Connection[Any],
    embedder: Embedder,
    reranker: Reranker | None,
    query: str,
    *,
    n: int = 50,
    top_k: int = 10,
    mmr_lambda: float | None = MMR_LAMBDA,
    scan: Scan | None = None,
    table: Table = CHUNKS,
) -> list[Ranked]:
    """The final list: the fused top n, all of it reranked, then the first top_k picks of MMR.

    Without a reranker it is the fused list, and with `mmr_lambda` None the reranked one. Asking for fewer gives a
    prefix of asking for more. `ranks` is (vector rank, full-text rank). Raises InputError for negative counts and a
    lambda outside 0 to 1.
    """
    made = stages(conn, embedder, reranker, query, n=n, top_k=top_k, mmr_lambda=mmr_lambda, scan=scan, table=table)
    return list(made.final)


def stages(
    conn: Connection[Any],
    embedder: Embedder,
    reranker: Reranker | None,
    query: str,
    *,
    n: int = 50,
    top_k: int = 10,
    mmr_lambda: float | None = MMR_LAMBDA,
    scan: Scan | None = None,
    table: Table = CHUNKS,
) -> Stages:
    """`pipeline` with every stage kept. This is the one place that puts the stages together."""
    if top_k < 0:
        raise InputError(f"{top_k} results were asked for; expected 0 or more")
    found = candidates(conn, embedder, query, n, scan=scan, table=table)
    seconds = dict(found.seconds)
    began = perf_counter()
    fused = rrf(list(found.lists.values()))
    seconds["fusion"] = perf_counter() - began
    began = perf_counter()
    stored = fetch(conn, [row.chunk_id for row in fused[:n]], table=table)
    pool = [row for row in fused[:n] if row.chunk_id in stored]  # a chunk may be deleted between two statements
    seconds["fetch"] = perf_counter() - began
    began = perf_counter()
    reranked = pool if reranker is None else _rerank(reranker, query, pool, stored)
    seconds["rerank"] = perf_counter() - began
    began = perf_counter()
    if reranker is None or mmr_lambda is None:
        final = reranked[:top_k]
    else:
        vectors = {chunk_id: vector for chunk_id, (_, vector) in stored.items()}
        query_vector = np.zeros(embedder.dims) if found.query_vector is None else found.query_vector
        final = mmr(query_vector, reranked, vectors, lam=mmr_lambda, top_k=top_k)
    seconds["mmr"] = perf_counter() - began
    return Stages(
        query=query,
        parsed=found.parsed,
        lists=found.lists,
        fused=tuple(fused),
        reranked=tuple(reranked),
        final=tuple(final),
        chunks={chunk_id: chunk for chunk_id, (chunk, _) in stored.items()},
        notes=found.notes,
        seconds=seconds,
    )


def _rerank(
    reranker: Reranker, query: str, pool: Sequence[Ranked], stored: Mapping[str, tuple[Chunk, Vectors]]
) -> list[Ranked]:
    """The whole pool in the reranker's order, with the ranks that fusion gave."""
    ranks = {row.chunk_id: row.ranks for row in pool}
    chunks = [stored[row.chunk_id][0] for row in pool]
    return [replace(row, ranks=ranks[row.chunk_id]) for row in reranker.rerank(query, chunks, len(chunks))]
