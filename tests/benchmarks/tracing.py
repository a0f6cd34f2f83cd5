"""Tracing against the bare pipeline, and against the pipeline with the ranks beyond the lists, asked for alone."""

from __future__ import annotations

from collections.abc import Iterator

from retrieval_lab.database import Database
from retrieval_lab.lab import Lab
from retrieval_lab.places import text_places, vector_places
from retrieval_lab.rerank import LexicalReranker, pipeline
from tests.benchmarks.timing import Ratio, compare


def ratios() -> Iterator[Ratio]:
    with Lab.open() as lab, Database.open() as database, database.connect(lab.schema) as conn:
        reranker = LexicalReranker()
        vectors = lab.embedder.embed([query.query for query in lab.golden])
        traces = [lab.trace(query) for query in lab.golden]

        def bare() -> None:
            for query in lab.golden:
                pipeline(conn, lab.embedder, reranker, query.query, scan="exact")

        def places() -> None:
            for vector, trace in zip(vectors, traces, strict=True):
                for chunk_id, beyond in trace.beyond.items():
                    if "vector" in beyond:
                        vector_places(conn, vector, [chunk_id])
                    if "text" in beyond:
                        text_places(conn, trace.parsed, [chunk_id])

        yield compare(
            "lab.trace / rerank.pipeline, 48 queries",
            lambda: [lab.trace(query.query) for query in lab.golden],
            bare,
            rounds=9,
            bound=1.2,
        )
        yield compare(
            "lab.trace of golden queries / pipeline and their ranks beyond the lists",
            lambda: [lab.trace(query) for query in lab.golden],
            lambda: (bare(), places()),
            rounds=9,
            bound=1.2,
        )
