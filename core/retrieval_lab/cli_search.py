"""The commands `retrieval-lab search` and `retrieval-lab trace`: one question, its final list or every stage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from retrieval_lab.cli_bundle import BundleOption, NoRescuesOption, written
from retrieval_lab.cli_explain import explained, print_explained
from retrieval_lab.cli_options import (
    CorpusOption,
    DsnOption,
    GoldenOption,
    IndexOption,
    JsonOption,
    QuestionArgument,
    opened_lab,
    print_json,
)
from retrieval_lab.cli_passages import print_notes, print_passage
from retrieval_lab.cli_pipeline import UNCHANGED, PipelineChoice, takes_pipeline
from retrieval_lab.cli_portable import search_index
from retrieval_lab.cli_text import print_table, stdout
from retrieval_lab.errors import InputError
from retrieval_lab.shorten import shorten_middle
from retrieval_lab.text import printable

if TYPE_CHECKING:
    from retrieval_lab.lab import Lab
    from retrieval_lab.trace import Trace
    from retrieval_lab.types import Place

_SHOWN_ROWS = 10
_LEAST_CELL = 12
_GAP = 4  # the mark of the wanted passage and the space between columns


@takes_pipeline
def search(
    query: Annotated[str, typer.Argument(help="The question; put it in quotes.")],
    corpus: CorpusOption = None,
    k: Annotated[
        int | None, typer.Option("--k", min=1, help="How many passages; else the configuration's top_k.")
    ] = None,
    choice: PipelineChoice = UNCHANGED,
    index: IndexOption = None,
    dsn: DsnOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print the passages that a question finds, best first.

    A cross-encoder's score is a logit; beside it stands the probability that
    the passage is relevant, by a sigmoid.

    Example: [bold]retrieval-lab search "who painted the inn sign?" --k 3[/bold]
    """
    if index is not None:
        if corpus is not None or dsn is not None:
            raise InputError("--index needs neither a corpus nor a server: leave out --corpus and --dsn")
        search_index(index, query, k, choice, as_json=as_json)
        return
    choice = choice.with_setting(f"top_k={k}") if k else choice
    with opened_lab(corpus, choice, dsn) as lab:
        trace = lab.trace(query)
        if as_json:
            print_json({"query": query, "results": list(_results(trace)), "notes": list(trace.notes)})
        else:
            _print_results(lab, trace)


@takes_pipeline
def trace(
    query: QuestionArgument = None,
    golden: GoldenOption = None,
    chunk: Annotated[
        str | None, typer.Option("--chunk", metavar="ID", help="Say where this chunk stands at every stage.")
    ] = None,
    parse: Annotated[
        bool, typer.Option("--parse", help="Show how full-text search read the question, token by token.")
    ] = False,
    bundle: BundleOption = None,
    no_rescues: NoRescuesOption = False,
    corpus: CorpusOption = None,
    choice: PipelineChoice = UNCHANGED,
    index: IndexOption = None,
    dsn: DsnOption = None,
    as_json: JsonOption = False,
) -> None:
    """Follow a question through every stage: how it was read, each list, fusion, reranking, the final list.

    Of a golden query, or with --chunk, also where the wanted passage stands, counted over the whole corpus beyond the
    end of a list, and its journey: the stage that lost it, and what stands in its place. With --json: the whole trace,
    with the journey under its name. With --bundle: all of that and more in one file for a colleague, who needs neither
    the corpus nor a database to look at it. With --index the question is asked of an index; its labels are those of
    --corpus, and a bundle has no rescues.

    Example: [bold]retrieval-lab trace --golden q08[/bold]
    """
    if (query is None) == (golden is None):
        raise InputError('name one question: retrieval-lab trace "QUESTION", or retrieval-lab trace --golden ID')
    if no_rescues and bundle is None:
        raise InputError("--no-rescues leaves them out of a bundle; name its file with --bundle FILE")
    with opened_lab(corpus, choice, dsn, index) as lab:
        asked = query if query is not None else lab.golden_query(golden or "")
        if bundle is not None:
            written(lab, asked, chunk, bundle, rescues=not no_rescues and index is None, as_json=as_json)
            return
        made = lab.trace(asked)
        if chunk is not None and chunk not in lab.chunks([chunk]):
            raise InputError(f"no chunk {chunk!r} in this corpus; ids look like {next(iter(made.chunks), 'name#000')}")
        places = {one: made.ranks_of(one) for one in ([chunk] if chunk else made.relevant)}
        journey = lab.explain(made, chunk) if chunk is not None or made.golden else None
        view = lab.parse_view(made.query, made.config) if parse or made.parsed.excluded else None
        if as_json:
            found = {"places": _places(places)} if places else {}
            print_json({**made.to_dict(), **found, **explained(journey, view if parse else None)})
        else:
            _print_trace(made, places)
            print_explained(journey, view, parse)


# --- the final list ------------------------------------------------------------------------------------------------


def _results(trace: Trace) -> Iterator[dict[str, Any]]:
    for row in trace.final:
        ranks = dict(zip(trace.lists, row.ranks, strict=True))
        score = {"rank": row.rank, "score": row.score, **_probability(trace, row.score)}
        yield {**score, **asdict(trace.chunks[row.chunk_id]), "ranks": ranks}


def _probability(trace: Trace, score: float) -> dict[str, float]:
    """A cross-encoder's score is a logit, and says more as a probability."""
    from retrieval_lab.rerankers import sigmoid
    from retrieval_lab.settings import ModelReranker

    return {"probability": sigmoid(score)} if isinstance(trace.config.reranker, ModelReranker) else {}


def _print_results(lab: Lab, trace: Trace) -> None:
    chunks = [trace.chunks[row.chunk_id] for row in trace.final]
    matched = lab.matched_words(trace, [chunk.text for chunk in chunks])
    for row, chunk in zip(trace.final, chunks, strict=True):
        probability = "".join(f" {one:.0%}" for one in _probability(trace, row.score).values())
        head = f"{row.rank:>3} {row.score:>8.3f}{probability}  "
        print_passage(head, chunk.chunk_id, chunk.heading_path, chunk.text, matched)
    print_notes(trace.notes if trace.final else [*trace.notes, "nothing was found"])


# --- every stage ---------------------------------------------------------------------------------------------------


def _print_trace(made: Trace, places: dict[str, dict[str, Place]]) -> None:
    print_table([("", False), ("", False)], list(_reading(made)))
    typer.echo()
    columns = [("stage", False), ("rows", True), ("match", True), ("ms", True), ("how", False)]
    print_table(columns, list(_stages(made)))
    for chunk_id, found in places.items():
        typer.echo()
        standing = [(stage, *_place(place)) for stage, place in found.items()]
        print_table([(chunk_id, False), ("rank", True), ("score", True), ("", False)], standing)
    for chunk_id, read in made.truncated.items():
        typer.echo(printable(f"\n{chunk_id}: {'; '.join(map(str, read))}"))
    if made.unlabelled:
        typer.echo(f"\nno passage is marked: {printable(made.unlabelled)}")
    lists = {name: [hit.chunk_id for hit in hits] for name, hits in made.lists.items()}
    lists |= {"fused": [row.chunk_id for row in made.fused], "final": [row.chunk_id for row in made.final]}
    room = stdout().width - len(str(_SHOWN_ROWS))
    for names in _in_groups(list(lists), max(1, room // (_LEAST_CELL + _GAP))):
        typer.echo()
        rows = list(_side_by_side(made, [lists[name] for name in names], room // len(names) - _GAP))
        print_table([("", True), *((f"  {name}", False) for name in names)], rows)
    print_notes(made.notes)


def _reading(made: Trace) -> Iterator[tuple[str, str]]:
    yield "query", made.query
    for name in ("terms", "phrases", "excluded", "stop_words"):
        found = getattr(made.parsed, name)
        if found:
            yield name.replace("_", " "), " ".join(found)
    for name, expansion in made.expansions.items():
        yield f"{name} expanded", str(expansion)


def _stages(made: Trace) -> Iterator[tuple[str, ...]]:
    timings = {stage: f"{seconds * 1e3:.1f}" for stage, seconds in made.timings.items()}
    for name, search in made.searches.items():
        matching = "" if search.matching is None else str(search.matching)
        yield name, f"{len(made.lists[name])} of {search.asked}", matching, timings[name], search.how
    config = made.config
    pool = f"{config.fusion.kind}; the first {config.fusion.n} go on"
    yield "fused", str(len(made.fused)), "", timings["fusion"], pool
    yield "reranked", str(len(made.reranked)), "", timings["rerank"], config.reranker.kind
    how = "" if config.mmr_lambda is None else f"MMR, lambda {config.mmr_lambda:g}"
    yield "final", str(len(made.final)), "", timings["mmr"], how


def _place(place: Place) -> tuple[str, str, str]:
    rank = "–" if place.rank is None else str(place.rank)
    score = "" if place.score is None else f"{place.score:.4f}"
    beyond = "" if place.listed or place.rank is None else "beyond the list"
    return rank, score, place.reason or beyond


def _side_by_side(made: Trace, lists: Sequence[Sequence[str]], width: int) -> Iterator[list[str | Text]]:
    """The first rows of each list, their ids in `width` cells; the wanted passage is marked."""
    for row in range(min(_SHOWN_ROWS, max((len(ids) for ids in lists), default=0))):
        cells: list[str | Text] = [str(row + 1)]
        for ids in lists:
            chunk_id = ids[row] if row < len(ids) else ""
            shown = shorten_middle(printable(chunk_id), width)
            cells.append(Text(f"● {shown}", "bold") if chunk_id in made.relevant else f"  {shown}")
        yield cells


def _in_groups(names: Sequence[str], most: int) -> Iterator[Sequence[str]]:
    """The names in as few groups of at most so many as will do, none much smaller than another."""
    groups = -(-len(names) // most)
    for group in range(groups):
        yield names[group * len(names) // groups : (group + 1) * len(names) // groups]


def _places(places: dict[str, dict[str, Place]]) -> dict[str, Any]:
    return {chunk_id: {stage: asdict(place) for stage, place in found.items()} for chunk_id, found in places.items()}
