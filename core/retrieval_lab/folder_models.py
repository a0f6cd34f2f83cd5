"""Running the model of a local folder through fastembed, without any network."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from retrieval_lab.errors import InputError
from retrieval_lab.extras import require
from retrieval_lab.model_folder import ModelFolder, Pooling
from retrieval_lab.models import EXTRA, RUN_CHARS, alone_and_quiet, first_line, known_models, unknown_model

_SMALL_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class FolderModel:
    """How the model of a folder is run: as fastembed runs its own model `name`, or, with `pooling`, under a new name.

    `dims` is 0 where vectors are not what the model gives.
    """

    folder: ModelFolder
    name: str
    dims: int = 0
    pooling: Pooling | None = None


def embedding_model(folder: ModelFolder, model: str | None) -> FolderModel:
    """How to run a folder's embedding model, which is `model` where that is known.

    Without a name, the files of sentence-transformers tell (1_Pooling/config.json, modules.json), else the name of a
    model that fastembed knows: `_name_or_path` in config.json, or the folder's own name. Raises InputError when none
    of them tells, and MissingExtra without the extra `models`.
    """
    pooling = folder.pooling() if model is None else None
    if pooling is not None:
        return FolderModel(folder, folder.label, pooling.dims, pooling)
    listed = known_models(require("fastembed", extra=EXTRA).TextEmbedding)
    name = _recognised(folder, listed) if model is None else model.lower()
    if name in listed:
        return FolderModel(folder, str(listed[name]["model"]), int(listed[name]["dim"]))
    if model is None:
        raise InputError(
            f"{folder.path}: nothing there says how its vectors are made; give the name of the model that it comes "
            "from as `model`, or add the 1_Pooling/config.json of that model"
        )
    pooling = folder.pooling()
    if pooling is None:
        raise InputError(f"{folder.path}: {unknown_model(model, listed)} with a 1_Pooling/config.json")
    return FolderModel(folder, folder.label, pooling.dims, pooling)


def _recognised(folder: ModelFolder, listed: Mapping[str, Mapping[str, Any]]) -> str:
    """The one model of fastembed's list that the folder is named after; empty when there is none or several."""
    told = str(folder.config().get("_name_or_path", "")).lower()
    if told in listed:
        return told
    path = folder.path.resolve()
    # The hub's cache has a model in models--OWNER--NAME/snapshots/REVISION.
    snapshot = path.parent.parent.name.removeprefix("models--").replace("--", "/").lower()
    found = []
    for name, one in listed.items():
        source = str(one["sources"]["hf"] or "").lower()
        if snapshot == source or path.name.lower() in (name.rpartition("/")[2], source.rpartition("/")[2]):
            found.append(name)
    return found[0] if len(found) == 1 else ""


def load_folder(module: str, kind: str, model: FolderModel, *, lazy: bool = False) -> Any:
    """An instance of fastembed's class `module.kind` for the folder's model; no network is used.

    With `lazy` the graph is not loaded, which is enough for its tokenizer. Raises MissingExtra without the extra
    `models`, and InputError that names the file which cannot be used.
    """
    factory = getattr(require(module, extra=EXTRA), kind)
    folder = model.folder
    with alone_and_quiet():
        if model.name.lower() not in known_models(factory):
            _register(factory, model)
        try:
            made = factory(
                model_name=model.name,
                cache_dir=str(folder.path),
                specific_model_path=str(folder.path),
                lazy_load=True,
            )
            made.model.model_description = replace(made.model.model_description, model_file=folder.graph)
            if not lazy:
                made.model.load_onnx_model()
        except Exception as error:  # the runtime and the tokenizers raise errors of many unrelated kinds
            raise _unusable(folder, error) from error
        return made


def run_chars(folder: ModelFolder | None) -> int:
    """How many characters, for `runs`, the model takes best in one run; None is a model of fastembed's list.

    Calling a graph of less than a megabyte takes longer than the padding that larger runs bring.
    """
    if folder is None or (folder.path / folder.graph).stat().st_size >= _SMALL_BYTES:
        return RUN_CHARS
    return sys.maxsize


def _register(factory: Any, model: FolderModel) -> None:
    """Make the model known to fastembed for the life of the process."""
    description = require("fastembed.common.model_description", extra=EXTRA)
    more: dict[str, Any] = {}
    if model.pooling is not None:
        pooling = description.PoolingType(model.pooling.mode)
        more = {"pooling": pooling, "normalization": model.pooling.normalised, "dim": model.dims}
    source = description.ModelSource(url=model.folder.path.as_uri())
    factory.add_custom_model(model=model.name, sources=source, model_file=model.folder.graph, **more)


def _unusable(folder: ModelFolder, error: Exception) -> InputError:
    """Blames the tokenizer where it cannot be loaded alone, else the graph."""
    file, what = folder.path / folder.graph, "the model"
    try:
        require("fastembed.common.preprocessor_utils", extra=EXTRA).load_tokenizer(folder.path)
    except Exception as tokenizer_error:  # noqa: BLE001 - the tokenizers raise plain Exceptions
        file, what, error = folder.path / "tokenizer.json", "the tokenizer", tokenizer_error
    return InputError(f"{file}: {what} cannot be loaded ({first_line(error)}); copy it again from where it comes from")
