"""The command `retrieval-lab config`: which settings are in force, and where each comes from."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import typer

from retrieval_lab.cli_options import CorpusArgument, JsonOption, print_json
from retrieval_lab.cli_pipeline import UNCHANGED, PipelineChoice, takes_pipeline
from retrieval_lab.paths import bundled_corpus

app = typer.Typer(no_args_is_help=True, help="The settings of the pipeline, and where each comes from.")


@app.callback()
def _group() -> None:
    """Keep `show` a command of its own: Typer would make an app of one command that command."""


@app.command()
@takes_pipeline
def show(corpus: CorpusArgument = None, choice: PipelineChoice = UNCHANGED, as_json: JsonOption = False) -> None:
    """Print every setting that is in force, with its origin: the default, a line of lab.yaml, or --set.

    The output is a lab.yaml of its own: save it beside the corpus and change what you like.

    Example: [bold]retrieval-lab config show fixtures/corpus --set top_k=20[/bold]
    """
    from retrieval_lab.config_file import config_path, described

    effective = choice.configured(corpus)
    path = effective.path or config_path(corpus or bundled_corpus())
    if as_json:
        document: dict[str, Any] = asdict(effective)
        document |= {"config": effective.config.to_dict(), "path": str(path), "exists": effective.path is not None}
        print_json(document)
        return
    typer.echo(f"# {path}{'' if effective.path else ' (not there yet)'}")
    typer.echo(described(effective))
