"""The first sections of report.md: the decision and its reasons, what was asked, and the rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from retrieval_lab.ablation.rule import Rule
from retrieval_lab.markdown_text import inline, row, table_head
from retrieval_lab.report.complexity import MODEL_POINTS, RERANKER_POINTS, Complexity
from retrieval_lab.report.decision import Verdict
from retrieval_lab.report.study import Study
from retrieval_lab.report.words import between, difference_text, estimate_text, names_text, several

_SHOWN_SIMPLER = 12


def answer(made: Study) -> Iterator[str]:
    """The decision and why, or that there is none and what failed."""
    if made.decision.chosen is None:
        yield from _no_decision(made)
    else:
        yield from _decision(made, made.decision.verdict(made.decision.chosen))


def _decision(made: Study, chosen: Verdict) -> Iterator[str]:
    rule, best = made.ablation.manifest.rule, made.decision.best
    count = several(len(made.standings), "configuration")
    yield (
        f"**Ship {inline(chosen.name)}.** Of {count} it is the simplest that passes the rule, with"
        f" {several(chosen.complexity.points, 'point')} of complexity ({_made_of(chosen.complexity)})."
    )
    yield ""
    held_out = made.standing(chosen.name).held_out.measures[rule.measure]
    if chosen.name == best:
        yield f"- It is also the best: held-out {rule.measure} {estimate_text(held_out)}."
    else:
        yield (
            f"- It is not shown to be worse than the best, {inline(best)}: held-out {rule.measure}"
            f" {estimate_text(held_out)}, a difference of {difference_text(chosen.against_best)}, whose 95% interval"
            " includes 0."
        )
    target = f"held-out {rule.target_measure} {estimate_text(chosen.target)}"
    yield f"- It reaches the target: {target}, {rule.target:g} or more."
    yield f"- {_reranker_reason(chosen, rule)}"
    yield from _simpler(made, chosen)


def _made_of(one: Complexity) -> str:
    parts = [several(one.lists, "list")]
    named = (("expansion", one.expansion), ("a reranker", one.reranker), ("MMR", one.mmr), ("a model", one.model))
    return ", ".join([*parts, *(name for name, points in named if points)])


def _reranker_reason(chosen: Verdict, rule: Rule) -> str:
    test = chosen.reranker
    if test is None or test.gain is None:
        return "It has no reranker, so none has to be worth it."
    return (
        f"Its reranker is worth it: against {inline(test.partner or '')} it gains {difference_text(test.gain)} in"
        f" held-out MRR, and takes no more than {rule.reranker_ms:g} ms (see Cost)."
    )


def _simpler(made: Study, chosen: Verdict) -> Iterator[str]:
    """What stands before the chosen one in the order of simplicity, and why it was passed over."""
    verdicts = made.decision.verdicts
    before = verdicts[: verdicts.index(chosen)]
    if not before:
        return
    yield ""
    yield "Passed over, though simpler, or as simple and ahead by its dev mean or its name:"
    yield ""
    for one in before[:_SHOWN_SIMPLER]:
        yield f"- {inline(one.name)}: {'; '.join(map(inline, one.faults(made.ablation.manifest.rule)))}."
    if len(before) > _SHOWN_SIMPLER:
        yield f"- and {len(before) - _SHOWN_SIMPLER} more, in the table below."


def _no_decision(made: Study) -> Iterator[str]:
    rule, decision = made.ablation.manifest.rule, made.decision
    yield (
        f"**Ship none of them yet.** None of {several(len(made.standings), 'configuration')} passes the rule that was"
        " set in advance. What failed:"
    )
    yield ""
    faults = {one.name: one.faults(rule) for one in decision.verdicts}
    counted = Counter(fault for found in faults.values() for fault in found)
    yield from table_head("what", "configurations", "which")
    for fault, number in sorted(counted.items(), key=lambda one: (-one[1], one[0])):
        yield row(fault, str(number), names_text([name for name, found in faults.items() if fault in found]))
    best = decision.verdict(decision.best)
    yield ""
    yield (
        f"The best, {inline(best.name)}, has held-out {rule.measure}"
        f" {estimate_text(made.standing(best.name).held_out.measures[rule.measure])} and {rule.target_measure}"
        f" {estimate_text(best.target)}{_reranker_failure(best)}. Its worst queries are listed below with the stage"
        " that lost each."
    )


def _reranker_failure(best: Verdict) -> str:
    if best.reranker is None:
        return ""
    if best.reranker.gain is None:
        return "; its reranker cannot be judged, since the same configuration without it was not measured"
    interval = between(best.reranker.gain.difference_interval)
    return f"; its reranker changes held-out MRR by {interval} against {inline(best.reranker.partner or '')}"


def asked(made: Study) -> Iterator[str]:
    """What was compared, over what, and how the queries are parted."""
    facts, of, manifest = made.standings[0].cell.run.corpus, made.parts, made.ablation.manifest
    yield (
        f"Which of {several(len(made.standings), 'configuration')} of a retrieval pipeline should answer questions over"
        f" the corpus “{inline(facts.folder)}” ({several(facts.documents, 'document')})? Each was asked the"
        f" same {several(facts.queries, 'labelled question')}, and its final list of {made.standings[0].cell.run.k} was"
        f" measured against the labels{', counted by document' if manifest.level == 'document' else ''}."
    )
    yield ""
    yield (
        f"{several(len(of.dev), 'question is', 'questions are')} for choosing (dev), {len(of.held_out)} are held out;"
        f" everything is decided on those held out. The list of their ids has the hash {of.held_out_hash[:12]}."
    )
    if of.dealt:
        yield (
            "The labels state no split: this report dealt the questions itself, each kind in its share, by a fixed"
            " seed, as `retrieval-lab split` does."
        )


def rule_lines(rule: Rule) -> Iterator[str]:
    """The rule of the decision, exactly."""
    points = ", ".join(f"{kind} {number}" for kind, number in RERANKER_POINTS.items() if number)
    yield (
        "Ship the simplest configuration for which all of this holds on held-out queries. If there is none, ship none,"
        " and say what failed."
    )
    yield ""
    yield (
        f"1. It is not worse than the best by more than the paired interval allows: the 95% paired bootstrap interval"
        f" of its mean {rule.measure} minus that of the best (the highest mean) includes 0."
    )
    yield f"2. Its mean {rule.target_measure} is {rule.target:g} or more."
    yield (
        "3. It has no reranker; or against the same configuration without it (and without MMR, which needs one) the 95%"
        f" interval of its gain in MRR lies above 0, and its median latency is at most {rule.reranker_ms:g} ms longer."
    )
    yield ""
    yield (
        "Simplest is the one with the fewest points: 1 for each list, 1 for query expansion, for a reranker by its kind"
        f" ({points}), 1 for MMR, {MODEL_POINTS} for an embedding model that a list or MMR needs. Of equal points the"
        " one with the higher mean on dev comes first, then the first by name."
    )
