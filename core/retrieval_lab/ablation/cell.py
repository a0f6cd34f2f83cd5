"""A cell of an ablation: one configuration with what it measured and what it cost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from retrieval_lab.config import PipelineConfig
from retrieval_lab.errors import InputError
from retrieval_lab.evals.runs import Run, hash_of_golden, reranker_name
from retrieval_lab.stored import Stored, read_as
from retrieval_lab.types import GoldenQuery

FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One configuration evaluated; `name` is what the grid calls it.

    `index_seconds` is how long the index took that it searches, None where that was there already. `memory` is the
    peak resident memory, in bytes, that the process had reached when the cell was done, the cells before it included.
    `processes` is how many cells were worked on at once, among which a query's time was measured.
    """

    name: str
    run: Run
    index_seconds: float | None
    memory: int
    processes: int = 1

    @property
    def config(self) -> PipelineConfig:
        """The configuration."""
        return self.run.config

    def named(self, name: str) -> Cell:
        """The cell under this name, its run too."""
        return replace(self, name=name, run=replace(self.run, name=name))

    def to_dict(self) -> dict[str, Any]:
        """The cell as JSON has it, with `"format": 1`; `from_dict` makes an equal cell of it."""
        return {
            "format": FORMAT,
            "name": self.name,
            "index_seconds": self.index_seconds,
            "memory": self.memory,
            "processes": self.processes,
            "run": self.run.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: Any) -> Cell:
        """The cell that `to_dict` wrote. Raises InputError for another format or a broken one."""
        return read_as("cell", FORMAT, data, _read)


def _read(data: Stored) -> Cell:
    return Cell(
        name=data.text("name"),
        run=Run.from_dict(data.inner("run").values),
        index_seconds=data.number_or_none("index_seconds"),
        memory=data.count("memory"),
        processes=data.count("processes") if data.has("processes") else 1,
    )


@dataclass(frozen=True, slots=True)
class Failure:
    """A cell that could not be made: its name, its configuration, and the error in one line."""

    name: str
    config: PipelineConfig
    error: str

    def to_dict(self) -> dict[str, Any]:
        """The failure as JSON has it, with `"format": 1`."""
        return {"format": FORMAT, "name": self.name, "config": self.config.to_dict(), "error": self.error}

    @classmethod
    def from_dict(cls, data: Any) -> Failure:
        """The failure that `to_dict` wrote. Raises InputError for another format or a broken one."""

        def read(stored: Stored) -> Failure:
            config = PipelineConfig.from_dict(stored.inner("config").values)
            return cls(stored.text("name"), config, stored.text("error"))

        return read_as("failure", FORMAT, data, read)


def cell_key(config: PipelineConfig, documents_hash: str, golden_hash: str) -> str:
    """Names what a cell's numbers depend on: the configuration, its models' files, the documents and the labels."""
    text = json.dumps([config.to_dict(), _contents(config), documents_hash, golden_hash], sort_keys=True)
    return sha256(text.encode()).hexdigest()[:20]


def _contents(config: PipelineConfig) -> list[str]:
    """What the files are that the configuration refers to; of one that is missing there is nothing to name yet."""
    try:
        return [config.embedder.content(), reranker_name(config.reranker)]
    except InputError:
        return []


def labels_hash(golden: Sequence[GoldenQuery]) -> str:
    """A hash of all that a cell keeps of the golden queries: their labels, splits and fields, whatever their order."""
    parts = sorted((query.query_id, query.split, query.fields) for query in golden)
    return sha256(json.dumps([hash_of_golden(golden), parts]).encode()).hexdigest()
