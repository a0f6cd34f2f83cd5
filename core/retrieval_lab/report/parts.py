"""Which queries of an ablation choose, which are held out, and which count in neither."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

from retrieval_lab.ablation.cell import Cell
from retrieval_lab.errors import InputError
from retrieval_lab.evals.records import QueryRecord
from retrieval_lab.evals.runs import HELD_OUT
from retrieval_lab.evals.splits import DEV, parted
from retrieval_lab.evals.splits import HELD_OUT as DEALT_HELD_OUT
from retrieval_lab.evals.versus import require_comparable


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The query ids of each part, in the order of the golden set.

    `dev` and `held_out` have the queries that count: those with a relevant chunk in every configuration, so that all
    are measured on the same. `held_out_list` has every query of the held-out split, counted or not. `dealt` says that
    the labels state no split, so that `splits.stratified` dealt them. `undefined` are the queries that do not count,
    with the configurations in which nothing is relevant, `unanswerable` those that nothing in the corpus answers,
    `elsewhere` those of other splits.
    """

    dev: tuple[str, ...]
    held_out: tuple[str, ...]
    held_out_list: tuple[str, ...]
    dealt: bool
    undefined: Mapping[str, tuple[str, ...]]
    unanswerable: tuple[str, ...]
    elsewhere: tuple[str, ...]

    @property
    def held_out_hash(self) -> str:
        """The SHA-256 of the sorted ids of the held-out list, as JSON."""
        return sha256(json.dumps(sorted(self.held_out_list)).encode()).hexdigest()

    def name_of(self, query_id: str) -> str:
        """The part of a query: `dev`, `held-out`, or nothing for one that counts in neither."""
        return DEV if query_id in self.dev else DEALT_HELD_OUT if query_id in self.held_out else ""


def parts(cells: Sequence[Cell]) -> Parts:
    """The parts of the golden set that the cells were measured with.

    Raises InputError when there is no cell, the cells are of other golden sets or cuts, or no query that counts is held
    out.
    """
    if not cells:
        raise InputError("no configuration is measured yet, so there is nothing to report; run the ablation first")
    first = cells[0].run
    for cell in cells[1:]:
        require_comparable(first, cell.run.queries, golden_hash=cell.run.corpus.golden_hash, k=cell.run.k)
    splits, dealt = parted(first.queries)
    undefined = _undefined(cells)
    unanswerable = tuple(one.query_id for one in first.queries if one.level == "none")
    counted = [one for one in splits if one not in undefined and one not in unanswerable]
    found = Parts(
        dev=tuple(one for one in counted if splits[one] == DEV),
        held_out=tuple(one for one in counted if splits[one] in HELD_OUT),
        held_out_list=tuple(one for one, split in splits.items() if split in HELD_OUT),
        dealt=dealt,
        undefined=undefined,
        unanswerable=unanswerable,
        elsewhere=tuple(one for one, split in splits.items() if split != DEV and split not in HELD_OUT),
    )
    if not found.held_out:
        raise InputError(
            f"no query that counts is held out (splits: {', '.join(sorted(set(splits.values())))}), so nothing"
            " can be decided; run the ablation over the whole golden set"
        )
    return found


def records_of(cell: Cell, query_ids: Iterable[str]) -> list[QueryRecord]:
    """What these queries got in a cell, in this order."""
    records = {one.query_id: one for one in cell.run.queries}
    return [records[one] for one in query_ids]


def values_of(cell: Cell, query_ids: Iterable[str], measure: str) -> list[float]:
    """A measure of these queries in a cell. Raises InputError when the cell does not have the measure."""
    records = records_of(cell, query_ids)
    if any(measure not in one.measures for one in records):
        names = ", ".join(records[0].measures)
        raise InputError(f"{cell.name}: there is no measure {measure!r}; set the rule by one of these: {names}")
    return [one.measures[measure] for one in records]


def _undefined(cells: Sequence[Cell]) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for cell in cells:
        for one in cell.run.queries:
            if one.is_unlabelled:
                found.setdefault(one.query_id, []).append(cell.name)
    return {query_id: tuple(names) for query_id, names in found.items()}
