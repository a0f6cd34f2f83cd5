"""The golden queries of a corpus folder: opening them in spite of faults, and finding one, or those of a split."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path

from retrieval_lab.errors import Fault, FaultyInput, InputError
from retrieval_lab.golden import read_golden
from retrieval_lab.types import GoldenQuery


@dataclass(frozen=True, slots=True)
class GoldenSet:
    """The queries of a file, none where it has faults or is missing, and these faults."""

    path: Path
    queries: tuple[GoldenQuery, ...]
    faults: tuple[Fault, ...]

    @classmethod
    def open(cls, path: Path) -> GoldenSet:
        """What the file has; raises nothing for its contents."""
        if not path.exists():
            return cls(path, (), ())
        read = read_golden(path)
        return cls(path, () if read.faults else read.queries, read.faults)

    def require(self) -> None:
        """Raises FaultyInput when the file has faults, InputError when it is missing or empty."""
        if self.faults:
            raise FaultyInput(self.faults)
        if not self.queries:
            raise InputError(f"{self.path}: no golden queries; without them there is nothing to measure")

    def query(self, query_id: str) -> GoldenQuery:
        """The query of this id. Raises as `require` does, and InputError when there is none of this id."""
        self.require()
        found = {query.query_id: query for query in self.queries}
        if query_id not in found:
            close = difflib.get_close_matches(query_id, found, n=3) or list(found)[:3]
            raise InputError(f"{self.path}: no query {query_id!r} among {len(found)}; there is {', '.join(close)}")
        return found[query_id]

    def split(self, name: str) -> tuple[GoldenQuery, ...]:
        """The queries of this split, in order. Raises as `require` does, and InputError when there are none."""
        self.require()
        found = tuple(query for query in self.queries if query.split == name)
        if not found:
            there = ", ".join(sorted({query.split for query in self.queries if query.split}))
            mend = f"there is {there}" if there else "`retrieval-lab split` makes dev and held-out"
            raise InputError(f"{self.path}: no query of the split {name!r}; {mend}")
        return found
