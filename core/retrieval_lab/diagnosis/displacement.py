"""Which passages stand where a wanted one should: who voted them there, which repeat each other, which answer too."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, Final

from psycopg import Connection, sql

from retrieval_lab.highlight import anchor_spans
from retrieval_lab.similar import THRESHOLD, near_duplicates
from retrieval_lab.statements import execute
from retrieval_lab.store import CHUNKS, Table
from retrieval_lab.stored import Stored, as_rank, as_text
from retrieval_lab.text import sendable
from retrieval_lab.trace import Trace
from retrieval_lab.types import Chunk, Ranked

ANSWERS_FROM: Final = 0.5
"""A passage that shares more than this part of the content words may answer too: more than half are most of them."""

# The end of a sentence, of a paragraph, or the line before an item of a list, a heading, a quote, a row of a table.
_BREAK = re.compile(r"(?<=[.!?])\s+|\n\s*\n\s*|\n(?=\s*(?:[-*+#>|]|\d+[.)]\s))")


@dataclass(frozen=True, slots=True)
class Above:
    """One passage that stands above the wanted one, with its `rank` and `score` at that stage.

    `ranks` has its rank in each list, None where the list does not hold it: the sides that voted for it are those that
    do. `shared` are the content words that it shares with the sentence of the anchor, `share` is their part of all of
    them, from 0 to 1, and None where there is nothing to share. `final_rank` is its rank in the final list, if it is
    there.
    """

    chunk_id: str
    rank: int
    score: float
    ranks: Mapping[str, int | None]
    shared: tuple[str, ...]
    share: float | None
    final_rank: int | None = None

    @property
    def answers(self) -> bool:
        """Whether it shares most content words: a candidate for another passage that answers."""
        return self.share is not None and self.share > ANSWERS_FROM


@dataclass(frozen=True, slots=True)
class Duplicates:
    """Passages that are near-duplicates of each other; `cosine` is the lowest of the pairs that join them."""

    chunk_ids: tuple[str, ...]
    cosine: float


@dataclass(frozen=True, slots=True)
class Displacement:
    """What stands above a passage at `stage` (`fused`, `reranked` or `final`), best first.

    `duplicates` are groups among those passages and the wanted one. `sentence` is the one with the anchor, None without
    an anchor; `content_words` are its lexemes, which leave out the stop words.
    """

    stage: str
    above: tuple[Above, ...]
    duplicates: tuple[Duplicates, ...]
    sentence: str | None
    content_words: tuple[str, ...]

    @property
    def answering(self) -> tuple[Above, ...]:
        """The passages above that may answer too: candidates for anchor-ambiguity, the largest share first."""
        return tuple(sorted((one for one in self.above if one.answers), key=lambda one: -(one.share or 0)))

    def to_dict(self) -> dict[str, Any]:
        """The displacement as JSON has it, with the thresholds that it was made with."""
        return {
            "stage": self.stage,
            "above": [{**asdict(one), "shared": list(one.shared), "answers": one.answers} for one in self.above],
            "duplicates": [{"chunk_ids": list(one.chunk_ids), "cosine": one.cosine} for one in self.duplicates],
            "duplicates_from": THRESHOLD,
            "sentence": self.sentence,
            "content_words": list(self.content_words),
            "answers_from": ANSWERS_FROM,
        }

    @classmethod
    def from_stored(cls, data: Stored) -> Displacement:
        """What `to_dict` wrote. Raises InputError when it is broken."""
        return cls(
            stage=data.text("stage"),
            above=data.each("above", _read_above),
            duplicates=data.each("duplicates", _read_duplicates),
            sentence=data.text_or_none("sentence"),
            content_words=data.each("content_words", as_text),
        )


Shared = tuple[tuple[str, ...], Mapping[str, tuple[str, ...]]]
"""The lexemes of a sentence, in order, and those of them that each chunk holds."""


def displacement(
    shared: Callable[[str, Sequence[str]], Shared],
    trace: Trace,
    wanted: Chunk | None,
    stage: str,
    sentence: str | None,
) -> Displacement:
    """What stands above the wanted chunk at this stage of the trace (`fused`, `reranked` or `final`).

    All of the stage's rows when that is not among them or there is no such chunk; of the fused rows the pool alone,
    whose cut it did not pass. `shared` tells which words of a sentence each of some chunks holds.

    Near-duplicates are pairs with a TF-IDF cosine of at least `similar.THRESHOLD` (0.9) among those passages and the
    wanted one, the threshold by which `retrieval-lab check` calls passages alike: both name the same pairs. Passages
    that merely share the block by which chunks overlap stay below it.
    """
    rows = {"fused": trace.pool, "reranked": trace.reranked}.get(stage, trace.final)
    above = _above(rows, None if wanted is None else wanted.chunk_id)
    compared = [*([wanted] if wanted else []), *(trace.chunks[row.chunk_id] for row in above)]
    final = {row.chunk_id: row.rank for row in trace.final}
    words, held = ((), {}) if sentence is None else shared(sentence, [row.chunk_id for row in above])
    return Displacement(
        stage=stage,
        above=tuple(
            _described(row, trace, words, held.get(row.chunk_id, ()), final.get(row.chunk_id)) for row in above
        ),
        duplicates=_duplicates(compared),
        sentence=sentence,
        content_words=words,
    )


def anchor_sentence(text: str, anchor: str) -> str:
    """The sentence of the text that holds the anchor, or the sentences; the anchor itself where the text lacks it."""
    spans = anchor_spans(text, anchor)
    if not spans:
        return anchor.strip()
    start, end = spans[0]
    borders = [0, *(match.end() for match in _BREAK.finditer(text)), len(text)]
    return text[max(one for one in borders if one <= start) : min(one for one in borders if one >= end)].strip()


def _above(rows: Sequence[Ranked], chunk_id: str | None) -> Sequence[Ranked]:
    place = next((place for place, row in enumerate(rows) if row.chunk_id == chunk_id), len(rows))
    return rows[:place]


def _described(row: Ranked, trace: Trace, words: Sequence[str], shared: Sequence[str], final_rank: int | None) -> Above:
    return Above(
        chunk_id=row.chunk_id,
        rank=row.rank,
        score=row.score,
        ranks=dict(zip(trace.lists, row.ranks, strict=True)),
        shared=tuple(shared),
        share=len(shared) / len(words) if words else None,
        final_rank=final_rank,
    )


def _duplicates(chunks: Sequence[Chunk]) -> tuple[Duplicates, ...]:
    groups = near_duplicates(chunk.text for chunk in chunks)
    return tuple(Duplicates(tuple(chunks[place].chunk_id for place in group.members), group.cosine) for group in groups)


def shared_words(conn: Connection[Any], sentence: str, chunk_ids: Sequence[str], *, table: Table = CHUNKS) -> Shared:
    """The lexemes of the sentence, which leave out the stop words, and those of them that each chunk holds."""
    parameters = {"sentence": sendable(sentence)[0], "ids": list(chunk_ids)}
    rows = execute(conn, _shared_sql(table), parameters).fetchall()
    return next(tuple(words) for words, chunk_id, _ in rows if chunk_id is None), {
        chunk_id: tuple(shared) for _, chunk_id, shared in rows if chunk_id is not None
    }


_SHARED: Final = """
    WITH sentence AS MATERIALIZED (
        SELECT tsvector_to_array(to_tsvector({config}, %(sentence)s)) AS words
    )
    SELECT words, NULL, NULL FROM sentence
    UNION ALL
    SELECT NULL, {chunk_id}, ARRAY(
        SELECT word FROM unnest(words) AS word
        WHERE word = ANY(tsvector_to_array({tsv})) ORDER BY word COLLATE "C")
    FROM {table}, sentence WHERE {chunk_id} = ANY(%(ids)s)"""


@lru_cache(maxsize=64)
def _shared_sql(table: Table) -> bytes:
    return sql.SQL(_SHARED).format(**table.names("public")).as_bytes(None)


def _read_above(value: Any, place: str) -> Above:
    data = Stored(value, place)
    return Above(
        chunk_id=data.text("chunk_id"),
        rank=data.rank("rank"),
        score=data.number("score"),
        ranks=data.named("ranks", as_rank),
        shared=data.each("shared", as_text),
        share=data.number_or_none("share"),
        final_rank=data.rank_or_none("final_rank"),
    )


def _read_duplicates(value: Any, place: str) -> Duplicates:
    data = Stored(value, place)
    return Duplicates(data.each("chunk_ids", as_text), data.number("cosine"))
