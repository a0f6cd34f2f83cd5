"""The command `retrieval-lab train-reranker`: learn from the dev queries how to order a pool, and keep it in a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from retrieval_lab.cli_options import CorpusArgument, DsnOption, JsonOption, opened_lab, print_json, progress_bar
from retrieval_lab.cli_pipeline import UNCHANGED, PipelineChoice, takes_pipeline
from retrieval_lab.cli_text import counted, print_table
from retrieval_lab.errors import InputError
from retrieval_lab.paths import bundled_corpus, corpus_home
from retrieval_lab.text import printable

if TYPE_CHECKING:
    from retrieval_lab.evals.training import Trained
    from retrieval_lab.learned_model import LearnedModel

MODEL_FILE = "reranker.json"


@takes_pipeline
def train_reranker(
    corpus: CorpusArgument = None,
    c: Annotated[
        float, typer.Option("--c", metavar="C", help="A smaller one draws the coefficients nearer to 0; above 0.")
    ] = 1.0,
    lsa_dims: Annotated[
        int | None, typer.Option("--lsa-dims", min=1, help="The dimensions of LSA; else as many as the list has.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="FILE", help=f"Where to keep it; else {MODEL_FILE} beside the corpus."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there already.")] = False,
    choice: PipelineChoice = UNCHANGED,
    dsn: DsnOption = None,
    as_json: JsonOption = False,
) -> None:
    """Train the learned reranker on the dev queries, and say what it is worth on queries that it has not seen.

    A logistic regression over BM25, TF-IDF and LSA cosine, the overlap with
    the title and the kind of the document, fitted on the pools that the
    pipeline's lists and fusion make of the queries of the split dev. Its
    measures are cross-validated, with queries as groups, against the fused
    order and against BM25. The file is plain JSON.

    Example: [bold]retrieval-lab train-reranker my-corpus[/bold], then
    [bold]retrieval-lab eval my-corpus --split held-out --reranker learned:my-corpus/reranker.json[/bold]
    """
    from retrieval_lab.evals.training import train
    from retrieval_lab.learned_features import FeatureSettings
    from retrieval_lab.learned_model import write_model

    target = output or corpus_home(corpus or bundled_corpus()) / MODEL_FILE
    if target.exists() and not force:
        raise InputError(f"{target}: is there already; --force replaces it, --output names another file")
    settings = FeatureSettings() if lsa_dims is None else FeatureSettings(lsa_dims=lsa_dims)
    with opened_lab(corpus, choice, dsn) as lab:
        with progress_bar("making pools") as step:
            trained = train(lab, c=c, settings=settings, progress=step)
        write_model(trained.model, target)
    if as_json:
        without = list(trained.without_label)
        print_json({"file": str(target), "without_label": without, "model": trained.model.to_dict()})
    else:
        _print(trained, target)


def _print(trained: Trained, target: Path) -> None:
    model = trained.model
    for line in _about(trained):
        typer.echo(printable(line))
    typer.echo("")
    columns = [("feature", False), ("mean", True), ("scale", True), ("coefficient", True)]
    print_table(columns, _coefficients(model))
    typer.echo(f"\n{model.validation.folds}-fold cross-validation, with queries as groups:\n")
    titles = ("learned", "fused", "over fused", "interval", "bm25", "over bm25", "interval")
    print_table([("", False), *((title, True) for title in titles)], _measures(trained))
    typer.echo(
        "\nlearned orders each pool by a model that was not trained on its query; intervals are 95% paired bootstrap"
    )
    typer.echo(printable(f"written to {target}; use it with --reranker learned:{target}"))


def _about(trained: Trained) -> Iterator[str]:
    on = trained.model.trained_on
    pairs = f"{on.candidates:,} passages of their pools, {on.positives} of them relevant"
    yield f"trained on {counted(on.queries, 'dev query')} and {pairs}"
    if on.dealt is not None:
        yield f"golden.yaml has no splits: dev is what `retrieval-lab split` would make of it, with the seed {on.dealt}"
    if trained.without_label:
        yield f"left out, since no passage is relevant for them: {', '.join(trained.without_label)}"


def _coefficients(model: LearnedModel) -> Iterator[tuple[str, ...]]:
    from retrieval_lab.learned_features import FEATURES

    made = model.regression
    rows = zip(FEATURES, made.mean, made.scale, made.coefficients, strict=True)
    for feature, *numbers in rows:
        yield feature, *(f"{number:.3f}" for number in numbers)
    yield "intercept", "", "", f"{made.intercept:.3f}"


def _measures(trained: Trained) -> Iterator[tuple[str, ...]]:
    from retrieval_lab.wording import interval_text, signed

    for name, over_fused in trained.over_fused.items():
        over_bm25 = trained.over_bm25[name]
        fused = (f"{over_fused.baseline:.3f}", signed(over_fused.difference))
        bm25 = (f"{over_bm25.baseline:.3f}", signed(over_bm25.difference))
        intervals = [interval_text(one.difference_interval) for one in (over_fused, over_bm25)]
        yield name, f"{over_fused.system:.3f}", *fused, intervals[0], *bm25, intervals[1]
