"""The command `retrieval-lab score`: measures of TREC runs from files alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from retrieval_lab.cli_options import JsonOption, print_json
from retrieval_lab.cli_systems import chosen_measure, letter, print_carriers, print_distributions, print_systems
from retrieval_lab.cli_text import counted, print_table
from retrieval_lab.text import printable
from retrieval_lab.wording import interval_text

if TYPE_CHECKING:
    from retrieval_lab.evals.score_versus import ScoredSystems
    from retrieval_lab.evals.scoring import Scores

_PREFERRED = "map"


def score(
    qrels: Annotated[Path, typer.Option("--qrels", metavar="FILE", help="Labels: query, iteration, document, grade.")],
    run: Annotated[
        list[Path],
        typer.Option("--run", metavar="FILE", help="Query, Q0, document, rank, score, tag; more than once to compare."),
    ],
    measures: Annotated[
        str, typer.Option("--measures", "-m", metavar="NAMES", help="Under trec_eval's names, divided by commas.")
    ] = "",
    all_queries: Annotated[
        bool, typer.Option("--all-queries", "-c", help="Count labelled queries that are not in the run, as 0.")
    ] = False,
    level: Annotated[int, typer.Option("--level", "-l", help="The lowest grade that is relevant.")] = 1,
    max_results: Annotated[
        int | None, typer.Option("--max-results", "-M", help="Count only so many results of each query.")
    ] = None,
    per_query: Annotated[
        bool, typer.Option("--per-query", "-q", help="Print the measures of each query, too.")
    ] = False,
    plot: Annotated[bool, typer.Option("--plot", help="Draw how sure a difference between two runs is.")] = False,
    measure: Annotated[
        str | None, typer.Option("--measure", help="The measure that is drawn; by default map, or the first.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Score TREC runs against qrels as trec_eval does, with its measures, names and options. Needs no corpus.

    Prints the mean of each measure with its 95% bootstrap interval; without
    --measures those that trec_eval prints. Files ending in .gz are unpacked.
    With --run twice or more, the first is the baseline A, and the others are
    compared with it query by query as `compare` does.

    Example: [bold]retrieval-lab score --qrels qrels.txt --run run.txt -m map,ndcg_cut_10[/bold]
    """
    # numpy takes a moment to import, which `--help` need not wait for.
    from retrieval_lab.evals import scoring
    from retrieval_lab.evals.score_versus import compare_scores
    from retrieval_lab.trec import read_qrels, read_run

    if (plot or measure) and (as_json or len(run) == 1):
        raise typer.BadParameter("a plot is of two runs and not in JSON; leave out --plot and --measure")
    names = [name for part in measures.split(",") if (name := part.strip())] or scoring.OFFICIAL
    labels = read_qrels(qrels)
    options: dict[str, Any] = {"all_queries": all_queries, "level": level, "max_results": max_results}
    scores = [scoring.score(labels, read_run(path), names, **options) for path in run]
    if len(scores) == 1:
        _print_one(scores[0], per_query, as_json)
        return
    found = compare_scores(scores)
    if as_json:
        print_json(_document(found, run, scores))
    else:
        shown = chosen_measure(measure, [one.measures for one in found.systems], _PREFERRED)
        _print_several(found, run, scores, shown)
        if per_query:
            _print_per_query(scores)
        if plot or measure:
            print_distributions(found.differences(shown), shown)
    if found.excluded:
        typer.echo(
            f"warning: {counted(len(found.excluded), 'labelled query')} not in every run and left out; -c counts them",
            err=True,
        )


def _print_one(scores: Scores, per_query: bool, as_json: bool) -> None:
    if as_json:
        print_json(scores.to_dict())
        return
    typer.echo(f"{printable(scores.tag)}: {counted(len(scores.query_ids), 'query')}; means with 95% intervals\n")
    intervals = scores.intervals()
    print_table(
        [("", False), ("", True), ("", True)],
        [
            (name, _value(value), interval_text(intervals[name]) if name in intervals else "")
            for name, value in scores.means.items()
        ],
    )
    if per_query:
        _print_per_query([scores])


def _print_per_query(scores: Sequence[Scores]) -> None:
    """A line for each measure of each query, as of `trec_eval -q`, and of each run, with its letter behind."""
    typer.echo()
    for number, one in enumerate(scores):
        which = "" if len(scores) == 1 else f"\t{letter(number)}"
        for query, values in one.per_query().items():
            shown = printable(query)
            typer.echo("\n".join(f"{name:<22}\t{shown}\t{_value(value)}{which}" for name, value in values.items()))


def _value(value: float | int) -> str:
    return str(value) if isinstance(value, int) else f"{value:.4f}"


def _print_several(found: ScoredSystems, paths: Sequence[Path], scores: Sequence[Scores], shown: str) -> None:
    for number, (path, one) in enumerate(zip(paths, scores, strict=True)):
        typer.echo(printable(f"{letter(number)}  {one.tag}  {path}"))
    typer.echo(f"\n{counted(len(found.query_ids), 'query')} of all runs")
    print_systems(found.systems)
    print_carriers(found.systems, shown)


def _document(found: ScoredSystems, paths: Sequence[Path], scores: Sequence[Scores]) -> dict[str, Any]:
    baseline, *systems = (
        {"run": str(path), "tag": one.tag, **one.to_dict()} for path, one in zip(paths, scores, strict=True)
    )
    return {
        "queries": len(found.query_ids),
        "excluded": list(found.excluded),
        "baseline": baseline,
        "systems": [{**system, "measures": one.to_dict()} for system, one in zip(systems, found.systems, strict=True)],
    }
