"""The parts of a golden set, to choose by and held out: as its labels state them, or dealt, each kind in its share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol

from retrieval_lab.errors import InputError
from retrieval_lab.types import GoldenQuery

DEV = "dev"
HELD_OUT = "held-out"
DEV_SHARE = 0.4
SEED = 13


class Labelled(Protocol):
    """A query with its kind: of a golden set, or as a run remembers it."""

    @property
    def query_id(self) -> str: ...

    @property
    def kind(self) -> str: ...

    @property
    def split(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Splits:
    """The split of each query by its id, in the order of the golden set, and (dev, held-out) counts by kind."""

    by_query: dict[str, str]
    by_kind: dict[str, tuple[int, int]]

    def count(self, split: str) -> int:
        """How many queries are in the split."""
        return sum(one == split for one in self.by_query.values())


@dataclass(frozen=True, slots=True)
class Dev:
    """The queries to choose by; `dealt` says that golden.yaml has no splits, so that they were dealt for the moment."""

    queries: tuple[GoldenQuery, ...]
    dealt: bool


def parted(queries: Sequence[Labelled]) -> tuple[dict[str, str], bool]:
    """The split of each query by its id, and whether they were dealt for the moment, by `stratified`.

    They are dealt where no label states a split; one query alone has none then.
    """
    stated = {query.query_id: query.split for query in queries}
    if any(stated.values()) or len(queries) < 2:
        return stated, False
    return stratified(queries).by_query, True


def dev_queries(golden: Sequence[GoldenQuery]) -> Dev:
    """The queries of the split dev, in the order of the golden set, as `parted` parts it.

    Raises InputError when there are splits and no query is of dev, and where nothing can be dealt.
    """
    if len(golden) < 2 and not any(query.split for query in golden):
        raise InputError(f"{len(golden)} golden queries; expected at least 2 to split")
    splits, dealt = parted(golden)
    found = tuple(query for query in golden if splits[query.query_id] == DEV)
    if not found:
        there = ", ".join(sorted({split for split in splits.values() if split}))
        raise InputError(
            f"no golden query is of the split {DEV!r}, which settings are chosen by; there is {there}: "
            f"give some queries `split: {DEV}`, or let `retrieval-lab split --force` deal them anew"
        )
    return Dev(found, dealt)


def stratified(golden: Sequence[Labelled], *, dev: float = DEV_SHARE, seed: int = SEED) -> Splits:
    """Deal the queries into `dev` and `held-out`, so that each kind has its share of both as nearly as can be.

    round(dev * queries) of all are dev, halves up, at least one and not all; how many of each kind says the largest
    remainder (Hamilton's method, ties to the kind that comes first by name). Which ones of a kind depends on the seed
    and the ids alone, not on their order in the file. Raises InputError for a share outside 0 to 1 and for fewer than
    two queries.
    """
    if not 0 < dev < 1:
        raise InputError(f"the share of dev is {dev}; expected a number between 0 and 1")
    if len(golden) < 2:
        raise InputError(f"{len(golden)} golden queries; expected at least 2 to split")
    kinds: dict[str, list[str]] = {}
    for query in golden:
        kinds.setdefault(query.kind, []).append(query.query_id)
    total = min(max(math.floor(dev * len(golden) + 0.5), 1), len(golden) - 1)
    seats = _seats({kind: len(ids) for kind, ids in sorted(kinds.items())}, total)
    chosen = {one for kind, ids in kinds.items() for one in _drawn(sorted(ids), seats[kind], f"{seed} {kind}")}
    return Splits(
        {query.query_id: DEV if query.query_id in chosen else HELD_OUT for query in golden},
        {kind: (seats[kind], len(kinds[kind]) - seats[kind]) for kind in seats},
    )


def _seats(sizes: dict[str, int], total: int) -> dict[str, int]:
    """`total` seats in proportion to the sizes, by largest remainder; exact, since in whole numbers."""
    everything = sum(sizes.values())
    seats = {kind: size * total // everything for kind, size in sizes.items()}
    remainders = sorted(sizes, key=lambda kind: (-(sizes[kind] * total % everything), kind))
    for kind in remainders[: total - sum(seats.values())]:
        seats[kind] += 1
    return seats


def _drawn(ids: Sequence[str], count: int, seed: str) -> list[str]:
    """So many of the ids, by the Mersenne Twister, whose sequence for a text Python keeps between versions."""
    draw = Random(seed)  # noqa: S311 - nothing is kept secret by it
    keyed = sorted((draw.random(), one) for one in ids)
    return [one for _, one in keyed[:count]]
