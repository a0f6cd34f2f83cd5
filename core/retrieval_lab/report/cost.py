"""What a configuration costs: all that is timed or depends on the machine, apart from all that does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from retrieval_lab.ablation.cell import Cell
from retrieval_lab.evals.summary import latency
from retrieval_lab.report.decision import Verdict

_CLOCK = timedelta(seconds=1)  # a run's time is cut to whole seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Of one configuration: latency a query (median and 95th percentile) and indexing in seconds, memory in bytes.

    `index_seconds` is None where the index was there already. `memory` is the peak of the process so far, the cells
    before it included. `reranker_ms` is what the reranker adds to the median, in milliseconds, None where that is not
    known. `created` is the UTC time at which the cell was begun.
    """

    median: float
    p95: float
    index_seconds: float | None
    memory: int
    reranker_ms: float | None
    created: str


def cost(cell: Cell, verdict: Verdict) -> Cost:
    """What the cell costs; `verdict` has measured its reranker."""
    taken = latency(cell.run)
    return Cost(
        median=taken.median,
        p95=taken.p95,
        index_seconds=cell.index_seconds,
        memory=cell.memory,
        reranker_ms=verdict.reranker.extra_ms if verdict.reranker else None,
        created=cell.run.created,
    )


def at_once(cells: Sequence[Cell]) -> int:
    """How many cells were measured at once for certain, at the time when it was most.

    A cell took at least the sum of its queries from the time that it was begun, which is known to the second.
    """
    spans = []
    for cell in cells:
        began = datetime.fromisoformat(cell.run.created)
        spans.append((began + _CLOCK, began + timedelta(seconds=sum(one.seconds for one in cell.run.queries))))
    return max((sum(low <= begin < high for low, high in spans) for begin, end in spans if begin < end), default=1)
