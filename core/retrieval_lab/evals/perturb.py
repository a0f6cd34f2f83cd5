"""The same golden queries in other words: with typos, with synonyms, in reversed word order.

What people type differs from what whoever wrote the labels had in mind. Labels stay, so that the same answer is wanted.
All functions are pure, and the same query always gets the same change.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from importlib.resources import files
from types import MappingProxyType
from typing import Final

from retrieval_lab.errors import InputError
from retrieval_lab.text import WORD
from retrieval_lab.types import GoldenQuery

TYPOS: Final = "typos"
SYNONYMS: Final = "synonyms"
REVERSED: Final = "reversed"

MISSPELT_WORDS: Final = 2
SHORTEST_MISSPELT: Final = 4
"""How many letters a word has at least for a typo."""

_TABLE = "synonyms.txt"
_END = re.compile(r"\s*[.?!…。？！]+$")  # noqa: RUF001 - full width, as in Chinese and Japanese


@dataclass(frozen=True, slots=True)
class Perturbed:
    """Golden queries that a perturbation changed, in their order, and the ids of those that it leaves as they are."""

    kind: str
    queries: tuple[GoldenQuery, ...]
    unchanged: tuple[str, ...]


def perturbed(golden: Sequence[GoldenQuery], kind: str) -> Perturbed:
    """The queries after the perturbation of this name; all but their text stays. Raises InputError for another name."""
    if kind not in PERTURBATIONS:
        raise InputError(f"the perturbation {kind!r} is unknown; there is {', '.join(PERTURBATIONS)}")
    pairs = [(query, PERTURBATIONS[kind](query)) for query in golden]
    return Perturbed(
        kind,
        tuple(after for before, after in pairs if after.query != before.query),
        tuple(before.query_id for before, after in pairs if after.query == before.query),
    )


# --- typos ---------------------------------------------------------------------------------------------------------


def with_typos(query: GoldenQuery) -> GoldenQuery:
    """The query with two adjacent letters swapped in each of its two longest words, of equal ones the earlier.

    Length is in letters. Only words of four letters and more count, and only those that a swap changes: the first
    letter stays, and the two differ in more than case. Which two they are depends on the query's id and the word.
    """
    found = [(match, _swappable(match[0])) for match in WORD.finditer(query.query)]
    fit = [(match, places) for match, places in found if places and _letters(match[0]) >= SHORTEST_MISSPELT]
    longest = sorted(fit, key=lambda one: -_letters(one[0][0]))[:MISSPELT_WORDS]
    characters = list(query.query)
    for match, places in longest:
        place = match.start() + places[_drawn(f"{query.query_id}\0{match[0]}", len(places))]
        characters[place : place + 2] = reversed(characters[place : place + 2])
    return replace(query, query="".join(characters))


def _letters(word: str) -> int:
    return sum(map(str.isalpha, word))


def _swappable(word: str) -> list[int]:
    """The places in a word at which a letter behind the first and the letter after it can be swapped."""
    first = next((place for place, char in enumerate(word) if char.isalpha()), len(word))
    return [
        place
        for place in range(first + 1, len(word) - 1)
        if word[place : place + 2].isalpha() and word[place].casefold() != word[place + 1].casefold()
    ]


def _drawn(seed: str, number: int) -> int:
    """One of the first so many numbers from 0, always the same for the same seed."""
    return int.from_bytes(sha256(seed.encode("utf-8", "surrogatepass")).digest()) % number


# --- synonyms ------------------------------------------------------------------------------------------------------


def with_synonyms(query: GoldenQuery) -> GoldenQuery:
    """The query with each word of the lab's table of synonyms replaced by the next of its group.

    The case of the first letter is kept. A query without any such word stays as it is.
    """
    table = synonyms()

    def other(match: re.Match[str]) -> str:
        found = table.get(match[0].lower())
        if found is None:
            return match[0]
        return found[0].upper() + found[1:] if match[0][0].isupper() else found

    return replace(query, query=WORD.sub(other, query.query))


@cache
def synonyms() -> Mapping[str, str]:
    """What each word of the table becomes, all in lower case."""
    pairs = (pair for group in groups() for pair in zip(group, [*group[1:], group[0]], strict=True))
    return MappingProxyType(dict(pairs))


def groups() -> list[list[str]]:
    """The groups of the table, a line each, in its order."""
    text = files(__package__).joinpath(_TABLE).read_text(encoding="utf-8")
    lines = (line.strip() for line in text.split("\n"))
    return [[word.strip() for word in line.split(",")] for line in lines if line and not line.startswith("#")]


# --- the order of words --------------------------------------------------------------------------------------------


def with_words_reversed(query: GoldenQuery) -> GoldenQuery:
    """The query with its words, as white space parts them, from the last to the first.

    Punctuation that ends the query stays at its end; white space becomes one space. A query whose words are the same
    backwards stays as it is.
    """
    text = query.query.strip()
    end = _END.search(text)
    words = (text[: end.start()] if end else text).split()
    if words == words[::-1]:
        return query
    return replace(query, query=" ".join(reversed(words)) + (end[0].strip() if end else ""))


PERTURBATIONS: Final[Mapping[str, Callable[[GoldenQuery], GoldenQuery]]] = MappingProxyType(
    {TYPOS: with_typos, SYNONYMS: with_synonyms, REVERSED: with_words_reversed}
)
"""Each perturbation by its name."""
