"""The command `retrieval-lab export-index`, and searching an index folder without a server."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from retrieval_lab.cli_options import CorpusOption, DsnOption, JsonOption, print_json, progress_bar
from retrieval_lab.cli_passages import print_notes, print_passage
from retrieval_lab.cli_pipeline import UNCHANGED, PipelineChoice, takes_pipeline
from retrieval_lab.cli_text import counted
from retrieval_lab.errors import FaultyInput, InputError
from retrieval_lab.text import printable

if TYPE_CHECKING:
    from retrieval_lab.portable import Export

_DEFAULT_K = 10


@takes_pipeline
def export_index(
    folder: Annotated[Path, typer.Argument(help="Where the index goes; one that is there is replaced.")],
    corpus: CorpusOption = None,
    schema: Annotated[
        str | None,
        typer.Option(
            "--schema", metavar="NAME", help="Export what this schema's table chunks holds; nothing is embedded."
        ),
    ] = None,
    choice: PipelineChoice = UNCHANGED,
    dsn: DsnOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a corpus as an index that any program can read: chunks, vectors and BM25 in a folder of four files.

    Cut and embedded as the configuration says; no server is needed, neither here nor to search it. With --schema the
    chunks and vectors that are stored there are taken as they are; the configuration, or --embedder, has to name the
    embedder that made them, which is checked on some. Exit code 2 when files had to be left out.

    Example: [bold]retrieval-lab export-index my-index && retrieval-lab search --index my-index "inn sign"[/bold]
    """
    made = _of_corpus(corpus, choice, dsn) if schema is None else _of_schema(schema, corpus, choice, dsn)
    made.index.write(folder)
    meta = made.index.meta
    if as_json:
        print_json({"path": str(folder), "faults": [str(fault) for fault in made.faults], **asdict(meta)})
    else:
        chunks = counted(meta.n_chunks, "chunk")
        typer.echo(f"{printable(str(folder))}: {chunks}, {meta.dim} dimensions of {printable(meta.embedding_model)}")
    if made.faults:
        raise FaultyInput(made.faults)


def _of_corpus(corpus: Path | None, choice: PipelineChoice, dsn: str | None) -> Export:
    from retrieval_lab.portable import export_index as export

    if dsn is not None:
        raise InputError("--dsn goes with --schema: a corpus is exported from its files, without a server")
    indexing = choice.configured(corpus).config.indexing
    with progress_bar("embedding") as step:
        return export(corpus, indexing, progress=lambda done, total: step(done, total))


def _of_schema(schema: str, corpus: Path | None, choice: PipelineChoice, dsn: str | None) -> Export:
    from retrieval_lab.database import Database
    from retrieval_lab.portable import Export, export_schema

    indexing = choice.configured(corpus).config.indexing
    with Database.open(dsn) as database, database.connect() as conn:
        return Export(export_schema(conn, schema, indexing, corpus), ())


def search_index(folder: Path, query: str, k: int | None, choice: PipelineChoice, *, as_json: bool) -> None:
    """Print the passages of an index that a question finds, best first. Raises InputError."""
    from retrieval_lab.portable import query_embedder
    from retrieval_lab.ragindex import Hybrid, Index, terms

    index = Index.open(folder)
    if choice.path or choice.reranker or choice.overrides:
        raise InputError("--index is searched as it is: leave out --config, --reranker and --set")
    embedder, notes = query_embedder(index.meta, choice.chosen_embedder())
    hits = Hybrid(index, embedder).retrieve(query, _DEFAULT_K if k is None else k)
    notes = notes if hits else (*notes, "nothing was found")
    if as_json:
        print_json({"query": query, "results": [asdict(hit) for hit in hits], "notes": list(notes)})
        return
    for hit in hits:
        heading = str(index.chunks[hit.index].extra.get("heading_path") or hit.uri)
        head = f"{hit.rank:>3} {hit.score:>8.4f}  "
        print_passage(head, hit.chunk_id, heading, hit.text, frozenset(terms(query)))
    print_notes(notes)
