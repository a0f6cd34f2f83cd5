"""An answer as text: what was said, which sentences cite nothing, the sources with their support, who spoke."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from retrieval_lab.text import printable

if TYPE_CHECKING:
    from retrieval_lab.answering import Said, Source
    from retrieval_lab.citations import CitationReport
    from retrieval_lab.entailment import EntailmentReport

_BAR = 10


def answer_lines(said: Said, entailment: EntailmentReport | None = None) -> Iterator[str]:
    """The answer with everything that a reader needs to trust or to doubt it, safe to print."""
    for line in said.text.splitlines():
        yield printable(line)
    yield ""
    for claim in said.report.uncited:
        yield printable(f"! not cited: {' '.join(claim.text.split())}")
    yield from doubts(said.report)
    if entailment is not None:
        yield from _entailed(entailment)
    yield from _sources(said.sources, said.report, said.floor)
    yield ""
    yield verdict(said)


def doubts(report: CitationReport) -> Iterator[str]:
    """What is wrong with the answer's markers, a line each, safe to print."""
    if report.invalid:
        numbers = ", ".join(f"[{number}]" for number in sorted({span.number for span in report.invalid}))
        yield f"! no source has the number {numbers}"
    for stray in report.unrecognised:
        yield printable(f"! not read as a citation: {stray.text}")


def verdict(said: Said) -> str:
    """Who spoke, on which support, how much of it is cited, at what cost."""
    below = said.support < said.floor
    support = f"support {said.support:.2f}, {'below' if below else 'at least'} the floor of {said.floor:g}"
    claims = [claim for claim in said.report.claims if claim.needs_citation]
    cited = f"{sum(not claim.is_uncited for claim in claims)} of {len(claims)} sentences cited"
    parts = ["refused" if said.report.refused else cited, support, f"${said.cost_usd:.4f}"]
    asked = "nobody was asked" if below else f"answered by {said.answerer}"
    return printable(" · ".join([asked, *parts]))


def bar(support: float) -> str:
    """A support as a bar of ten cells."""
    full = round(support * _BAR)
    return "█" * full + "░" * (_BAR - full)


def _sources(sources: Sequence[Source], report: CitationReport, floor: float) -> Iterator[str]:
    width = max((len(printable(one.chunk.chunk_id)) for one in sources), default=0)
    for one in sources:
        mark = "●" if one.number in report.cited else " "
        below = " " if one.support.share >= floor else "below the floor"
        terms = " ".join(one.support.terms)
        yield printable(
            f"{mark} [{one.number}] {one.chunk.chunk_id:<{width}}  rank {one.rank:>2}  score {one.score:>7.3f}  "
            f"support {one.support.share:.2f} {bar(one.support.share)} {below:<16} {terms}"
        ).rstrip()


def _entailed(found: EntailmentReport) -> Iterator[str]:
    if found.mean is None:
        return
    yield f"entailed by the sources: {found.mean:.2f} on the mean of {len(found.sentences)}"
    for one in found.sentences:
        source = "" if one.passage is None else f"[{one.passage}]"
        yield printable(f"  {one.probability:.2f} {source:<4} {' '.join(one.text.split())}")
    yield ""
