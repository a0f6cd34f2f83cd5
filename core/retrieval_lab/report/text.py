"""report.md: the study in words and tables, for a person who was not there.

All that is timed stands in the section Cost and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from retrieval_lab.markdown_text import cell, inline, row, table_head
from retrieval_lab.report.answer_text import answer, asked, rule_lines
from retrieval_lab.report.effects_text import effects_lines
from retrieval_lab.report.end_text import cost_lines, fingerprint_lines
from retrieval_lab.report.limits import limits
from retrieval_lab.report.robustness import Reworded, robustness_lines
from retrieval_lab.report.study import Standing, Study
from retrieval_lab.report.words import DASH, difference_text, estimate_text, several
from retrieval_lab.report.worst import Missed

_SHOWN_WORST = 10
_SHOWN_IDS = 5
_SHOWN_KINDS = 8

Robustness = Mapping[str, Mapping[str, Reworded]]
Section = tuple[str, Iterator[str]]


def report_text(made: Study, robustness: Robustness, *, plots: bool) -> str:
    """The whole report as Markdown; `plots` says whether the pictures lie beside it."""
    what, corpus = inline(made.ablation.manifest.name), inline(made.standings[0].cell.run.corpus.folder)
    lines = [f"# Ablation {what} over {corpus}: which configuration to ship", ""]
    for title, section in _sections(made, robustness, plots):
        lines += [f"## {title}", "", *section, ""]
    return "\n".join(lines).rstrip() + "\n"


def _sections(made: Study, robustness: Robustness, plots: bool) -> Iterator[Section]:
    yield "Answer", answer(made)
    yield "What was asked", asked(made)
    yield "The rule, set before anything was measured", rule_lines(made.ablation.manifest.rule)
    yield "All configurations", _table(made, plots)
    if len(made.standings) > 1:
        yield f"Differences to the best, {inline(made.decision.best)}", _differences(made)
    yield "By kind of question", _kinds(made, plots)
    if made.effects:
        yield "What each part brings", effects_lines(made)
    if robustness:
        yield "Robustness: the same questions in other words", _robust(made, robustness)
    yield f"The worst held-out queries of {inline(made.decision.subject)}", _worst(made)
    if made.ablation.failures or made.ablation.manifest.left_out or made.ablation.pending:
        yield "What was not measured", _not_measured(made)
    yield "What these data cannot prove", (f"- {inline(one)}" for one in limits(made))
    yield "Cost", cost_lines(made, plots)
    yield "Fingerprint", fingerprint_lines(made)


def _picture(name: str, what: str, plots: bool) -> Iterator[str]:
    if plots:
        yield f"![{what}]({name})"
        yield ""


# --- the configurations --------------------------------------------------------------------------------------------


def _table(made: Study, plots: bool) -> Iterator[str]:
    yield from _picture("quality.png", f"{made.measure} of every configuration, held out and on dev", plots)
    held_out, dev = len(made.parts.held_out), len(made.parts.dev)
    yield (
        f"Means over {several(held_out, 'held-out query', 'held-out queries')} with 95% bootstrap intervals, sorted by"
        f" {made.measure}; the same measure on {several(dev, 'dev query', 'dev queries')} beside it. Points say how"
        " complex a configuration is. The last column says what the rule has against it."
    )
    yield ""
    yield from table_head("", "configuration", *made.shown, f"{made.measure} on dev", "points", "rule")
    for place, one in enumerate(made.standings, start=1):
        verdict = made.decision.verdict(one.name)
        says = "ships" if one.name == made.decision.chosen else _says(made, one)
        measures = [estimate_text(one.held_out.measures.get(name)) for name in made.shown]
        dev_text = estimate_text(one.dev.measures.get(made.measure))
        name = f"**{cell(one.name)}**" if one.name == made.decision.chosen else cell(one.name)
        yield f"| {place} | {name} | {' | '.join([*measures, dev_text, str(verdict.complexity.points), cell(says)])} |"


def _says(made: Study, one: Standing) -> str:
    faults = made.decision.verdict(one.name).faults(made.ablation.manifest.rule)
    return "; ".join(faults) or "would do, not the simplest"


def _differences(made: Study) -> Iterator[str]:
    names = list(dict.fromkeys((made.measure, *(name for name in made.shown if name.startswith("mrr@")))))
    yield (
        "Configuration minus best, paired by held-out query: the mean difference with its 95% bootstrap interval, p of"
        " a permutation test with Holm's correction for the number of configurations, on how many queries it wins, ties"
        " and loses, and the smallest difference that so many queries could have shown (80% power)."
    )
    yield ""
    columns = [title for name in names for title in (f"{name} difference", "p", "win/tie/loss", "least")]
    yield from table_head("configuration", *columns)
    for one in made.standings:
        if one.against_best is not None:
            cells: list[str] = []
            for name in names:
                found = one.against_best.measures[name]
                counts = f"{found.counts.wins}/{found.counts.ties}/{found.counts.losses}"
                least = f"{found.detectable:.3f}" if found.detectable else DASH
                cells += [difference_text(found), f"{one.against_best.p[name]:.4f}", counts, least]
            yield row(one.name, *cells)


def _kinds(made: Study, plots: bool) -> Iterator[str]:
    yield from _picture("by_kind.png", f"{made.measure} by kind of question", plots)
    groups = made.standings[0].by_kind
    if len(groups) > _SHOWN_KINDS:
        yield f"The {_SHOWN_KINDS} kinds with the most queries; metrics.json has all {len(groups)}."
        yield ""
    kinds = sorted(groups, key=lambda kind: (-groups[kind].queries, kind))[:_SHOWN_KINDS]
    yield f"Held-out {made.measure} with 95% intervals, the number of queries in brackets."
    yield ""
    yield from table_head("configuration", *(f"{cell(kind or '(none)')} [{groups[kind].queries}]" for kind in kinds))
    for one in made.standings:
        yield row(one.name, *(estimate_text(one.by_kind[kind].measures.get(made.measure)) for kind in kinds))


# --- robustness, failures ------------------------------------------------------------------------------------------


def _robust(made: Study, robustness: Robustness) -> Iterator[str]:
    yield (
        f"{made.measure} of the questions that a rewording changed, before and after it, paired, with the 95% interval"
        " of the difference; lost and gained are the questions whose answer left the final list, or came into it. All"
        " splits count here."
    )
    yield ""
    names = [one.name for one in made.standings if one.name in robustness]
    yield from robustness_lines({name: robustness[name] for name in names}, made.measure)


def _worst(made: Study) -> Iterator[str]:
    if not made.worst:
        yield f"None: every held-out query has the full {made.measure}."
        return
    lost = sum(one.lost_at is not None for one in made.worst)
    yield (
        f"{several(len(made.worst), 'held-out query', 'held-out queries')} of {len(made.parts.held_out)} with less than"
        f" the full {made.measure}, {lost} of them without any labelled passage in the final list. failures.csv has all"
        " of them with everything that was retrieved."
    )
    yield ""
    yield from table_head("query", "kind", made.measure, "question", "labelled", "retrieved first", "cause")
    for one in made.worst[:_SHOWN_WORST]:
        yield row(
            one.query_id,
            one.kind,
            f"{one.value:.3f}",
            one.query,
            ", ".join(one.labelled[:_SHOWN_IDS]),
            ", ".join(one.retrieved[:_SHOWN_IDS]) or "nothing",
            _cause(one),
        )


def _cause(one: Missed) -> str:
    return one.cause if one.lost_at is None else f"lost at {one.lost_at}: {one.cause}"


def _not_measured(made: Study) -> Iterator[str]:
    if made.ablation.pending:
        yield f"{several(made.ablation.pending, 'configuration')} not done yet; run the ablation again to finish it."
        yield ""
    if made.ablation.failures:
        yield "Failed:"
        yield ""
        yield from table_head("configuration", "error")
        for failure in made.ablation.failures:
            yield row(failure.name, failure.error)
        yield ""
    if made.ablation.manifest.left_out:
        yield "Left out of the grid:"
        yield ""
        yield from table_head("combination", "reason")
        for name, reason in made.ablation.manifest.left_out:
            yield row(name, reason)
