"""What a shell can complete on the command line: settings, configurations and golden queries."""

from __future__ import annotations

from collections.abc import Iterator
from glob import escape
from pathlib import Path

import typer

from retrieval_lab.corpus import GOLDEN_FILE
from retrieval_lab.paths import bundled_corpus


def complete_setting(incomplete: str) -> Iterator[str]:
    """The dotted keys of all settings."""
    from retrieval_lab.config import PipelineConfig, dotted

    for key in dotted(PipelineConfig().to_dict()):
        if key.startswith(incomplete):
            yield f"{key}="


def complete_config(ctx: typer.Context, incomplete: str) -> Iterator[tuple[str, str]]:
    """The names of the configurations, each with its description, and the YAML files and folders that begin so."""
    from retrieval_lab.configurations import configurations

    for one in configurations(Path(ctx.params.get("corpus") or bundled_corpus())):
        if one.name.startswith(incomplete):
            yield one.name, one.description
    folder, slash, begun = incomplete.rpartition("/")
    for path in sorted(Path(f"{folder}{slash}" or ".").glob(f"{escape(begun)}*")):
        if path.is_dir():
            yield f"{folder}{slash}{path.name}/", "folder"
        elif path.suffix in (".yaml", ".yml"):
            yield f"{folder}{slash}{path.name}", "file"


def complete_golden(ctx: typer.Context, incomplete: str) -> Iterator[tuple[str, str]]:
    """The ids of the golden queries of the corpus on the command line, each with its query."""
    from retrieval_lab.golden import read_golden

    corpus = ctx.params.get("corpus") or bundled_corpus()
    for query in read_golden(Path(corpus) / GOLDEN_FILE).queries:
        if query.query_id.startswith(incomplete):
            yield query.query_id, query.query
