"""Retrieval measures over a golden set.

Gains are 0 or 1. A chunk that stands twice in a list counts at its first place only. The measures follow Manning,
Raghavan and Schütze, "Introduction to Information Retrieval" (2008), chapter 8; nDCG is Järvelin and Kekäläinen,
"Cumulated Gain-Based Evaluation of IR Techniques" (2002), with the discount 1 / log2(rank + 1).

`python -m retrieval_lab.metrics --corpus DIR` indexes a corpus and prints its report.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from time import perf_counter
from typing import Any

from psycopg import Connection

from retrieval_lab.embed import Embedder
from retrieval_lab.errors import InputError
from retrieval_lab.golden import load_golden
from retrieval_lab.hybrid import Scan
from retrieval_lab.mmr import MMR_LAMBDA
from retrieval_lab.pipeline import Pipeline
from retrieval_lab.rerank import Reranker, default_pipeline
from retrieval_lab.store import CHUNKS, Table, chunks_of
from retrieval_lab.text import folded
from retrieval_lab.types import Chunk, GoldenQuery, Metrics, Ranked, Stages

__all__ = [
    "QueryResult",
    "evaluate",
    "evaluate_queries",
    "labels",
    "load_golden",
    "mrr",
    "ndcg_at_k",
    "precision_at_k",
    "recall_at_k",
    "relevant",
    "report",
    "summarise",
    "why_undefined",
]


def relevant(chunks: Iterable[Chunk], q: GoldenQuery) -> set[str]:
    """Ids of the chunks of `q.doc_id` whose text holds `q.anchor`.

    Both are compared in lower case and with runs of white space made one space.
    """
    anchor = folded(q.anchor)
    parts = anchor.split()

    def holds(text: str) -> bool:
        # Folding takes longer than looking for each word of the anchor first, which most chunks do not have.
        lowered = text.lower()
        return all(part in lowered for part in parts) and anchor in folded(text)

    return {chunk.chunk_id for chunk in chunks if chunk.doc_id == q.doc_id and holds(chunk.text)}


def why_undefined(chunks: Iterable[Chunk], q: GoldenQuery) -> str | None:
    """Why no chunk is relevant for the query; None when one is. `chunks` are at least those of its document."""
    of_document = [chunk for chunk in chunks if chunk.doc_id == q.doc_id]
    if not of_document:
        return f"the corpus has no document {q.doc_id!r}; doc_id is a file's name without its ending"
    if relevant(of_document, q):
        return None
    return f"no chunk of {q.doc_id!r} holds the anchor {q.anchor!r}"


def recall_at_k(ranked_ids: Sequence[str], relevant_ids: Collection[str], k: int) -> float:
    """The share of the relevant ids that stand in the top k; 0.0 when nothing is relevant.

    Raises InputError when k is negative, as do the other measures.
    """
    wanted = set(relevant_ids)
    return len(wanted.intersection(_top(ranked_ids, k))) / len(wanted) if wanted else 0.0


def precision_at_k(ranked_ids: Sequence[str], relevant_ids: Collection[str], k: int) -> float:
    """The relevant ids in the top k over k, however long the list is; 0.0 for k = 0."""
    return len(set(relevant_ids).intersection(_top(ranked_ids, k))) / k if k else 0.0


def mrr(ranked_ids: Sequence[str], relevant_ids: Collection[str]) -> float:
    """One over the rank of the first relevant id; 0.0 when the list holds none."""
    rank = first_rank(ranked_ids, relevant_ids)
    return 0.0 if rank is None else 1 / rank


def ndcg_at_k(ranked_ids: Sequence[str], relevant_ids: Collection[str], k: int) -> float:
    """Discounted gain of the top k over that of an ideal list.

    The ideal list has min(k, number relevant) hits and nothing else; 0.0 when that is empty.
    """
    wanted = set(relevant_ids)
    seen: set[str] = set()
    gain = 0.0
    for rank, chunk_id in enumerate(_top(ranked_ids, k), start=1):
        if chunk_id in wanted and chunk_id not in seen:
            seen.add(chunk_id)
            gain += _discount(rank)
    ideal = sum(_discount(rank) for rank in range(1, min(k, len(wanted)) + 1))
    return gain / ideal if ideal else 0.0


def first_rank(ranked_ids: Iterable[str], relevant_ids: Collection[str]) -> int | None:
    """The rank, from 1, of the first relevant id, or None."""
    wanted = set(relevant_ids)
    return next((rank for rank, chunk_id in enumerate(ranked_ids, start=1) if chunk_id in wanted), None)


def _discount(rank: int) -> float:
    return 1 / math.log2(rank + 1)


def _top(ranked_ids: Sequence[str], k: int) -> Sequence[str]:
    if k < 0:
        raise InputError(f"k is {k}; expected 0 or more")
    return ranked_ids[:k]


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The measures of one query at cut k. `relevant_ids` is empty where they are undefined.

    `final` is the list that was measured. `ranks` is the rank of the first relevant chunk in each retriever's list, in
    the fused pool, in the whole reranked pool and in the final list, by name; None where it is not there. `pool` is
    recall of each retriever's list and of the fused pool, uncut. `seconds` is what the query took.
    """

    query: GoldenQuery
    relevant_ids: frozenset[str]
    final: tuple[Ranked, ...]
    recall: float
    precision: float
    hit: float
    mrr: float
    ndcg: float
    pool: Mapping[str, float]
    ranks: Mapping[str, int | None]
    seconds: float


def evaluate(
    conn: Connection[Any],
    embedder: Embedder,
    reranker: Reranker | None,
    golden: Sequence[GoldenQuery],
    *,
    k: int = 10,
    n: int = 50,
    mmr_lambda: float | None = MMR_LAMBDA,
    scan: Scan | None = None,
    table: Table = CHUNKS,
) -> Metrics:
    """Means over the golden queries, each run once through the pipeline; `reranker` None means hybrid alone.

    Queries without a relevant chunk in the table are counted in no mean and named in `undefined`. Raises InputError
    when k or n is below 1.
    """
    if k < 1 or n < 1:
        raise InputError(f"k is {k} and n is {n}; expected 1 or more")
    run = default_pipeline(conn, embedder, reranker, n=n, top_k=k, mmr_lambda=mmr_lambda, scan=scan, table=table)
    return summarise(list(evaluate_queries(run, labels(conn, golden, table=table))), k=k, n=n)


def labels(
    conn: Connection[Any], golden: Sequence[GoldenQuery], *, table: Table = CHUNKS
) -> list[tuple[GoldenQuery, frozenset[str]]]:
    """Each golden query with the ids of the chunks in the table that are relevant for it."""
    by_doc: dict[str, list[Chunk]] = {}
    for chunk in chunks_of(conn, list({query.doc_id for query in golden}), table=table):
        by_doc.setdefault(chunk.doc_id, []).append(chunk)
    return [(query, frozenset(relevant(by_doc.get(query.doc_id, []), query))) for query in golden]


def evaluate_queries(pipeline: Pipeline, golden: Iterable[tuple[GoldenQuery, frozenset[str]]]) -> Iterator[QueryResult]:
    """The result of each labelled query in turn; the cut k is the pipeline's `top_k`."""
    for query, relevant_ids in golden:
        began = perf_counter()
        made = pipeline.run(query.query)
        yield judge(made, query, relevant_ids, k=pipeline.top_k, n=pipeline.n, seconds=perf_counter() - began)


def judge(
    made: Stages, query: GoldenQuery, relevant_ids: Collection[str], *, k: int, n: int, seconds: float
) -> QueryResult:
    """The measures of one query from its stages; `n` is the depth of the fused pool."""
    final = [row.chunk_id for row in made.final][:k]
    fused = [row.chunk_id for row in made.fused[:n]]
    lists = {name: [hit.chunk_id for hit in hits] for name, hits in made.lists.items()}
    stages = {**lists, "fused": fused, "reranked": [row.chunk_id for row in made.reranked], "final": final}
    return QueryResult(
        query=query,
        relevant_ids=frozenset(relevant_ids),
        final=made.final[:k],
        recall=recall_at_k(final, relevant_ids, k),
        precision=precision_at_k(final, relevant_ids, k),
        hit=float(first_rank(final, relevant_ids) is not None),
        mrr=mrr(final, relevant_ids),
        ndcg=ndcg_at_k(final, relevant_ids, k),
        pool={name: recall_at_k(ids, relevant_ids, len(ids)) for name, ids in {"fused": fused, **lists}.items()},
        ranks={name: first_rank(ids, relevant_ids) for name, ids in stages.items()},
        seconds=seconds,
    )


def summarise(results: Sequence[QueryResult], *, k: int, n: int) -> Metrics:
    """Means over the results, all and by kind. Means over no query are nan."""
    kinds = sorted({result.query.kind for result in results})
    by_kind = {kind: _means([r for r in results if r.query.kind == kind], k, n, {}) for kind in kinds}
    return _means(results, k, n, by_kind)


def _means(results: Sequence[QueryResult], k: int, n: int, by_kind: Mapping[str, Metrics]) -> Metrics:
    scored = [result for result in results if result.relevant_ids]

    def mean(values: Iterable[float]) -> float:
        return fmean(values) if scored else math.nan

    return Metrics(
        k=k,
        queries=len(scored),
        recall=mean(result.recall for result in scored),
        precision=mean(result.precision for result in scored),
        mrr=mean(result.mrr for result in scored),
        ndcg=mean(result.ndcg for result in scored),
        by_kind=by_kind,
        n=n,
        pool={name: mean(result.pool[name] for result in scored) for name in (scored[0].pool if scored else ())},
        undefined=tuple(result.query.query_id for result in results if not result.relevant_ids),
    )


def report(m: Metrics) -> str:
    """A table of text: a row for all queries and one for each kind; recall at the pool's depth stands on the right."""
    pools = list(m.pool)
    header = ["", "queries", *(f"{name}@{m.k}" for name in ("recall", "precision", "mrr", "ndcg"))]
    header += [f"{name} recall@{m.n}" for name in pools]
    rows = [_row("all", m, pools), *(_row(kind, part, pools) for kind, part in m.by_kind.items())]
    label_width = max(len(row[0]) for row in rows)
    lines = []
    for row in (header, *rows):
        cells = [cell.rjust(len(title)) for cell, title in zip(row[1:], header[1:], strict=True)]
        lines.append("  ".join([row[0].ljust(label_width), *cells]).rstrip())
    if m.undefined:
        lines.append(f"not counted, no chunk holds the anchor: {', '.join(m.undefined)}")
    return "\n".join(lines)


def _row(label: str, m: Metrics, pools: Sequence[str]) -> list[str]:
    values = [m.recall, m.precision, m.mrr, m.ndcg, *(m.pool.get(name, math.nan) for name in pools)]
    return [label, str(m.queries), *("-" if math.isnan(value) else f"{value:.3f}" for value in values)]


if __name__ == "__main__":
    # The command stands on layers above this one.
    from retrieval_lab.cli_metrics import main

    sys.exit(main())
