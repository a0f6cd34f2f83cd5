"""HashEmbedder against the same rule written as a plain loop over tokens."""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import blake2b
from itertools import pairwise

import numpy as np

from retrieval_lab.embed import HashEmbedder
from tests.benchmarks.timing import Ratio, compare


def plain_loop(texts: list[str], dims: int) -> np.ndarray:
    vectors = np.zeros((len(texts), dims))
    for row, text in enumerate(texts):
        words = re.findall(r"\w+", text.lower())
        tokens = words + [f"{a} {b}" for a, b in pairwise(words)]
        tokens += [word[i : i + 3] for word in words for i in range(len(word) - 2)]
        for token in tokens:
            hashed = int.from_bytes(blake2b(token.encode(), digest_size=8).digest(), "big")
            vectors[row, hashed % dims] += -1 if hashed >> 63 else 1
        vectors[row] /= np.linalg.norm(vectors[row]) or 1
    return vectors.astype(np.float32)


def ratios(texts: list[str]) -> Iterator[Ratio]:
    embedder = HashEmbedder()
    assert np.allclose(embedder.embed(texts), plain_loop(texts, embedder.dims), atol=1e-6)
    yield compare(
        f"HashEmbedder / plain loop, {len(texts)} chunks",
        lambda: embedder.embed(texts),
        lambda: plain_loop(texts, embedder.dims),
        rounds=5,
    )
