"""What is tried to rescue a passage: every number that is turned, every stage that is switched off, every other cut.

A number is tried in both directions from the value that it has, nearest first, on rungs: each whole unit up to 100
units, beyond it steps of a twentieth. Between the last rung that failed and the first that works every unit is tried,
so that what is found is the smallest on the scale of units, unless all that works lies between two rungs that do not.

    number                unit   from            to
    retrievers.*.n        1      1               the number of chunks, at most 1000
    fusion.n              1      top_k           the same
    all of these at once  1      top_k           the same; upwards none is lowered, downwards none is raised
    retrievers.*.weight   0.01   0               100
    fusion.k, of rrf      1      0               1000
    mmr_lambda            0.01   0               1; from 1 where there is no MMR

Re-indexed are at most nine variants: the heading path put before the text (or no longer), chunks of a quarter, a half,
three quarters, one and a half times and twice their size, and three other overlaps: the nearest of 0 to 3 blocks or
sentences, or of none, an eighth, a quarter and a half of a window of words. Whole documents have neither.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from retrieval_lab.config import PipelineConfig
from retrieval_lab.errors import SettingError
from retrieval_lab.filtering import shape
from retrieval_lab.retrievers.text import TextSearch
from retrieval_lab.settings import (
    DocumentChunker,
    MarkdownChunker,
    NoExpansion,
    NoReranker,
    RrfFusion,
    SentenceChunker,
    WordChunker,
)

ALL_DEPTHS = "every n"
"""What the depths of all lists and of the pool are called together."""

HEADERS = "contextual_headers"
CHUNK_SIZES = ("chunker.max_chars", "chunker.size")
"""What the size of chunks is called, whatever it is counted in."""

_FINE_UNITS = 100
_COARSE_STEP = 20
_HIGHEST_K = 1000
_HIGHEST_WEIGHT = 100
_SIZES = (0.75, 1.5, 0.5, 2.0, 0.25)
_OVERLAPS = (0, 1, 2, 3)
_PARTS_OF_A_WINDOW = (0, 0.125, 0.25, 0.5)


@dataclass(frozen=True, slots=True)
class Dial:
    """One number turned in one direction, from its value `now` to `end`; there are `per_unit` units in 1.

    `config` is the configuration with another value, None where that is not allowed.
    """

    setting: str
    now: float
    end: float
    per_unit: int
    config: Callable[[float], PipelineConfig | None]

    @property
    def sign(self) -> int:
        """1 upwards, -1 downwards."""
        return 1 if self.end > self.now else -1

    def rungs(self) -> Iterator[int]:
        """The values of the rungs in units, the nearest first."""
        unit, end = self.first, round(self.end * self.per_unit)
        while (end - unit) * self.sign > 0:
            yield unit
            unit += self.sign * (1 if unit <= _FINE_UNITS else unit // _COARSE_STEP)
        yield end

    @property
    def first(self) -> int:
        """The nearest value on the scale of units, in units."""
        exact = self.now * self.per_unit
        nearest = round(exact)
        if math.isclose(exact, nearest, rel_tol=1e-12, abs_tol=1e-12):
            return nearest + self.sign
        return math.ceil(exact) if self.sign > 0 else math.floor(exact)

    def value(self, unit: int) -> float:
        """The value of so many units."""
        return unit if self.per_unit == 1 else unit / self.per_unit


@dataclass(frozen=True, slots=True)
class Switch:
    """A setting that has one other value worth trying, and the configuration with it."""

    setting: str
    config: PipelineConfig


def dials(config: PipelineConfig, depth: int) -> list[Dial]:
    """Every number of the configuration that can be turned without another index, in each direction with room."""
    found = list(_both("fusion.n", config.fusion.n, config.top_k, depth, 1, partial(_with_pool, config)))
    if isinstance(config.fusion, RrfFusion):
        found += _both("fusion.k", config.fusion.k, 0, _HIGHEST_K, 1, partial(_with_k, config, config.fusion))
    for place, one in enumerate(config.retrievers):
        name = f"retrievers.{one.name}"
        found += _both(f"{name}.n", one.n, 1, depth, 1, partial(_with_retriever, config, place, "n"))
        changed = partial(_with_retriever, config, place, "weight")
        found += _both(f"{name}.weight", one.weight, 0, _HIGHEST_WEIGHT, 100, changed)
    if not isinstance(config.reranker, NoReranker):
        now = 1.0 if config.mmr_lambda is None else config.mmr_lambda
        found += _both("mmr_lambda", now, 0, 1, 100, partial(_with_lambda, config))
    depths = [config.fusion.n, *(one.n for one in config.retrievers)]
    if depth > min(depths):
        found.append(Dial(ALL_DEPTHS, min(depths), depth, 1, partial(_with_depths, config, max)))
    if config.top_k < max(depths):
        found.append(Dial(ALL_DEPTHS, max(depths), config.top_k, 1, partial(_with_depths, config, min)))
    return found


def _both(
    setting: str, now: float, low: float, high: float, per_unit: int, config: Callable[[float], PipelineConfig | None]
) -> Iterator[Dial]:
    if high > now:
        yield Dial(setting, now, high, per_unit, config)
    if low < now:
        yield Dial(setting, now, low, per_unit, config)


def switches(config: PipelineConfig) -> Iterator[Switch]:
    """Whatever can be switched off: the filter, operators, expansion, MMR, the reranker (and with it MMR)."""
    for part in shape(config.filter):
        yield Switch(f"filter.{part}", replace(config, filter=replace(config.filter, **{part: ()})))
    for place, one in enumerate(config.retrievers):
        if isinstance(one, TextSearch) and one.operators:
            plain = _with_retriever(config, place, "operators", False)
            if plain is not None:
                yield Switch(f"retrievers.{one.name}.operators", plain)
    if not isinstance(config.expansion, NoExpansion):
        yield Switch("expansion.kind", replace(config, expansion=NoExpansion()))
    if config.mmr_lambda is not None:
        yield Switch("mmr_lambda", replace(config, mmr_lambda=None))
    if not isinstance(config.reranker, NoReranker):
        yield Switch("reranker.kind", replace(config, reranker=NoReranker(), mmr_lambda=None))


def index_variants(config: PipelineConfig) -> list[Switch]:
    """The configurations that need another index, at most nine, each of one changed setting."""
    headers = Switch(HEADERS, replace(config, contextual_headers=not config.contextual_headers))
    changes = [] if isinstance(config.chunker, DocumentChunker) else _other_cuts(config.chunker)
    found = ((f"chunker.{key}", _with_chunker(config, key, value)) for key, value in changes)
    return [headers, *(Switch(setting, changed) for setting, changed in found if changed is not None)]


def _other_cuts(chunker: MarkdownChunker | WordChunker | SentenceChunker) -> list[tuple[str, int]]:
    """The setting and its new value for each; a window that would be no longer than its overlap is among them."""
    key, size = ("max_chars", chunker.max_chars) if isinstance(chunker, MarkdownChunker) else ("size", chunker.size)
    sizes = dict.fromkeys(max(1, round(size * share)) for share in _SIZES)
    few = _OVERLAPS if not isinstance(chunker, WordChunker) else [round(size * part) for part in _PARTS_OF_A_WINDOW]
    overlaps = sorted(set(few) - {chunker.overlap}, key=lambda one: (abs(one - chunker.overlap), one))
    return [*((key, one) for one in sizes if one != size), *(("overlap", one) for one in overlaps[:3])]


# --- configurations ------------------------------------------------------------------------------------------------


def _allowed(make: Callable[[], PipelineConfig]) -> PipelineConfig | None:
    try:
        return make()
    except SettingError:
        return None


def _with_retriever(config: PipelineConfig, place: int, key: str, value: Any) -> PipelineConfig | None:
    retrievers = list(config.retrievers)

    def make() -> PipelineConfig:
        retrievers[place] = replace(retrievers[place], **{key: value})
        return replace(config, retrievers=tuple(retrievers))

    return _allowed(make)


def _with_chunker(config: PipelineConfig, key: str, value: int) -> PipelineConfig | None:
    changed: dict[str, Any] = {key: value}
    return _allowed(lambda: replace(config, chunker=replace(config.chunker, **changed)))


def _with_pool(config: PipelineConfig, n: float) -> PipelineConfig | None:
    return _allowed(lambda: replace(config, fusion=replace(config.fusion, n=int(n))))


def _with_k(config: PipelineConfig, fusion: RrfFusion, k: float) -> PipelineConfig | None:
    return _allowed(lambda: replace(config, fusion=replace(fusion, k=k)))


def _with_lambda(config: PipelineConfig, value: float) -> PipelineConfig | None:
    return _allowed(lambda: replace(config, mmr_lambda=value))


def _with_depths(config: PipelineConfig, clamp: Callable[[int, int], int], n: float) -> PipelineConfig | None:
    """Every depth at least n with `max`, at most n with `min`."""

    def make() -> PipelineConfig:
        retrievers = tuple(replace(one, n=clamp(one.n, int(n))) for one in config.retrievers)
        return replace(config, retrievers=retrievers, fusion=replace(config.fusion, n=clamp(config.fusion.n, int(n))))

    return _allowed(make)
