"""Gates: the least that a measure of a run must reach."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from retrieval_lab.errors import InputError
from retrieval_lab.evals.resampling import TIE
from retrieval_lab.evals.summary import Estimate, Group


@dataclass(frozen=True, slots=True)
class Gate:
    """A measure by its full name, such as `recall@10`, and the least mean that it must reach."""

    measure: str
    minimum: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a gate found; `found` is None where no query counts, which no gate passes."""

    gate: Gate
    found: Estimate | None

    @property
    def passed(self) -> bool:
        """Whether the mean reaches the minimum, up to rounding."""
        return self.found is not None and self.found.value >= self.gate.minimum - TIE

    def __str__(self) -> str:
        verdict = "passed" if self.passed else "failed"
        return f"gate {verdict}: {self.gate.measure} is {self._found()}; expected {self.gate.minimum:.6g} or more"

    def to_dict(self) -> dict[str, Any]:
        """The outcome as JSON has it."""
        found = {"value": None, "interval": None} if self.found is None else self.found.to_dict()
        return {"measure": self.gate.measure, "minimum": self.gate.minimum, **found, "passed": self.passed}

    def _found(self) -> str:
        if self.found is None:
            return "undefined, since no query has a relevant chunk"
        if self.found.interval is None:
            return f"{self.found.value:.6g}"
        return f"{self.found.value:.6g} (95% {self.found.interval.low:.3f} to {self.found.interval.high:.3f})"


def parse_gate(text: str, names: Sequence[str]) -> Gate:
    """The gate that `MEASURE=VALUE` says, for a run with measures of these names, such as `recall@10`.

    The cut may be left out. Raises InputError for an unknown measure, another cut, and a value outside 0 to 1.
    """
    measure, equals, value = text.rpartition("=")
    if not equals:
        raise InputError(f"--fail-under {text!r}: expected MEASURE=VALUE, such as {names[0]}=0.7")
    return Gate(_full_name(measure.strip(), names), _minimum(value.strip(), text))


def check_gates(gates: Sequence[Gate], group: Group) -> tuple[Outcome, ...]:
    """What each gate finds in the group."""
    return tuple(Outcome(gate, group.measures.get(gate.measure)) for gate in gates)


def _full_name(measure: str, names: Sequence[str]) -> str:
    if measure in names:
        return measure
    name, at, _ = measure.partition("@")
    same = next((full for full in names if full.partition("@")[0] == name), None)
    if same is None:
        raise InputError(f"--fail-under {measure!r}: no such measure; there are {', '.join(names)}")
    if at:
        raise InputError(f"--fail-under {measure!r}: this run measures {same}; name that, or change the cut")
    return same


def _minimum(value: str, text: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not 0 <= number <= 1:
        raise InputError(f"--fail-under {text!r}: the value is {value or 'missing'}; expected a number from 0 to 1")
    return number
