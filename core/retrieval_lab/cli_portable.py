"""The command `retrieval-lab export-index`, and searching an index folder without a server."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from retrieval_lab.cli_options import CorpusOption, JsonOption, print_json, progress_bar
from retrieval_lab.cli_passages import print_notes, print_passage
from retrieval_lab.cli_pipeline import UNCHANGED, PipelineChoice, takes_pipeline
from retrieval_lab.cli_text import counted
from retrieval_lab.errors import FaultyInput, InputError
from retrieval_lab.text import printable

_DEFAULT_K = 10


@takes_pipeline
def export_index(
    folder: Annotated[Path, typer.Argument(help="Where the index goes; one that is there is replaced.")],
    corpus: CorpusOption = None,
    choice: PipelineChoice = UNCHANGED,
    as_json: JsonOption = False,
) -> None:
    """Write a corpus as an index that any program can read: chunks, vectors and BM25 in a folder of four files.

    Cut and embedded as the configuration says; no server is needed, neither here nor to search it. Exit code 2 when
    files had to be left out.

    Example: [bold]retrieval-lab export-index my-index && retrieval-lab search --index my-index "inn sign"[/bold]
    """
    from retrieval_lab.portable import export_index as export

    indexing = choice.configured(corpus).config.indexing
    with progress_bar("embedding") as step:
        made = export(corpus, indexing, progress=lambda done, total: step(done, total))
    made.index.write(folder)
    meta = made.index.meta
    if as_json:
        print_json({"path": str(folder), "faults": [str(fault) for fault in made.faults], **asdict(meta)})
    else:
        chunks = counted(meta.n_chunks, "chunk")
        typer.echo(f"{printable(str(folder))}: {chunks}, {meta.dim} dimensions of {printable(meta.embedding_model)}")
    if made.faults:
        raise FaultyInput(made.faults)


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
