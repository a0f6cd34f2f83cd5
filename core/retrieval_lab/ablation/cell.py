"""A cell of an ablation: one configuration with what it measured and what it cost."""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from retrieval_lab.config import PipelineConfig
from retrieval_lab.evals.runs import Run
from retrieval_lab.stored import Stored, read_as

FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One configuration evaluated; `name` is what the grid calls it.

    `index_seconds` is how long the index took that it searches, None where that was there already. `memory` is the
    peak resident memory, in bytes, that the process had reached when the cell was done, the cells before it included.
    """

    name: str
    run: Run
    index_seconds: float | None
    memory: int

    @property
    def config(self) -> PipelineConfig:
        """The configuration."""
        return self.run.config

    def to_dict(self) -> dict[str, Any]:
        """The cell as JSON has it, with `"format": 1`; `from_dict` makes an equal cell of it."""
        return {
            "format": FORMAT,
            "name": self.name,
            "index_seconds": self.index_seconds,
            "memory": self.memory,
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
    """Names what a cell's numbers depend on: the configuration, the documents and the labels."""
    text = json.dumps([config.to_dict(), documents_hash, golden_hash], sort_keys=True)
    return sha256(text.encode()).hexdigest()[:20]
