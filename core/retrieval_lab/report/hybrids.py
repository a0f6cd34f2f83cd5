"""Whether several lists beat one: the best configuration of each sort, chosen on dev, compared on what is held out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from retrieval_lab.ablation.cell import Cell
from retrieval_lab.evals.comparison import Comparison, compare_measures
from retrieval_lab.evals.resampling import mean_of
from retrieval_lab.report.parts import Parts, values_of


@dataclass(frozen=True, slots=True)
class Combined:
    """The best configuration of several lists against the best of one, by their names; both were chosen on dev."""

    several: str
    single: str
    comparison: Comparison

    def to_dict(self) -> dict[str, Any]:
        """The comparison as JSON has it."""
        return asdict(self)


def combined(cells: Sequence[Cell], of: Parts, measure: str) -> Combined | None:
    """That comparison on the held-out queries; None without both sorts, or without dev queries to choose by.

    Of equals the first of the grid is chosen.
    """
    single = [cell for cell in cells if _lists(cell) == 1]
    several = [cell for cell in cells if _lists(cell) > 1]
    if not single or not several or not of.dev:
        return None

    def on_dev(cell: Cell) -> float:
        return mean_of(np.array(values_of(cell, of.dev, measure)))

    hybrid, alone = max(several, key=on_dev), max(single, key=on_dev)
    system, baseline = ({measure: values_of(cell, of.held_out, measure)} for cell in (hybrid, alone))
    return Combined(hybrid.name, alone.name, compare_measures(system, baseline, of.held_out)[measure])


def _lists(cell: Cell) -> int:
    """How many lists count in fusion."""
    return sum(retriever.weight > 0 for retriever in cell.config.retrievers)
