"""Collections made for tests, small and in each format."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SHARED = Path(__file__).parents[4] / "shared" / "data"
"""Public test collections beside the project, for those who have them."""

FILLER = "Twenty plain words keep this document from being called short, so that each test sees only what it is about."


def write_lines(path: Path, rows: Sequence[Mapping[str, Any] | str]) -> Path:
    """JSON Lines; a text is a line as it is."""
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.parent.mkdir(parents=True, exist_ok=True)
    content = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def beir(
    folder: Path,
    documents: Sequence[Mapping[str, Any] | str],
    queries: Sequence[Mapping[str, Any] | str],
    *,
    suffix: str = "",
    **qrels: Sequence[str],
) -> Path:
    """A BEIR folder; each split of `qrels` has lines of `query document score`."""
    write_lines(folder / f"corpus.jsonl{suffix}", documents)
    write_lines(folder / f"queries.jsonl{suffix}", queries)
    for split, rows in qrels.items():
        lines = ["query-id\tcorpus-id\tscore", *(row.replace(" ", "\t") for row in rows)]
        write_lines(folder / "qrels" / f"{split}.tsv", lines)
    return folder


def slice_of(name: str, folder: Path, size: int = 60) -> Path:
    """The first documents of a public collection, with the queries that have a relevant one among them."""
    origin = SHARED / name
    with gzip.open(origin / "corpus.jsonl.gz", "rt", encoding="utf-8") as file:
        documents = [json.loads(next(file)) for _ in range(size)]
    known = {one["_id"] for one in documents}
    rows = (origin / "qrels" / "test.tsv").read_text(encoding="utf-8").splitlines()[1:]
    labels = [row.replace("\t", " ") for row in rows if row.split("\t")[1] in known]
    asked = {row.split(" ")[0] for row in labels}
    lines = (origin / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    queries = [one for one in map(json.loads, lines) if one["_id"] in asked]
    return beir(folder, documents, queries, suffix=".gz", test=labels)
