"""The command `python -m retrieval_lab.metrics`: index a corpus, run its golden set, print the measures."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from retrieval_lab import cli
from retrieval_lab.corpus import GOLDEN_FILE
from retrieval_lab.database import Database
from retrieval_lab.embed import HashEmbedder
from retrieval_lab.errors import InputError
from retrieval_lab.index import IndexReport, index_corpus, schema_name
from retrieval_lab.metrics import QueryResult, evaluate_queries, load_golden, report, summarise
from retrieval_lab.mmr import MMR_LAMBDA
from retrieval_lab.rerank import LexicalReranker

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
    golden = load_golden(corpus / GOLDEN_FILE)
    embedder = HashEmbedder()
    reranker = None if system is System.HYBRID else LexicalReranker()
    mmr_lambda = MMR_LAMBDA if system is System.MMR else None
    with Database.open(dsn) as database, database.connect() as conn:
        index = index_corpus(conn, corpus, embedder, schema or schema_name(corpus, embedder))
        results = list(
            evaluate_queries(conn, embedder, reranker, golden, k=k, n=n, mmr_lambda=mmr_lambda, scan="exact")
        )
    typer.echo(_failures(results) if failures else report(summarise(results, k=k, n=n)))
    _tell_left_out(index)


def _failures(results: Sequence[QueryResult]) -> str:
    missed = [result for result in results if result.relevant_ids and result.final_rank is None]
    return "\n".join(f"{r.query.query_id}, {r.query.kind}, {r.best_rank or 'none'}" for r in missed)


def _tell_left_out(index: IndexReport) -> None:
    if index.faults:
        raise InputError("\n".join(["left out of the index:", *(str(fault) for fault in index.faults)]))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; `argv` is without the program's name. The exit code is as `cli.main` gives it."""
    return cli.main(argv, command=app, program="python -m retrieval_lab.metrics")
