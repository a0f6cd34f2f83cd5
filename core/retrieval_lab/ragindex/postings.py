"""The postings of a BM25 index as arrays, and their making from the terms of the documents."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Postings(Mapping[str, list[tuple[int, int]]]):
    """term -> [(document, tf), ...], documents ascending, terms in the order of their UTF-8 bytes.

    The lists are made when they are asked for. In memory the postings of all terms stand one after another in `docs`
    and `tfs`, those of the i-th term from `starts[i]` up to `starts[i + 1]`; `rows` is term -> i.
    """

    rows: Mapping[str, int]
    starts: NDArray[np.int64]
    docs: NDArray[np.int32]
    tfs: NDArray[np.uint32]

    def __getitem__(self, term: str) -> list[tuple[int, int]]:
        where = self.slice(self.rows[term])
        return list(zip(self.docs[where].tolist(), self.tfs[where].tolist(), strict=True))

    def __iter__(self) -> Iterator[str]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def slice(self, row: int) -> slice:
        """Where the postings of the row-th term stand."""
        return slice(int(self.starts[row]), int(self.starts[row + 1]))

    def reordered(self, order: NDArray[np.int64]) -> Postings:
        """The same where document i is what was document `order[i]`, a permutation."""
        places = np.empty(len(order), dtype=np.int32)
        places[order] = np.arange(len(order), dtype=np.int32)
        docs = places[self.docs]
        by_document = np.lexsort((docs, np.repeat(np.arange(len(self.rows)), np.diff(self.starts))))
        return Postings(self.rows, self.starts, docs[by_document], self.tfs[by_document])

    def df(self, term: str) -> int:
        """How many documents hold the term."""
        row = self.rows.get(term)
        return 0 if row is None else int(self.starts[row + 1] - self.starts[row])


def invert(documents: Iterable[Sequence[str]]) -> tuple[Postings, NDArray[np.uint32]]:
    """The postings of the documents, each given by its terms, and the number of terms of each."""
    kept = list(documents)
    lengths = np.fromiter(map(len, kept), dtype=np.uint32, count=len(kept))
    numbers: defaultdict[str, int] = defaultdict(count().__next__)
    found = np.fromiter(map(numbers.__getitem__, chain.from_iterable(kept)), dtype=np.int64, count=int(lengths.sum()))
    ordered = sorted(numbers)  # code points sort as their UTF-8 bytes do
    rows = {term: row for row, term in enumerate(ordered)}
    row_of = np.empty(len(rows), dtype=np.int64)
    row_of[[numbers[term] for term in ordered]] = np.arange(len(rows))
    # One number for each occurrence, the term's row above the document's; sorted, equal ones stand together.
    occurrences = row_of[found] * len(kept) + np.repeat(np.arange(len(kept)), lengths)
    occurrences.sort()
    first = np.flatnonzero(np.diff(occurrences, prepend=-1))
    tfs = np.diff(first, append=len(occurrences)).astype(np.uint32)
    terms, docs = np.divmod(occurrences[first], max(1, len(kept)))
    starts = np.searchsorted(terms, np.arange(len(rows) + 1))
    return Postings(rows, starts.astype(np.int64), docs.astype(np.int32), tfs), lengths
