"""How an answer cites its sources: its claims, the source numbers of each, and what is wrong with its markers."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from retrieval_lab.markers import Marker, NumberSpan, Unrecognised, all_markers, pinned_markers
from retrieval_lab.sentences import Kind, Sentence, pinned_sentences, sentences
from retrieval_lab.types import Faithfulness

REFUSAL = "I cannot answer from the sources."

Rules = Literal["pinned", "full"]
"""`pinned`: `[n]` and plain sentence ends, as `answer.check` reads by default. `full`: what people and models write."""

_NO_CLAIM = (Kind.HEADING, Kind.LEAD_IN, Kind.TABLE_HEADER)
# What may stand around a sentence that is the refusal: emphasis, and what a list or a marker leaves.
_EMPHASIS = " \t\n*_~"
# By the pinned rules any marks around it, since a list's or a quotation's belong to the sentence.
_MARKS = _EMPHASIS + "-+>#\"'“”\u2018’«»()0123456789[]"


@dataclass(frozen=True, slots=True)
class Claim:
    """One sentence, table row or heading: `text` is answer[start:end].

    `numbers` are the valid source numbers that it cites, in the order written. `needs_citation` is false for headings,
    table headers, lead-ins that end in a colon, and the refusal.
    """

    text: str
    start: int
    end: int
    numbers: tuple[int, ...]
    needs_citation: bool

    @property
    def is_uncited(self) -> bool:
        """Whether it needs a citation and has no valid one."""
        return self.needs_citation and not self.numbers


@dataclass(frozen=True, slots=True)
class CitationReport:
    """What an answer says and cites; offsets are code points of the answer, everything in its order.

    `numbers` has the place of every valid number that is written out: `[1]` as a whole, in `[1, 3]` and `[1-3]` the
    digits of 1 and of 3. `invalid` has those outside 1..n in the same way, of a range its ends. `unrecognised` are
    brackets that look like citations in no form that is accepted; the pinned rules know none.
    """

    claims: tuple[Claim, ...]
    cited: tuple[int, ...]
    numbers: tuple[NumberSpan, ...]
    invalid: tuple[NumberSpan, ...]
    unrecognised: tuple[Unrecognised, ...]
    refused: bool

    @property
    def uncited(self) -> tuple[Claim, ...]:
        """The claims without a valid citation."""
        return tuple(claim for claim in self.claims if claim.is_uncited)

    @property
    def faithfulness(self) -> Faithfulness:
        """The report in short."""
        return Faithfulness(self.cited, tuple(claim.text for claim in self.uncited), self.refused)


def cited_sentences(text: str, citations: Sequence[str], *, rules: Rules = "full") -> CitationReport:
    """What the answer `text` claims and cites of the sources `citations`, chunk_ids of which the first is number 1.

    The pinned rules stand at `answer.check`. The full ones also take `[1, 2]`, `[1-3]` and 【1】, and no marker in
    code, links and subscripts; know abbreviations, initials, decimals, quotations and ideographic stops; take each
    list item and table row for a claim; and `refused` means that a sentence is the refusal, not that a quotation
    holds it.
    """
    strays: list[Unrecognised] = []
    if rules == "pinned":
        markers, found = pinned_markers(text, len(citations)), pinned_sentences(text)
        refused = REFUSAL in text
    else:
        (markers, strays), found = all_markers(text, citations), sentences(text)
        refused = any(_is_refusal(text, one, markers, _EMPHASIS) and not one.quoted for one in found)
    return CitationReport(
        claims=tuple(_claims(text, found, markers, _MARKS if rules == "pinned" else _EMPHASIS)),
        cited=tuple(sorted({number for marker in markers for number in marker.numbers})),
        numbers=tuple(span for marker in markers for span in marker.spans),
        invalid=tuple(span for marker in markers for span in marker.invalid),
        unrecognised=tuple(strays),
        refused=refused,
    )


def _claims(text: str, found: Sequence[Sentence], markers: Sequence[Marker], around: str) -> Iterator[Claim]:
    for one in found:
        inside = _inside(one, markers)
        numbers = dict.fromkeys(number for marker in inside for number in marker.numbers)
        needs = one.kind not in _NO_CLAIM and not (_is_refusal(text, one, markers, around) and not one.quoted)
        yield Claim(text[one.start : one.end], one.start, one.end, tuple(numbers), needs)


def _inside(one: Sentence, markers: Sequence[Marker]) -> Sequence[Marker]:
    first, beyond = (bisect_left(markers, place, key=lambda marker: marker.start) for place in (one.start, one.end))
    return markers[first:beyond]


def _is_refusal(text: str, one: Sentence, markers: Sequence[Marker], around: str) -> bool:
    """Whether the sentence is the refusal, its markers and what may stand `around` it left out."""
    bare = text[one.start : one.end]
    for marker in reversed(_inside(one, markers)):
        bare = bare[: marker.start - one.start] + bare[marker.end - one.start :]
    # The full rules forgive a full stop that was left out; by the pinned ones such a text does not refuse either.
    return bare.strip(around) in ((REFUSAL,) if around == _MARKS else (REFUSAL, REFUSAL.rstrip(".")))
