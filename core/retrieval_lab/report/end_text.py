"""The last sections of report.md: what the configurations cost, and what the numbers depend on."""

from __future__ import annotations

from collections.abc import Iterator

from retrieval_lab.markdown_text import inline, row, table_head
from retrieval_lab.report.cost import at_once
from retrieval_lab.report.study import Study, fingerprint
from retrieval_lab.report.words import DASH, several
from retrieval_lab.wording import setting_text

_MIB = 1 << 20


def cost_lines(made: Study, plots: bool) -> Iterator[str]:
    """Latency, index time and memory of every configuration; all that depends on the day and the machine."""
    if plots:
        yield f"![{made.measure} against the median latency](latency.png)"
        yield ""
    yield (
        "Latency is that of a query, without the first; the reranker's share is the difference of the medians with it"
        " and without. Index time is given where the cell's index was made for it. Memory is the peak of the process so"
        " far, the cells before it included."
    )
    created = sorted(one.created for one in made.costs.values())
    together = at_once(made.ablation.cells)
    at_a_time = (
        f"up to {together} cells or more at once, which stretches latencies"
        if together > 1
        else "no two cells at once for certain"
    )
    yield f"Measured from {created[0]} to {created[-1]}, {at_a_time}."
    yield ""
    yield from table_head(
        "configuration", "median, ms", "95%, ms", "reranker, ms", "index, s", "memory, MiB", numbers=5
    )
    for one in made.standings:
        cost = made.costs[one.name]
        yield row(
            one.name,
            f"{1e3 * cost.median:.1f}",
            f"{1e3 * cost.p95:.1f}",
            DASH if cost.reranker_ms is None else _signed_ms(cost.reranker_ms),
            DASH if cost.index_seconds is None else f"{cost.index_seconds:.1f}",
            f"{cost.memory / _MIB:.0f}",
        )


def _signed_ms(value: float) -> str:
    return f"{round(value, 1) + 0.0:+.1f}"


def fingerprint_lines(made: Study) -> Iterator[str]:
    """What the numbers depend on, a line each."""
    for name, value in fingerprint(made).items():
        if isinstance(value, dict):
            value = [f"{key} {'/'.join(map(str, found))}" for key, found in value.items()]
        if value not in (None, []):
            yield f"- {name.replace('_', ' ')}: {inline(setting_text(value))}"
    yield ""
    yield (
        f"The rule, {several(len(made.standings), 'configuration')} in full, every measure of each and all comparisons"
        " are in metrics.json; every query of every configuration is in per_query.csv. `retrieval-lab report` writes"
        " all of it again from the cells, the same to the byte but for what is under Cost."
    )
