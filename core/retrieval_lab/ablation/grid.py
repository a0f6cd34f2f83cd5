"""A grid: a YAML file of lists, each of alternatives for one part of the configuration, and the cells it stands for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from retrieval_lab.ablation.rule import Rule, read_rule
from retrieval_lab.config import PipelineConfig
from retrieval_lab.config_file import read_settings
from retrieval_lab.config_values import KEYS, Given, Reader, read_with
from retrieval_lab.errors import InputError, SettingError
from retrieval_lab.evals.runs import measure_names
from retrieval_lab.text import printable

AXES = tuple(key for key in KEYS if key not in ("filter", "support_floor", "top_k"))
"""The parts of a configuration that a grid may give alternatives for, in the order in which a name has them.

What is measured must be the same for all, and so the length of the final list and what is searched.
"""

_KEYS = ("base", "configs", "decision", "level", *AXES)
_LEVELS = ("chunk", "document")


@dataclass(frozen=True, slots=True)
class Spec:
    """One cell to be: its name in the grid and its configuration."""

    name: str
    config: PipelineConfig


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A combination of a grid that is no cell, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Grid:
    """What a grid file says: its cells in their order, what of the product was left out, the rule of the decision.

    `level` is `document` where labels of chunks count as labels of their documents.
    """

    name: str
    specs: tuple[Spec, ...]
    left_out: tuple[LeftOut, ...] = ()
    rule: Rule = field(default_factory=Rule)
    level: str = "chunk"


def load_grid(path: Path) -> Grid:
    """The grid in a file.

    Every key of AXES may have a list of alternatives, each as lab.yaml has the value; the cells are their product, the
    last key changing fastest. `retrievers` may also be a mapping of labels to alternatives. `base` has the settings
    that all share, or is the path of a configuration file. `configs` names files of configurations that are cells too,
    and come first; what such a file does not say is that of `base`. `decision` is the rule (module `rule`). `level` is
    at what chunk labels are scored, by default `document` where the cells cut the corpus in different ways, since an
    anchor means another chunk in each. Combinations whose parts do not fit each other, and those that come to the same
    pipeline as an earlier one, are left out.

    Raises InputError with everything that is wrong, a line each, with the file and line, and when no cell is left.
    """
    root = read_settings(path)
    if not isinstance(root.value, dict):
        raise InputError(f"{root.origin}: expected a mapping of parts to lists, such as 'reranker: [none, lexical]'")
    values: dict[str, Given] = root.value
    unknown = [(value.origin, printable(key)) for key, value in values.items() if key not in _KEYS]
    if unknown:
        keys = f"the keys are {', '.join(_KEYS)}"
        raise InputError("\n".join(f"{origin}: {key}: unknown key; {keys}" for origin, key in unknown))
    base = _base(values.get("base"), path)
    axes = {key: _alternatives(key, values[key]) for key in AXES if key in values}
    specs, left_out = _cells(base, axes) if axes or "configs" not in values else ([], [])
    specs = _unique([*_whole(values.get("configs"), base, path), *specs], left_out)
    if not specs:
        raise InputError(f"{path}: no combination is a pipeline: {left_out[0].name}: {left_out[0].reason}")
    _require_one_task(specs, path)
    rule = read_rule(values.get("decision"))
    _require_measures(rule, specs, values["decision"].origin if "decision" in values else str(path))
    return Grid(path.stem, tuple(specs), tuple(left_out), rule, _level(values.get("level"), specs))


@dataclass(frozen=True, slots=True)
class _Alternative:
    """One value of an axis; `label` is what a name calls it."""

    label: str
    value: Given


def _base(value: Given | None, path: Path) -> dict[str, Given]:
    if value is None:
        return {}
    if isinstance(value.value, str):
        value = read_settings(path.parent / value.value)
    if not isinstance(value.value, dict):
        raise InputError(f"{value.origin}: base: expected a mapping of settings, or the path of a configuration file")
    return dict(value.value)


def _alternatives(key: str, value: Given) -> list[_Alternative]:
    items = value.value
    if key == "retrievers" and isinstance(items, dict):
        return [_Alternative(label, one) for label, one in items.items()]
    if not isinstance(items, list) or not items:
        raise InputError(f"{value.origin}: {key}: expected a list of alternatives, such as [{_EXAMPLES.get(key, '…')}]")
    return [_Alternative(_label(key, one), one) for one in items]


_EXAMPLES = {"reranker": "none, lexical", "fusion": "rrf, minmax", "mmr_lambda": "null, 0.7"}


def _label(key: str, given_value: Given) -> str:
    """`words 120/60` for a mapping with a kind, `λ 0.7`, and the like."""
    value = given_value.value
    if key == "retrievers" and isinstance(value, dict):
        return "+".join(value)
    if isinstance(value, dict):
        settings = dict(value)
        kind = settings.pop("kind", None)
        parts = [*([str(kind.value)] if kind else []), *(f"{name} {one.value}" for name, one in settings.items())]
        return " ".join(parts) or key
    return str(_SAYS.get(key, str)(value))


_SAYS: Mapping[str, Any] = {
    "mmr_lambda": lambda value: "no MMR" if value is None else f"MMR {value}",
    "contextual_headers": lambda value: "headers" if value else "no headers",
    "reranker": lambda value: "no reranker" if value == "none" else str(value),
    "expansion": lambda value: "no expansion" if value == "none" else str(value),
}


def _cells(base: Mapping[str, Given], axes: Mapping[str, Sequence[_Alternative]]) -> tuple[list[Spec], list[LeftOut]]:
    specs: list[Spec] = []
    left_out: list[LeftOut] = []
    faults: dict[str, None] = {}
    named = [key for key, alternatives in axes.items() if len(alternatives) > 1] or list(axes)
    for chosen in product(*axes.values()):
        combination = dict(zip(axes, chosen, strict=True))
        name = " · ".join(combination[key].label for key in named) or "base"
        reader = Reader()
        arguments = reader.arguments(Given({**base, **{key: one.value for key, one in combination.items()}}, ""))
        faults |= dict.fromkeys(reader.faults)
        if not reader.faults:
            try:
                specs.append(Spec(name, PipelineConfig(**arguments)))
            except SettingError as error:
                left_out.append(LeftOut(name, str(error)))
    if faults:
        raise InputError("\n".join(faults))
    return specs, left_out


def _whole(value: Given | None, base: Mapping[str, Given], path: Path) -> Iterator[Spec]:
    if value is None:
        return
    if not isinstance(value.value, list) or not all(isinstance(one.value, str) for one in value.value):
        raise InputError(f"{value.origin}: configs: expected a list of paths of configuration files")
    for one in value.value:
        file = path.parent / one.value
        config, faults = read_with(PipelineConfig, Given({**base, **_base(one, path)}, str(file)))
        if config is None:
            raise InputError("\n".join(faults))
        yield Spec(file.stem, config)


def _unique(specs: Sequence[Spec], left_out: list[LeftOut]) -> list[Spec]:
    """The specs without those that come to the same pipeline as an earlier one; each name once."""
    kept: dict[PipelineConfig, Spec] = {}
    names: set[str] = set()
    for spec in specs:
        first = kept.get(spec.config.effective)
        if first is not None:
            left_out.append(LeftOut(spec.name, f"comes to the same as {first.name}"))
            continue
        if spec.name in names:
            raise InputError(f"two cells are called {spec.name!r}; label their alternatives, or rename their files")
        names.add(spec.name)
        kept[spec.config.effective] = spec
    return list(kept.values())


def _require_one_task(specs: Sequence[Spec], path: Path) -> None:
    """Means compare only where the same was asked: one length of the final list, one filter."""
    first = specs[0]
    for key in ("top_k", "filter"):
        other = next((spec for spec in specs if getattr(spec.config, key) != getattr(first.config, key)), None)
        if other is not None:
            raise InputError(
                f"{path}: {first.name} and {other.name} differ in {key}, so that their numbers do not compare"
            )


def _require_measures(rule: Rule, specs: Sequence[Spec], origin: str) -> None:
    shared = [name for name in measure_names(specs[0].config) if all(name in measure_names(s.config) for s in specs)]
    for key, name in (("measure", rule.measure), ("target", rule.target_measure)):
        if name not in shared:
            there = ", ".join(shared)
            raise InputError(f"{origin}: decision.{key}: the cells have no {printable(name)}; they all have {there}")


def _level(value: Given | None, specs: Sequence[Spec]) -> str:
    if value is None:
        return "document" if len({spec.config.chunker for spec in specs}) > 1 else "chunk"
    if value.value not in _LEVELS:
        raise InputError(f"{value.origin}: level: expected {' or '.join(_LEVELS)}")
    return str(value.value)
