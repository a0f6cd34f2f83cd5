"""One configuration describes a whole pipeline, and every command takes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from retrieval_lab.config_values import given, read_with
from retrieval_lab.errors import InputError, SettingError
from retrieval_lab.mmr import MMR_LAMBDA
from retrieval_lab.retrievers.base import RetrieverSettings
from retrieval_lab.retrievers.text import TextSearch
from retrieval_lab.retrievers.vector import VectorSearch
from retrieval_lab.settings import (
    Bm25Reranker,
    ChunkerSettings,
    EmbedderSettings,
    ExpansionSettings,
    FusionSettings,
    HashEmbedding,
    MarkdownChunker,
    NoExpansion,
    NoReranker,
    RerankerSettings,
    Rm3Expansion,
    RrfFusion,
)
from retrieval_lab.support import SUPPORT_FLOOR
from retrieval_lab.types import EVERYTHING, Filter


@dataclass(frozen=True, slots=True)
class Indexing:
    """The part of a configuration that the stored index depends on: one corpus has an index for each value of it."""

    chunker: ChunkerSettings
    embedder: EmbedderSettings
    contextual_headers: bool

    @property
    def chunking(self) -> dict[str, Any]:
        """What an index says about its chunks."""
        return {**_to_dict(self.chunker), "contextual_headers": self.contextual_headers}

    @property
    def key(self) -> str:
        """Differs wherever an index would: names the settings and what they refer to, as the files of a local model.

        Raises InputError when such a file is missing.
        """
        return f"{self!r}{self.embedder.content()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineConfig:
    """A whole pipeline, from the cut of the documents to the final list.

    `contextual_headers` puts the heading path before a chunk's text where it is embedded and indexed, and nowhere else.
    `retrievers` make their lists in this order. `mmr_lambda` weighs relevance against diversity, None leaves diversity
    out. `top_k` is the length of the final list, `filter` what every retriever may return. A question whose support
    (module `support`) is below `support_floor` gets no answer.

    Equal configurations are equal values and hash alike. Raises SettingError when the parts do not fit each other: no
    retriever or two of one name, no weight above 0, an expansion of a list that is not there, a lambda outside 0 to 1
    or without a reranker, a `top_k` that the pool cannot fill, a floor outside 0 to 1.
    """

    chunker: ChunkerSettings = field(default_factory=MarkdownChunker)
    contextual_headers: bool = False
    embedder: EmbedderSettings = field(default_factory=HashEmbedding)
    retrievers: tuple[RetrieverSettings, ...] = (VectorSearch(), TextSearch())
    expansion: ExpansionSettings = field(default_factory=NoExpansion)
    fusion: FusionSettings = field(default_factory=RrfFusion)
    reranker: RerankerSettings = field(default_factory=Bm25Reranker)
    mmr_lambda: float | None = MMR_LAMBDA
    top_k: int = 10
    filter: Filter = EVERYTHING
    support_floor: float = SUPPORT_FLOOR

    def __post_init__(self) -> None:
        self._require_retrievers()
        self._require_ranges()

    def _require_retrievers(self) -> None:
        names = [retriever.name for retriever in self.retrievers]
        if not names:
            raise SettingError("retrievers", "empty", "at least one")
        if len(set(names)) < len(names):
            raise SettingError("retrievers", ", ".join(names), "a name for each that no other has")
        for name in names:
            if not name.strip() or name in _STAGES:
                raise SettingError("retrievers", repr(name), f"names that are not blank, nor {', '.join(_STAGES)}")
        if not any(retriever.weight for retriever in self.retrievers):
            raise SettingError("retrievers", "all of weight 0", "a weight above 0 for one of them")
        of = self.expansion.of if isinstance(self.expansion, Rm3Expansion) else None
        if of is not None and of not in names:
            raise SettingError("expansion.of", repr(of), f"the name of a list ({', '.join(names)}), or null for all")

    def _require_ranges(self) -> None:
        if self.mmr_lambda is not None and not 0 <= self.mmr_lambda <= 1:
            raise SettingError("mmr_lambda", self.mmr_lambda, "0 (diversity alone) to 1 (relevance alone), or null")
        if self.mmr_lambda is not None and isinstance(self.reranker, NoReranker):
            raise SettingError("mmr_lambda", self.mmr_lambda, "null, since MMR has no effect without a reranker")
        if self.top_k < 1:
            raise SettingError("top_k", self.top_k, "1 or more")
        if self.top_k > self.fusion.n:
            raise SettingError(
                "top_k", self.top_k, f"at most {self.fusion.n}, the size of the pool (fusion.n)", also="fusion.n"
            )
        if not 0 <= self.support_floor <= 1:
            raise SettingError("support_floor", self.support_floor, "0 (every question is answered) to 1")

    @property
    def indexing(self) -> Indexing:
        """What the index depends on."""
        return Indexing(self.chunker, self.embedder, self.contextual_headers)

    @property
    def uses_vectors(self) -> bool:
        """Whether vectors have an effect: on a list, or on MMR."""
        return self.mmr_lambda is not None or any(one.by_vectors for one in self.retrievers)

    @property
    def effective(self) -> PipelineConfig:
        """What of it has an effect: one list is fused to itself, by whatever rule, and words need no vectors.

        Configurations that come to the same pipeline over the same passages have an equal one.
        """
        fusion = self.fusion if len(self.retrievers) > 1 else RrfFusion(n=self.fusion.n)
        return replace(self, fusion=fusion, embedder=self.embedder if self.uses_vectors else HashEmbedding())

    def to_dict(self) -> dict[str, Any]:
        """The configuration as lab.yaml has it: text, numbers, booleans and None in nested mappings and lists."""
        return {
            "chunker": _to_dict(self.chunker),
            "contextual_headers": self.contextual_headers,
            "embedder": _to_dict(self.embedder),
            "retrievers": {retriever.name: _to_dict(retriever) for retriever in self.retrievers},
            "expansion": _to_dict(self.expansion),
            "fusion": _to_dict(self.fusion),
            "reranker": _to_dict(self.reranker),
            "mmr_lambda": self.mmr_lambda,
            "top_k": self.top_k,
            "filter": {part.name: list(getattr(self.filter, part.name)) for part in fields(self.filter)},
            "support_floor": self.support_floor,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> PipelineConfig:
        """The configuration of nested plain values as `to_dict` writes them; what is left out has its default.

        Raises InputError with everything that is wrong, a line each.
        """
        if not isinstance(data, Mapping):
            raise InputError(f"a configuration is a mapping of settings, not {type(data).__name__}")
        config, faults = read_with(cls, given(data, ""))
        if config is None:
            raise InputError("\n".join(faults))
        return config


# Names that stages and timings have already.
_STAGES = ("fused", "reranked", "final", "fusion", "fetch", "rerank", "mmr")


def _to_dict(part: Any) -> dict[str, Any]:
    settings = {entry.name: getattr(part, entry.name) for entry in fields(part) if entry.name != "name"}
    return {"kind": part.kind, **settings}


def dotted(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The values of nested mappings, such as `PipelineConfig.to_dict` makes, by their keys joined with dots."""
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        key = f"{prefix}{name}"
        flat |= dotted(value, f"{key}.") if isinstance(value, Mapping) else {key: value}
    return flat
