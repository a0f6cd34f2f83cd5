"""What the data of an ablation cannot prove: sentences made from its own numbers."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from retrieval_lab.evals.comparison import Comparison
from retrieval_lab.evals.resampling import TIE
from retrieval_lab.report.parts import records_of, values_of
from retrieval_lab.report.study import Standing, Study
from retrieval_lab.report.words import difference_text, estimate_text, names_text, several

FEW = 10
"""A kind with fewer held-out queries is said to have too few."""

_FEW_JUDGED = 0.95


def limits(made: Study) -> tuple[str, ...]:
    """The limits, a sentence or two each; what does not apply is left out."""
    parts = (
        _power,
        _selection,
        _target,
        _kinds,
        _without_width,
        _ties,
        _split,
        _excluded,
        _labels,
        _unjudged,
        _missing,
        _one_corpus,
    )
    return tuple(sentence for part in parts for sentence in part(made))


def _power(made: Study) -> Iterator[str]:
    queries = several(len(made.parts.held_out), "held-out query counts", "held-out queries count")
    compared = [one for standing in made.standings if (one := _against_best(standing, made)) is not None]
    found = sorted(one.detectable for one in compared if one.detectable)
    if not found:
        yield f"{queries}; no two configurations differ on enough of them to say what difference could have been shown."
        return
    yield (
        f"{queries}. Against the best configuration the smallest difference in {made.measure} that they could have"
        f" shown at 80% power is {found[0]:.3f} to {found[-1]:.3f}, by configuration (median {median(found):.3f});"
        " what is smaller stays open, in both directions."
    )
    chosen, best = made.decision.chosen, made.decision.best
    if chosen is not None and chosen != best and (one := _against_best(made.standing(chosen), made)) is not None:
        detectable = "" if one.detectable is None else f" A difference below {one.detectable:.3f} could not have shown."
        yield (
            f"“Not worse” means not shown to be worse: {chosen} minus {best} is {difference_text(one)} in"
            f" {made.measure}, so it may be worse by as much as the lower end says.{detectable}"
        )


def _against_best(standing: Standing, made: Study) -> Comparison | None:
    return None if standing.against_best is None else standing.against_best.measures[made.measure]


def _selection(made: Study) -> Iterator[str]:
    if len(made.standings) < 2:
        return
    count = len(made.standings)
    yield (
        f"The best, {made.decision.best}, is the best of {count} on the very queries that it is reported on, so its"
        " mean flatters it; p values are corrected for the number of configurations, means are not."
    )
    if not made.parts.dev:
        yield "There is no dev query, so nothing was chosen on other queries than those reported on."
        return
    on_dev = max(made.standings, key=lambda one: one.dev.measures[made.measure].value)
    if on_dev.name != made.decision.best:
        yield (
            f"Chosen on the {several(len(made.parts.dev), 'dev query', 'dev queries')} alone, the best would have been"
            f" {on_dev.name}, which has {estimate_text(on_dev.held_out.measures[made.measure])} held out; dev and"
            " held-out queries do not agree on the order."
        )


def _target(made: Study) -> Iterator[str]:
    rule, name = made.ablation.manifest.rule, made.decision.subject
    target = made.decision.verdict(name).target
    if target.interval is not None and target.interval.low < rule.target <= target.interval.high:
        side = "reached" if target.value >= rule.target - TIE else "missed"
        yield (
            f"The target {rule.target_measure} {rule.target:g} is {side} by the mean of {name},"
            f" {estimate_text(target)}; the interval lies on both sides of it, so other queries may say otherwise."
        )


def _kinds(made: Study) -> Iterator[str]:
    groups = made.standing(made.decision.subject).by_kind
    few = [f"{kind or '(none)'} ({group.queries})" for kind, group in groups.items() if group.queries < FEW]
    if few:
        yield (
            f"Kinds with fewer than {FEW} held-out queries: {', '.join(few)}. Their rows in the tables by kind are"
            " examples, not measurements."
        )


def _without_width(made: Study) -> Iterator[str]:
    subject = made.standing(made.decision.subject)
    groups = {"all held-out queries": subject.held_out, **subject.by_kind}
    alike = [
        name or "(none)"
        for name, group in groups.items()
        if (interval := group.measures[made.measure].interval) is not None and interval.high - interval.low <= TIE
    ]
    if alike:
        yield (
            f"Where every query has the same {made.measure}, the bootstrap has nothing to vary and its interval no"
            f" width; that is no certainty about other queries ({subject.name}: {names_text(alike)})."
        )


def _ties(made: Study) -> Iterator[str]:
    groups: dict[tuple[float, ...], list[str]] = {}
    for standing in made.standings:
        values = values_of(standing.cell, made.parts.held_out, made.measure)
        groups.setdefault(tuple(values), []).append(standing.name)
    for names in groups.values():
        if len(names) > 1:
            yield (
                f"These queries cannot tell {several(len(names), 'configuration')} apart, which have the same"
                f" {made.measure} on every one of them: {names_text(names)}."
            )


def _split(made: Study) -> Iterator[str]:
    if made.parts.dealt:
        yield (
            "The labels state no split. Dev and held-out were dealt by this report, each kind in its share, by a fixed"
            " seed; whoever tried configurations before had seen all queries, so held-out is a weaker word here."
            " The command retrieval-lab split writes the same split into the golden set."
        )


def _excluded(made: Study) -> Iterator[str]:
    of, total = made.parts, len(made.standings)
    if of.undefined:
        some = [query_id for query_id, names in of.undefined.items() if len(names) < total]
        where = (
            f" For {names_text(some)} that is so in some configurations only, as where a cut parts an anchor; these do"
            " not pay for it here."
            if some
            else ""
        )
        yield (
            f"{several(len(of.undefined), 'query', 'queries')} without a relevant passage left out of all means:"
            f" {names_text(tuple(of.undefined))}.{where}"
        )
    if of.unanswerable:
        yield (
            f"{several(len(of.unanswerable), 'query', 'queries')} that nothing in the corpus answers not counted:"
            " no measure here says how often a wrong answer would be given to such a question."
        )
    if of.elsewhere:
        yield f"{several(len(of.elsewhere), 'query', 'queries')} of other splits than dev and held-out not counted."


def _labels(made: Study) -> Iterator[str]:
    records = records_of(made.standings[0].cell, made.parts.held_out)
    anchored = [one for one in records if one.level == "chunk"]
    single = sum(len(one.relevant) == 1 for one in records)
    if anchored:
        yield (
            f"{len(anchored)} of {len(records)} held-out queries are labelled by one anchor, a passage that whoever"
            " wrote the question had in mind; another passage that answers as well counts as wrong."
        )
    if made.ablation.manifest.level == "document":
        yield (
            "Labels were counted by document, so that configurations which cut otherwise compare: a list that holds the"
            " right document but not the passage counts as a hit."
        )
    if single == len(records):
        cut = made.standings[0].cell.run.k
        yield (
            f"Every held-out query has exactly one relevant id, so recall@{cut} of a query is 0 or 1, and nothing is"
            " known of how complete the lists are."
        )


def _unjudged(made: Study) -> Iterator[str]:
    if made.ablation.manifest.level == "document":
        return  # the grades are made of anchors then: nobody judged documents
    for name in dict.fromkeys((made.decision.subject, made.decision.best)):
        judged = made.standing(name).coverage.judged
        if judged is not None and judged < _FEW_JUDGED:
            yield (
                f"{1 - judged:.0%} of the documents in the final lists of {name} were judged by nobody and count as"
                " irrelevant; a configuration that finds what earlier ones did not find is measured too low."
            )


def _missing(made: Study) -> Iterator[str]:
    failed, pending = len(made.ablation.failures), made.ablation.pending
    if failed:
        yield f"{several(failed, 'configuration')} failed and could not be compared; any of them might be better."
    if pending:
        yield f"{several(pending, 'configuration')} not measured yet; this report is of an ablation that is not done."


def _one_corpus(made: Study) -> Iterator[str]:
    facts = made.standings[0].cell.run.corpus
    yield (
        f"All of it is one corpus ({facts.folder}, {several(facts.documents, 'document')}) with questions of"
        f" {several(len(made.standings[0].by_kind), 'kind')}; nothing here says how the order of configurations would"
        " be on another."
    )
    hnsw = [one.name for one in made.standings if "hnsw" in one.cell.run.fingerprint.scans.values()]
    if hnsw:
        yield f"An HNSW graph differs from build to build, and so may the figures of {names_text(hnsw)}."
    yield (
        "Latency, index time and memory (the table “Cost”) are of one machine, and include whatever else it did; only"
        " their order of magnitude carries over."
    )
