"""What a shell can complete on the command line: settings and golden queries."""

from __future__ import annotations

from collections.abc import Iterator
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


def complete_golden(ctx: typer.Context, incomplete: str) -> Iterator[tuple[str, str]]:
    """The ids of the golden queries of the corpus on the command line, each with its query."""
    from retrieval_lab.golden import read_golden

    corpus = ctx.params.get("corpus") or bundled_corpus()
    for query in read_golden(Path(corpus) / GOLDEN_FILE).queries:
        if query.query_id.startswith(incomplete):
            yield query.query_id, query.query
