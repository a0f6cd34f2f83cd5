"""Models that fastembed loads: where their files lie, and one error when they cannot be had."""

from __future__ import annotations

import difflib
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from retrieval_lab.errors import EnvironmentMissing, InputError
from retrieval_lab.extras import require

EXTRA = "models"

RUN_CHARS = 600
"""Characters in one run of a model, padding included: on a CPU larger runs take longer for each text, not shorter."""
_RUN_TEXTS = 64

CONFIG_FILES = ("config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
"""What a model's folder holds besides the model."""

_MEND = (
    "run once with network access, point FASTEMBED_CACHE_PATH at its files, or give the folder that holds them as "
    "model_path"
)
_OFFLINE = "HF_HUB_OFFLINE"
_HUB_SECONDS = 5
# fastembed's registry of models and the environment are the whole process's, so one model is loaded at a time.
_loading = threading.RLock()


def model_cache_dir(cache_dir: str | Path | None = None) -> Path:
    """The folder of model files: `cache_dir`, else $FASTEMBED_CACHE_PATH, else ~/.cache/fastembed."""
    if cache_dir is not None:
        return Path(cache_dir)
    configured = os.environ.get("FASTEMBED_CACHE_PATH")
    return Path(configured) if configured else Path.home() / ".cache" / "fastembed"


def load_model(module: str, kind: str, model: str, cache_dir: Path, *, fetch: bool = True, **options: Any) -> Any:
    """An instance of fastembed's class `module.kind` for the model, whose files are fetched when the cache lacks them.

    `options` are further arguments of the class. Raises MissingExtra without the extra `models`, InputError for a model
    that fastembed does not know, and EnvironmentMissing when the files are neither in the cache nor, where `fetch`
    allows it, to be fetched.
    """
    factory = getattr(require(module, extra=EXTRA), kind)
    with alone_and_quiet():
        try:
            return _from_cache(factory, model, cache_dir, options)
        except Exception as error:  # the hub client and the runtime raise errors of many unrelated kinds
            listed = known_models(factory)
            if listed and model.lower() not in listed:
                raise InputError(unknown_model(model, listed)) from error
            source = listed[model.lower()] if listed else None
            if source is None or not fetch:
                raise _not_loaded(model, cache_dir, error) from error
        files = (source["model_file"], *source["additional_files"])
        fetch_model(source["sources"]["hf"], cache_dir, files, name=model)
        try:
            return _from_cache(factory, model, cache_dir, options)
        except Exception as error:
            raise _not_loaded(model, cache_dir, error) from error


def _from_cache(factory: Any, model: str, cache_dir: Path, options: Mapping[str, Any]) -> Any:
    """Without the hub, since fastembed's own way there sleeps for 39 seconds when there is no network."""
    before = os.environ.get(_OFFLINE)
    os.environ[_OFFLINE] = "1"
    try:
        return factory(model_name=model, cache_dir=str(cache_dir), **options)
    finally:
        if before is None:
            del os.environ[_OFFLINE]
        else:
            os.environ[_OFFLINE] = before


def _not_loaded(model: str, cache_dir: Path, error: Exception) -> EnvironmentMissing:
    return EnvironmentMissing(f"model {model} could not be loaded from {cache_dir} ({first_line(error)}): {_MEND}")


def fetch_model(
    repository: str,
    cache_dir: Path | str,
    files: Sequence[str],
    *,
    name: str | None = None,
    revision: str | None = None,
) -> Path:
    """The folder of a model from the Hugging Face hub: `files` and CONFIG_FILES, from the cache where it has them all.

    Raises MissingExtra without the extra `models`, EnvironmentMissing when the hub cannot be reached or has no such
    model, naming it `name`.
    """
    hub = require("huggingface_hub", extra=EXTRA)
    wanted = {"revision": revision, "allow_patterns": [*CONFIG_FILES, *files], "cache_dir": str(cache_dir)}
    with suppress(Exception):  # not in the cache: an error of the hub's or of the disk
        found = Path(hub.snapshot_download(repository, local_files_only=True, **wanted))
        if all((found / file).is_file() for file in files):
            return found
    try:
        # A hub that does not answer: snapshot_download itself would wait for it without end.
        hub.model_info(repository, revision=revision, timeout=_HUB_SECONDS)
        return Path(hub.snapshot_download(repository, **wanted))
    except Exception as error:  # errors of the hub, of its HTTP library and of the disk
        raise EnvironmentMissing(
            f"model {name or repository} is not in {cache_dir} and cannot be fetched ({first_line(error)}): {_MEND}"
        ) from error


def tokenizer_of(made: Any, sample: Any) -> Any:
    """The tokenizer of an instance that may not have been used yet; `sample` is anything that it counts tokens of."""
    if getattr(made.model, "tokenizer", None) is None:
        made.token_count([sample])
    return made.model.tokenizer


def runs(texts: Sequence[str], chars: int = RUN_CHARS) -> list[list[int]]:
    """The rows of the texts, parted into runs of a model: a long text alone, short ones of like length together.

    They are in the order given where one run holds all. A run has at most `chars` characters, padding included, or a
    single text, and at most 64 texts, the size of fastembed's own.
    """
    rows = range(len(texts))
    if len(texts) <= _RUN_TEXTS and len(texts) * max(map(len, texts), default=0) <= chars:
        return [list(rows)]
    parted: list[list[int]] = []
    room = 0
    for row in sorted(rows, key=lambda row: -len(texts[row])):
        if not room:
            parted.append([])
            room = min(_RUN_TEXTS, max(1, chars // max(1, len(texts[row]))))
        parted[-1].append(row)
        room -= 1
    return parted


def known_models(factory: Any) -> Mapping[str, Mapping[str, Any]]:
    """What fastembed's class knows, by name in small letters; empty where it does not tell."""
    listing = getattr(factory, "list_supported_models", None)
    return {} if listing is None else {str(one["model"]).lower(): one for one in listing()}


def unknown_model(model: str, listed: Mapping[str, Mapping[str, Any]]) -> str:
    """Says that fastembed has no such model, with the names that are close to it."""
    by_last_part = {name.rpartition("/")[2]: name for name in listed}
    wanted = model.lower()
    close = difflib.get_close_matches(wanted, listed, n=3) or [
        by_last_part[part] for part in difflib.get_close_matches(wanted.rpartition("/")[2], by_last_part, n=3)
    ]
    names = ", ".join(str(listed[name]["model"]) for name in close)
    perhaps = f"did you mean {names}? " if names else ""
    return f"fastembed knows no model {model!r}: {perhaps}give any other as a folder of its files (model_path)"


def first_line(error: Exception) -> str:
    """The first line of what an error says, else its kind."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__).strip().rstrip(".:")


@contextmanager
def alone_and_quiet() -> Iterator[None]:
    """One model is loaded at a time, without fastembed's own log: what is wrong is told by our error."""
    with _loading:
        try:
            log = require("loguru", extra=EXTRA).logger
        except EnvironmentMissing:  # a fastembed that no longer logs through it
            yield
            return
        log.disable("fastembed")
        try:
            yield
        finally:
            log.enable("fastembed")
