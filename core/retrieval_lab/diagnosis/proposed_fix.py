"""The fix that is proposed for a miss: that of a rescue which was found, or else what the journey points to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from retrieval_lab.diagnosis.journey import Journey, OnList
from retrieval_lab.diagnosis.kinds import Failure, Fix
from retrieval_lab.diagnosis.rescue import Cost, Rescue, Rescues
from retrieval_lab.diagnosis.rescue_grid import CHUNK_SIZES, HEADERS

LONG: Final = 1.25
"""From this BM25 length factor a chunk is long: with the usual b of 0.75 it is a third longer than the average
candidate, and a word that stands in it once counts an eighth less."""


# --- by a rescue ---------------------------------------------------------------------------------------------------


def fix_by_rescue(rescues: Rescues) -> tuple[Fix, str] | None:
    """The fix of the first rescue that does no harm and that the vocabulary has a word for; None without one.

    Harmless is what loses no more of the other golden queries than it gains. A term of the passage that was added to
    the query is no fix: only who knows the answer could have asked so.
    """
    for rescue in rescues.rescues:
        if rescue.cost is Cost.HINT or (rescue.effect and len(rescue.effect.lost) > len(rescue.effect.gained)):
            continue
        fix = _fix_of(rescue)
        if fix is not None:
            return fix, f"rescued by {_change(rescue)}, to rank {rescue.after}{_effect(rescue)}"
    return None


def _fix_of(rescue: Rescue) -> Fix | None:
    """The word for a rescue. Whatever weighs lists and stages against each other is nearest to `hybrid-weights`."""
    if rescue.edit is not None or rescue.setting.endswith(".operators"):
        return Fix.QUERY_REWRITE
    if rescue.cost is not Cost.INDEX:
        return Fix.HYBRID_WEIGHTS
    values = {change.key: (change.baseline, change.system) for change in rescue.changed}
    if rescue.setting == HEADERS and values.get(HEADERS) == (False, True):
        return Fix.CONTEXTUAL_CHUNK_HEADERS
    before, after = values.get(rescue.setting, (0, 0))
    return Fix.SMALLER_CHUNKS if rescue.setting in CHUNK_SIZES and after < before else None


def _change(rescue: Rescue) -> str:
    if rescue.edit is not None:
        return f"the query without {rescue.edit.term}"
    return ", ".join(f"{change.key} {change.baseline} to {change.system}" for change in rescue.changed)


def _effect(rescue: Rescue) -> str:
    effect = rescue.effect
    return "" if effect is None else f" (of the others {len(effect.gained)} gained, {len(effect.lost)} lost)"


# --- by the journey ------------------------------------------------------------------------------------------------


def fix_by_journey(failure: Failure, journey: Journey) -> tuple[Fix, str]:
    """The fix that the numbers of the journey point to, and why."""
    text = journey.text
    if text is not None and text.excluded and text.listed is None:
        return Fix.QUERY_REWRITE, f"the query excludes it by {', '.join(text.excluded)}"
    if failure is Failure.ANCHOR_AMBIGUITY:
        return Fix.QUERY_REWRITE, "a narrower question would tell the passages apart"
    if failure is Failure.CHUNK_BOUNDARY:
        if journey.nearby is not None and journey.nearby.heading:
            return Fix.CONTEXTUAL_CHUNK_HEADERS, "the heading path before the text would match"
        return Fix.SMALLER_CHUNKS, "other cuts would keep together what belongs together"
    if failure is Failure.VOCABULARY_GAP:
        return _by_meaning(journey)
    return next(_by_ranks(failure, journey), None) or _by_meaning(journey)


def _by_ranks(failure: Failure, journey: Journey) -> Iterator[tuple[Fix, str]]:
    high = [one for one in journey.lists.values() if one.listed is not None and one.listed <= journey.top_k]
    if failure is Failure.RANKING and 0 < len(high) < len(journey.lists):
        best = min(high, key=lambda one: one.listed or 0)
        others = ", ".join(one.name for one in journey.lists.values() if one not in high)
        yield Fix.HYBRID_WEIGHTS, f"{best.name} has it at rank {best.listed}, {others} not in the first {journey.top_k}"
    terms = journey.reranked.terms if journey.reranked is not None else None
    if terms and terms[0].length_factor >= LONG:
        yield (
            Fix.SMALLER_CHUNKS,
            f"it is long (length factor {terms[0].length_factor:.2f}), so its words count less",
        )
    if failure is Failure.RERANKER_DEMOTION and terms and journey.text is not None and journey.text.absent:
        yield Fix.QUERY_REWRITE, f"the reranker counts words, and it lacks {', '.join(journey.text.absent)}"


def _by_meaning(journey: Journey) -> tuple[Fix, str]:
    """Where words do not match, meaning would have to: a model's, or that of who asks."""
    vector: OnList | None = journey.vector
    if vector is None:
        return Fix.QUERY_REWRITE, "no list goes by meaning, so the words have to match"
    if vector.listed is not None and vector.listed <= journey.top_k:
        return Fix.QUERY_REWRITE, f"the embedder has it at rank {vector.listed}, so the words have to match"
    where = f"at rank {vector.rank}" if vector.rank is not None else f"nowhere ({vector.reason})"
    return Fix.BETTER_EMBEDDER, f"the embedder has it {where}"
