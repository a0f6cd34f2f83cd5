"""What each part of a configuration brings: pairs of configurations that differ in that part alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any, Final

import numpy as np

from retrieval_lab.ablation.cell import Cell
from retrieval_lab.config import dotted
from retrieval_lab.evals.comparison import Comparison, compare_measures, corrected
from retrieval_lab.evals.resampling import Array, mean_of
from retrieval_lab.report.complexity import complexity_of
from retrieval_lab.report.parts import Parts, values_of

LISTS: Final = "retrievers"
_SAME = ("top_k", "filter", "support_floor")  # what a grid may not vary
_NONE = {"reranker": "no reranker", "expansion": "no expansion"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """One alternative of a part against that part's baseline, over all pairs that differ in nothing else.

    `axis` is the key of the part; `pairs` are the names of the configurations with the alternative and with the
    baseline. `measures` compares the held-out values, the mean over the pairs for each query; `p` is corrected by Holm
    over all effects of a report. `lowest` and `highest` are the mean differences of the rule's measure in single pairs.
    `lists` is how many lists the alternative makes, for the retrievers.
    """

    axis: str
    baseline: str
    alternative: str
    pairs: tuple[tuple[str, str], ...]
    measures: Mapping[str, Comparison]
    p: Mapping[str, float]
    lowest: float
    highest: float
    lists: int

    def to_dict(self) -> dict[str, Any]:
        """The effect as JSON has it."""
        data = asdict(self)
        measures = {name: {**data["measures"][name], "p_holm": self.p[name]} for name in self.measures}
        return {**{key: value for key, value in data.items() if key != "p"}, "measures": measures}


@dataclass(frozen=True, slots=True)
class _Axis:
    """A part with several alternatives: for each its label, and its cells by what else they have."""

    key: str
    labels: Mapping[str, str]
    cells: Mapping[str, Mapping[str, Cell]]
    baseline: str


def effects(cells: Sequence[Cell], of: Parts, measures: Sequence[str]) -> tuple[Effect, ...]:
    """What the parts bring on these measures, the first of which is the rule's, over held-out queries.

    The baseline of a part is its simplest alternative, of equals the first of the grid; that of the retrievers is the
    single list that is best on dev in the rule's measure, so that held-out queries do not choose it.
    """
    found = [
        effect
        for axis in _axes(cells, of, measures[0])
        for alternative in axis.labels
        if alternative != axis.baseline and (effect := _effect(axis, alternative, of, measures)) is not None
    ]
    return tuple(
        Effect(**{**{name: getattr(one, name) for name in Effect.__slots__}, "p": with_holm.p})
        for one, with_holm in zip(found, corrected([one.measures for one in found]), strict=True)
    )


def _axes(cells: Sequence[Cell], of: Parts, measure: str) -> list[_Axis]:
    settings = [cell.config.to_dict() for cell in cells]
    found = []
    for key in dict.fromkeys(key for one in settings for key in one if key not in _SAME):
        groups: dict[str, dict[str, Cell]] = {}
        for cell in cells:
            for one in _alike(cell, settings):
                rest = json.dumps({name: value for name, value in one.items() if name != key})
                groups.setdefault(json.dumps(one.get(key)), {})[rest] = cell
        if len(groups) > 1:
            axis = {alternative: json.loads(alternative) for alternative in groups}
            baseline = _best_single(groups, of, measure) if key == LISTS else None
            simplest = min(groups, key=_points_of(key, settings[0]))
            found.append(_Axis(key, _labels(key, axis), groups, baseline or simplest))
    return found


def _alike(cell: Cell, settings: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """The settings of a cell, and all that come to the same: one list has no fusion, and words have no embedder."""
    own = cell.config.to_dict()
    fusions = [own["fusion"]] if len(cell.config.retrievers) > 1 else [one["fusion"] for one in settings]
    embedders = [own["embedder"]] if cell.config.uses_vectors else [one["embedder"] for one in settings]
    for fusion, embedder in product(_once(fusions), _once(embedders)):
        yield {**own, "fusion": fusion, "embedder": embedder}


def _once(values: Sequence[Any]) -> list[Any]:
    return list({json.dumps(value): value for value in values}.values())


def _points_of(key: str, settings: Mapping[str, Any]) -> Callable[[str], int]:
    """The points of the first configuration with the alternative in the place of its own."""
    return lambda alternative: complexity_of({**settings, key: json.loads(alternative)}).points


def _best_single(groups: Mapping[str, Mapping[str, Cell]], of: Parts, measure: str) -> str | None:
    """The single list with the highest mean on dev over its cells; None where there is no such list, or no dev."""
    singles = [alternative for alternative in groups if len(json.loads(alternative)) == 1]
    if not singles or not of.dev:
        return None
    means = {
        one: mean_of(np.array([values_of(cell, of.dev, measure) for cell in _cells_of(groups[one])]).ravel())
        for one in singles
    }
    return max(singles, key=lambda one: means[one])


def _cells_of(group: Mapping[str, Cell]) -> list[Cell]:
    """The cells of a group, each once."""
    return list({cell.name: cell for cell in group.values()}.values())


def _effect(axis: _Axis, alternative: str, of: Parts, measures: Sequence[str]) -> Effect | None:
    theirs, ours = axis.cells[axis.baseline], axis.cells[alternative]
    # A cell that stands for several settings is in as many pairs; with itself it is in none.
    named = {(ours[rest].name, theirs[rest].name): (ours[rest], theirs[rest]) for rest in ours if rest in theirs}
    pairs = [pair for names, pair in named.items() if names[0] != names[1]]
    if not pairs:
        return None
    system = {name: _values([cell for cell, _ in pairs], of, name) for name in measures}
    baseline = {name: _values([cell for _, cell in pairs], of, name) for name in measures}
    single = (system[measures[0]] - baseline[measures[0]]).mean(axis=1)
    compared = compare_measures(
        {name: values.mean(axis=0) for name, values in system.items()},
        {name: values.mean(axis=0) for name, values in baseline.items()},
        of.held_out,
    )
    return Effect(
        axis=axis.key,
        baseline=axis.labels[axis.baseline],
        alternative=axis.labels[alternative],
        pairs=tuple((one.name, other.name) for one, other in pairs),
        measures=compared,
        p={},
        lowest=float(single.min()),
        highest=float(single.max()),
        lists=len(json.loads(alternative)) if axis.key == LISTS else 0,
    )


def _values(cells: Sequence[Cell], of: Parts, measure: str) -> Array:
    """The held-out values (cells x queries)."""
    return np.array([values_of(cell, of.held_out, measure) for cell in cells])


# --- what alternatives are called ----------------------------------------------------------------------------------


def _labels(key: str, alternatives: Mapping[str, Any]) -> dict[str, str]:
    """What each alternative is called; where two would be called alike, with the settings in which they differ."""
    plain = {one: _label(key, value) for one, value in alternatives.items()}
    alike: dict[str, list[str]] = {}
    for one, label in plain.items():
        alike.setdefault(label, []).append(one)
    return {one: " ".join([label, *_differing(one, alike[label], alternatives)]) for one, label in plain.items()}


def _differing(one: str, alike: Sequence[str], alternatives: Mapping[str, Any]) -> list[str]:
    """The settings in which an alternative differs from those that are called as it is."""
    if len(alike) < 2:
        return []
    settings = {other: dotted(alternatives[other]) for other in alike}
    names = dict.fromkeys(name for each in settings.values() for name in each)
    return [
        f"{name} {settings[one].get(name)}"
        for name in names
        if len({repr(each.get(name)) for each in settings.values()}) > 1
    ]


def _label(key: str, value: Any) -> str:
    if key == LISTS:
        return "+".join(value)
    if key == "mmr_lambda":
        return "no MMR" if value is None else f"MMR {value:g}"
    if key == "contextual_headers":
        return "headers" if value else "no headers"
    kind = "none" if value is None else str(value["kind"])
    return _NONE.get(key, kind) if kind == "none" else kind
