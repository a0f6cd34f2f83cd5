"""Turning texts into vectors.

An embedder has `dims`, a `name` that changes whenever its vectors would, and `embed`. `HashEmbedder` needs no model
and gives the same vectors in every process; `FastEmbedder` runs a small ONNX model (extra `models`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from retrieval_lab.errors import InputError
from retrieval_lab.extras import require
from retrieval_lab.folder_models import FolderModel, embedding_model
from retrieval_lab.model_folder import ModelFolder
from retrieval_lab.models import (
    EXTRA,
    known_models,
    model_cache_dir,
    unknown_model,
)
from retrieval_lab.runtime import ModelRuntime
from retrieval_lab.text import has_words, sendable, words

Vectors = NDArray[np.float32]

DEFAULT_EMBEDDING_MODEL = "BAAI/bge-small-en-v1.5"

# Distinct tokens repeat heavily inside a corpus, so a bounded table of hashes spares most of the blake2b calls.
_REMEMBERED_TOKENS = 1 << 17
_SIGN_BIT = 1 << 63


class Embedder(Protocol):
    """Anything that turns texts into vectors of one size."""

    @property
    def dims(self) -> int:
        """The length of every vector."""

    @property
    def name(self) -> str:
        """Names the model and its settings; two embedders of one name give equal vectors."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """A float32 array of shape (len(texts), dims), row i for texts[i]."""


def embed_checked(embedder: Embedder, texts: Sequence[str], labels: Sequence[str] | None = None) -> Vectors:
    """`embedder.embed(texts)`, with its shape and its values checked.

    Raises InputError when the array does not have the promised shape or holds NaN or infinity; the message names the
    text by its entry in `labels`.
    """
    vectors = np.asarray(embedder.embed(texts), dtype=np.float32)
    if vectors.shape != (len(texts), embedder.dims):
        expected = (len(texts), embedder.dims)
        raise InputError(f"embedder {embedder.name} returned an array of shape {vectors.shape}, expected {expected}")
    bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if bad.size:
        label = labels[bad[0]] if labels is not None else repr(texts[bad[0]][:60])
        raise InputError(f"embedder {embedder.name} returned NaN or infinity for {label}; vectors must be finite")
    return vectors


def embed_query(embedder: Embedder, query: str) -> Vectors | None:
    """The query's vector, shape (dims,), or None when it has no words or its vector is zero: nothing to compare with.

    Raises InputError as `embed_checked` does.
    """
    if not has_words(query):
        return None
    vector: Vectors = embed_checked(embedder, [query], ["the query"])[0]
    return vector if vector.any() else None


class QueryVectors:
    """The vectors of queries; the last `kept` are remembered, so that the stages of one query embed it once.

    More than one, since lists may be made for an expanded query.
    """

    def __init__(self, embedder: Embedder, kept: int = 4) -> None:
        self.dims = embedder.dims
        self.embedder = embedder
        self._kept = kept
        self._known: dict[str, Vectors | None] = {}

    def of(self, query: str) -> Vectors | None:
        """Return what `embed_query` returns for the query, once NULs and lone surrogates are made spaces."""
        if query not in self._known:
            vector = embed_query(self.embedder, sendable(query)[0])
            while len(self._known) >= self._kept:
                del self._known[next(iter(self._known))]
            self._known[query] = vector
        return self._known[query]


class HashEmbedder:
    """Words, word pairs and three-character slices, hashed to signed counts: lexical vectors without a model.

    The hash is blake2b (RFC 7693) with an 8-byte digest, read big-endian; signed feature hashing as in Weinberger et
    al., "Feature Hashing for Large Scale Multitask Learning" (2009).
    """

    def __init__(self, dims: int = 256) -> None:
        """Raises InputError when dims is below 1."""
        if dims < 1:
            raise InputError(f"dims is {dims}; expected 1 or more")
        self.dims = dims
        self.name = f"hash-{dims}"

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors, float32, shape (len(texts), dims); a text without words gets the zero vector."""
        vectors = np.zeros((len(texts), self.dims), dtype=np.float32)
        for row, text in enumerate(texts):
            vectors[row] = self._vector(text)
        return vectors

    def _vector(self, text: str) -> NDArray[np.float64]:
        counts = Counter(_tokens(text))
        # Python lists keep the additions exact and are quicker here than numpy's scattered adds.
        sums = [0] * self.dims
        for token, count in counts.items():
            hashed = _hash(token)
            sums[hashed % self.dims] += -count if hashed & _SIGN_BIT else count
        length = math.sqrt(sum(value * value for value in sums))
        return np.array(sums, dtype=np.float64) / (length or 1.0)


def _tokens(text: str) -> Iterator[str]:
    """Each word, each pair of neighbouring words, each three-character slice of each word, as often as it occurs."""
    found = words(text)
    yield from found
    for left, right in pairwise(found):
        yield f"{left} {right}"
    for word in found:
        for start in range(len(word) - 2):
            yield word[start : start + 3]


@lru_cache(maxsize=_REMEMBERED_TOKENS)
def _hash(token: str) -> int:
    return int.from_bytes(blake2b(token.encode(), digest_size=8).digest(), "big")


class FastEmbedder:
    """A sentence embedding model through fastembed (extra `models`), loaded at the first non-empty `embed`."""

    def __init__(
        self,
        model: str = DEFAULT_EMBEDDING_MODEL,
        cache_dir: str | Path | None = None,
        model_path: str | Path | None = None,
    ) -> None:
        """`cache_dir` is where the model's files lie: by default $FASTEMBED_CACHE_PATH, else ~/.cache/fastembed.

        `model_path` is a folder with the files of one model; then no network is used, and the default `model` means
        that the folder tells how its vectors are made (`folder_models.embedding_model`).

        Raises InputError when the folder lacks a file.
        """
        self.model = model
        self.cache_dir = model_cache_dir(cache_dir)
        self._folder = None if model_path is None else ModelFolder.at(model_path)
        self._runtime = ModelRuntime(
            "fastembed", "TextEmbedding", model, self.cache_dir, lambda: self._in_folder, sample="a"
        )

    @cached_property
    def name(self) -> str:
        """The model; of a folder its name with a hash of its content."""
        if self._folder is None:
            return f"fastembed-{self.model}"
        given = "" if self.model == DEFAULT_EMBEDDING_MODEL else f"{self.model} in "
        return f"fastembed-{given}{self._folder.label}"

    @cached_property
    def dims(self) -> int:
        """The length of every vector.

        Raises InputError for a model that fastembed does not know, and as `folder_models.embedding_model` does.
        """
        if self._in_folder is not None:
            return self._in_folder.dims
        if self.model == DEFAULT_EMBEDDING_MODEL:
            return 384  # so that fastembed need not be imported before anything is embedded
        listed = known_models(require("fastembed", extra=EXTRA).TextEmbedding)
        if self.model.lower() not in listed:
            raise InputError(unknown_model(self.model, listed))
        return int(listed[self.model.lower()]["dim"])

    def embed(self, texts: Sequence[str]) -> Vectors:
        """float32, shape (len(texts), dims); a text beyond `window` is embedded up to there.

        Raises as `models.load_model` does.
        """
        if not texts:
            return np.zeros((0, self.dims), dtype=np.float32)
        vectors = self._runtime.apply(lambda made, some: made.embed(some), texts)
        return np.asarray(vectors, dtype=np.float32)

    @property
    def window(self) -> int:
        """The tokens of a text that the model reads. Raises as `models.load_model` does."""
        return self._runtime.tokens.window

    def token_counts(self, texts: Sequence[str], query: str | None = None) -> list[int]:
        """The tokens of each text, or of its pair with the query, without truncation; raises as `window` does."""
        return self._runtime.tokens.counts(texts, query)

    @cached_property
    def _in_folder(self) -> FolderModel | None:
        if self._folder is None:
            return None
        return embedding_model(self._folder, None if self.model == DEFAULT_EMBEDDING_MODEL else self.model)
