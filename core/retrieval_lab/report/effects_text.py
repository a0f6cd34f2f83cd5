"""What each part of a configuration brings, as a table and in plain sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from retrieval_lab.evals.resampling import TIE
from retrieval_lab.markdown_text import inline, row, table_head
from retrieval_lab.report.axes import LISTS, Effect
from retrieval_lab.report.study import Study
from retrieval_lab.report.words import difference_text, several
from retrieval_lab.wording import signed

_ALPHA = 0.05
_AXES = {"mmr_lambda": "MMR", "contextual_headers": "headers"}


def effects_lines(made: Study) -> Iterator[str]:
    """The effects in words, what does not help included, then as a table, in Markdown."""
    yield (
        "Pairs of configurations that differ in one part only, held-out queries, alternative minus baseline. Where"
        " there are several such pairs, the values of a query are averaged over them first; the range is that of the"
        " pairs. p has Holm's correction for the number of rows."
    )
    yield ""
    yield from _hybrid(made)
    for one in made.effects:
        yield f"- {sentence(one, made.measure)}"
    yield ""
    names = list(dict.fromkeys((made.measure, *(name for name in made.shown if name.startswith("mrr@")))))
    columns = [title for name in names for title in (f"{name} difference", "p")]
    yield from table_head("part", "alternative", "baseline", "pairs", *columns, "win/tie/loss", "range")
    for one in made.effects:
        numbers = [text for name in names for text in (difference_text(one.measures[name]), f"{one.p[name]:.4f}")]
        counts = one.measures[made.measure].counts
        yield row(
            _AXES.get(one.axis, one.axis),
            one.alternative,
            one.baseline,
            str(len(one.pairs)),
            *numbers,
            f"{counts.wins}/{counts.ties}/{counts.losses}",
            f"{signed(one.lowest)} to {signed(one.highest)}",
        )


def sentence(one: Effect, measure: str) -> str:
    """Whether the alternative helps, in a plain sentence of Markdown."""
    found = one.measures[measure]
    interval = found.difference_interval
    what, over = f"**{inline(one.alternative)}**", inline(one.baseline)
    where = f"{measure} {difference_text(found)}, over {several(len(one.pairs), 'pair')}"
    if interval is None:
        return f"{what} cannot be compared with {over} on one query."
    if interval.low > TIE:
        return f"{what} helps over {over}: {where}{_doubts(one, measure)}."
    if interval.high < -TIE:
        return f"{what} harms against {over}: {where}{_doubts(one, measure)}."
    if interval.low >= -TIE and interval.high <= TIE:
        return f"{what} makes no difference against {over}: every held-out query has the same {measure}."
    return f"{what} is not shown to help over {over}: {where}; the interval includes 0."


def _doubts(one: Effect, measure: str) -> str:
    """What speaks against taking an effect as shown: the number of effects looked at, pairs that say otherwise."""
    found = []
    if one.p[measure] > _ALPHA:
        found.append(f"; among so many comparisons that may be chance (p {one.p[measure]:.2f} after correction)")
    if one.lowest < -TIE and one.highest > TIE:
        found.append(f"; not in every pair ({signed(one.lowest)} to {signed(one.highest)})")
    return "".join(found)


def _hybrid(made: Study) -> Iterator[str]:
    """Whether several lists beat the best single one."""
    lists = [one for one in made.effects if one.axis == LISTS]
    hybrid = [one for one in lists if one.lists > 1]
    if not hybrid or not made.parts.dev or _baseline_lists(made, hybrid) != 1:
        return
    better = [one for one in hybrid if _is_above_0(one, made.measure)]
    best_single = inline(hybrid[0].baseline)
    if better:
        names = ", ".join(inline(one.alternative) for one in better)
        sure = all(one.p[made.measure] <= _ALPHA for one in better)
        doubt = "" if sure else ", though not each of them after correction for the number of comparisons"
        yield f"- **Several lists beat the best single one** ({best_single}, the best on dev): {names}{doubt}."
    else:
        yield f"- **No combination of lists is shown to beat the best single list** ({best_single}, the best on dev)."


def _baseline_lists(made: Study, hybrid: Sequence[Effect]) -> int:
    """How many lists the baseline of the retrievers makes."""
    return len(made.standing(hybrid[0].pairs[0][1]).cell.config.retrievers)


def _is_above_0(one: Effect, measure: str) -> bool:
    interval = one.measures[measure].difference_interval
    return interval is not None and interval.low > TIE
