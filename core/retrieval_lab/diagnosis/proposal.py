"""A proposed failure and fix for each miss, in the words of `kinds`, computed from its journey.

A proposal is no judgment: it says which definition the numbers fit, with the evidence, for a person who reads the miss.

The first rule that fits decides. They stand in this order because each says more than those below it:

1. `chunk-boundary`, when a cut parts the anchor: then no chunk is the passage, and no later stage can be blamed. An
   anchor that is not in its document at all is a fault of the label; there is nothing to propose.
2. `anchor-ambiguity`, when a passage of the final list is nearly the same text: then the question may be answered, and
   whatever lost the anchor did little harm.
3. `reranker-demotion`, when fusion had the passage within the cut and the reranker lost it: two ranks, nothing else.
4. `anchor-ambiguity`, when a passage of the final list shares most content words of the anchor's sentence. It stands
   below two ranks because words may be shared by chance, numbers above all.
5. `chunk-boundary`, when the heading path has a word of the query that the passage lacks, or a chunk next to it has
   most of them. It stands above the two below because it names a cause of theirs.
6. `vocabulary-gap`, when the passage is outside the pool and shares no word with the query, or is on no list and shares
   few: there is too little to match.
7. `ranking`: all else. Something matches, but others match better.

The fix is that of the smallest rescue that does no harm, where rescues are given: it was tried. Without one it follows
from the failure and the numbers of the journey: what they name as the cause.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from retrieval_lab.config import PipelineConfig
from retrieval_lab.diagnosis.follow import best_placed, follow
from retrieval_lab.diagnosis.golden_walk import over_golden
from retrieval_lab.diagnosis.journey import Journey
from retrieval_lab.diagnosis.kinds import Failure, Fix
from retrieval_lab.diagnosis.proposed_fix import fix_by_journey, fix_by_rescue
from retrieval_lab.diagnosis.rescue import Rescues
from retrieval_lab.diagnosis.rescues import rescues as find_rescues
from retrieval_lab.errors import InputError
from retrieval_lab.passages import Passages
from retrieval_lab.pipeline import Pipeline
from retrieval_lab.stored import Stored, shown
from retrieval_lab.text import printable
from retrieval_lab.trace import Trace

if TYPE_CHECKING:
    from retrieval_lab.lab import Lab

MOST: Final = 0.5
"""More than this part of the words that the passage lacks are most of them.

A neighbour has some of them nearly always, as any text has common words; one word of a heading counts, as headings are
a few words that say what a section is about.
"""

FEW: Final = 0.5
"""A passage that shares less than this part of the query's words shares few: it lacks more than it has."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """What failed and what would mend it, as the numbers have it, with the evidence for both in one line.

    `query_id` is None for a question that is not of the golden set.
    """

    query_id: str | None
    failure: Failure
    fix: Fix
    evidence: str

    @property
    def note(self) -> str:
        """The proposal as a note for the person who judges, on one line without characters that steer."""
        return printable(f"proposed: {self.failure}, {self.fix}: {self.evidence}")

    def to_dict(self) -> dict[str, Any]:
        """The proposal as JSON has it."""
        return asdict(self)

    @classmethod
    def from_stored(cls, data: Stored) -> Proposal:
        """What `to_dict` wrote. Raises InputError when it is broken."""
        return cls(
            query_id=data.text_or_none("query_id"),
            failure=_kind(data, "failure", Failure),
            fix=_kind(data, "fix", Fix),
            evidence=data.text("evidence"),
        )


def propose(journey: Journey, rescues: Rescues | None = None) -> Proposal | None:
    """The proposal for a lost passage, by the rules of this module.

    None when the passage is not lost, or when its anchor is not in the document: then the label is wrong, and
    `retrieval-lab check` says how. Raises InputError when the rescues are those of another question.
    """
    if rescues is not None and rescues.query != journey.query:
        raise InputError(f"these are the rescues of {rescues.query!r}, the journey is that of {journey.query!r}")
    if journey.lost_at is None:
        return None
    failed = next(_failures(journey), None)
    if failed is None:
        return None
    failure, what = failed
    fix, why = (fix_by_rescue(rescues) if rescues is not None else None) or fix_by_journey(failure, journey)
    query_id = None if journey.golden is None else journey.golden.query_id
    return Proposal(query_id, failure, fix, " ".join(f"{what}; {why}".split()))


def diagnoses(
    lab: Lab,
    config: PipelineConfig | None = None,
    *,
    rescue: bool = False,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> tuple[Proposal, ...]:
    """A proposal for each golden query whose passage is lost, in the order of the file.

    With `rescue` the fixes are those of rescues by the question and by settings, which are searched for each miss and
    take seconds for each. `progress` and `cancelled` are as for `Lab.evaluate_queries`; with `rescue` progress begins
    anew with the misses. Raises as `Lab.evaluate_queries` does.
    """
    journeys = [one for one in over_golden(lab, config, _lost, progress=progress, cancelled=cancelled) if one]
    if not rescue:
        return tuple(one for one in map(propose, journeys) if one is not None)
    found = []
    for done, journey in enumerate(journeys):
        progress(done, len(journeys))
        searched = find_rescues(lab, journey.golden or journey.query, config=config, cancelled=cancelled)
        found.append(propose(journey, searched))
    progress(len(journeys), len(journeys))
    return tuple(one for one in found if one is not None)


def _lost(trace: Trace, pipeline: Pipeline, corpus: Passages) -> Journey | None:
    """The journey of a passage that is not in the final list."""
    chunk_id = best_placed(trace)
    return None if chunk_id in {row.chunk_id for row in trace.final} else follow(trace, pipeline, corpus, chunk_id)


# --- the failure ---------------------------------------------------------------------------------------------------


def _failures(journey: Journey) -> Iterator[tuple[Failure, str]]:
    """Every failure that fits with its evidence, in the order of the rules."""
    if journey.chunk is None:
        if journey.anchor is not None and journey.anchor.parts:
            yield Failure.CHUNK_BOUNDARY, journey.reason or "a cut parts the anchor"
        return
    rules = (_twin, _demoted, _answered, _parted, _no_words)
    yield from (found for rule in rules if (found := rule(journey)) is not None)
    yield Failure.RANKING, f"lost at {journey.lost_at}: {journey.reason}{_shared(journey)}"


def _twin(journey: Journey) -> tuple[Failure, str] | None:
    in_final = {one.chunk_id: one.final_rank for one in journey.displacement.above if one.final_rank is not None}
    for group in journey.displacement.duplicates:
        twin = next((one for one in group.chunk_ids if one in in_final), None)
        if journey.chunk_id in group.chunk_ids and twin is not None:
            alike = f"is a near-duplicate (cosine {group.cosine:.2f})"
            return Failure.ANCHOR_AMBIGUITY, f"{twin} at rank {in_final[twin]} {alike}"
    return None


def _answered(journey: Journey) -> tuple[Failure, str] | None:
    best = next((one for one in journey.displacement.answering if one.final_rank is not None), None)
    if best is None:
        return None
    words = f"{len(best.shared)} of {len(journey.displacement.content_words)} content words of the anchor's sentence"
    return Failure.ANCHOR_AMBIGUITY, f"{best.chunk_id} at rank {best.final_rank} has {words}: {', '.join(best.shared)}"


def _demoted(journey: Journey) -> tuple[Failure, str] | None:
    """The top 10 of the definition are the final list's length, which is the cut that the passage would have passed."""
    fused, reranked = journey.fused, journey.reranked
    if journey.lost_at != "reranker" or fused is None or reranked is None or fused.rank > journey.top_k:
        return None
    ranks = f"fused rank {fused.rank}, after the {reranked.kind} reranker {reranked.rank}; the cut is {journey.top_k}"
    return Failure.RERANKER_DEMOTION, ranks


def _parted(journey: Journey) -> tuple[Failure, str] | None:
    near = journey.nearby
    if near is None:
        return None
    if near.heading:
        return Failure.CHUNK_BOUNDARY, f"lacks {', '.join(near.heading)}, which its heading path has"
    for one in sorted(near.neighbours, key=lambda one: -len(one.holds)):
        if len(one.holds) > MOST * len(near.lacking):
            lacks = f"{len(one.holds)} of the {len(near.lacking)} words that it lacks"
            return Failure.CHUNK_BOUNDARY, f"{one.chunk_id} beside it has {lacks}: {', '.join(one.holds)}"
    return None


def _no_words(journey: Journey) -> tuple[Failure, str] | None:
    text = journey.text
    in_pool = journey.fused is not None and journey.fused.rank <= journey.fused.n
    if text is None or in_pool or journey.lost_at == "index":  # what the exact scan would list, something matches
        return None
    shared, asked = len(text.matched), len(text.matched) + len(text.absent)
    few = shared < FEW * asked
    if shared and not (few and journey.lost_at == "pool"):
        return None
    ranks = "; ".join(f"{one.name} {_rank(one.rank, one.reason)}" for one in journey.lists.values())
    return Failure.VOCABULARY_GAP, f"outside the pool ({ranks}){_shared(journey)}"


def _rank(rank: int | None, reason: str | None) -> str:
    return f"rank {rank}" if rank is not None else reason or "no rank"


def _shared(journey: Journey) -> str:
    text = journey.text
    if text is None:
        return ""
    asked = len(text.matched) + len(text.absent)
    words = f": {', '.join(text.matched)}" if text.matched else ""
    return f", has {len(text.matched)} of the query's {asked} terms{words}"


# --- reading -------------------------------------------------------------------------------------------------------


def _kind(data: Stored, key: str, kinds: Any) -> Any:
    name = data.text(key)
    if name not in tuple(kinds):
        place = f"{data.place}.{key}" if data.place else key
        raise InputError(f"{place} is {shown(name)}; expected {', '.join(kinds)}")
    return kinds(name)
