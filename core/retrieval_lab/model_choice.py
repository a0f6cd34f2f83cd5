"""The short forms in which a command line names an embedder or a reranker, made into settings."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from retrieval_lab.errors import InputError
from retrieval_lab.settings import (
    Bm25Reranker,
    HashEmbedding,
    ModelEmbedding,
    ModelReranker,
    NoReranker,
    TrainedReranker,
)

EMBEDDER_FORMS = "hash, hash:DIMS, fastembed, fastembed:MODEL or a folder's PATH"
RERANKER_FORMS = "none, lexical, cross-encoder, cross-encoder:MODEL, learned:FILE or a folder's PATH"


def embedder_setting(text: str) -> dict[str, Any]:
    """The value of the key `embedder` that the text means. Raises InputError, which lists the forms."""
    return _setting(text, EMBEDDER_FORMS, {HashEmbedding.kind: _dims, ModelEmbedding.kind: _model}, ModelEmbedding.kind)


def reranker_setting(text: str) -> dict[str, Any]:
    """The value of the key `reranker` that the text means. Raises InputError, which lists the forms."""
    kinds = {NoReranker.kind: None, Bm25Reranker.kind: None, ModelReranker.kind: _model, TrainedReranker.kind: _file}
    return _setting(text, RERANKER_FORMS, kinds, ModelReranker.kind)


def _setting(
    text: str, forms: str, kinds: Mapping[str, Callable[[str], dict[str, Any] | None] | None], folder_kind: str
) -> dict[str, Any]:
    kind, colon, rest = text.partition(":")
    if kind in kinds:
        read = kinds[kind]
        if not colon:
            # Both keys, so that neither stays of a mapping that this one is laid over.
            return {"kind": kind, **({"model": None, "model_path": None} if read is _model else {})}
        found = read(rest) if read is not None else None
        if found is not None:
            return {"kind": kind, **found}
    elif "/" in text or text.startswith(("~", ".")) or os.path.isdir(text):  # noqa: PTH112
        return {"kind": folder_kind, "model": None, "model_path": _absolute(text)}
    raise InputError(f"{text!r} names no model; expected {forms}")


def _dims(text: str) -> dict[str, Any] | None:
    return {"dims": int(text)} if text.isdecimal() and text.isascii() and len(text) <= 9 else None


def _model(text: str) -> dict[str, Any] | None:
    return {"model": text, "model_path": None} if text.strip() else None


def _file(text: str) -> dict[str, Any] | None:
    return {"path": _absolute(text)} if text.strip() else None


def _absolute(path: str) -> str:
    """Relative paths are those of the working directory; settings, which know none, take only absolute ones."""
    return os.path.abspath(os.path.expanduser(path))  # noqa: PTH100, PTH111
