"""Texts that are nearly the same, by TF-IDF cosine, without comparing all pairs and without a dense matrix."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retrieval_lab.text import words

THRESHOLD = 0.9
MIN_WORDS = 5

_SLACK = 1e-9  # for the rounding of sums, in whose favour a pair is decided


@dataclass(frozen=True, slots=True)
class Group:
    """Texts that hang together by pairs of near-duplicates: their places in the input, ascending.

    `cosine` is the lowest of the pairs that were needed to join them; for two texts it is theirs.
    """

    members: tuple[int, ...]
    cosine: float


@dataclass(frozen=True, slots=True)
class _Vector:
    """One text: its terms from the rarest to the most common, with weights of length 1 together.

    Two vectors that reach the threshold share a term among the first `prefix` of both.
    """

    place: int
    terms: NDArray[np.int64]
    weights: NDArray[np.float64]
    prefix: int


def near_duplicates(
    texts: Iterable[str],
    *,
    threshold: float = THRESHOLD,
    min_words: int = MIN_WORDS,
    ignore: Callable[[int, int], bool] = lambda _first, _second: False,
) -> list[Group]:
    """The groups of texts whose cosine is at least `threshold`, by their first members.

    Terms are the words of `text.words`. A term that occurs tf times in a text and in df of N texts weighs
    tf * (ln((1 + N) / (1 + df)) + 1), the smoothed idf of scikit-learn; vectors have length 1. Texts of fewer than
    `min_words` words take no part. Pairs (i < j) for which `ignore(i, j)` holds join nothing.

    Only pairs that share one of their rarest terms are compared, which loses none: if all that two vectors share lies
    behind a prefix whose rest is shorter than the threshold, so is their product. This is prefix filtering, Bayardo,
    Ma and Srikant, "Scaling Up All Pairs Similarity Search" (2007). Memory: one number for each distinct word of a
    text.
    """
    vectors, vocabulary = _vectors(texts, threshold, min_words)
    groups = _Groups(len(vectors))
    holders: dict[int, list[int]] = {}
    dense = np.zeros(vocabulary)
    for number, vector in enumerate(vectors):
        rare = vector.terms[: vector.prefix].tolist()
        dense[vector.terms] = vector.weights
        for other in sorted({earlier for term in rare for earlier in holders.get(term, ())}):
            candidate = vectors[other]
            if groups.joined(other, number) or ignore(candidate.place, vector.place):
                continue
            cosine = float(dense[candidate.terms] @ candidate.weights)
            if cosine >= threshold - _SLACK:
                groups.join(other, number, min(cosine, 1.0))
        dense[vector.terms] = 0.0
        for term in rare:
            holders.setdefault(term, []).append(number)
    return [
        Group(tuple(vectors[number].place for number in members), cosine) for members, cosine in groups.of_several()
    ]


def _vectors(texts: Iterable[str], threshold: float, min_words: int) -> tuple[list[_Vector], int]:
    """The vectors of the texts that are long enough, and the size of the vocabulary."""
    vocabulary: dict[str, int] = {}
    counted = []
    for place, text in enumerate(texts):
        found = words(text)
        if len(found) >= min_words:
            numbers = [vocabulary.setdefault(word, len(vocabulary)) for word in found]
            counted.append((place, *np.unique(np.array(numbers, dtype=np.int64), return_counts=True)))
    held = np.zeros(len(vocabulary), dtype=np.int64)
    for _, terms, _ in counted:
        held[terms] += 1
    idf = np.log((1 + len(counted)) / (1 + held)) + 1
    rarity = np.empty(len(vocabulary), dtype=np.int64)
    rarity[np.argsort(held, kind="stable")] = np.arange(len(vocabulary))
    vectors = []
    for place, terms, counts in counted:
        order = np.argsort(rarity[terms])
        weights = (counts * idf[terms])[order]
        weights /= np.linalg.norm(weights)
        vectors.append(_Vector(place, terms[order], weights, _prefix(weights, threshold)))
    return vectors, len(vocabulary)


def _prefix(weights: NDArray[np.float64], threshold: float) -> int:
    """How many of the first weights it takes until the length of the rest is below the threshold."""
    enough = 1 - threshold**2 + _SLACK * 4
    return int(np.searchsorted(np.cumsum(weights**2), enough, side="right")) + 1


class _Groups:
    """Which vectors were joined, directly or through others."""

    def __init__(self, size: int) -> None:
        self._parents = list(range(size))
        self._cosines: dict[int, float] = {}

    def joined(self, first: int, second: int) -> bool:
        return self._root(first) == self._root(second)

    def join(self, first: int, second: int, cosine: float) -> None:
        low, high = sorted((self._root(first), self._root(second)))
        self._parents[high] = low
        self._cosines[low] = min(cosine, self._cosines.get(low, 1.0), self._cosines.get(high, 1.0))

    def of_several(self) -> Iterator[tuple[Sequence[int], float]]:
        members: dict[int, list[int]] = {}
        for number in range(len(self._parents)):
            members.setdefault(self._root(number), []).append(number)
        return ((numbers, self._cosines[root]) for root, numbers in members.items() if len(numbers) > 1)

    def _root(self, number: int) -> int:
        while self._parents[number] != number:
            self._parents[number] = number = self._parents[self._parents[number]]
        return number
