"""The rule of the decision: set in a grid before anybody has seen a number."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from retrieval_lab.config_values import Given
from retrieval_lab.errors import InputError

_MEASURE = "ndcg@10"
_TARGET_MEASURE = "recall@10"
_TARGET = 0.7
_RERANKER_MS = 50.0


@dataclass(frozen=True, slots=True)
class Rule:
    """Which configuration is shipped.

    The simplest one whose held-out `measure` is not worse than the best one's by more than the paired interval allows,
    if its held-out mean of `target_measure` reaches `target`. A reranker counts only if it gains in held-out MRR with
    an interval above 0 and costs at most `reranker_ms` milliseconds, by the medians of a query.
    """

    measure: str = _MEASURE
    target_measure: str = _TARGET_MEASURE
    target: float = _TARGET
    reranker_ms: float = _RERANKER_MS

    def to_dict(self) -> dict[str, Any]:
        """The rule as JSON has it."""
        return {
            "measure": self.measure,
            "target": {self.target_measure: self.target},
            "reranker_ms": self.reranker_ms,
        }


def read_rule(value: Given | None) -> Rule:
    """The rule that a grid states: `measure`, `target` (such as `{recall@10: 0.7}`) and `reranker_ms`, or the defaults.

    Raises InputError with the line of what is wrong.
    """
    if value is None:
        return Rule()
    if not isinstance(value.value, dict):
        raise InputError(f"{value.origin}: decision: expected a mapping of measure, target and reranker_ms")
    found: dict[str, Any] = {}
    for key, one in value.value.items():
        found |= _read(key, one)
    return Rule(**found)


def _read(key: str, one: Given) -> dict[str, Any]:
    if key == "measure" and isinstance(one.value, str):
        return {"measure": one.value}
    if key == "reranker_ms" and _is_number(one.value) and one.value > 0:
        return {"reranker_ms": float(one.value)}
    if key == "target" and isinstance(one.value, dict) and len(one.value) == 1:
        ((measure, target),) = one.value.items()
        if _is_number(target.value) and 0 <= target.value <= 1:
            return {"target_measure": measure, "target": float(target.value)}
    expected = "measure: ndcg@10, target: {recall@10: 0.7} and reranker_ms: 50"
    raise InputError(f"{one.origin}: decision.{key}: expected {expected}, or some of these")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
