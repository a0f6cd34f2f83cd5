"""A folder with the files of one model: what it holds, checked before anything is loaded from it."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from retrieval_lab.errors import InputError
from retrieval_lab.stored import read_json, shown

_GRAPHS = ("model.onnx", "onnx/model.onnx")
_POOLING = "1_Pooling/config.json"
_MODULES = "modules.json"
# What decides a model's output besides its graph.
_SMALL_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "config.json", _POOLING, _MODULES)
# sentence-transformers writes a flag for each mode, newer releases one name.
_POOLING_MODES = {
    "pooling_mode_cls_token": "CLS",
    "pooling_mode_mean_tokens": "MEAN",
    "pooling_mode_lasttoken": "LAST_TOKEN",
    "cls": "CLS",
    "mean": "MEAN",
    "lasttoken": "LAST_TOKEN",
}
_DIGEST_CHARS = 12


@dataclass(frozen=True, slots=True)
class Pooling:
    """How sentence vectors are made of a model's output: `mode` as fastembed's PoolingType names it, then `dims`."""

    mode: str
    normalised: bool
    dims: int


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """A folder of one model in ONNX with its tokenizer, as `path` and the `graph`'s file below it."""

    path: Path
    graph: str

    @classmethod
    def at(cls, path: str | Path) -> ModelFolder:
        """The folder, once it is sure that all files are there; `~` is the home folder.

        Raises InputError that names what is missing or broken and what to do.
        """
        # Not Path.expanduser, which raises for unknown users.
        folder = Path(os.path.abspath(os.path.expanduser(path)))  # noqa: PTH100, PTH111
        if not folder.is_dir():
            what = "is not a folder" if folder.exists() else "there is no such folder"
            raise InputError(f"{folder}: {what}; name the folder with a model's ONNX file and tokenizer.json")
        _check_tokenizer(folder)
        return cls(folder, _graph(folder))

    @property
    def label(self) -> str:
        """Its name, which changes with its content."""
        return f"{self.path.resolve().name}@{self.digest}"

    @property
    def digest(self) -> str:
        """Names the content: the first characters of a sha256 over the files that decide what the model gives.

        Raises InputError when a file cannot be read.
        """
        graph = self.path / self.graph
        beside = sorted(graph.parent.glob(f"{graph.name}[_.]data*"))  # weights too large for the graph's own file
        files = [graph, *beside, *(self.path / name for name in _SMALL_FILES)]
        try:
            stamps = [(one, one.stat()) for one in files if one.exists()]
            return _digest(tuple((str(one), found.st_size, found.st_mtime_ns) for one, found in stamps))
        except OSError as error:
            raise InputError(f"{error.filename or self.path}: cannot be read: {error.strerror}") from error

    def config(self, name: str = "config.json") -> dict[str, Any]:
        """One of its JSON files, empty when it is not there. Raises InputError when it is broken."""
        return _object(self.path / name)

    def pooling(self) -> Pooling | None:
        """As the files of sentence-transformers describe it; None when they are not there.

        Without modules.json vectors are normalised. Raises InputError for what fastembed does not do.
        """
        settings = self.config(_POOLING)
        if not settings:
            return None
        modes = [mode for key, mode in _POOLING_MODES.items() if settings.get(key) is True]
        named = settings.get("pooling_mode")
        if isinstance(named, str):
            modes = [_POOLING_MODES[named]] if named in _POOLING_MODES else []
        if len(modes) != 1:
            raise InputError(
                f"{self.path / _POOLING}: expected one of the modes cls, mean and lasttoken; others cannot be used"
            )
        return Pooling(modes[0], self._normalised(), self._dims(settings))

    def _normalised(self) -> bool:
        path = self.path / _MODULES
        try:
            modules = read_json(path)
        except FileNotFoundError:
            return True
        if not isinstance(modules, list) or not all(isinstance(one, dict) for one in modules):
            raise InputError(f"{path}: expected a list of objects, found {shown(modules)}")
        kinds = [str(one.get("type", "")).rpartition(".")[2] for one in modules]
        other = [kind for kind in kinds if kind not in ("Transformer", "Pooling", "Normalize")]
        if other:
            raise InputError(f"{path}: has a module {other[0]}, which fastembed does not run; use another model")
        return "Normalize" in kinds

    def _dims(self, pooling: dict[str, Any]) -> int:
        config = self.config()
        found = [pooling.get(key) for key in ("word_embedding_dimension", "embedding_dimension")]
        found += [config.get(key) for key in ("hidden_size", "d_model", "dim")]
        dims = next((one for one in found if isinstance(one, int) and one > 0), None)
        if dims is None:
            raise InputError(f"{self.path / 'config.json'}: has no hidden_size, so the vectors' dimension is unknown")
        return dims


def _graph(folder: Path) -> str:
    """The ONNX file: under one of the usual names, else the only one there is."""
    for name in _GRAPHS:
        if (folder / name).is_file():
            return name
    try:
        found = sorted(
            str(one.relative_to(folder)) for place in ("*.onnx", "onnx/*.onnx") for one in folder.glob(place)
        )
    except OSError as error:
        raise InputError(f"{folder}: cannot be read: {error.strerror}") from error
    if len(found) == 1:
        return found[0]
    what = f"several ONNX files ({', '.join(found)}) and no" if found else "no ONNX file, expected"
    raise InputError(f"{folder}: has {what} {_GRAPHS[0]} or {_GRAPHS[1]}; put the model there under that name")


def _check_tokenizer(folder: Path) -> None:
    """What fastembed asks of the tokenizer's files."""
    if not (folder / "tokenizer.json").is_file():
        raise InputError(f"{folder}: has no tokenizer.json; copy it from where the model comes from")
    path = folder / "tokenizer_config.json"
    if not path.is_file():
        raise InputError(f"{folder}: has no tokenizer_config.json; copy it from where the model comes from")
    settings = _object(path)
    lengths = [settings.get(key) for key in ("model_max_length", "max_length")]
    if not any(isinstance(one, int) and not isinstance(one, bool) and 0 < one <= sys.maxsize for one in lengths):
        raise InputError(
            f"{path}: model_max_length is {shown(lengths[0])}; expected the number of tokens that the model reads, "
            'such as "model_max_length": 512'
        )


def _object(path: Path) -> dict[str, Any]:
    try:
        found = read_json(path)
    except FileNotFoundError:
        return {}
    if not isinstance(found, dict):
        raise InputError(f"{path}: expected an object, found {shown(found)}")
    return found


@lru_cache(maxsize=16)
def _digest(stamps: tuple[tuple[str, int, int], ...]) -> str:
    """Of files by path, size and time of change: as long as these stay, no file is read again."""
    total = sha256()
    for path, size, _ in stamps:
        with Path(path).open("rb") as file:
            total.update(f"{Path(path).name}\0{size}\0".encode())
            while part := file.read(1 << 20):
                total.update(part)
    return total.hexdigest()[:_DIGEST_CHARS]
