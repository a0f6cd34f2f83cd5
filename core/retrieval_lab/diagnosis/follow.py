"""Following one passage through a trace: the few statements that a trace lacks, and the stage that lost it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from retrieval_lab.chunker import crossed
from retrieval_lab.diagnosis.displacement import anchor_sentence, displacement
from retrieval_lab.diagnosis.journey import (
    Anchor,
    AnchorPart,
    Fused,
    Journey,
    LostAt,
    OnList,
    OnTextList,
    OnVectorList,
    Reranked,
)
from retrieval_lab.diagnosis.lost import lost_at, why
from retrieval_lab.errors import InputError
from retrieval_lab.highlight import anchor_spans
from retrieval_lab.hybrid import MAX_EF_SEARCH
from retrieval_lab.learned import LearnedReranker
from retrieval_lab.mmr import Pick
from retrieval_lab.passages import Passages, StoredPassages, passage
from retrieval_lab.pipeline import Leg, Pipeline
from retrieval_lab.rerankers import TermwiseReranker
from retrieval_lab.retrievers.base import Traceable
from retrieval_lab.retrievers.expanded import second_search
from retrieval_lab.retrievers.text import TextRetriever
from retrieval_lab.retrievers.vector import VectorRetriever, VectorSearch
from retrieval_lab.text import words
from retrieval_lab.trace import Trace
from retrieval_lab.types import Chunk, GoldenQuery, Place
from retrieval_lab.windows import truncations

_STAGE_OF: Mapping[LostAt | None, str] = {"fusion": "fused", "reranker": "reranked"}
"""Where to look for what displaced a passage; the final list for all others."""


def follow(trace: Trace, pipeline: Pipeline, corpus: Passages, chunk_id: str | None = None) -> Journey:
    """The journey of the chunk through the trace, which this pipeline made.

    Without a chunk_id it is that of the golden query's relevant chunk, the best placed one of several; of a query that
    nothing answers it has no passage, and no stage lost any. Raises InputError when there is no such chunk, and when
    there is neither a chunk_id nor a golden query.
    """
    wanted = chunk_id if chunk_id is not None else best_placed(trace)
    if wanted is not None:
        return _through_the_stages(trace, pipeline, corpus, passage(corpus, wanted))
    if trace.golden is not None:
        return _without_passage(trace, trace.golden, corpus)
    raise InputError("name the passage to follow: a chunk_id, or a golden query instead of the question")


@dataclass(frozen=True, slots=True)
class Way:
    """Where a chunk stands at every stage, the stage that lost it and why, as `Journey` has them."""

    lists: Mapping[str, OnList]
    fused: Fused | None
    reranked: Reranked | None
    mmr: Pick | None
    final_rank: int | None
    lost_at: LostAt | None
    reason: str | None


def way(trace: Trace, pipeline: Pipeline, corpus: Passages, chunk: Chunk) -> Way:
    """The chunk's way through the trace, which this pipeline made."""
    lists = {
        settings.name: _on_list(settings.kind, leg, trace, pipeline, corpus, chunk)
        for settings, leg in zip(trace.config.retrievers, pipeline.legs, strict=True)
    }
    fused, reranked = _fused(trace, chunk.chunk_id), _reranked(trace, pipeline, chunk.chunk_id)
    mmr = pipeline.pick(trace.query, trace.reranked, chunk.chunk_id)
    final_rank = _rank(trace.final, chunk.chunk_id)
    stage = lost_at(trace.config, lists, fused, reranked, final_rank)
    cut = truncations([chunk], pipeline.vectors.embedder, corpus.indexed, pipeline.reranker, trace.query)
    reason = why(stage, trace.config, lists, fused, reranked, mmr, cut.get(chunk.chunk_id, ()))
    return Way(lists, fused, reranked, mmr, final_rank, stage, reason)


def _through_the_stages(trace: Trace, pipeline: Pipeline, corpus: Passages, chunk: Chunk) -> Journey:
    anchor = Anchor(trace.relevant, ()) if chunk.chunk_id in trace.relevant else None
    found = way(trace, pipeline, corpus, chunk)
    sought = trace.golden.anchor if anchor and trace.golden else ""
    sentence = anchor_sentence(chunk.text, sought) if sought else None
    above = _STAGE_OF.get(found.lost_at, "final")
    journey = Journey(
        query=trace.query,
        top_k=trace.config.top_k,
        golden=trace.golden,
        anchor=anchor,
        chunk=chunk,
        **{key: getattr(found, key) for key in Way.__slots__},
        displacement=displacement(corpus.shared_words, trace, chunk, above, sentence),
    )
    if (text := journey.text) is None or not isinstance(corpus, StoredPassages):
        return journey  # full-text search made no list, as it does over the table alone
    return replace(journey, nearby=corpus.nearby(chunk, text.absent, text.apart))


def best_placed(trace: Trace) -> str | None:
    """The relevant chunk that came furthest: by its final rank, else its reranked, fused, or best rank on a list.

    None when no chunk is relevant. Ranks beyond the lists are asked for only where no list that counts holds any.
    """
    for rows in (trace.final, trace.reranked, trace.fused):
        found = next((row.chunk_id for row in rows if row.chunk_id in trace.relevant), None)
        if found is not None:
            return found

    def standing(chunk_id: str) -> float:
        places = trace.ranks_of(chunk_id)
        return min(places[name].rank or math.inf for name in trace.lists)

    return min(trace.relevant, key=lambda chunk_id: (standing(chunk_id), chunk_id), default=None)


# --- the anchor ----------------------------------------------------------------------------------------------------


def _without_passage(trace: Trace, golden: GoldenQuery, corpus: Passages) -> Journey:
    text, parts, reason = parted(trace, golden, corpus)
    sentence = anchor_sentence(text, golden.anchor) if golden.anchor else None
    return Journey(
        query=trace.query,
        top_k=trace.config.top_k,
        golden=golden,
        anchor=Anchor((), parts) if golden.level != "none" else None,
        chunk=None,
        lists={},
        fused=None,
        reranked=None,
        mmr=None,
        final_rank=None,
        lost_at=None if golden.level == "none" else "chunking",
        reason=reason,
        displacement=displacement(corpus.shared_words, trace, None, "final", sentence),
    )


def parted(trace: Trace, golden: GoldenQuery, corpus: Passages) -> tuple[str, tuple[AnchorPart, ...], str]:
    """Of a label that finds no chunk: the text of an anchor's document, its parts where a cut parts it, the reason."""
    if golden.level != "chunk":
        return "", (), trace.unlabelled or "no chunk is relevant"
    chunks = corpus.documents(golden.doc_ids)
    text = _document_text(chunks)
    parts = _parts(chunks, text, golden.anchor)
    if not parts:
        return text, (), trace.unlabelled or "no chunk holds the anchor"
    return text, parts, f"a cut parts the anchor: {' and '.join(part.chunk_id for part in parts)} hold a part each"


def _document_text(chunks: Sequence[Chunk]) -> str:
    """The document as far as it is stored: between the chunks there is only white space."""
    text = ["\n"] * max((chunk.end_char for chunk in chunks), default=0)
    for chunk in chunks:
        text[chunk.start_char : chunk.end_char] = chunk.text
    return "".join(text)


def _parts(chunks: Sequence[Chunk], text: str, anchor: str) -> tuple[AnchorPart, ...]:
    for start, end in anchor_spans(text, anchor)[:1]:
        held = ((chunk, text[max(start, chunk.start_char) : min(end, chunk.end_char)].strip()) for chunk in chunks)
        parted = {chunk.chunk_id for chunk in crossed(chunks, start, end)}
        return tuple(AnchorPart(chunk.chunk_id, part) for chunk, part in held if chunk.chunk_id in parted and part)
    return ()


# --- the stages ----------------------------------------------------------------------------------------------------


def _on_list(kind: str, leg: Leg, trace: Trace, pipeline: Pipeline, corpus: Passages, chunk: Chunk) -> OnList:
    retriever, hits = leg.retriever, trace.lists[leg.retriever.name]
    listed = _rank(hits, chunk.chunk_id)
    if isinstance(retriever, Traceable):
        place = retriever.places(trace.query, [chunk.chunk_id], pipeline.filter)[chunk.chunk_id]
    elif listed is not None:
        place = Place(listed, hits[listed - 1].score)
    else:
        place = Place(None, reason=f"beyond its list of {len(hits)}")
    common: dict[str, Any] = {
        "name": retriever.name,
        "kind": kind,
        "n": leg.n,
        "weight": leg.weight,
        "listed": listed,
        "rank": place.rank,
        "score": place.score,
        "reason": place.reason,
    }
    inner, searched = second_search(retriever, trace.query, pipeline.filter)
    if isinstance(inner, VectorRetriever):
        return _on_vector_list(common, inner, searched, trace, pipeline, chunk.chunk_id)
    if isinstance(inner, TextRetriever):
        found = inner.terms(searched, chunk.chunk_id)
        held = set(words(corpus.indexed(chunk)))
        stop_words = tuple(word for word in trace.parsed.stop_words if word in held)
        return OnTextList(
            **common,
            matched=found.matched,
            absent=found.absent,
            apart=found.apart,
            excluded=found.excluded,
            stop_words=stop_words,
        )
    return OnList(**common)


def _on_vector_list(
    common: dict[str, Any], retriever: VectorRetriever, query: str, trace: Trace, pipeline: Pipeline, chunk_id: str
) -> OnVectorList:
    settings = next(one for one in trace.config.retrievers if one.name == retriever.name)
    scan = settings.scan if isinstance(settings, VectorSearch) else None
    n, rank, listed = common["n"], common["rank"], common["listed"]
    depth = min(max(n, rank or 0), MAX_EF_SEARCH)
    if scan == "hnsw" and listed is not None:
        return OnVectorList(**common, scan=scan, index_rank=listed, index_depth=n)
    hits = retriever.through_index(query, depth, pipeline.filter) if rank is not None else []
    return OnVectorList(**common, scan=scan, index_rank=_rank(hits, chunk_id), index_depth=depth)


def _fused(trace: Trace, chunk_id: str) -> Fused | None:
    row = next((row for row in trace.fused if row.chunk_id == chunk_id), None)
    if row is None:
        return None
    fusion = trace.config.fusion
    parts = fusion.parts(chunk_id, list(trace.lists.values()), [one.weight for one in trace.config.retrievers])
    return Fused(row.rank, row.score, dict(zip(trace.lists, parts, strict=True)), fusion.n)


def _reranked(trace: Trace, pipeline: Pipeline, chunk_id: str) -> Reranked | None:
    """None without a reranker, which leaves the pool as it is."""
    row = next((row for row in trace.reranked if row.chunk_id == chunk_id), None)
    if row is None or pipeline.reranker is None:
        return None
    kind = trace.config.reranker.kind
    if isinstance(pipeline.reranker, LearnedReranker):
        parts = pipeline.reranker.parts(trace.query, trace.chunks[chunk_id])
        return Reranked(row.rank, row.score, kind, None, parts)
    terms = None
    if isinstance(pipeline.reranker, TermwiseReranker):
        pool = [trace.chunks[one.chunk_id] for one in trace.pool]
        place = next(place for place, chunk in enumerate(pool) if chunk.chunk_id == chunk_id)
        terms = tuple(pipeline.reranker.terms(trace.query, pool, place))
    return Reranked(row.rank, row.score, kind, terms)


def _rank(rows: Sequence[Any], chunk_id: str) -> int | None:
    return next((row.rank for row in rows if row.chunk_id == chunk_id), None)
