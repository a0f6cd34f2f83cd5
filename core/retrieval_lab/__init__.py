"""Retrieval lab: one question, every stage of a hybrid pipeline over Postgres, nothing hidden."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from retrieval_lab.config import PipelineConfig as PipelineConfig
    from retrieval_lab.lab import Lab as Lab
    from retrieval_lab.trace import Trace as Trace

_EXPORTS = {
    "Lab": "retrieval_lab.lab",
    "PipelineConfig": "retrieval_lab.config",
    "Trace": "retrieval_lab.trace",
}

__all__ = ["Lab", "PipelineConfig", "Trace"]


def __getattr__(name: str) -> Any:
    # Loaded at first use: the database driver and numpy take longer to import than most commands take to run.
    if name in _EXPORTS:
        return getattr(import_module(_EXPORTS[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
