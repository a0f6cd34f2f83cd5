"""One traced query: every stage, how it was made, and where any passage stands in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from retrieval_lab.chunker import doc_id_of
from retrieval_lab.config import PipelineConfig
from retrieval_lab.errors import InputError
from retrieval_lab.pipeline import Pipeline
from retrieval_lab.retrievers.base import Traceable
from retrieval_lab.stored import Stored, as_list, as_mapping, as_number, as_rank, as_text, as_whole, read_as
from retrieval_lab.types import (
    Chunk,
    Expansion,
    GoldenQuery,
    Hit,
    Place,
    Ranked,
    Search,
    Stages,
    TextQuery,
    Truncation,
)

FORMAT = 1

Locate = Callable[[str], Mapping[str, Place]]
"""Finds where a chunk stands in the whole corpus, for each retriever by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace(Stages):
    """The stages of one query under one configuration.

    `golden` is the labelled query, `relevant` the ids of the chunks that hold its anchor, or of all chunks of its
    relevant documents, by chunk_id, and `unlabelled` why there are none; all empty for a question of one's own.
    `beyond` is where the relevant chunks stand in the whole corpus, by chunk and retriever, where a list does not hold
    them. `truncated` says of the chunks of the pool and the relevant ones which a model does not read to their end, by
    chunk id.
    """

    config: PipelineConfig
    golden: GoldenQuery | None = None
    relevant: tuple[str, ...] = ()
    unlabelled: str | None = None
    beyond: Mapping[str, Mapping[str, Place]] = field(default_factory=dict)
    truncated: Mapping[str, tuple[Truncation, ...]] = field(default_factory=dict)
    locate: Locate | None = field(default=None, compare=False, repr=False)

    @property
    def pool(self) -> tuple[Ranked, ...]:
        """The fused rows that were reranked, in the order of fusion."""
        return tuple(row for row in self.fused[: self.config.fusion.n] if row.chunk_id in self.chunks)

    @property
    def expansions(self) -> dict[str, Expansion]:
        """How the query was expanded, for each list that it was expanded for."""
        made = ((name, search.expansion) for name, search in self.searches.items())
        return {name: expansion for name, expansion in made if expansion is not None}

    @property
    def grades(self) -> dict[str, int]:
        """The grade of each relevant chunk: that of its document, 1 for one with the anchor."""
        grades = {} if self.golden is None else self.golden.grades
        return {chunk_id: grades.get(doc_id_of(chunk_id), 1) for chunk_id in self.relevant}

    @property
    def stages(self) -> tuple[str, ...]:
        """The names of all stages in order: each list, then `fused`, `reranked` and `final`."""
        return (*self.lists, "fused", "reranked", "final")

    def ranks_of(self, chunk_id: str) -> dict[str, Place]:
        """Where the chunk stands at each stage, by its name.

        Beyond the end of a retriever's list the rank is that in the whole corpus, by exact scan, or there is a reason:
        no word in common, excluded, a zero vector. What was not kept is asked of the lab that made the trace, which may
        raise as `Lab.trace` does; a trace read from a file has no lab, and then the reason says so.
        """
        listed = {name: _place_in(hits, chunk_id) for name, hits in self.lists.items()}
        beyond = self._beyond(chunk_id) if None in listed.values() else {}
        places = {name: place or beyond[name] for name, place in listed.items()}
        return {**places, **self._later_places(chunk_id)}

    def fate(self) -> dict[str, Place]:
        """Where the best of the relevant chunks stands at each stage; empty when none is known."""
        found = [self.ranks_of(chunk_id) for chunk_id in self.relevant]
        return {stage: _best(places[stage] for places in found) for stage in self.stages} if found else {}

    def to_dict(self) -> dict[str, Any]:
        """The trace as JSON has it, with `"format": 1`; `from_dict` makes an equal trace of it."""
        return {
            "format": FORMAT,
            "query": self.query,
            "config": self.config.to_dict(),
            "golden": None if self.golden is None else self.golden.to_dict(),
            "relevant": list(self.relevant),
            "unlabelled": self.unlabelled,
            "parsed": {
                "terms": list(self.parsed.terms),
                "phrases": list(self.parsed.phrases),
                **{key: list(value) for key, value in asdict(self.parsed).items()},
            },
            "lists": {name: [asdict(hit) for hit in hits] for name, hits in self.lists.items()},
            "searches": {
                name: {
                    "asked": search.asked,
                    "returned": len(self.lists[name]),
                    "matching": search.matching,
                    "plan": list(search.plan),
                    "expansion": None if search.expansion is None else _expansion(search.expansion),
                }
                for name, search in self.searches.items()
            },
            "fused": [_row(row) for row in self.fused],
            "reranked": [_row(row) for row in self.reranked],
            "final": [_row(row) for row in self.final],
            "chunks": {chunk_id: asdict(chunk) for chunk_id, chunk in self.chunks.items()},
            "beyond": {
                chunk_id: {name: asdict(place) for name, place in places.items()}
                for chunk_id, places in self.beyond.items()
            },
            "truncated": {chunk_id: [asdict(one) for one in found] for chunk_id, found in self.truncated.items()},
            "notes": list(self.notes),
            "timings": dict(self.timings),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Trace:
        """The trace that `to_dict` wrote. Raises InputError for another format or a broken one."""
        return read_as("trace", FORMAT, data, _read)

    def _beyond(self, chunk_id: str) -> Mapping[str, Place]:
        if chunk_id in self.beyond:
            return self.beyond[chunk_id]
        if self.locate is not None:
            return self.locate(chunk_id)
        return {
            name: Place(None, reason=f"beyond the list of {len(hits)}; a trace from a file knows no more")
            for name, hits in self.lists.items()
        }

    def _later_places(self, chunk_id: str) -> dict[str, Place]:
        fused = _place_in(self.fused, chunk_id)
        pool = _place_in(self.pool, chunk_id)
        if pool is None and fused is not None:
            fused = Place(fused.rank, fused.score, reason=f"beyond the pool of {self.config.fusion.n}")
        return {
            "fused": fused or Place(None, reason="on no list that counts"),
            "reranked": _place_in(self.reranked, chunk_id) or Place(None, reason="not in the pool"),
            "final": _place_in(self.final, chunk_id)
            or Place(None, reason="not in the pool" if pool is None else f"beyond the first {self.config.top_k}"),
        }


def beyond(pipeline: Pipeline, made: Stages, chunk_ids: Sequence[str]) -> dict[str, dict[str, Place]]:
    """Where each chunk stands in the whole corpus, for each retriever whose list does not hold it."""
    found: dict[str, dict[str, Place]] = {}
    for leg in pipeline.legs:
        name = leg.retriever.name
        listed = {hit.chunk_id for hit in made.lists[name]}
        unlisted = [chunk_id for chunk_id in chunk_ids if chunk_id not in listed]
        if not unlisted:
            continue
        if isinstance(leg.retriever, Traceable):
            places = leg.retriever.places(made.query, unlisted, pipeline.filter)
        else:
            places = dict.fromkeys(unlisted, Place(None, reason=f"beyond its list of {len(listed)}"))
        for chunk_id, place in places.items():
            found.setdefault(chunk_id, {})[name] = place
    return found


def _place_in(rows: Sequence[Hit] | Sequence[Ranked], chunk_id: str) -> Place | None:
    return next((Place(row.rank, row.score, listed=True) for row in rows if row.chunk_id == chunk_id), None)


def _best(places: Iterable[Place]) -> Place:
    """The place with the best rank; without any, the first reason."""
    ranked = list(places)
    return min(ranked, key=lambda place: (place.rank is None, place.rank or 0))


def _row(row: Ranked) -> dict[str, Any]:
    return {"chunk_id": row.chunk_id, "score": row.score, "rank": row.rank, "ranks": list(row.ranks)}


def _expansion(made: Expansion) -> dict[str, Any]:
    return {**asdict(made), "terms": dict(made.terms), "new": list(made.new), "feedback": list(made.feedback)}


def _read(data: Stored) -> Trace:
    config = PipelineConfig.from_dict(data.inner("config").values)
    names = [retriever.name for retriever in config.retrievers]
    lists, searches = data.named("lists", _read_hits), data.named("searches", _read_search)
    if list(lists) != names or list(searches) != names:
        raise InputError(f"its lists are {', '.join(lists) or 'none'}, its configuration makes {', '.join(names)}")
    parsed = data.inner("parsed")
    texts = {key: parsed.each(key, as_text) for key in ("positive", "excluded", "notes", "stop_words")}
    return Trace(
        query=data.text("query"),
        config=config,
        golden=read_golden(data.inner("golden")) if data.has("golden") else None,
        relevant=data.each("relevant", as_text),
        unlabelled=data.text_or_none("unlabelled"),
        parsed=TextQuery(**texts),
        lists=lists,
        searches=searches,
        fused=data.each("fused", _read_ranked),
        reranked=data.each("reranked", _read_ranked),
        final=data.each("final", _read_ranked),
        chunks=data.named("chunks", read_chunk),
        beyond=data.named("beyond", _read_places),
        # Traces of older versions do not say.
        truncated=data.named("truncated", _read_truncations) if data.has("truncated") else {},
        notes=data.each("notes", as_text),
        timings=data.named("timings", as_number),
    )


def read_golden(data: Stored) -> GoldenQuery:
    """The golden query of a JSON object. Raises InputError when it is broken."""
    return GoldenQuery(
        **{key: data.text(key) for key in ("query_id", "query", "kind", "doc_id", "anchor")},
        relevant=tuple(sorted(data.named("relevant", as_whole).items())) if data.has("relevant") else (),
        split=data.text("split") if data.has("split") else "",
        fields=tuple(data.named("fields", as_text).items()) if data.has("fields") else (),
    )


def _read_hits(value: Any, place: str) -> tuple[Hit, ...]:
    rows = as_list(value, place, Stored)
    return tuple(Hit(row.text("chunk_id"), row.number("score"), row.rank("rank")) for row in rows)


def _read_search(value: Any, place: str) -> Search:
    data = Stored(value, place)
    # Traces of older versions do not say how many match, and have no expansion.
    matching = data.count("matching") if data.has("matching") else None
    expansion = _read_expansion(data.inner("expansion")) if data.has("expansion") else None
    return Search(data.count("asked"), data.each("plan", as_text), matching, expansion)


def _read_expansion(data: Stored) -> Expansion:
    terms, new = data.named("terms", as_number), data.each("new", as_text)
    if not terms.keys() >= set(new):
        raise InputError(f"{data.place}.new has words that {data.place}.terms lacks")
    return Expansion(tuple(terms.items()), new, data.each("feedback", as_text), data.flag("weighted"))


def _read_ranked(value: Any, place: str) -> Ranked:
    data = Stored(value, place)
    return Ranked(data.text("chunk_id"), data.number("score"), data.rank("rank"), data.each("ranks", as_rank))


def read_chunk(value: Any, place: str) -> Chunk:
    """The chunk of a JSON object. Raises InputError when it is broken."""
    data = Stored(value, place)
    return Chunk(
        chunk_id=data.text("chunk_id"),
        doc_id=data.text("doc_id"),
        heading_path=data.text("heading_path"),
        start_char=data.count("start_char"),
        end_char=data.count("end_char"),
        text=data.text("text"),
    )


def _read_truncations(value: Any, place: str) -> tuple[Truncation, ...]:
    rows = as_list(value, place, Stored)
    return tuple(Truncation(row.text("by"), row.count("tokens"), row.count("window")) for row in rows)


def _read_places(value: Any, place: str) -> dict[str, Place]:
    return {name: _read_place(Stored(one, f"{place}.{name}")) for name, one in as_mapping(value, place).items()}


def _read_place(data: Stored) -> Place:
    return Place(
        data.rank_or_none("rank"), data.number_or_none("score"), data.flag("listed"), data.text_or_none("reason")
    )
