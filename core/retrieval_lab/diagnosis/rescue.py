"""The rescues of one missed passage as values: what was found, in which order, and what was tried in vain.

The order is by what a rescue costs, then by how small it is:

1. `query`: a term of the question is dropped. It mends one question and touches nothing else. What brings the passage
   higher comes first.
2. `value`: another value of a number, at query time. The smaller step comes first; a step is the difference over the
   larger of the two values, so that 50 to 100 and 100 to 50 are both 0.5 and numbers of any scale compare.
3. `stage`: a stage or a reading of the query that is switched off. The stages stand in the order of the grid.
4. `hint`: a rare term of the passage is added to the question. Only who knows the answer could have asked so: it tells
   which words a rewritten query, or a better embedder, would have to come by. What brings the passage higher comes
   first, of equal ones the rarer term.
5. `index`: another index of the whole corpus. The heading path, which leaves the chunks as they are, comes first, then
   the smaller step.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from retrieval_lab.config import PipelineConfig
from retrieval_lab.diagnosis.rescue_effect import Effect
from retrieval_lab.diagnosis.rescue_terms import Edit
from retrieval_lab.errors import InputError
from retrieval_lab.evals.resampling import Interval
from retrieval_lab.evals.summary import Estimate
from retrieval_lab.evals.versus import Change, differing
from retrieval_lab.stored import Stored, as_text, read_as, shown
from retrieval_lab.wording import setting_text

FORMAT = 1

_NO_OTHERS = "no other golden query has a relevant passage"


class Cost(StrEnum):
    """What a rescue costs, the cheapest first."""

    QUERY = "query"
    VALUE = "value"
    STAGE = "stage"
    HINT = "hint"
    INDEX = "index"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rescue:
    """One change that brings the passage into the final list.

    `setting` is what was varied: a setting by its key with dots, `every n`, `drop a term` or `add a term`. `changed`
    has the settings with their old (`baseline`) and new (`system`) values, `config` the whole configuration with them;
    an `edit` of the query leaves both as they were. `before` and `after` are ranks as in `Rescues.before`,
    `chunk_id` is the passage that came in. `effect` is what the change does to the other golden queries, None with the
    reason in `no_effect`.
    """

    cost: Cost
    setting: str
    step: float | None
    changed: tuple[Change, ...]
    edit: Edit | None
    before: int | None
    after: int
    chunk_id: str
    effect: Effect | None
    no_effect: str | None
    config: PipelineConfig

    @property
    def title(self) -> str:
        """The change in a few words: `vector.n 50 → 80`, `without take`."""
        if self.edit is not None:
            drops = self.edit.action == "drop"
            return f"without {self.edit.term}" if drops else f"with {self.edit.term} ({self.edit.found_in} hold it)"
        shown = next((one for one in self.changed if one.key == self.setting), self.changed[0])
        setting = self.setting.removeprefix("retrievers.")
        return f"{setting} {setting_text(shown.baseline)} → {setting_text(shown.system)}"

    def to_dict(self) -> dict[str, Any]:
        """The rescue as JSON has it."""
        return {
            "cost": self.cost.value,
            "setting": self.setting,
            "step": self.step,
            "changed": [asdict(change) for change in self.changed],
            "edit": None if self.edit is None else asdict(self.edit),
            "before": self.before,
            "after": self.after,
            "chunk_id": self.chunk_id,
            "effect": None if self.effect is None else _effect_to_dict(self.effect),
            "no_effect": self.no_effect,
            "config": self.config.to_dict(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """What was tried in vain: `values` of a setting, which `range` describes.

    `reason` says why nothing of it could be tried, or not all; None where all of the range was.
    """

    setting: str
    range: str
    values: int
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rescues:
    """All rescues that were found for one passage, the smallest first, and all that was tried in vain.

    `wanted` are the chunks any of which answers: those that hold the anchor of the golden query `query_id`, or the
    chunk that was named; empty with the reason in `unlabelled`. `before` is the best rank of any in the order that the
    final list would have without its cut, None where the pool holds none. The passage is no miss when that is within
    `config.top_k`; then nothing was tried.
    """

    query: str
    query_id: str | None
    wanted: tuple[str, ...]
    unlabelled: str | None
    before: int | None
    config: PipelineConfig
    rescues: tuple[Rescue, ...]
    tried: tuple[Tried, ...]

    @property
    def is_miss(self) -> bool:
        """Whether the passage is not in the final list."""
        return self.before is None or self.before > self.config.top_k

    @property
    def smallest(self) -> Rescue | None:
        """The first of the rescues."""
        return self.rescues[0] if self.rescues else None

    def to_dict(self) -> dict[str, Any]:
        """The rescues as JSON has them, with `"format": 1`; `from_dict` makes an equal value of it."""
        return {
            "format": FORMAT,
            "query": self.query,
            "query_id": self.query_id,
            "wanted": list(self.wanted),
            "unlabelled": self.unlabelled,
            "is_miss": self.is_miss,
            "before": self.before,
            "config": self.config.to_dict(),
            "rescues": [rescue.to_dict() for rescue in self.rescues],
            "tried": [asdict(one) for one in self.tried],
        }

    @classmethod
    def from_dict(cls, data: Any) -> Rescues:
        """The rescues that `to_dict` wrote. Raises InputError for another format or a broken document."""
        return read_as("search for rescues", FORMAT, data, _read)


def ordered(rescues: list[Rescue]) -> tuple[Rescue, ...]:
    """The rescues in the order of this module; those that tie stay in the order given."""
    return tuple(sorted(rescues, key=_place))


def rescued(
    base: PipelineConfig,
    config: PipelineConfig,
    *,
    cost: Cost,
    setting: str,
    before: int | None,
    after: int,
    chunk_id: str,
    step: float | None = None,
    edit: Edit | None = None,
    effect: Effect | None = None,
) -> Rescue:
    """The rescue by an edit of the query, or by a configuration in the place of `base`."""
    no_effect = None if effect else "an edit of this query changes no other" if edit else _NO_OTHERS
    return Rescue(
        cost=cost,
        setting=setting,
        step=step,
        changed=tuple(differing(base.to_dict(), config.to_dict())),
        edit=edit,
        before=before,
        after=after,
        chunk_id=chunk_id,
        effect=effect,
        no_effect=no_effect,
        config=config,
    )


def step_between(old: float, new: float) -> float:
    """How far a number moved: the difference over the larger of the two, 0 to 1."""
    return abs(new - old) / max(abs(new), abs(old)) if new != old else 0.0


def _place(rescue: Rescue) -> tuple[int, float, int]:
    first = list(Cost).index(rescue.cost)
    return first, rescue.step or 0.0, 0 if rescue.edit is None else rescue.after


# --- reading and writing -------------------------------------------------------------------------------------------


def _effect_to_dict(effect: Effect) -> dict[str, Any]:
    return {
        "queries": effect.queries,
        "gained": list(effect.gained),
        "lost": list(effect.lost),
        "recall": effect.recall.to_dict(),
        "mrr": effect.mrr.to_dict(),
    }


def _read(data: Stored) -> Rescues:
    return Rescues(
        query=data.text("query"),
        query_id=data.text_or_none("query_id"),
        wanted=data.each("wanted", as_text),
        unlabelled=data.text_or_none("unlabelled"),
        before=data.rank_or_none("before"),
        config=PipelineConfig.from_dict(data.inner("config").values),
        rescues=data.each("rescues", _read_rescue),
        tried=data.each("tried", _read_tried),
    )


def _read_rescue(value: Any, place: str) -> Rescue:
    data = Stored(value, place)
    cost = data.text("cost")
    if cost not in list(Cost):
        raise InputError(f"{place}.cost is {shown(cost)}; expected {', '.join(Cost)}")
    return Rescue(
        cost=Cost(cost),
        setting=data.text("setting"),
        step=data.number_or_none("step"),
        changed=data.each("changed", _read_change),
        edit=_read_edit(data.inner("edit")) if data.has("edit") else None,
        before=data.rank_or_none("before"),
        after=data.rank("after"),
        chunk_id=data.text("chunk_id"),
        effect=_read_effect(data.inner("effect")) if data.has("effect") else None,
        no_effect=data.text_or_none("no_effect"),
        config=PipelineConfig.from_dict(data.inner("config").values),
    )


def _read_change(value: Any, place: str) -> Change:
    data = Stored(value, place)
    return Change(data.text("key"), data.values.get("baseline"), data.values.get("system"))


def _read_edit(data: Stored) -> Edit:
    found_in = data.count("found_in") if data.has("found_in") else None
    return Edit(data.text("action"), data.text("term"), data.text("query"), found_in)


def _read_effect(data: Stored) -> Effect:
    return Effect(
        queries=data.count("queries"),
        gained=data.each("gained", as_text),
        lost=data.each("lost", as_text),
        recall=_read_estimate(data.inner("recall")),
        mrr=_read_estimate(data.inner("mrr")),
    )


def _read_estimate(data: Stored) -> Estimate:
    if not data.has("interval"):
        return Estimate(data.number("value"), None)
    interval = data.inner("interval")
    return Estimate(data.number("value"), Interval(interval.number("low"), interval.number("high")))


def _read_tried(value: Any, place: str) -> Tried:
    data = Stored(value, place)
    return Tried(
        setting=data.text("setting"),
        range=data.text("range"),
        values=data.count("values"),
        reason=data.text_or_none("reason"),
    )
