"""Whole pipelines that have a name: the files of the shipped folder, and those beside a corpus."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from retrieval_lab.config import PipelineConfig
from retrieval_lab.config_file import effective_config
from retrieval_lab.errors import InputError
from retrieval_lab.paths import bundled_configs
from retrieval_lab.text import printable

FOLDER = "configs"
"""The folder beside a corpus's documents that holds configurations of its own."""

_SUFFIX = ".yaml"
_DOCUMENT_START = "---"


@dataclass(frozen=True, slots=True)
class Configuration:
    """A file with a whole pipeline, as lab.yaml has it. `name` is its stem, `description` its first comment line.

    `config` is None when the file has faults; `faults` has them, a line each, with file and line.
    """

    name: str
    description: str
    path: Path
    config: PipelineConfig | None
    faults: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The configuration as JSON has it."""
        return {
            "name": self.name,
            "description": self.description,
            "path": str(self.path),
            "config": None if self.config is None else self.config.to_dict(),
            "faults": list(self.faults),
        }


def configurations(corpus: Path) -> tuple[Configuration, ...]:
    """Those beside the corpus and the shipped ones, by name; one beside the corpus hides a shipped one of its name.

    Raises EnvironmentMissing when the shipped folder is gone.
    """
    return tuple(read_configuration(path) for _, path in sorted(_paths(corpus).items()))


def names(corpus: Path) -> tuple[str, ...]:
    """The names of `configurations`, without reading any file. Raises as that does."""
    return tuple(sorted(_paths(corpus)))


def path_of(name: str, corpus: Path) -> Path:
    """The file of the configuration of this name. Raises InputError with the names that there are, and as `names`."""
    paths = _paths(corpus)
    if name not in paths:
        known = ", ".join(sorted(paths))
        raise InputError(printable(f"{name}: no such file, and no configuration of this name; there are {known}"))
    return paths[name]


def read_configuration(path: Path) -> Configuration:
    """What the file says, or what is wrong with it."""
    config, faults = None, tuple[str, ...]()
    try:
        config = effective_config(None, path=path).config
    except InputError as error:
        faults = tuple(str(error).split("\n"))
    return Configuration(path.stem, description_of(path), path, config, faults)


def description_of(path: Path) -> str:
    """The first comment line of the file, which stands before its settings; empty when there is none to read."""
    try:
        lines = path.read_text(encoding="utf-8-sig", errors="replace").splitlines() if path.is_file() else []
    except OSError:
        return ""
    for line in lines:
        text = line.strip()
        if text.startswith("#"):
            return text.lstrip("#").strip()
        if text and text != _DOCUMENT_START:
            return ""
    return ""


def _paths(corpus: Path) -> dict[str, Path]:
    return {path.stem: path for folder in (bundled_configs(), corpus / FOLDER) for path in _files(folder)}


def _files(folder: Path) -> Iterator[Path]:
    for path in folder.glob(f"*{_SUFFIX}"):
        if not path.name.startswith(".") and not path.is_dir():
            yield path
