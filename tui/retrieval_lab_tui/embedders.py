"""The embedders that the explorer offers: their short names, which there are, and which cannot work here."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

from retrieval_lab.config import PipelineConfig
from retrieval_lab.model_cache import model_is_here
from retrieval_lab.models import EXTRA
from retrieval_lab.settings import (
    EmbedderSettings,
    HashEmbedding,
    ModelEmbedding,
    ModelReranker,
    RerankerSettings,
    TrainedReranker,
)


def embedder_name(settings: EmbedderSettings) -> str:
    """A name of few characters: `hash-256`, a model without its owner, a folder without the way to it."""
    if isinstance(settings, HashEmbedding):
        return f"{settings.kind}-{settings.dims}"
    return Path(settings.model_path or settings.model or "").name


def embedders(file: PipelineConfig, others: Iterable[PipelineConfig]) -> tuple[EmbedderSettings, ...]:
    """The choices, each once: the file's, hash, those of the other configurations, and the default model."""
    return tuple(dict.fromkeys((file.embedder, HashEmbedding(), *(one.embedder for one in others), ModelEmbedding())))


def lacking(settings: EmbedderSettings | RerankerSettings) -> str:
    """What a model lacks on this machine, as far as that can be told without loading it; else nothing."""
    if isinstance(settings, TrainedReranker):
        return "" if settings.file.is_file() else "no such file"
    if not isinstance(settings, ModelEmbedding | ModelReranker):
        return ""
    if find_spec("fastembed") is None:
        return f"needs the extra {EXTRA}"
    if settings.model_path is not None:
        return "" if Path(settings.model_path).expanduser().is_dir() else "no such folder"
    return "not in the cache" if model_is_here(settings.model or "") is False else ""
