"""The index format once more, written as plainly as possible: what the tests compare with."""

from __future__ import annotations

import hashlib
import json
import math
import struct
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any


@lru_cache(maxsize=2000)
def terms(text: str) -> tuple[str, ...]:
    """Runs of letters, numbers and `_`, each code point lowered by itself."""
    found, run = [], ""
    for char in text + " ":
        if char == "_" or unicodedata.category(char)[0] in "LN":
            run += {"İ": "i", "Σ": "σ"}.get(char, char.lower())
        elif run:
            found.append(run)
            run = ""
    return tuple(found)


def varint(value: int) -> bytes:
    out = []
    while True:
        value, septet = value // 128, value % 128
        out.append(septet + 128 if value else septet)
        if not value:
            return bytes(out)


def postings(texts: Sequence[str]) -> dict[str, dict[int, int]]:
    """term -> document -> tf."""
    found: dict[str, dict[int, int]] = {}
    for doc, text in enumerate(texts):
        for term in terms(text):
            found.setdefault(term, {}).setdefault(doc, 0)
            found[term][doc] += 1
    return found


def scores(texts: Sequence[str], query: str, k1: float = 1.2, b: float = 0.75) -> list[float]:
    """BM25 of each text, term by term of the query."""
    docs = [terms(text) for text in texts]
    found = [0.0] * len(docs)
    avgdl = sum(map(len, docs)) / len(docs) if docs else 0.0
    for term in terms(query):
        df = sum(term in doc for doc in docs)
        idf = math.log(1 + (len(docs) - df + 0.5) / (df + 0.5))
        for number, doc in enumerate(docs):
            if tf := doc.count(term):
                found[number] += idf * tf * (k1 + 1) / (tf + k1 * (1 - b + b * len(doc) / avgdl))
    return found


def top(values: Sequence[float], k: int, rows: Sequence[int]) -> list[tuple[int, float]]:
    """The k best of the rows, ties to the lower."""
    return sorted(((row, values[row]) for row in rows), key=lambda one: (-one[1], one[0]))[:k]


def bm25_file(texts: Sequence[str]) -> bytes:
    docs = [terms(text) for text in texts]
    avgdl = sum(map(len, docs)) / len(docs) if docs else 0.0
    found = postings(texts)
    out = b"TLBM" + struct.pack("<III", 1, len(docs), len(found)) + struct.pack("<d", avgdl)
    for doc in docs:
        out += struct.pack("<I", len(doc))
    for term in sorted(found, key=lambda one: one.encode()):
        body, before = b"", 0
        for doc in sorted(found[term]):
            body += varint(doc - before) + varint(found[term][doc])
            before = doc
        name = term.encode()
        out += struct.pack("<H", len(name)) + name + struct.pack("<II", len(found[term]), len(body)) + body
    return out


def unit(vector: Sequence[float]) -> list[float]:
    length = math.sqrt(sum(x * x for x in vector))
    return [x / length for x in vector] if length else list(vector)


def write_index(
    folder: Path,
    texts: Sequence[str],
    vectors: Sequence[Sequence[float]],
    *,
    model: str = "hash-4",
    meta: dict[str, Any] | None = None,
    docs: dict[str, Any] | None = None,
) -> Path:
    """An index as another program might write it; `meta` and `docs` are further keys of either file."""
    folder.mkdir(parents=True)
    lines = []
    for number, text in enumerate(texts):
        line = {
            "chunk_id": f"d{number // 2}#{number:03}",
            "doc_id": f"d{number // 2}",
            "source": "file" if number % 3 else "web",
            "uri": f"docs/d{number // 2}.md",
            "text": text,
            "n_tokens": len(terms(text)),
            "fingerprint": hashlib.sha256(text.encode()).hexdigest(),
        }
        lines.append(json.dumps({**line, **(docs or {})}, ensure_ascii=False) + "\n")
    (folder / "docs.jsonl").write_text("".join(lines), encoding="utf-8")
    (folder / "vectors.f32").write_bytes(b"".join(struct.pack("<f", x) for row in vectors for x in unit(row)))
    (folder / "bm25.idx").write_bytes(bm25_file(texts))
    described = {
        "index_id": "plain",
        "created_at": "2026-01-02T03:04:05Z",
        "n_chunks": len(texts),
        "dim": len(vectors[0]) if vectors else 4,
        "embedding_model": model,
        "tokenizer": "words",
        "chunker": {"kind": "markdown"},
        "bm25": {"k1": 1.2, "b": 0.75},
    }
    (folder / "meta.json").write_text(json.dumps({**described, **(meta or {})}) + "\n", encoding="utf-8")
    return folder
