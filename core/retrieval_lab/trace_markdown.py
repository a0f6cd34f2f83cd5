"""A trace as Markdown: to paste into an issue or a chat, where a colleague reads it without the lab."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import yaml

from retrieval_lab.markdown_text import cell, inline, row, table_head
from retrieval_lab.trace import Trace
from retrieval_lab.types import GoldenQuery, Hit, Place, Ranked

_SHOWN_ROWS = 10


def trace_markdown(trace: Trace) -> str:
    """The question, where the wanted passage stands, the first ten rows of every list, the configuration."""
    return "\n".join(_lines(trace)) + "\n"


def _lines(trace: Trace) -> Iterator[str]:
    yield f"# {inline(trace.query)}"
    yield ""
    if trace.golden is not None:
        yield from _wanted(trace.golden)
        yield ""
    if trace.unlabelled and (trace.golden is None or trace.golden.level != "none"):
        yield f"No passage is marked: {inline(trace.unlabelled)}."
        yield ""
    for note in trace.notes:
        yield f"- {inline(note)}"
    for name, expansion in trace.expansions.items():
        yield f"- {inline(name)} expanded {inline(str(expansion))}"
    if trace.notes or trace.expansions:
        yield ""
    for chunk_id, found in trace.truncated.items():
        yield f"- {inline(chunk_id)}: {'; '.join(map(str, found))}"
    if trace.truncated:
        yield ""
    for chunk_id in trace.relevant:
        yield from _standing(chunk_id, trace.ranks_of(chunk_id))
    lists: dict[str, Sequence[Hit | Ranked]] = {**trace.lists, "fused": trace.pool, "final": trace.final}
    for name, rows in lists.items():
        yield from _rows(trace, name, rows)
    yield "## Configuration"
    yield ""
    yield "```yaml"
    yield yaml.safe_dump(trace.config.to_dict(), sort_keys=False, allow_unicode=True).rstrip()
    yield "```"


def _wanted(golden: GoldenQuery) -> Iterator[str]:
    """What the golden query is and what it wants."""
    head = f"Golden query {inline(golden.query_id)} ({inline(golden.kind)})"
    if golden.level == "chunk":
        yield f"{head}, wanted from {inline(golden.doc_id)}:"
        yield f'"{inline(golden.anchor)}".'
    elif golden.level == "document":
        graded = (f"{inline(doc_id)} (grade {golden.grades[doc_id]})" for doc_id in golden.doc_ids)
        yield f"{head}, wanted: {', '.join(graded)}."
    else:
        yield f"{head}, which nothing in the corpus answers."


def _standing(chunk_id: str, places: dict[str, Place]) -> Iterator[str]:
    yield f"## The wanted passage: {inline(chunk_id)}"
    yield ""
    yield from table_head("stage", "rank", "score", "")
    for stage, place in places.items():
        beyond = "beyond the list" if place.rank is not None and not place.listed else ""
        score = "" if place.score is None else f"{place.score:.4f}"
        yield row(stage, str(place.rank or "–"), score, place.reason or beyond)
    yield ""


def _rows(trace: Trace, name: str, rows: Sequence[Hit | Ranked]) -> Iterator[str]:
    more = f", the first {_SHOWN_ROWS}" if len(rows) > _SHOWN_ROWS else ""
    yield f"## {inline(name)}: {len(rows)}{more}"
    yield ""
    yield from table_head("rank", "score", "chunk", "heading path")
    for hit in rows[:_SHOWN_ROWS]:
        chunk = trace.chunks.get(hit.chunk_id)
        mark = "**" if hit.chunk_id in trace.relevant else ""
        heading = cell(chunk.heading_path) if chunk else ""
        yield f"| {hit.rank} | {hit.score:.4f} | {mark}{cell(hit.chunk_id)}{mark} | {heading} |"
    yield ""
