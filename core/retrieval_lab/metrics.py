"""Retrieval measures over a golden set.

Gains are 0 or 1, or the grades of labels that have them. A chunk that stands twice in a list counts at its first place
only. Labels of whole documents are scored by the best chunk: every list is read as that of its documents, each at its
first chunk, and only then cut. The measures follow Manning,
Raghavan and Schütze, "Introduction to Information Retrieval" (2008), chapter 8; nDCG is Järvelin and Kekäläinen,
"Cumulated Gain-Based Evaluation of IR Techniques" (2002), with the discount 1 / log2(rank + 1).

`python -m retrieval_lab.metrics --corpus DIR` indexes a corpus and prints its report.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean
from time import perf_counter
from typing import Any

from psycopg import Connection

from retrieval_lab.chunker import doc_id_of
from retrieval_lab.embed import Embedder
from retrieval_lab.errors import InputError
from retrieval_lab.golden import load_golden
from retrieval_lab.hybrid import Scan
from retrieval_lab.mmr import MMR_LAMBDA
from retrieval_lab.pipeline import Pipeline
from retrieval_lab.rerank import Reranker, default_pipeline
from retrieval_lab.store import CHUNKS, Table, chunks_of
from retrieval_lab.support import best_support
from retrieval_lab.text import folded
from retrieval_lab.types import Chunk, GoldenQuery, Metrics, Ranked, Stages

__all__ = [
    "NO_ANSWER",
    "QueryResult",
    "evaluate",
    "evaluate_queries",
    "labelled_grades",
    "labels",
    "load_golden",
    "mrr",
    "ndcg_at_k",
    "precision_at_k",
    "recall_at_k",
    "relevant",
    "report",
    "scored_ids",
    "summarise",
    "why_undefined",
]


NO_ANSWER = "no passage answers this question, and none should"


def relevant(chunks: Iterable[Chunk], q: GoldenQuery) -> set[str]:
    """Ids of the chunks of `q.doc_id` whose text holds `q.anchor`; of a query with graded documents, all of theirs.

    Text and anchor are compared in lower case and with runs of white space made one space.
    """
    if q.level != "chunk":
        doc_ids = set(q.doc_ids)
        return {chunk.chunk_id for chunk in chunks if chunk.doc_id in doc_ids}
    anchor = folded(q.anchor)
    parts = anchor.split()

    def holds(text: str) -> bool:
        # Folding takes longer than looking for each word of the anchor first, which most chunks do not have.
        lowered = text.lower()
        return all(part in lowered for part in parts) and anchor in folded(text)

    return {chunk.chunk_id for chunk in chunks if chunk.doc_id == q.doc_id and holds(chunk.text)}


def why_undefined(chunks: Iterable[Chunk], q: GoldenQuery) -> str | None:
    """Why no chunk is relevant for the query; None when one is. `chunks` are at least those of its document."""
    if q.level == "none":
        return NO_ANSWER
    of_document = [chunk for chunk in chunks if chunk.doc_id in q.doc_ids]
    if q.level == "document":
        return None if of_document else f"the corpus has no text of {', '.join(map(repr, q.doc_ids))}, its labels"
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


def ndcg_at_k(ranked_ids: Sequence[str], relevant_ids: Collection[str] | Mapping[str, int], k: int) -> float:
    """Discounted gain of the top k over that of an ideal list.

    A mapping has the grades of the ids, which are their gains, those of 0 and below nothing; ids alone gain 1. The
    ideal list has the min(k, number relevant) highest gains and nothing else; 0.0 when that is empty.
    """
    grades = relevant_ids if isinstance(relevant_ids, Mapping) else dict.fromkeys(relevant_ids, 1)
    gains = {key: grade for key, grade in grades.items() if grade > 0}
    highest = sorted(gains.values(), reverse=True)
    gain = 0.0
    for rank, key in enumerate(_top(ranked_ids, k), start=1):
        gain += gains.pop(key, 0) * _discount(rank)
    ideal = sum(grade * _discount(rank) for rank, grade in enumerate(highest[:k], start=1))
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
    """The measures of one query at cut k. `relevant_ids`, those of chunks, is empty where they are undefined.

    `final` is the list that was measured; of a query with graded documents the first chunk of each of its k documents.
    `ranks` is the rank of the first relevant chunk, or document, in each retriever's list, in the fused pool, in the
    whole reranked pool and in the final list, by name; None where it is not there. `pool` is recall of each
    retriever's list and of the fused pool, uncut. `seconds` is what the query took. `support` is that of a query that
    nothing answers (module `support`), where it was asked for.
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
    support: float | None = None


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
    support = partial(best_support, conn, table=table)
    return summarise(list(evaluate_queries(run, labels(conn, golden, table=table), support)), k=k, n=n)


def labels(
    conn: Connection[Any], golden: Sequence[GoldenQuery], *, table: Table = CHUNKS
) -> list[tuple[GoldenQuery, frozenset[str]]]:
    """Each golden query with the ids of the chunks in the table that are relevant for it."""
    return labelled(golden, partial(chunks_of, conn, table=table))


def labelled(
    golden: Sequence[GoldenQuery], documents: Callable[[Sequence[str]], Iterable[Chunk]]
) -> list[tuple[GoldenQuery, frozenset[str]]]:
    """Each golden query with the ids of the relevant ones among the chunks that `documents` gives for doc_ids."""
    by_doc: dict[str, list[Chunk]] = {}
    for chunk in documents(list({doc_id for query in golden for doc_id in query.doc_ids})):
        by_doc.setdefault(chunk.doc_id, []).append(chunk)
    of_query = ((query, [chunk for doc_id in query.doc_ids for chunk in by_doc.get(doc_id, ())]) for query in golden)
    return [(query, frozenset(relevant(chunks, query))) for query, chunks in of_query]


def evaluate_queries(
    pipeline: Pipeline,
    golden: Iterable[tuple[GoldenQuery, frozenset[str]]],
    support: Callable[[Stages], float] | None = None,
) -> Iterator[QueryResult]:
    """The result of each labelled query in turn; the cut k is the pipeline's `top_k`.

    `support` gives the support of a question, for those that nothing answers.
    """
    # Several chunks of the pool may be of one document, so k documents may take more than k chunks.
    whole = replace(pipeline, top_k=max(pipeline.n, pipeline.top_k))
    for query, relevant_ids in golden:
        began = perf_counter()
        made = (whole if query.level == "document" else pipeline).run(query.query)
        seconds = perf_counter() - began
        result = judge(made, query, relevant_ids, k=pipeline.top_k, n=pipeline.n, seconds=seconds)
        yield replace(result, support=support(made)) if support and query.level == "none" else result


def judge(
    made: Stages, query: GoldenQuery, relevant_ids: Collection[str], *, k: int, n: int, seconds: float
) -> QueryResult:
    """The measures of one query from its stages; `n` is the depth of the fused pool.

    The measures of graded documents are 0 where none of them has a chunk, as where none was found.
    """
    by_document = query.level == "document"
    wanted = labelled_grades(query, relevant_ids)
    positive = {key for key, grade in wanted.items() if grade > 0}
    rows = _best_of_documents(made.final) if by_document else made.final
    lists = {name: scored_ids([hit.chunk_id for hit in hits], by_document) for name, hits in made.lists.items()}
    fused = scored_ids([row.chunk_id for row in made.fused[:n]], by_document)
    reranked = scored_ids([row.chunk_id for row in made.reranked], by_document)
    final = scored_ids([row.chunk_id for row in rows], by_document)[:k]
    stages = {**lists, "fused": fused, "reranked": reranked, "final": final}
    return QueryResult(
        query=query,
        relevant_ids=frozenset(relevant_ids),
        final=tuple(rows[:k]),
        recall=recall_at_k(final, positive, k),
        precision=precision_at_k(final, positive, k),
        hit=float(first_rank(final, positive) is not None),
        mrr=mrr(final, positive),
        ndcg=ndcg_at_k(final, wanted, k),
        pool={name: recall_at_k(ids, positive, len(ids)) for name, ids in {"fused": fused, **lists}.items()},
        ranks={name: first_rank(ids, positive) for name, ids in stages.items()},
        seconds=seconds,
    )


def labelled_grades(query: GoldenQuery, relevant_ids: Collection[str]) -> Mapping[str, int]:
    """What a list is scored against: the grade of each relevant chunk, or of each judged document."""
    return query.grades if query.level == "document" else dict.fromkeys(relevant_ids, 1)


def scored_ids(chunk_ids: Sequence[str], by_document: bool) -> Sequence[str]:
    """The ids that a list is scored by: its own, or those of its documents, each at its first chunk."""
    return list(dict.fromkeys(map(doc_id_of, chunk_ids))) if by_document else chunk_ids


def _best_of_documents(rows: Sequence[Ranked]) -> tuple[Ranked, ...]:
    """The first row of each document, ranked anew."""
    first: dict[str, Ranked] = {}
    for row in rows:
        first.setdefault(doc_id_of(row.chunk_id), row)
    return tuple(replace(row, rank=rank) for rank, row in enumerate(first.values(), start=1))


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
        undefined=tuple(one.query.query_id for one in results if not one.relevant_ids and one.query.level != "none"),
        no_answer=tuple(one.query.query_id for one in results if one.query.level == "none"),
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
    if m.no_answer:
        lines.append(f"not counted, nothing answers them: {', '.join(m.no_answer)}")
    return "\n".join(lines)


def _row(label: str, m: Metrics, pools: Sequence[str]) -> list[str]:
    values = [m.recall, m.precision, m.mrr, m.ndcg, *(m.pool.get(name, math.nan) for name in pools)]
    return [label, str(m.queries), *("-" if math.isnan(value) else f"{value:.3f}" for value in values)]


if __name__ == "__main__":
    # The command stands on layers above this one.
    from retrieval_lab.cli_metrics import main

    sys.exit(main())
