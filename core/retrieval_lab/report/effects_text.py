"""What each part of a configuration brings, as a table and in plain sentences."""

from __future__ import annotations

from collections.abc import Iterator

from retrieval_lab.evals.resampling import TIE
from retrieval_lab.markdown_text import inline, row, table_head
from retrieval_lab.report.axes import Effect
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
    """Whether several lists beat one."""
    if made.combined is None:
        return
    found, single = made.combined.comparison, inline(made.combined.single)
    how = f"{made.measure} {difference_text(found)}; both are the best of their sort on dev"
    interval = found.difference_interval
    if interval is not None and interval.low > TIE:
        yield f"- **Several lists beat one**: {inline(made.combined.several)} against {single}, {how}."
    elif interval is not None and interval.high < -TIE:
        yield f"- **Several lists are worse than one**: {inline(made.combined.several)} against {single}, {how}."
    else:
        against = f"{inline(made.combined.several)} against {single}"
        yield f"- **Several lists are not shown to beat one**: {against}, {how}; the interval includes 0."
