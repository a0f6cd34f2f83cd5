"""Everything the screen shows for one question, made from the lab in one go, off the screen's thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from textual.content import Content

from retrieval_lab.chunker import doc_id_of
from retrieval_lab.diagnosis.journey import Journey
from retrieval_lab.highlight import Span, anchor_spans, snippet, word_spans
from retrieval_lab.many_lists import EACH, found_in
from retrieval_lab.text import words
from retrieval_lab.trace import Trace
from retrieval_lab.types import Chunk, GoldenQuery, Place, Ranked
from retrieval_lab_tui.display import marked, one_line
from retrieval_lab_tui.jobs import Cancelled
from retrieval_lab_tui.labs import Served
from retrieval_lab_tui.list_names import fitting
from retrieval_lab_tui.widgets.ranked_list import Row

_SNIPPET_CHARS = 160
_SNIPPET_LEAD = 16


class _Scored(Protocol):
    @property
    def chunk_id(self) -> str: ...
    @property
    def score(self) -> float: ...
    @property
    def rank(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked; `golden` and its `index` in the golden set are None for a question of the user's own.

    An edited golden query keeps its label under another `query`.
    """

    query: str
    golden: GoldenQuery | None = None
    index: int | None = None

    @property
    def edited(self) -> bool:
        """Whether it is a golden query in other words."""
        return self.golden is not None and self.golden.query != self.query

    @property
    def asked(self) -> str | GoldenQuery:
        """What the lab is asked."""
        return self.query if self.golden is None else replace(self.golden, query=self.query)

    @property
    def shown(self) -> str:
        """The query as the query line shows it."""
        return one_line(self.query)


def typed(text: str, current: Question | None) -> Question:
    """A question of one's own, or the golden query on the screen in other words, if they have a third in common."""
    golden = current.golden if current is not None else None
    if current is None or golden is None:
        return Question(text)
    ours, theirs = set(words(text)), set(words(golden.query))
    is_edit = bool(ours & theirs) and len(ours & theirs) * 3 >= len(ours | theirs)
    return Question(text, golden, current.index) if is_edit else Question(text)


@dataclass(frozen=True, slots=True)
class Marks:
    """Offsets in a chunk's text: the words that full-text search matched, and the anchor."""

    terms: tuple[Span, ...]
    anchors: tuple[Span, ...]

    @property
    def first(self) -> int:
        """What a reader should see first: the anchor, else the first matched word, else the beginning."""
        return next(iter(self.anchors or self.terms), (0, 0))[0]


@dataclass(frozen=True, slots=True)
class Answer:
    """One traced question.

    `matched` are the words that full-text search matched in its chunks. `marks` has the highlights of every chunk, and
    `lists` the rows of each list, ready to draw. `fate` is where the wanted passage stands, stage by stage.
    """

    question: Question
    trace: Trace
    chunks: Mapping[str, Chunk]
    matched: frozenset[str]
    marks: Mapping[str, Marks]
    lists: Mapping[str, tuple[Row, ...]]
    fate: Mapping[str, Place]
    journey: Journey | None
    """Of a golden query, what happened to its passage at every stage."""
    before: Trace | None
    """The question as it stands in the golden set, under the file's settings, where this is another."""

    def marks_of(self, chunk: Chunk) -> Marks:
        """The highlights of a chunk; one that is on no list has those words marked that were matched elsewhere."""
        return self.marks.get(chunk.chunk_id) or _marks(chunk, self.matched, self.trace)

    def ranks(self, chunk_id: str, room: int) -> Content:
        """The chunk's rank in every list, in one line, and which model does not read it to its end.

        Where the names of the lists do not fit into the room, it says how many of the retrievers' lists have it.
        """
        found = {
            stage: next((row.rank for row in rows if row.chunk_id == chunk_id), None)
            for stage, rows in self.lists.items()
        }
        cut = [str(one) for one in self.trace.truncated.get(chunk_id, ())]
        parts = [f" {_rank(rank)}" for rank in found.values()]
        taken = len(" · ") * (len(found) + len(cut) - 1) + sum(map(len, (*parts, *cut)))
        names = fitting(list(found), room - taken)
        if names is None:
            short = [f"lists {found_in(found[name] for name in self.trace.lists)}"]
            shown = [*short, *(f"{stage} {_rank(found[stage])}" for stage in ("fused", "final"))]
        else:
            shown = [f"{name}{part}" for name, part in zip(names, parts, strict=True)]
        return Content(" · ".join([*shown, *cut]))

    def seconds(self, stage: str) -> float:
        """How long the list took: a retriever's search, fusion, or all after it for the final list."""
        timings = self.trace.timings
        steps = {"fused": ("fusion",), "final": ("fetch", "rerank", "mmr")}.get(stage, (stage,))
        return sum(timings[step] for step in steps)

    def total(self, stage: str) -> int:
        """How many rows the list had before it was cut to the pool."""
        return len(self.trace.fused) if stage == "fused" else len(self.lists[stage])


def ask(now: Served, file: Served | None, question: Question, cancelled: Cancelled) -> Answer:
    """Run the question and make what the screen needs; without `file`, nothing to compare with.

    Raises as `Lab.trace` does.
    """
    lab = now.lab
    trace = lab.trace(question.asked, now.config, cancelled=cancelled)
    journey = None if question.golden is None else lab.explain(trace)
    before = None
    if file is not None and (question.edited or now.config != file.config):
        before = file.lab.trace(question.golden or question.query, file.config, cancelled=cancelled)
    listed = dict.fromkeys(hit.chunk_id for hits in trace.lists.values() for hit in hits)
    beyond_the_pool = [chunk_id for chunk_id in (*listed, *trace.relevant) if chunk_id not in trace.chunks]
    chunks = {**trace.chunks, **lab.chunks(beyond_the_pool)}
    matched = lab.matched_words(trace, [chunk.text for chunk in chunks.values()])
    marks = {chunk_id: _marks(chunk, matched, trace) for chunk_id, chunk in chunks.items()}
    return Answer(question, trace, chunks, matched, marks, _lists(trace, chunks, marks), trace.fate(), journey, before)


def _marks(chunk: Chunk, matched: frozenset[str], trace: Trace) -> Marks:
    anchor = trace.golden.anchor if trace.golden and chunk.chunk_id in trace.relevant else ""
    return Marks(tuple(word_spans(chunk.text, matched)), tuple(anchor_spans(chunk.text, anchor)))


def _lists(trace: Trace, chunks: Mapping[str, Chunk], marks: Mapping[str, Marks]) -> dict[str, tuple[Row, ...]]:
    """The rows of each list as the pipeline uses it: fused is cut to the pool."""
    listed: dict[str, Sequence[_Scored]] = {**trace.lists, "fused": trace.pool, "final": trace.final}
    fused = {row.chunk_id: row for row in trace.fused}
    snippets = {chunk_id: _snippet(chunk, marks[chunk_id]) for chunk_id, chunk in chunks.items()}
    return {
        stage: tuple(
            Row(
                chunk_id=row.chunk_id,
                rank=row.rank,
                score=_score(stage, row.score, trace.config.reranker.kind),
                detail=_detail(stage, row, fused),
                heading=one_line(chunks[row.chunk_id].heading_path) or "(before the first heading)",
                passage=snippets[row.chunk_id],
                wanted=row.chunk_id in trace.relevant,
                grade=_grade(trace, row.chunk_id),
            )
            for row in rows
            if row.chunk_id in chunks
        )
        for stage, rows in listed.items()
    }


def _grade(trace: Trace, chunk_id: str) -> str:
    """What the labels of the question say of the chunk's document; empty where they judge no document, or not this."""
    judged = {} if trace.golden is None else dict(trace.golden.relevant)
    grade = judged.get(doc_id_of(chunk_id))
    return "" if grade is None else str(grade)


def _snippet(chunk: Chunk, marks: Marks) -> Content:
    left, right = snippet(chunk.text, marks.anchors or marks.terms, _SNIPPET_CHARS, _SNIPPET_LEAD)
    cut = marked(one_line(chunk.text), marks.terms, marks.anchors)[left:right]
    return Content("…") + cut if left else cut


def _score(stage: str, score: float, reranker: str) -> str:
    """As many digits as tell neighbours apart in five cells; a score below 1 has no 0 before its point."""
    if stage == "fused" or (stage == "final" and reranker == "none"):
        return f"{score:.4f}".removeprefix("0") if score < 1 else f"{score:.3f}"
    return f"{score:.2f}" if stage == "final" else f"{score:.3f}"


def _detail(stage: str, row: _Scored, fused: Mapping[str, Ranked]) -> str:
    if stage == "fused":
        ranks = fused[row.chunk_id].ranks
        return "·".join(map(_rank, ranks)) if len(ranks) <= EACH else found_in(ranks)
    return movement(fused[row.chunk_id].rank, row.rank) if stage == "final" else ""


def _rank(rank: int | None) -> str:
    return "–" if rank is None else str(rank)


def movement(before: int, after: int) -> str:
    """`▲ 3` for three places up, `▼ 2` for two down, `=` for none."""
    if before == after:
        return "="
    return f"{'▲' if after < before else '▼'}{abs(before - after):>2}"
