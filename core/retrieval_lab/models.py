"""Models that fastembed loads: where their files lie, and one error when they cannot be had."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from retrieval_lab.errors import EnvironmentMissing
from retrieval_lab.extras import require


def model_cache_dir(cache_dir: str | Path | None = None) -> Path:
    """The folder of model files: `cache_dir`, else $FASTEMBED_CACHE_PATH, else ~/.cache/fastembed."""
    if cache_dir is not None:
        return Path(cache_dir)
    configured = os.environ.get("FASTEMBED_CACHE_PATH")
    return Path(configured) if configured else Path.home() / ".cache" / "fastembed"


def load_model(module: str, kind: str, model: str, cache_dir: Path) -> Any:
    """An instance of fastembed's class `module.kind` for the model.

    Raises MissingExtra without the extra `models`, and EnvironmentMissing when the files are neither in the cache
    nor to be fetched.
    """
    factory = getattr(require(module, extra="models"), kind)
    try:
        return factory(model_name=model, cache_dir=str(cache_dir))
    except Exception as error:  # the hub client and the runtime raise errors of many unrelated kinds
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise EnvironmentMissing(
            f"model {model} could not be loaded from {cache_dir}: {reason}; "
            "check its name, and run once with network access or point FASTEMBED_CACHE_PATH at its files"
        ) from error
