"""What a second snapshot of a corpus does to its golden set: labels that are lost, and answers that sink.

The labels are those of the first snapshot. Both are searched under one configuration, each by its own index, and
neither folder is written to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from retrieval_lab.chunker import doc_id_of
from retrieval_lab.corpus import read_corpus
from retrieval_lab.errors import InputError
from retrieval_lab.evals.effects import Effect, effect
from retrieval_lab.text import folded, has_words
from retrieval_lab.types import GoldenQuery

if TYPE_CHECKING:
    from retrieval_lab.config import PipelineConfig
    from retrieval_lab.lab import Lab
    from retrieval_lab.metrics import QueryResult

Why = Literal["document gone", "document empty", "anchor gone", "anchor cut", "no label before"]
"""Why a query is not compared.

Its document is gone, or has no text left; its document is there without the anchor, or with a chunk's border in it; or
its label found nothing in the first snapshot either.
"""


@dataclass(frozen=True, slots=True)
class Documents:
    """How the documents of two snapshots differ: ids, sorted, those changed by their text.

    `renamed` has for documents that are gone the new one with the very same text.
    """

    before: int
    after: int
    new: tuple[str, ...]
    gone: tuple[str, ...]
    changed: tuple[str, ...]
    renamed: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class LostLabel:
    """A golden query that is in no mean, why, and the same in words."""

    query_id: str
    query: str
    why: Why
    detail: str


@dataclass(frozen=True, slots=True)
class Overtaken:
    """What stands before the best answer of a query in the second snapshot's final list and did not in the first's.

    The ids of its documents, the first one first: new ones, changed ones, and others, whose text is the same. Without
    an answer in the list all of it stands before it. `answer_changed` says that a document of the answer changed too.
    """

    new: tuple[str, ...]
    changed: tuple[str, ...]
    others: tuple[str, ...]
    answer_changed: bool


@dataclass(frozen=True, slots=True)
class Drift:
    """What the second snapshot does.

    `queries` golden queries have an answer; `lost` are those that are not compared. `narrowed` has for queries with
    several relevant documents those that are not in both snapshots with a text: they are no part of their labels here.
    `effect`, over the others, is None where there are none; `overtaken` has every query of its `worse`, by its id.
    """

    config: PipelineConfig
    documents: Documents
    queries: int
    lost: tuple[LostLabel, ...]
    narrowed: Mapping[str, tuple[str, ...]]
    effect: Effect | None
    overtaken: Mapping[str, Overtaken]

    def to_dict(self) -> dict[str, Any]:
        """The drift as JSON has it."""
        return {
            "config": self.config.to_dict(),
            "documents": asdict(self.documents),
            "queries": self.queries,
            "lost": [asdict(one) for one in self.lost],
            "narrowed": {query_id: list(doc_ids) for query_id, doc_ids in self.narrowed.items()},
            "effect": None if self.effect is None else self.effect.to_dict(),
            "overtaken": {query_id: asdict(one) for query_id, one in self.overtaken.items()},
        }


def drift(
    first: Lab,
    second: Lab,
    *,
    split: str | None = None,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Drift:
    """Ask the golden queries of the first lab, or those of a split, in both, under its configuration.

    Effects are over the queries whose label finds a chunk in both snapshots. `progress` hears how many of all queries
    are asked, those of both snapshots counted. Raises InputError when the labs have other configurations or one folder,
    and as `Lab.evaluate_queries` does.
    """
    if first.config != second.config:
        raise InputError("the two snapshots are opened under different configurations; open both under one")
    if first.corpus.resolve() == second.corpus.resolve():
        raise InputError(f"{second.corpus}: a corpus does not drift from itself; name a folder with another snapshot")
    first.require_golden()
    golden = first.golden if split is None else first.split(split)
    before, after = _texts(first), _texts(second)
    documents = _compared(before, after)
    with_answer = [query for query in golden if query.level != "none"]
    asked = [_narrowed(query, before, after) for query in with_answer]
    there = [query for query in asked if query.level != "none"]

    def results(lab: Lab, done: int) -> dict[str, QueryResult]:
        found = lab.evaluate_queries(
            golden=there,
            progress=lambda so_far, _: progress(done + so_far, 2 * len(there)),
            cancelled=cancelled,
        )
        return {one.query.query_id: one for one in found}

    befores, afters = results(first, 0), results(second, len(there))
    found_before = {query_id for query_id, one in befores.items() if one.relevant_ids}
    kept = [query_id for query_id, one in afters.items() if one.relevant_ids and query_id in found_before]
    found = effect([befores[one] for one in kept], [afters[one] for one in kept], first.config)
    worse = [one.query_id for one in found.worse] if found else []
    return Drift(
        config=first.config,
        documents=documents,
        queries=len(with_answer),
        lost=tuple(
            _lost(one, one.query_id in found_before, before, after, documents.renamed)
            for one in with_answer
            if one.query_id not in kept
        ),
        narrowed=dict(_narrowings(with_answer, asked, kept)),
        effect=found,
        overtaken={one: _overtaken(befores[one], afters[one], documents) for one in worse},
    )


# --- documents -----------------------------------------------------------------------------------------------------


def _texts(lab: Lab) -> dict[str, str]:
    return {one.doc_id: one.text for one in read_corpus(lab.corpus).documents}


def _compared(before: Mapping[str, str], after: Mapping[str, str]) -> Documents:
    gone, new = sorted(before.keys() - after.keys()), sorted(after.keys() - before.keys())
    same_text = {after[doc_id]: doc_id for doc_id in reversed(new)}
    return Documents(
        before=len(before),
        after=len(after),
        new=tuple(new),
        gone=tuple(gone),
        changed=tuple(sorted(one for one in before.keys() & after.keys() if before[one] != after[one])),
        renamed={one: same_text[before[one]] for one in gone if has_words(before[one]) and before[one] in same_text},
    )


# --- labels --------------------------------------------------------------------------------------------------------


def _narrowed(query: GoldenQuery, before: Mapping[str, str], after: Mapping[str, str]) -> GoldenQuery:
    """The query without the relevant documents that one snapshot lacks; with an anchor, as it is.

    A relevant document that is not there would count as never found, which says nothing about the search.
    """
    if query.level != "document":
        return query
    both = {one for one in query.doc_ids if has_words(before.get(one, "")) and has_words(after.get(one, ""))}
    return replace(query, relevant=tuple((one, grade) for one, grade in query.relevant if grade <= 0 or one in both))


def _narrowings(
    golden: Sequence[GoldenQuery], asked: Sequence[GoldenQuery], kept: Sequence[str]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    for query, narrowed in zip(golden, asked, strict=True):
        missing = tuple(one for one in query.doc_ids if one not in narrowed.doc_ids)
        if missing and query.query_id in kept:
            yield query.query_id, missing


def _lost(
    query: GoldenQuery,
    found: bool,
    before: Mapping[str, str],
    after: Mapping[str, str],
    renamed: Mapping[str, str],
) -> LostLabel:
    """Why the query is not compared; `found` says whether its label found a chunk of the first snapshot."""

    def lost(why: Why, *details: str) -> LostLabel:
        return LostLabel(query.query_id, query.query, why, "; ".join(details))

    had = [one for one in query.doc_ids if has_words(before.get(one, ""))]
    if not had or (query.anchor and not found):
        return lost("no label before", f"its label finds nothing in the first snapshot ({_quoted(query.doc_ids)})")
    gone = [one for one in had if one not in after]
    empty = [one for one in had if one in after and not (query.anchor and has_words(after[one]))]
    details = [f"the second snapshot has no document {_quoted(gone)}"] if gone else []
    details += [f"{renamed[one]!r} has the text of {one!r} now" for one in gone if one in renamed]
    if empty:
        return lost("document empty", *details, f"{_quoted(empty)} has no text in the second snapshot")
    if gone:
        return lost("document gone", *details)
    name = _quoted(had)
    if folded(query.anchor) in folded(after[had[0]]):
        return lost("anchor cut", f"{name} still has the anchor {query.anchor!r}, but no chunk holds all of it")
    return lost("anchor gone", f"{name} no longer has the anchor {query.anchor!r}")


def _quoted(doc_ids: Sequence[str]) -> str:
    return ", ".join(map(repr, doc_ids))


# --- what pushed answers down --------------------------------------------------------------------------------------


def _overtaken(before: QueryResult, after: QueryResult, documents: Documents) -> Overtaken:
    stood = set(_ahead(before))
    ahead = dict.fromkeys(doc_id_of(one) for one in _ahead(after) if one not in stood)
    new, changed = set(documents.new), set(documents.changed)
    return Overtaken(
        new=tuple(one for one in ahead if one in new),
        changed=tuple(one for one in ahead if one in changed),
        others=tuple(one for one in ahead if one not in new | changed),
        answer_changed=any(one in changed for one in after.query.doc_ids),
    )


def _ahead(result: QueryResult) -> list[str]:
    """The chunks that stand before the best answer in the final list; without one in it, all of them."""
    rank = result.ranks["final"]
    return [row.chunk_id for row in (result.final if rank is None else result.final[: rank - 1])]
