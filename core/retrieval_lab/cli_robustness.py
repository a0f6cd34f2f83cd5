"""The command `retrieval-lab robustness`: the golden set with typos, with synonyms and in reversed word order."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from retrieval_lab.cli_effect import print_effect, print_worse
from retrieval_lab.cli_options import CorpusArgument, DsnOption, JsonOption, opened_lab, print_json, progress_bar
from retrieval_lab.cli_pipeline import UNCHANGED, PipelineChoice, takes_pipeline
from retrieval_lab.cli_text import counted
from retrieval_lab.corpus import GOLDEN_FILE
from retrieval_lab.errors import Fault, FaultyInput, InputError
from retrieval_lab.evals.perturb import PERTURBATIONS, Perturbed, perturbed
from retrieval_lab.golden_set import GoldenSet
from retrieval_lab.paths import bundled_corpus
from retrieval_lab.text import printable

if TYPE_CHECKING:
    from retrieval_lab.evals.robustness import Reworded


@takes_pipeline
def robustness(
    corpus: CorpusArgument = None,
    kind: Annotated[
        list[str] | None,
        typer.Option("--kind", metavar="KIND", help=f"{', '.join(PERTURBATIONS)}; may be repeated. By default all."),
    ] = None,
    split: Annotated[
        str | None, typer.Option("--split", metavar="NAME", help="The queries of this split alone.")
    ] = None,
    show: Annotated[bool, typer.Option("--show", help="List the changed queries, and measure nothing.")] = False,
    choice: PipelineChoice = UNCHANGED,
    dsn: DsnOption = None,
    as_json: JsonOption = False,
) -> None:
    """Ask the golden queries as they are and in other words, and show what that costs.

    [bold]typos[/bold] swaps two adjacent letters in each of the two longest words,
    [bold]synonyms[/bold] puts other words of a small table of English in their place, and
    [bold]reversed[/bold] turns the order of the words around. Each is measured over the
    queries that it changes, against the same queries as they were: every
    measure with the 95% interval of its change, p, and how far the best answer
    moved in every list. Changes are the same each time.

    Example: [bold]retrieval-lab robustness fixtures/corpus --kind typos --reranker none[/bold]
    """
    kinds = list(dict.fromkeys(kind or PERTURBATIONS))
    for name in kinds:
        if name not in PERTURBATIONS:
            raise InputError(f"--kind {printable(name)!r}: expected {', '.join(PERTURBATIONS)}")
    if show:
        if choice != UNCHANGED or dsn:
            raise InputError("--show asks nobody; leave out the options of the pipeline and --dsn")
        _show(corpus or bundled_corpus(), kinds, split, as_json=as_json)
        return
    _measure(corpus, kinds, split, choice, dsn, as_json=as_json)


def _show(folder: Path, kinds: Sequence[str], split: str | None, *, as_json: bool) -> None:
    opened = GoldenSet.open(folder / GOLDEN_FILE)
    opened.require()
    golden = opened.queries if split is None else opened.split(split)
    found = [perturbed(golden, name) for name in kinds]
    if as_json:
        print_json({one.kind: _listed(one) for one in found})
        return
    for number, one in enumerate(found):
        typer.echo(f"{'' if number == 0 else chr(10)}{one.kind}: {counted(len(one.queries), 'query')} of {len(golden)}")
        for query in one.queries:
            typer.echo(printable(f"  {query.query_id}  {query.query}"))


def _listed(one: Perturbed) -> dict[str, object]:
    return {"queries": {query.query_id: query.query for query in one.queries}, "unchanged": list(one.unchanged)}


def _measure(
    corpus: Path | None,
    kinds: Sequence[str],
    split: str | None,
    choice: PipelineChoice,
    dsn: str | None,
    *,
    as_json: bool,
) -> None:
    # numpy takes a moment to import, which `--help` need not wait for.
    from retrieval_lab.evals import robustness as measured

    with opened_lab(corpus, choice, dsn) as lab:
        with progress_bar("asking") as step:
            found = measured.robustness(lab, kinds=kinds, split=split, progress=step)
        if as_json:
            print_json(found.to_dict())
        else:
            typer.echo("before, after, and the change with its 95% paired bootstrap interval; a median move above 0")
            typer.echo("says that answers sank; least is the smallest change that so many queries could have shown")
            for name, one in found.kinds.items():
                _print(name, one, found.queries, lab.config.top_k)
        if found.undefined:
            path = lab.corpus / GOLDEN_FILE
            faults = [Fault(path, None, lab.why_undefined(lab.golden_query(one)) or "", one) for one in found.undefined]
            raise FaultyInput([*lab.index.faults, *faults])


def _print(name: str, one: Reworded, queries: int, k: int) -> None:
    typer.echo(f"\n{name}: {len(one.queries)} of {counted(queries, 'query')} changed")
    if one.excluded:
        typer.echo(printable(f"not counted, no chunk is relevant: {', '.join(one.excluded)}"))
    if one.effect is not None:
        typer.echo()
        print_effect(one.effect)
        print_worse(one.effect, k)
