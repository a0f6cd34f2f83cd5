"""Robustness in the report: what other wording does to some configurations, kept beside the cells as JSON.

The results are those of `evals.robustness`, which needs a lab; a report is written without one, from what is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from retrieval_lab.evals.resampling import Interval
from retrieval_lab.markdown_text import row, table_head
from retrieval_lab.report.words import DASH, between
from retrieval_lab.stored import Stored, read_as, read_json, write_json
from retrieval_lab.wording import signed

FORMAT = 1
_FILE = "robustness.json"
_FINAL = "final"


class Robust(Protocol):
    """The robustness of one configuration."""

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON has it."""


@dataclass(frozen=True, slots=True)
class Change:
    """A measure of the queries that a perturbation changed, before and after; the difference is after minus before."""

    before: float
    after: float
    difference: float
    interval: Interval | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reworded:
    """One perturbation of one configuration: how many queries it changed, the measures of those, and their answers.

    `counted` of the `changed` queries have a relevant passage. `lost` and `gained` are how many queries had their best
    answer in the final list only before, or only after.
    """

    changed: int
    counted: int
    measures: Mapping[str, Change]
    lost: int
    gained: int


def keep_robustness(folder: Path, found: Mapping[str, Robust]) -> None:
    """Keep the robustness of configurations, by their names in the ablation, for its reports.

    Raises InputError when it cannot be written.
    """
    document = {"format": FORMAT, "configurations": {name: one.to_dict() for name, one in found.items()}}
    write_json(folder / _FILE, document)


def load_robustness(folder: Path) -> dict[str, dict[str, Reworded]]:
    """What is kept, by configuration and perturbation; empty when nothing is. Raises InputError for a broken file."""
    try:
        data = read_json(folder / _FILE)
    except FileNotFoundError:
        return {}
    return read_as("robustness", FORMAT, data, lambda stored: stored.named("configurations", _read))


def robustness_lines(found: Mapping[str, Mapping[str, Reworded]], measure: str) -> Iterator[str]:
    """A table of one measure, in Markdown, of the configurations in their order; one that lacks it has dashes."""
    yield from table_head("configuration", "wording", "queries", "before", "after", "difference", "lost", "gained")
    for name, kinds in found.items():
        for kind, one in kinds.items():
            change = one.measures.get(measure)
            numbers = (DASH, DASH, DASH)
            if change is not None:
                difference = f"{signed(change.difference)} ({between(change.interval)})"
                numbers = (f"{change.before:.3f}", f"{change.after:.3f}", difference)
            yield row(name, kind, f"{one.counted} of {one.changed}", *numbers, str(one.lost), str(one.gained))


def _read(value: Any, place: str) -> dict[str, Reworded]:
    return Stored(value, place).named("kinds", _read_kind)


def _read_kind(value: Any, place: str) -> Reworded:
    data = Stored(value, place)
    if not data.has("effect"):
        return Reworded(changed=data.count("changed"), counted=0, measures={}, lost=0, gained=0)
    effect = data.inner("effect")
    ranks = effect.inner("ranks").inner(_FINAL)
    return Reworded(
        changed=data.count("changed"),
        counted=effect.count("queries"),
        measures=effect.named("measures", _read_change),
        lost=len(ranks.each("lost", lambda one, _: one)),
        gained=len(ranks.each("gained", lambda one, _: one)),
    )


def _read_change(value: Any, place: str) -> Change:
    data = Stored(value, place)
    interval = data.inner("difference_interval") if data.has("difference_interval") else None
    return Change(
        before=data.number("baseline"),
        after=data.number("system"),
        difference=data.number("difference"),
        interval=None if interval is None else Interval(interval.number("low"), interval.number("high")),
    )
