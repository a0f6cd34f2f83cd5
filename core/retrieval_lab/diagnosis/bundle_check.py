"""What the parts of a bundle promise each other, checked, since those who show them rely on it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from retrieval_lab.diagnosis.journey import Journey
from retrieval_lab.diagnosis.parse_view import ParseView
from retrieval_lab.diagnosis.rescue import Rescues
from retrieval_lab.errors import InputError
from retrieval_lab.stored import shown
from retrieval_lab.trace import Trace
from retrieval_lab.types import Chunk, Hit, Ranked

_TIMED = ("fusion", "fetch", "rerank", "mmr")


def require_whole(
    trace: Trace, journey: Journey, parse: ParseView, rescues: Rescues | None, passages: Mapping[str, Chunk]
) -> None:
    """Raises InputError for the first promise that does not hold."""
    _same_question(trace, journey, parse, rescues)
    _keyed(trace.chunks, "trace.chunks")
    _keyed(passages, "passages")
    _rows(trace, passages)
    _missing([*trace.lists, *_TIMED], trace.timings, "trace.timings")
    _missing(trace.relevant, {**trace.chunks, **passages}, "the passages, which lack a relevant one,")
    _follows(journey, trace)


def _same_question(trace: Trace, journey: Journey, parse: ParseView, rescues: Rescues | None) -> None:
    asked = {"journey": journey.query, "parse": parse.query, "rescues": rescues.query if rescues else trace.query}
    for name, query in asked.items():
        if query != trace.query:
            raise InputError(f"{name}.query is {shown(query)}, trace.query {shown(trace.query)}; expected one question")
    if journey.golden != trace.golden:
        raise InputError("journey.golden and trace.golden differ; expected one golden query")


def _keyed(chunks: Mapping[str, Chunk], place: str) -> None:
    for name, chunk in chunks.items():
        if chunk.chunk_id != name:
            raise InputError(f"{place} has {shown(chunk.chunk_id)} under the name {shown(name)}")


def _rows(trace: Trace, passages: Mapping[str, Chunk]) -> None:
    """Ranks count from 1 without gaps, and every row has its passage."""
    anywhere = {**trace.chunks, **passages}
    for name, hits in trace.lists.items():
        _counted(hits, anywhere, f"trace.lists.{name}")
    _counted(trace.fused, anywhere, "trace.fused")
    for name, rows in (("reranked", trace.reranked), ("final", trace.final)):
        _counted(rows, trace.chunks, f"trace.{name}")
    for name, ranked in (("fused", trace.fused), ("reranked", trace.reranked), ("final", trace.final)):
        for row in ranked:
            if len(row.ranks) != len(trace.lists):
                raise InputError(
                    f"trace.{name}: {shown(row.chunk_id)} has {len(row.ranks)} ranks for {len(trace.lists)} lists"
                )


def _counted(rows: Sequence[Hit | Ranked], chunks: Mapping[str, Chunk], place: str) -> None:
    for rank, row in enumerate(rows, start=1):
        if row.rank != rank:
            raise InputError(f"{place}[{rank - 1}].rank is {row.rank}; expected {rank}")
    _missing((row.chunk_id for row in rows), chunks, f"the passages, which lack one of {place},")


def _missing(wanted: Iterable[str], held: Collection[str], place: str) -> None:
    for one in wanted:
        if one not in held:
            raise InputError(f"{place} should have {shown(one)}")


def _follows(journey: Journey, trace: Trace) -> None:
    """The journey names the lists of the trace and no others, everywhere."""
    names = list(trace.lists)
    named = [("journey.displacement.above", list(one.ranks)) for one in journey.displacement.above]
    if journey.chunk is not None:
        named.append(("journey.lists", list(journey.lists)))
        named += [("journey.lists", [one.name for one in journey.lists.values()])]
    if journey.fused is not None:
        named.append(("journey.fused.parts", list(journey.fused.parts)))
    for place, found in named:
        if found != names:
            raise InputError(f"{place} is about the lists {', '.join(found) or 'none'}; expected {', '.join(names)}")
    unanswerable = journey.golden is not None and journey.golden.level == "none" and journey.chunk is None
    if not unanswerable and (journey.lost_at is None) != (journey.final_rank is not None):
        raise InputError("journey has both a final_rank and a stage that lost it, or neither")
