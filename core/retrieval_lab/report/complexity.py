"""How complex a configuration is, as a number that is fixed before anything is measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from retrieval_lab.config import PipelineConfig

RERANKER_POINTS: Final[Mapping[str, int]] = {"none": 0, "lexical": 1, "learned": 2, "cross-encoder": 3}
"""The points of each kind of reranker: none, one that counts words, one to be trained, one with a model to run."""

MODEL_POINTS: Final = 2
"""The points of a model that embeds: it has to be fetched, run for every question, and kept in step with the index."""

_DENSE = ("vector", "flat", "ivf")
_NO_MODEL = "hash"


@dataclass(frozen=True, slots=True)
class Complexity:
    """The parts of a pipeline that somebody has to run, explain and keep in step, in points.

    `lists` is how many lists are made, a point each; `expansion` and `mmr` are a point each where they are on;
    `reranker` has the points of its kind, `model` those of an embedding model that a list or MMR needs.
    """

    lists: int
    expansion: int
    reranker: int
    mmr: int
    model: int

    @property
    def points(self) -> int:
        """Their sum; of two configurations the one with fewer is the simpler."""
        return self.lists + self.expansion + self.reranker + self.mmr + self.model


def complexity(config: PipelineConfig) -> Complexity:
    """The complexity of a configuration."""
    return complexity_of(config.to_dict())


def complexity_of(settings: Mapping[str, Any]) -> Complexity:
    """The complexity of a configuration as `PipelineConfig.to_dict` writes it."""
    kinds = [one["kind"] for one in settings["retrievers"].values()]
    has_mmr = settings["mmr_lambda"] is not None
    uses_vectors = has_mmr or any(kind in _DENSE for kind in kinds)
    return Complexity(
        lists=len(kinds),
        expansion=int(settings.get("expansion", {"kind": "none"})["kind"] != "none"),
        reranker=RERANKER_POINTS[settings["reranker"]["kind"]],
        mmr=int(has_mmr),
        model=MODEL_POINTS if uses_vectors and settings["embedder"]["kind"] != _NO_MODEL else 0,
    )
