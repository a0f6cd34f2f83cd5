"""The command `retrieval-lab check`: is the golden set fit to measure with?"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from retrieval_lab.cli_import import DocumentsOption, QrelsOption, SplitOption, TopicsOption
from retrieval_lab.cli_options import JsonOption, print_json
from retrieval_lab.cli_pipeline import UNCHANGED, PipelineChoice, takes_pipeline
from retrieval_lab.cli_text import counted
from retrieval_lab.corpus import GOLDEN_FILE, CorpusFiles, read_corpus
from retrieval_lab.errors import EnvironmentMissing, Fault, FaultyInput
from retrieval_lab.golden import GoldenFile, read_golden
from retrieval_lab.importing.formats import NO_OPTIONS, Format, Options, format_of, read_source
from retrieval_lab.paths import bundled_corpus
from retrieval_lab.text import printable

if TYPE_CHECKING:
    from retrieval_lab.config import PipelineConfig
    from retrieval_lab.embed import Vectors
    from retrieval_lab.evals.findings import Finding
    from retrieval_lab.importing.source import LeftOut
    from retrieval_lab.types import Chunk, Truncation

EXIT_FAILED = 1


@dataclass(frozen=True, slots=True)
class _Result:
    """What was checked and found.

    `excluded` are the queries that no measure counts since their labels find nothing, `no_answer` those that nothing
    answers, `unread` those not checked. `left_out` is what a format has that the lab does not take as it is.
    """

    corpus: Path
    documents: int
    chunks: int
    queries: int
    excluded: tuple[str, ...]
    no_answer: tuple[str, ...]
    unread: tuple[str, ...]
    left_out: tuple[LeftOut, ...]
    errors: int
    warnings: int
    faults: tuple[Fault, ...]
    findings: tuple[Finding, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document."""
        return {
            "corpus": str(self.corpus),
            "documents": self.documents,
            "chunks": self.chunks,
            "queries": self.queries,
            "excluded": list(self.excluded),
            "no_answer": list(self.no_answer),
            "unread": list(self.unread),
            "left_out": [{"what": one.what, "count": one.count, "first": one.first} for one in self.left_out],
            "errors": self.errors,
            "warnings": self.warnings,
            "faults": [one.to_dict() for one in self.faults],
            "findings": [_finding(one) for one in self.findings],
        }


@dataclass(frozen=True, slots=True)
class _Labelled:
    """Labels with the documents that they are about, read from a corpus folder or from another format."""

    files: CorpusFiles
    golden: GoldenFile
    lines: Mapping[str, int]
    left_out: tuple[LeftOut, ...] = ()


@takes_pipeline
def check(
    corpus: Annotated[
        Path | None,
        typer.Argument(help="A corpus folder, or labels in another format; else the bundled one.", show_default=False),
    ] = None,
    form: Annotated[
        Format | None,
        typer.Option("--format", metavar="FORMAT", help="beir, trec, squad or golden; else as it looks."),
    ] = None,
    split: SplitOption = None,
    topics: TopicsOption = None,
    qrels: QrelsOption = None,
    documents: DocumentsOption = None,
    choice: PipelineChoice = UNCHANGED,
    as_json: JsonOption = False,
    allow_missing: Annotated[
        bool, typer.Option("--allow-missing", help="Documents that the corpus does not have are warnings, not errors.")
    ] = False,
) -> None:
    """Check labels against their corpus: ids, anchors, give-away queries, near-duplicates. Needs no database.

    Chunks are cut as the configuration says. Everything is listed at once, errors first, and what is excluded is
    counted. Exit code 1 when there are errors, 2 when a file or a line of it cannot be read, 0 with warnings alone.

    Example: [bold]retrieval-lab check fixtures/corpus[/bold]
    """
    folder = corpus if corpus is not None else bundled_corpus()
    settings = choice.configured(folder.parent if folder.is_file() else folder).config
    labelled = _labelled(folder, form or format_of(folder), Options(split, topics, qrels, documents))
    result = _checked(labelled, folder, settings, allow_missing)
    if as_json:
        print_json(result.to_dict())
    else:
        typer.echo("\n".join(_described(result)))
    if result.faults:
        raise FaultyInput(result.faults)
    if result.errors:
        raise typer.Exit(EXIT_FAILED)


def _labelled(path: Path, form: Format, options: Options) -> _Labelled:
    if form is Format.GOLDEN and options == NO_OPTIONS:
        return _Labelled(read_corpus(path), read_golden(path / GOLDEN_FILE), {})
    from retrieval_lab.importing.build import build

    source = read_source(form, path, options)
    built = build(source)
    left_out = tuple(one for one in source.notes.summary() if not one.faulty)
    files = CorpusFiles(built.documents, built.paths, tuple(source.notes.faults))
    return _Labelled(files, built.golden, built.lines, left_out)


def _checked(labelled: _Labelled, folder: Path, config: PipelineConfig, allow_missing: bool) -> _Result:
    # numpy takes a moment to import, which the other commands need not wait for.
    from retrieval_lab.evals.labels import check_labels, counts, excluded
    from retrieval_lab.settings import MarkdownChunker

    files, golden = labelled.files, labelled.golden
    unreadable = {fault.path.stem for fault in files.faults} - set(files.paths)
    known = tuple(query for query in golden.queries if unreadable.isdisjoint(query.doc_ids))
    chunks = [piece for document in files.documents for piece in config.chunker.chunks(document)]
    truncated, uncounted = _truncated(config, chunks)
    findings = check_labels(
        replace(golden, queries=known),
        files.documents,
        chunks,
        embeddings=_embeddings(config, chunks),
        truncated=truncated,
        paths=files.paths,
        lines=labelled.lines,
        max_chars=config.chunker.max_chars if isinstance(config.chunker, MarkdownChunker) else None,
        allow_missing=allow_missing,
    )
    findings += uncounted
    errors, warnings = counts(findings)
    return _Result(
        corpus=folder,
        documents=len(files.documents),
        chunks=len(chunks),
        queries=len(known),
        excluded=tuple(excluded(findings)),
        no_answer=tuple(query.query_id for query in known if query.level == "none"),
        unread=tuple(query.query_id for query in golden.queries if not unreadable.isdisjoint(query.doc_ids)),
        left_out=labelled.left_out,
        errors=errors,
        warnings=warnings,
        faults=(*files.faults, *golden.faults),
        findings=tuple(findings),
    )


def _embeddings(config: PipelineConfig, chunks: Sequence[Chunk]) -> Vectors | None:
    """Vectors where they cost nothing; those of a model are checked when the corpus is indexed."""
    from retrieval_lab.settings import HashEmbedding
    from retrieval_lab.store import Table

    if not isinstance(config.embedder, HashEmbedding):
        return None
    table = Table(contextual_headers=config.contextual_headers)
    return config.embedder.build().embed([table.indexed(piece) for piece in chunks])


def _truncated(
    config: PipelineConfig, chunks: Sequence[Chunk]
) -> tuple[dict[str, tuple[Truncation, ...]], list[Finding]]:
    """The chunks that the models do not read to their end; a finding instead where a model is not there to tell."""
    from retrieval_lab.evals.findings import Finding, Kind, Severity
    from retrieval_lab.store import Table
    from retrieval_lab.windows import truncations

    table = Table(contextual_headers=config.contextual_headers)
    try:
        # Without a query, so that a chunk is named only where no query would leave room for all of it.
        return truncations(chunks, config.embedder.build(), table.indexed, config.reranker.build(), ""), []
    except EnvironmentMissing as error:
        message = f"nobody knows whether chunks are longer than the model reads: {error}"
        return {}, [Finding(Severity.WARNING, Kind.TOKENS_NOT_COUNTED, message, None, None)]


def _described(result: _Result) -> Iterator[str]:
    """The lines for people."""
    for title, severity, count in (("Errors", "error", result.errors), ("Warnings", "warning", result.warnings)):
        if count:
            yield f"{title} ({count})"
            yield from (f"  {_line(one)}" for one in result.findings if one.severity == severity)
            yield ""
    what = ((result.queries, "query"), (result.documents, "document"), (result.chunks, "chunk"))
    found = f"{counted(result.errors, 'error')} and {counted(result.warnings, 'warning')}"
    yield f"{found} in {', '.join(counted(number, noun) for number, noun in what)}"
    if result.excluded:
        yield _left_out(result.excluded, "left out of every measure, since no chunk is relevant")
    if result.no_answer:
        yield f"{counted(len(result.no_answer), 'query')} that nothing answers, counted apart"
    yield from (printable(f"note: {one}") for one in result.left_out)
    if result.unread:
        yield _left_out(result.unread, "not checked, since the document could not be read")


def _left_out(query_ids: Sequence[str], why: str) -> str:
    return printable(f"{counted(len(query_ids), 'query')} {why}: {', '.join(query_ids)}")


def _line(finding: Finding) -> str:
    """One line like a compiler's, with the kind at its end."""
    text = f"{finding.message} [{finding.kind}]"
    if finding.file is not None:
        text = str(Fault(finding.file, finding.line, text, finding.query_id))
    return printable(text)


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "severity": finding.severity,
        "kind": finding.kind,
        "file": None if finding.file is None else os.fspath(finding.file),
        "line": finding.line,
        "query_id": finding.query_id,
        "chunk_ids": list(finding.chunk_ids),
        "message": finding.message,
        "text": finding.text,
    }
