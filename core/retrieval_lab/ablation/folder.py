"""The folder of an ablation: what was asked for, a file for each cell that is done, and one for each that failed.

`ablation.json` has the name, the rule, the corpus and the keys of the cells in the order of the grid; `cells/KEY.json`
is a cell, `failed/KEY.json` a failure. A cell is there whole or not at all, so whoever comes after a crash finds all
that was finished.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from retrieval_lab.ablation.cell import Cell, Failure
from retrieval_lab.ablation.rule import Rule
from retrieval_lab.errors import InputError
from retrieval_lab.paths import corpus_home
from retrieval_lab.stored import Stored, as_number, as_text, read_as, read_json, write_json

T = TypeVar("T", Cell, Failure)

FORMAT = 1
_MANIFEST = "ablation.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What an ablation is to consist of.

    `keys` are those of its cells (`cell.cell_key`) in the order of the grid; `left_out` has the combinations that are
    no pipelines, with the reasons; `level` is `document` where chunk labels were counted as labels of their documents,
    so that configurations which cut otherwise compare.
    """

    name: str
    corpus: str
    keys: tuple[str, ...]
    rule: Rule
    left_out: tuple[tuple[str, str], ...] = ()
    level: str = "chunk"

    def to_dict(self) -> dict[str, Any]:
        """The manifest as JSON has it, with `"format": 1`."""
        return {
            "format": FORMAT,
            "name": self.name,
            "corpus": self.corpus,
            "level": self.level,
            "rule": self.rule.to_dict(),
            "keys": list(self.keys),
            "left_out": [{"name": name, "reason": reason} for name, reason in self.left_out],
        }


@dataclass(frozen=True, slots=True)
class Ablation:
    """An ablation as far as it is done: its cells and failures in the order of the grid."""

    manifest: Manifest
    cells: tuple[Cell, ...]
    failures: tuple[Failure, ...]

    @property
    def pending(self) -> int:
        """How many cells are neither done nor failed."""
        return len(self.manifest.keys) - len(self.cells) - len(self.failures)


class AblationFolder:
    """Reads and writes the files of an ablation."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def begin(self, manifest: Manifest) -> None:
        """Write what is to be done; cells that are there stay. Raises InputError when it cannot be written."""
        write_json(self.path / _MANIFEST, manifest.to_dict())

    def has(self, key: str) -> bool:
        """Whether there is a cell of this key, whole or broken."""
        return self._cell(key).exists()

    def cell(self, key: str) -> Cell:
        """The cell of this key. Raises InputError when there is none, or its file is broken."""
        return _loaded(self._cell(key), Cell)

    def keep(self, key: str, made: Cell | Failure) -> None:
        """Write a cell or a failure, whole or not at all. Raises InputError when it cannot be written."""
        write_json(self._cell(key) if isinstance(made, Cell) else self._failure(key), made.to_dict())
        if isinstance(made, Cell):
            self._failure(key).unlink(missing_ok=True)

    def manifest(self) -> Manifest:
        """What is to be done. Raises InputError when there is no ablation, or the file is broken."""
        try:
            return read_as("ablation", FORMAT, read_json(self.path / _MANIFEST), _read)
        except FileNotFoundError as error:
            raise InputError(f"{self.path}: no ablation is kept here; `retrieval-lab ablate GRID` makes one") from error

    def load(self) -> Ablation:
        """The ablation as far as it is done. Raises InputError when there is none, or a file of it is broken."""
        manifest = self.manifest()
        made = [one for key in manifest.keys if (one := self.made(key)) is not None]
        return Ablation(
            manifest,
            tuple(one for one in made if isinstance(one, Cell)),
            tuple(one for one in made if isinstance(one, Failure)),
        )

    def made(self, key: str) -> Cell | Failure | None:
        """The cell of this key, or else its failure; None while there is neither. Raises InputError as `cell` does."""
        if self.has(key):
            return self.cell(key)
        return _loaded(self._failure(key), Failure) if self._failure(key).exists() else None

    def begun(self) -> int:
        """When the ablation was begun last, in nanoseconds since the epoch; 0 when there is none."""
        return _written(self.path / _MANIFEST)

    def written(self, key: str) -> int:
        """When the cell of this key was written, in nanoseconds since the epoch; 0 when there is none."""
        return _written(self._cell(key))

    def _cell(self, key: str) -> Path:
        return self.path / "cells" / f"{key}.json"

    def _failure(self, key: str) -> Path:
        return self.path / "failed" / f"{key}.json"


def _written(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _loaded(path: Path, kind: type[T]) -> T:
    try:
        return kind.from_dict(read_json(path))
    except FileNotFoundError as error:
        raise InputError(f"{path}: it is gone; run the ablation again") from error
    except InputError as error:
        raise InputError(f"{path}: {error}; delete the file, and run the ablation again") from error


def _read(data: Stored) -> Manifest:
    return Manifest(
        name=data.text("name"),
        corpus=data.text("corpus"),
        level=data.text("level"),
        rule=_read_rule(data.inner("rule")),
        keys=data.each("keys", as_text),
        left_out=data.each("left_out", _read_left_out),
    )


def _read_rule(data: Stored) -> Rule:
    targets = data.named("target", as_number)
    if len(targets) != 1:
        raise InputError(f"{data.place}.target names {len(targets)} measures; expected one")
    ((measure, target),) = targets.items()
    return Rule(data.text("measure"), measure, target, data.number("reranker_ms"))


def _read_left_out(value: Any, place: str) -> tuple[str, str]:
    data = Stored(value, place)
    return data.text("name"), data.text("reason")


def ablation_folders(corpus: Path) -> Sequence[Path]:
    """The folders of the ablations that are kept of a corpus, sorted by name."""
    home = corpus_home(corpus) / "ablations"
    return sorted(path.parent for path in home.glob(f"*/{_MANIFEST}"))


def ablation_path(name: str, corpus: Path) -> Path:
    """Where the ablation of this name of a corpus is kept, or would be."""
    return corpus_home(corpus) / "ablations" / name
