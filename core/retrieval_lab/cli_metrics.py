"""The command `python -m retrieval_lab.metrics`: index a corpus, run its golden set, print the measures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from psycopg import Connection

from retrieval_lab import cli
from retrieval_lab.config import PipelineConfig
from retrieval_lab.corpus import GOLDEN_FILE, read_corpus
from retrieval_lab.database import Database
from retrieval_lab.errors import Fault, FaultyInput
from retrieval_lab.index import index_corpus, schema_name
from retrieval_lab.metrics import QueryResult, evaluate_queries, labels, load_golden, report, summarise, why_undefined
from retrieval_lab.mmr import MMR_LAMBDA
from retrieval_lab.rerank import LexicalReranker, default_pipeline
from retrieval_lab.store import chunks_of

app = typer.Typer(
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class System(StrEnum):
    """How much of the pipeline is measured."""

    HYBRID = "hybrid"
    RERANK = "rerank"
    MMR = "mmr"


@app.command()
def measure(
    corpus: Annotated[Path, typer.Option(help="Folder with docs/, stories/ and golden.yaml.")],
    k: Annotated[int, typer.Option(min=1, help="Cut of the final list.")] = 10,
    n: Annotated[int, typer.Option(min=1, help="Depth of each list and of the fused pool.")] = 50,
    system: Annotated[
        System, typer.Option(help="Fusion alone, with BM25 reranking, or with reranking and MMR.")
    ] = System.MMR,
    dsn: Annotated[
        str | None, typer.Option(help="A PostgreSQL server; else $RETRIEVAL_LAB_DSN, else embedded.")
    ] = None,
    schema: Annotated[str | None, typer.Option(help="The schema to index into; else one of the corpus's own.")] = None,
    failures: Annotated[bool, typer.Option("--failures", help="List the misses instead of the measures.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,  # noqa: ARG001
) -> None:
    """Index a corpus and print recall, precision, MRR and nDCG at k, all and by kind, by exact scan.

    With --failures: [bold]query_id, kind, best_rank[/bold] for each query whose first relevant chunk is outside the
    top k, where best_rank is its rank in the whole reranked pool, or none.

    Example: [bold]python -m retrieval_lab.metrics --corpus fixtures/corpus --k 10[/bold]
    """
    read_corpus(corpus)  # says what is wrong with the folder, before its golden set is missed
    golden = load_golden(corpus / GOLDEN_FILE)
    indexing = PipelineConfig().indexing
    embedder = indexing.embedder.build()
    reranker = None if system is System.HYBRID else LexicalReranker()
    mmr_lambda = MMR_LAMBDA if system is System.MMR else None
    with Database.open(dsn) as database, database.connect() as conn:
        index = index_corpus(conn, corpus, indexing, schema or schema_name(corpus, indexing))
        pipeline = default_pipeline(conn, embedder, reranker, n=n, top_k=k, mmr_lambda=mmr_lambda, scan="exact")
        results = list(evaluate_queries(pipeline, labels(conn, golden)))
        undefined = _undefined(conn, corpus / GOLDEN_FILE, results)
    for line in _failures(results) if failures else [report(summarise(results, k=k, n=n))]:
        typer.echo(line)
    if index.faults or undefined:
        raise FaultyInput([*index.faults, *undefined])


def _failures(results: Sequence[QueryResult]) -> Iterator[str]:
    for result in results:
        if result.ranks["final"] is None and result.query.level != "none":
            yield f"{result.query.query_id}, {result.query.kind}, {result.ranks['reranked'] or 'none'}"


def _undefined(conn: Connection[Any], golden_file: Path, results: Sequence[QueryResult]) -> list[Fault]:
    """A fault for each query that no mean counts."""
    queries = [one.query for one in results if not one.relevant_ids and one.query.level != "none"]
    chunks = chunks_of(conn, [doc_id for query in queries for doc_id in query.doc_ids])
    return [Fault(golden_file, None, why_undefined(chunks, query) or "", query.query_id) for query in queries]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; `argv` is without the program's name. The exit code is as `cli.main` gives it."""
    return cli.main(argv, command=app, program="python -m retrieval_lab.metrics")
