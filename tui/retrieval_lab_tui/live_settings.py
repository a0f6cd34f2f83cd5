"""The settings that a key can change while a question is on the screen, and the next value of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from retrieval_lab.config import PipelineConfig, dotted
from retrieval_lab.mmr import MMR_LAMBDA
from retrieval_lab.settings import EXPANSIONS, FUSIONS, USUAL_RERANKERS, EmbedderSettings, NoReranker, RerankerSettings
from retrieval_lab_tui.embedders import embedder_name

EMBEDDER = "embedder"
"""The key of the one setting that needs another index."""
RERANKER = "reranker.kind"
_KINDS: Mapping[str, Sequence[str]] = {"expansion.kind": tuple(EXPANSIONS), "fusion.kind": tuple(FUSIONS)}
"""The other parts that come in kinds, none of which needs a setting."""

_DEPTHS = (5, 10, 20, 50, 100, 200, 500, 1000)
_RRF_KS = (0, 1, 5, 10, 20, 40, 60, 80, 100, 200)
_TOP_KS = (1, 3, 5, 10, 15, 20, 30, 50, 100)
_CHOICES: Mapping[str, Sequence[Any]] = {
    "n": _DEPTHS,
    "k": _RRF_KS,
    "top_k": _TOP_KS,
    "scan": ("exact", "hnsw"),
    "operators": (False, True),
    "weight": tuple(tenths / 10 for tenths in range(31)),
    "mmr_lambda": tuple(tenths / 10 for tenths in range(11)),
    "k1": tuple(tenths / 10 for tenths in range(31)),
    "sublinear": (False, True),
    "bigrams": (False, True),
    "nprobe": (1, 2, 4, 8, 16, 32),
    "feedback": (1, 2, 3, 5, 10, 20, 30, 50),
    "terms": (1, 2, 5, 10, 15, 20, 30, 50),
    "original_weight": tuple(tenths / 10 for tenths in range(11)),
    "b": tuple(tenths / 10 for tenths in range(11)),
}


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting by its dotted key, with its value now and in the file (None there when the file has none)."""

    key: str
    value: Any
    in_file: Any

    @property
    def changed(self) -> bool:
        return bool(self.value != self.in_file)


def live_settings(config: PipelineConfig, file: PipelineConfig) -> tuple[Setting, ...]:
    """The embedder by its short name, then the settings that need no other index, in the order of the pipeline."""
    in_file = dotted(file.to_dict())
    return (
        Setting(EMBEDDER, embedder_name(config.embedder), embedder_name(file.embedder)),
        *(
            Setting(key, value, in_file.get(key))
            for key, value in dotted(config.to_dict()).items()
            if _can_change(key, value)
        ),
    )


def _can_change(key: str, value: Any) -> bool:
    first, _, last = key.rpartition(".")
    if first.split(".")[0] in ("chunker", "embedder", "filter") or key == "contextual_headers":
        return False
    return key == RERANKER or key in _KINDS or (value is not None and last in _CHOICES)


def rerankers(file: PipelineConfig) -> tuple[RerankerSettings, ...]:
    """The choices, one of each kind: the file's own with its settings, and all that need no setting, such as a path."""
    usual = {one.kind: one for one in USUAL_RERANKERS}
    return tuple((usual | {file.reranker.kind: file.reranker}).values())


def stepped(
    config: PipelineConfig,
    key: str,
    direction: int,
    offered: Sequence[EmbedderSettings] = (),
    among: Sequence[RerankerSettings] = USUAL_RERANKERS,
) -> PipelineConfig:
    """The configuration with the next value of a setting, up (1) or down (-1); numbers end, choices go round.

    `offered` are the embedders; without any there is no other. `among` are the rerankers, one of each kind. Raises
    InputError when the value does not fit the others.
    """
    if key == EMBEDDER:
        place = offered.index(config.embedder) if config.embedder in offered else -direction
        return replace(config, embedder=offered[(place + direction) % len(offered)]) if offered else config
    if key == RERANKER:
        kinds = [one.kind for one in among]
        place = kinds.index(config.reranker.kind) if config.reranker.kind in kinds else -direction
        return with_reranker(config, among[(place + direction) % len(among)])
    *path, last = key.split(".")
    data = config.to_dict()
    if key in _KINDS:
        return PipelineConfig.from_dict(_of_next_kind(data, path[0], _KINDS[key], direction))
    part = data
    for name in path:
        part = part[name]
    part[last] = _next(last, part[last], direction)
    return PipelineConfig.from_dict(data)


def with_reranker(config: PipelineConfig, reranker: RerankerSettings) -> PipelineConfig:
    """The configuration with another reranker; MMR goes with it, since it has no effect without one."""
    usual = MMR_LAMBDA if config.mmr_lambda is None else config.mmr_lambda
    return replace(config, reranker=reranker, mmr_lambda=None if isinstance(reranker, NoReranker) else usual)


def _of_next_kind(data: dict[str, Any], part: str, kinds: Sequence[str], direction: int) -> dict[str, Any]:
    """The settings with a part of the next kind, as it comes but for the size of the pool."""
    kind = kinds[(kinds.index(data[part]["kind"]) + direction) % len(kinds)]
    kept = {name: value for name, value in data[part].items() if name == "n"}
    return {**data, part: {"kind": kind, **kept}}


def _next(name: str, value: Any, direction: int) -> Any:
    choices = _CHOICES[name]
    if not isinstance(choices[-1], int | float) or isinstance(choices[-1], bool):
        return choices[(choices.index(value) + direction) % len(choices)]
    beyond = [choice for choice in choices if (choice - value) * direction > 1e-9]
    if not beyond:
        return value
    return min(beyond) if direction > 0 else max(beyond)
