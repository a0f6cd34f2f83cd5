"""The rules of the stages once more, written as plainly as possible: what the tests compare with."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retrieval_lab.types import Chunk

Vector = NDArray[np.float32]


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def hash_vector(text: str, dims: int = 256) -> Vector:
    """What HashEmbedder makes of one text."""
    found = words(text)
    tokens = list(found)
    tokens += [f"{a} {b}" for a, b in pairwise(found)]
    tokens += [word[i : i + 3] for word in found for i in range(len(word)) if len(word[i : i + 3]) == 3]
    vector = np.zeros(dims)
    for token in tokens:
        h = int.from_bytes(hashlib.blake2b(token.encode("utf-8"), digest_size=8).digest(), "big")
        vector[h % dims] += -1 if (h >> 63) & 1 else 1
    length = np.linalg.norm(vector)
    return (vector / length if length else vector).astype(np.float32)


def cosine(a: Sequence[float] | NDArray[Any], b: Sequence[float] | NDArray[Any]) -> float:
    """The cosine of two vectors, 0 when one of them is zero."""
    lengths = math.sqrt(math.fsum(float(x) ** 2 for x in a)) * math.sqrt(math.fsum(float(x) ** 2 for x in b))
    return math.fsum(float(x) * float(y) for x, y in zip(a, b, strict=True)) / lengths if lengths else 0.0


def rrf(lists: Sequence[Sequence[str]], k: int = 60) -> list[tuple[str, float]]:
    """(chunk_id, score) of lists of ids without repeats, best first."""
    ids = {chunk_id for ids in lists for chunk_id in ids}
    scores = {c: sum(1 / (k + 1 + ids.index(c)) for ids in lists if c in ids) for c in ids}
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))


def bm25(query: str, texts: Sequence[str], k1: float = 1.2, b: float = 0.75) -> list[float]:
    """The score of each text, by the formula of PIPELINE.md."""
    terms = sorted(set(words(query)))
    docs = [words(text) for text in texts]
    avg = sum(map(len, docs)) / len(docs)
    scores = []
    for doc in docs:
        score = 0.0
        for term in terms:
            tf = doc.count(term)
            df = sum(term in other for other in docs)
            if tf:
                idf = math.log(1 + (len(docs) - df + 0.5) / (df + 0.5))
                score += idf * tf * (k1 + 1) / (tf + k1 * (1 - b + b * len(doc) / avg))
        scores.append(score)
    return scores


def relevances(query_vec: Any, scores: Sequence[float], vectors: Sequence[Any]) -> list[float]:
    """Scores scaled to [0, 1] as MMR wants them."""
    if len(set(scores)) == 1:
        return [cosine(query_vec, vector) for vector in vectors]
    if min(scores) >= 0:
        return [score / max(scores) for score in scores]
    return [(score - min(scores)) / (max(scores) - min(scores)) for score in scores]


def mmr_values(
    relevance: Sequence[float], vectors: Sequence[Any], picked: Sequence[int], lam: float
) -> dict[int, float]:
    """The value of every candidate that is left after the picks."""
    return {
        i: lam * relevance[i] - (1 - lam) * (max(cosine(vectors[i], vectors[p]) for p in picked) if picked else 0.0)
        for i in range(len(vectors))
        if i not in picked
    }


def mmr(query_vec: Any, scores: Sequence[float], vectors: Sequence[Any], lam: float, top_k: int) -> list[int]:
    """Positions of the picks, brute force; values within 1e-12 of each other are a tie."""
    relevance = relevances(query_vec, scores, vectors)
    picked: list[int] = []
    while len(picked) < min(top_k, len(scores)):
        values = mmr_values(relevance, vectors, picked, lam)
        best = max(values.values())
        picked.append(min(i for i, value in values.items() if value >= best - 1e-12))
    return picked


def nearest(query_vec: Any, vectors: Mapping[str, Any], n: int) -> list[tuple[str, float]]:
    """(chunk_id, cosine) by cosine, then chunk_id; zero vectors have none. Cosines within 1e-6 count as equal."""
    found = [(c, cosine(query_vec, v)) for c, v in vectors.items() if np.any(v)]
    return sorted(found, key=lambda item: (-round(item[1], 6), item[0]))[:n]


def contains(text: str, anchor: str) -> bool:
    """Whether the text holds the anchor, lower-cased and with runs of white space made one space."""
    return re.sub(r"\s+", " ", anchor.lower()) in re.sub(r"\s+", " ", text.lower())


def chunks_with(chunks: Iterable[Chunk], doc_id: str, anchor: str) -> set[str]:
    return {c.chunk_id for c in chunks if c.doc_id == doc_id and contains(c.text, anchor)}
