"""What a change did: the stages at which the wanted passage, or the final list, is not where it was."""

from __future__ import annotations

from textual.content import Content

from retrieval_lab.trace import Trace
from retrieval_lab.types import Place


def moved(before: Trace, after: Trace, room: int) -> Content:
    """In one line, the wanted passage's ranks that changed, then how many passages the final list has exchanged.

    Where that is longer than the room, the retrievers' lists in which the rank changed are counted only.
    """
    fates = before.fate(), after.fate()
    ranks = {
        stage: Content.assemble(
            (f"{stage} ", "$foreground-muted"), rank_text(old), " → ", (rank_text(new), f"bold {rank_style(old, new)}")
        )
        for stage, old in fates[0].items()
        if stage in fates[1] and rank_text(old) != rank_text(new := fates[1][stage])
    }
    exchanged = _exchanged(before, after)
    whole = Content(" · ").join([*ranks.values(), *exchanged])
    lists = [stage for stage in ranks if stage in after.lists]
    if whole.cell_length > room and len(lists) > 1:
        later = [change for stage, change in ranks.items() if stage not in lists]
        return Content(" · ").join([Content(f"moved in {len(lists)} lists"), *later, *exchanged])
    return whole if ranks or exchanged else Content("nothing moved")


def _exchanged(before: Trace, after: Trace) -> tuple[Content, ...]:
    """What is else about the final list, if anything is."""
    # Whole chunks: another way of cutting the documents gives other passages the same ids.
    finals = [[trace.chunks[row.chunk_id] for row in trace.final] for trace in (before, after)]
    entered = len(set(finals[1]) - set(finals[0]))
    if entered:
        return (Content(f"{entered} new in the final list"),)
    return () if finals[0] == finals[1] else (Content("the final list in another order"),)


def rank_text(place: Place) -> str:
    """The rank, in brackets beyond the end of the list."""
    if place.rank is None:
        return "–"
    return str(place.rank) if place.listed else f"({place.rank})"


def rank_style(old: Place, new: Place) -> str:
    """The colour of a rank that was another: better or worse."""
    better = (not new.listed, new.rank or 10**9) < (not old.listed, old.rank or 10**9)
    return "$success" if better else "$error"
