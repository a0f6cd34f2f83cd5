"""What `retrieval-lab trace --bundle FILE` does: everything about one question into one file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from retrieval_lab.cli_options import print_json, progress_bar
from retrieval_lab.errors import InputError
from retrieval_lab.text import printable

if TYPE_CHECKING:
    from retrieval_lab.lab import Lab
    from retrieval_lab.types import GoldenQuery

BundleOption = Annotated[
    Path | None,
    typer.Option("--bundle", metavar="FILE", help="Write everything about the question to a JSON file instead."),
]
NoRescuesOption = Annotated[
    bool, typer.Option("--no-rescues", help="With --bundle: leave out the rescues, whose search takes seconds.")
]


def written(
    lab: Lab, query: str | GoldenQuery, chunk_id: str | None, path: Path, *, rescues: bool, as_json: bool
) -> None:
    """Write the bundle and say so on stdout. Raises InputError when no passage is named or the file cannot be."""
    from retrieval_lab.diagnosis.bundle import make_bundle, write_bundle

    if isinstance(query, str) and chunk_id is None:
        raise InputError("a bundle follows one passage: name a golden query, or the chunk with --chunk ID")
    if path.is_dir():  # before the work
        raise InputError(f"{path}: is a folder; name a file")
    with progress_bar("searching") as step:
        made = make_bundle(lab, query, chunk_id, rescues=rescues, progress=step)
    write_bundle(path, made)
    size = path.stat().st_size
    if as_json:
        query_id = None if isinstance(query, str) else query.query_id
        print_json({"file": str(path), "query_id": query_id, "lost_at": made.journey.lost_at, "bytes": size})
        return
    fate = "not lost" if made.journey.lost_at is None else f"lost at {made.journey.lost_at}"
    typer.echo(printable(f"{path}: {made.trace.query} ({fate}), {size / 1000:.0f} kB"))
