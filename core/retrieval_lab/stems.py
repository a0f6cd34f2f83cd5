"""The stems of English words, stop words left out: what BM25 of stems finds."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Any

from retrieval_lab.stopwords import STOP_WORDS

_turn = threading.Lock()


def stemmed(words: Iterable[str]) -> list[str]:
    """The stem of each of the words (lower case), in their order, without those that are stop words."""
    return [_stem(word) for word in words if word not in STOP_WORDS]


@lru_cache(maxsize=1 << 17)  # a corpus has few different words, and stemming one takes as long as indexing many
def _stem(word: str) -> str:
    with _turn:  # a stemmer keeps the word that it works on in itself
        return str(_porter2().stemWord(word))


@cache
def _porter2() -> Any:
    """Snowball's English stemmer, https://snowballstem.org/algorithms/english/stemmer.html."""
    import snowballstemmer  # its thirty languages take as long to import as all of the lab

    return snowballstemmer.stemmer("english")
