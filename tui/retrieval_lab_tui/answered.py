"""An answer as content for the screen: its citations as links, what cites nothing marked, everything else as text."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from textual.content import Content, Span
from textual.style import Style

from retrieval_lab.citations import CitationReport
from retrieval_lab_tui.display import safe

UNCITED = "! "
_NUMBER_STYLE = "bold underline $accent"


def answer_content(text: str, report: CitationReport, link: Callable[[int], Style]) -> Content:
    """The answer, safe to show. Every valid source number is a link; a claim without one begins with UNCITED."""
    spans = [Span(one.start, one.end, _NUMBER_STYLE) for one in report.numbers]
    spans += [Span(one.start, one.end, link(one.number)) for one in report.numbers]
    spans += [Span(one.start, one.end, "italic $warning") for one in report.uncited]
    whole = Content(safe(text)).add_spans(spans)
    return Content("").join(_with_marks(whole, [one.start for one in report.uncited]))


def _with_marks(whole: Content, starts: list[int]) -> Iterator[Content]:
    before = 0
    for start in starts:
        yield whole[before:start]
        yield Content.styled(UNCITED, "bold reverse $warning")
        before = start
    yield whole[before:]
