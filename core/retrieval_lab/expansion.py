"""Query expansion by pseudo-relevance feedback: a question gets the words of the passages that it finds first."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from retrieval_lab.ragindex.terms import terms as words_of
from retrieval_lab.stopwords import STOP_WORDS

FEEDBACK = 10
TERMS = 10
ORIGINAL_WEIGHT = 0.5

_OPERATORS = re.compile(r'["-]')


@dataclass(frozen=True, slots=True)
class QueryModel:
    """What each word of a query counts: the words of its text in their order, then new ones, the heaviest first.

    `counts` are on the scale of the query, whose words count as often as they stand in it, which `asked` says. Words
    that count nothing are left out.
    """

    counts: Mapping[str, float]
    asked: Mapping[str, int]

    @property
    def new(self) -> list[str]:
        """The words that the query does not have."""
        return [word for word in self.counts if word not in self.asked]

    @property
    def shares(self) -> tuple[tuple[str, float], ...]:
        """The probability of each word; they sum to 1."""
        length = sum(self.asked.values())
        return tuple((word, count / length) for word, count in self.counts.items())


def rm3(
    query: str,
    texts: Sequence[str],
    scores: Sequence[float],
    *,
    terms: int = TERMS,
    original_weight: float = ORIGINAL_WEIGHT,
) -> QueryModel | None:
    """The query with the best `terms` of the feedback texts, whose scores are a retriever's; None without any word.

    RM3 (Abdul-Jaleel et al., "UMass at TREC 2004: Novelty and HARD"): P(w) = original_weight * p(w|q) +
    (1 - original_weight) * p(w|R). p(w|q) is the share of w among the words of the query. p(w|R) is the relevance
    model RM1 (Lavrenko and Croft, "Relevance-Based Language Models", SIGIR 2001): proportional to the sum over the
    texts of p(w|d) * p(q|d), of which the best `terms` words are kept, ties by code point, and sum to 1. p(w|d) is the
    share of w among the words of the text, p(q|d) the text's score over the sum of all scores; a score below 0 counts
    as 0, and where all do every text counts the same. Words are as `ragindex.terms` finds them; stop words, single
    characters and numbers are kept only where they stand in the query. Where no word is kept, P is p(w|q).
    """
    asked = Counter(words_of(query))
    length = asked.total()
    if not length:
        return None
    feedback = _best(_relevance(texts, scores, asked), terms)
    if not feedback:
        return QueryModel(asked, asked)
    new = (word for word in feedback if word not in asked)
    counts = {
        word: original_weight * asked[word] + (1 - original_weight) * length * feedback.get(word, 0.0)
        for word in (*asked, *new)
    }
    return QueryModel({word: count for word, count in counts.items() if count > 0}, asked)


def _relevance(texts: Sequence[str], scores: Sequence[float], asked: Collection[str]) -> dict[str, float]:
    """RM1, not normalised, of the words that may be kept."""
    parts: dict[str, list[float]] = {}
    for text, weight in zip(texts, _normalised(scores), strict=True):
        found = Counter(words_of(text))
        for word, count in found.items():
            if word in asked or _tells(word):
                parts.setdefault(word, []).append(count / found.total() * weight)
    return {word: math.fsum(some) for word, some in parts.items()}


def _normalised(scores: Sequence[float]) -> list[float]:
    highest = max(scores, default=0.0)
    if highest <= 0:
        return [1 / len(scores) for _ in scores]
    positive = [max(score, 0.0) / highest for score in scores]  # divided first, so that no sum overflows
    total = math.fsum(positive)
    return [score / total for score in positive]


def _tells(word: str) -> bool:
    return len(word) > 1 and not word.isdigit() and word not in STOP_WORDS


def _best(weights: Mapping[str, float], terms: int) -> dict[str, float]:
    """The heaviest words, ties by code point, with weights that sum to 1."""
    kept = sorted(((-weight, word) for word, weight in weights.items() if weight > 0))[:terms]
    total = math.fsum(-weight for weight, _ in kept)
    return {word: -weight / total for weight, word in kept}


def with_words(query: str, words: Sequence[str]) -> str:
    """The query with the words behind it, for a search that takes text and has operators as a web search has.

    No operator of the query reaches the words: a quote that is open is closed, and where a dash may wait for its word
    it gets an empty phrase.
    """
    if not words:
        return query
    tail = " ".join(words)
    if query.count('"') % 2:
        return f'{query}" {tail}'
    return f'{query} "" {tail}' if _OPERATORS.search(query) else f"{query} {tail}"
