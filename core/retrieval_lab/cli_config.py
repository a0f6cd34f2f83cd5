"""The command `retrieval-lab config`: which settings are in force, and which configurations there are by name."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import typer

from retrieval_lab.cli_options import CorpusArgument, JsonOption, print_json
from retrieval_lab.cli_pipeline import UNCHANGED, PipelineChoice, takes_pipeline
from retrieval_lab.cli_text import print_table
from retrieval_lab.errors import InputError
from retrieval_lab.paths import bundled_corpus

app = typer.Typer(
    no_args_is_help=True, help="The settings of the pipeline, and where each comes from; configurations by name."
)


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


@app.command("list")
def list_all(corpus: CorpusArgument = None, as_json: JsonOption = False) -> None:
    """List the configurations that --config and the explorer know by name: those beside the corpus, and the shipped.

    One is a file such as lab.yaml in CORPUS/configs, called by its stem; its
    first comment line describes it. Exit code 2 when one is faulty.

    Example: [bold]retrieval-lab config list[/bold]
    """
    from retrieval_lab.configurations import configurations

    if corpus is not None and not corpus.is_dir():
        raise InputError(f"{corpus}: no such folder; a corpus is a folder with docs/*.md and stories/*.txt")
    found = configurations(corpus or bundled_corpus())
    if as_json:
        print_json([one.to_dict() for one in found])
    else:
        print_table([("", False), ("", False)], [(one.name, one.description or "–") for one in found if one.config])
    faults = [fault for one in found for fault in one.faults]
    if faults:
        raise InputError("\n".join(faults))
