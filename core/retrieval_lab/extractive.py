"""An answer without a model: the sentences of the passages that share most with the question, each with its source."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from retrieval_lab.citations import REFUSAL, cited_sentences
from retrieval_lab.errors import InputError
from retrieval_lab.inline import links
from retrieval_lab.sentences import Kind, Sentence, sentences
from retrieval_lab.stopwords import STOP_WORDS
from retrieval_lab.text import folded, sendable, words
from retrieval_lab.types import Answer, Chunk

# What a term counts for that the answer already has, against one that it has not.
_KNOWN_TERM = 0.25
# A further sentence must be worth this share of the first, so that an answer is not filled up.
_LEAST_SHARE = 0.5
# Two sentences are the same when they share this much of their words, the Jaccard index of the two sets.
_SAME = 0.9

_EMPHASIS = re.compile(r"\*\*|__(?=\S)|(?<=\S)__")
_BRACKET = re.compile(r"(?P<before>\w?)[\[【](?P<inside>[^\[\]【】]{1,700})[\]】]")
_DIGIT = re.compile(r"\d")
_QUESTION = re.compile(r"[?\uff1f]\W*$")
# The source's own citations behind a full stop: they would become a sentence of their own.
_TRAILING_BRACKETS = re.compile(r"(?<=[.!?…])(?:\s*[\[【][^\[\]【】]{0,40}\d[^\[\]【】]{0,40}[\]】])+$")
_LINE_OPENERS = "#>|~+*= \t"


def lower(word: str) -> str:
    """The stem that takes words as they are."""
    return word


@dataclass(frozen=True, slots=True)
class _Candidate:
    """One sentence of source `number`, fit to stand in an answer, and the terms that it holds."""

    number: int
    text: str
    terms: frozenset[str]
    words: frozenset[str]


class ExtractiveAnswerer:
    """Answers with sentences of the sources, word for word: needs no model, no account, and gives the same always."""

    def __init__(self, max_sentences: int = 3, *, stem: Callable[[str], str] = lower) -> None:
        """`stem` makes a term of a lower-case word; words with one stem are the same.

        Raises InputError for less than one sentence.
        """
        if max_sentences < 1:
            raise InputError(f"an answer of {max_sentences} sentences was asked for; expected 1 or more")
        self.max_sentences = max_sentences
        self.stem = stem

    def answer(self, question: str, chunks: Sequence[Chunk], *, weights: Mapping[str, float] | None = None) -> Answer:
        """At most `max_sentences` sentences of the chunks, a line each, every one followed by ` [n]`; cost 0.0.

        `weights` has the weight of each term as `stem` gives it, an idf for instance; without it every word of the
        question that is no stop word weighs 1. The next sentence is the one of the highest weight, in which a term
        that the answer already has counts a quarter; ties go to the earlier source and sentence. What comes to less
        than half of the first is left out, what says nearly the same too. The answer is the refusal when no sentence
        shares a term with the question. Faithfulness is by the full rules.
        """
        weighed = self._weights(question, weights)
        picked = self._picked(list(self._candidates(chunks, weighed)), weighed)
        text = "\n".join(f"{one.text} [{one.number}]" for one in picked) or REFUSAL
        return Answer(text, cited_sentences(text, [chunk.chunk_id for chunk in chunks]).faithfulness, 0.0)

    def _weights(self, question: str, weights: Mapping[str, float] | None) -> dict[str, float]:
        if weights is None:
            return {self.stem(word): 1.0 for word in words(question) if word not in STOP_WORDS}
        return {term: weight for term, weight in weights.items() if weight > 0}

    def _candidates(self, chunks: Sequence[Chunk], weights: Mapping[str, float]) -> Iterator[_Candidate]:
        """The sentences that share a term with the question, in the order of the sources."""
        for number, chunk in enumerate(chunks, start=1):
            for one in sentences(chunk.text, wrapped=True):
                text = _plain(chunk.text, one)
                found = words(text)
                terms = frozenset(map(self.stem, found)) & weights.keys()
                if terms and _is_fit(text):
                    yield _Candidate(number, text, frozenset(terms), frozenset(found))

    def _picked(self, candidates: list[_Candidate], weights: Mapping[str, float]) -> list[_Candidate]:
        picked: list[_Candidate] = []
        known: set[str] = set()
        least = 0.0

        def value(one: _Candidate) -> float:
            # fsum, since the order of a set depends on the process, and a plain sum on the order.
            return math.fsum(weights[term] * (_KNOWN_TERM if term in known else 1.0) for term in one.terms)

        while candidates and len(picked) < self.max_sentences:
            best = max(candidates, key=value)  # the first of equals
            if value(best) < least:
                break
            least = least or value(best) * _LEAST_SHARE
            picked.append(best)
            known |= best.terms
            candidates = [one for one in candidates if not _is_same(one, best)]
        return picked


def _is_same(one: _Candidate, other: _Candidate) -> bool:
    return len(one.words & other.words) >= _SAME * len(one.words | other.words)


def _is_fit(text: str) -> bool:
    """Whether the sentence, followed by a marker, is one claim with one valid citation, no question, no refusal."""
    if _QUESTION.search(text) or folded(REFUSAL.rstrip(".")) in folded(text):
        return False
    report = cited_sentences(f"{text} [1]", ("",))
    numbers = [claim.numbers for claim in report.claims]
    return numbers == [(1,)] and len(report.numbers) == 1 and not (report.invalid or report.unrecognised)


def _plain(text: str, one: Sentence) -> str:
    """The sentence on one line, as text: without emphasis, link targets, and anything that could cite.

    A bracket with a number goes where it follows the sentence, gets blanks where it is a subscript, and becomes a
    parenthesis elsewhere. Empty for what is no sentence and no row of a table.
    """
    if one.kind not in (Kind.SENTENCE, Kind.TABLE_ROW):
        return ""
    raw = sendable(text[one.start : one.end])[0]
    for link in reversed(links(raw)):
        raw = raw[: link.start] + link.label + raw[link.end :]
    if one.kind is Kind.TABLE_ROW:
        raw = "; ".join(cell.strip() for cell in raw.strip().strip("|").split("|") if cell.strip())
    if raw.count("`") % 2:
        raw = raw.replace("`", "")
    line = " ".join(_EMPHASIS.sub("", raw).split()).lstrip(_LINE_OPENERS)
    return _BRACKET.sub(_defused, _TRAILING_BRACKETS.sub("", line))


def _defused(bracket: re.Match[str]) -> str:
    inside = bracket["inside"]
    if not _DIGIT.search(inside):
        return bracket[0]
    return f"{bracket['before']}[ {inside} ]" if bracket["before"] else f"({inside})"
