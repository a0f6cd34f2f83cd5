"""Which of the default models the cache holds, without importing what runs them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from retrieval_lab.models import model_cache_dir


@dataclass(frozen=True, slots=True)
class DefaultModel:
    """A default model, the repository that fastembed fetches it from, and the files it cannot be loaded without."""

    role: str
    name: str
    repository: str
    files: tuple[str, ...]


# As in fastembed's own tables, which cannot be read without importing it. fastembed before 0.9 writes the first
# repository in small letters; newer ones find either spelling in the cache.
MODELS = (
    DefaultModel(
        "embedder",
        "BAAI/bge-small-en-v1.5",
        "Qdrant/bge-small-en-v1.5-onnx-Q",
        ("model_optimized.onnx", "tokenizer.json"),
    ),
    DefaultModel(
        "reranker",
        "Xenova/ms-marco-MiniLM-L-6-v2",
        "Xenova/ms-marco-MiniLM-L-6-v2",
        ("onnx/model.onnx", "tokenizer.json"),
    ),
)


def cached_models(folder: Path | None = None) -> dict[str, bool]:
    """Whether each default model can be loaded from the folder (`models.model_cache_dir()`) without a network."""
    folder = model_cache_dir() if folder is None else folder
    return {model.name: _is_cached(model, folder) for model in MODELS}


def model_is_here(name: str) -> bool | None:
    """Whether a default model can be loaded without a network; None where nothing is known of the model."""
    try:
        return next((_is_cached(model, model_cache_dir()) for model in MODELS if model.name == name), None)
    except RuntimeError:  # there is no home to look in
        return False


def _is_cached(model: DefaultModel, folder: Path) -> bool:
    """Whether the model can be loaded from the cache without a network.

    The hub's client keeps the files of a revision in `models--OWNER--NAME/snapshots/REVISION`, and in `refs/main`
    the revision that it uses.
    """
    wanted = f"models--{model.repository.replace('/', '--')}".lower()
    try:
        places = [place for place in folder.iterdir() if place.name.lower() == wanted]
    except OSError:
        return False
    return any(_is_complete(place, model.files) for place in places)


def _is_complete(place: Path, files: tuple[str, ...]) -> bool:
    try:
        revision = (place / "refs" / "main").read_text(encoding="utf-8").strip()
        return all((place / "snapshots" / revision / file).is_file() for file in files)
    except (OSError, UnicodeDecodeError):
        return False
