"""An index in memory: its chunks, their vectors and both ways of searching them."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retrieval_lab.embed import Vectors
from retrieval_lab.errors import InputError
from retrieval_lab.filtering import path_regex
from retrieval_lab.ragindex.bm25 import BM25
from retrieval_lab.ragindex.chunks import WORDS, IndexedChunk, Meta
from retrieval_lab.ragindex.errors import FormatError, IndexError_
from retrieval_lab.ragindex.exact import as_vectors, longest, square_lengths
from retrieval_lab.ragindex.files import VECTORS, read_index, require_consistent, write_index
from retrieval_lab.ragindex.flat import Found, as_query, flat_search
from retrieval_lab.ragindex.ivf import IVF
from retrieval_lab.ragindex.pcg32 import PCG32, fnv1a64
from retrieval_lab.ragindex.ranking import Mask
from retrieval_lab.rerankers import BM25_B, BM25_K1
from retrieval_lab.types import Filter

NLIST = 32
ITERS = 10
IVF_FROM = 50_000
"""From so many rows on the dense side uses an IVF."""

_UNIT = 1e-6  # squared lengths that differ from 1 by no more count as rounding


class Index:
    """Chunks with their unit vectors (`vecs`, float32, shape (n, dim), memory-mapped when opened) and `bm25`.

    Make it with `open` or `build`. `ivf` is None until `build_ivf`. Row i of all is chunk i.
    """

    def __init__(self, meta: Meta, chunks: Sequence[IndexedChunk], vecs: Vectors, bm25: BM25) -> None:
        """Raises IndexError_ when the parts do not fit each other, FormatError when a vector is not finite."""
        self.meta = meta
        self.chunks = tuple(chunks)
        self.vecs = vecs
        self.bm25 = bm25
        self.ivf: IVF | None = None
        require_consistent(meta, self.chunks, bm25, "this index")
        if vecs.shape != (meta.n_chunks, meta.dim):
            raise IndexError_(f"the vectors have the shape {vecs.shape}; expected {(meta.n_chunks, meta.dim)}")
        try:
            self._most = longest(as_vectors(vecs))
        except InputError as error:
            raise FormatError(f"{VECTORS}: {error}") from error
        self._masks: dict[Filter, Mask | None] = {}
        self._masking = threading.Lock()

    @classmethod
    def open(cls, path: Path | str) -> Index:
        """The index in a folder.

        Raises FormatError for a file that is damaged or of another format, IndexError_ when files are missing or do not
        belong together.
        """
        parts = read_index(Path(path))
        try:
            return cls(*parts)
        except FormatError as error:
            raise FormatError(f"{path}: {error}") from error

    @classmethod
    def build(
        cls,
        chunks: Sequence[IndexedChunk],
        vectors: NDArray[Any],
        *,
        embedding_model: str,
        tokenizer: str = WORDS,
        chunker: Mapping[str, Any] | None = None,
        k1: float = BM25_K1,
        b: float = BM25_B,
        texts: Sequence[str] | None = None,
    ) -> Index:
        """An index of the chunks and their vectors, shape (n, dim), which are brought to unit length; zero ones stay.

        `texts` is what BM25 finds of each chunk, by default its text. `index_id` is a hash of all that was given, so
        that equal indexes have equal names; `created_at` is now.

        Raises InputError for vectors of another number or not finite and for k1 or b out of range, IndexError_ when two
        chunks have one id.
        """
        vecs = _normalised(vectors)
        if len(vecs) != len(chunks):
            raise InputError(f"{len(vecs)} vectors for {len(chunks)} chunks; expected one for each")
        indexed = [chunk.text for chunk in chunks] if texts is None else texts
        bm25 = BM25.build(indexed, k1, b)
        digest = sha256(repr((embedding_model, tokenizer, chunker, k1, b)).encode())
        for chunk, text in zip(chunks, indexed, strict=True):
            digest.update(f"{chunk.chunk_id}\0{chunk.fingerprint}\0{text}\0".encode())
        meta = Meta(
            index_id=digest.hexdigest()[:24],
            created_at=datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
            n_chunks=len(chunks),
            dim=vecs.shape[1],
            embedding_model=embedding_model,
            tokenizer=tokenizer,
            chunker=dict(chunker or {}),
            k1=k1,
            b=b,
        )
        return cls(meta, chunks, vecs, bm25)

    def write(self, path: Path | str) -> None:
        """Write the four files into the folder; an index that is there is replaced, whole or not at all.

        Raises InputError when the folder holds anything but an index, or cannot be written.
        """
        write_index(Path(path), self.meta, self.chunks, self.vecs, self.bm25)

    def by_id(self) -> Index:
        """The same index with its rows by chunk_id in code point order: itself where they stand so already.

        Else its vectors are a copy in memory.
        """
        order = sorted(range(len(self.chunks)), key=lambda row: self.chunks[row].chunk_id)
        if order == list(range(len(order))):
            return self
        rows = np.array(order, dtype=np.int64)
        return Index(self.meta, [self.chunks[row] for row in order], self.vecs[rows], self.bm25.reordered(rows))

    def chunk(self, chunk_id: str) -> IndexedChunk | None:
        """The chunk of this id, None where there is none."""
        row = self._rows.get(chunk_id)
        return None if row is None else self.chunks[row]

    def build_ivf(self, nlist: int = NLIST, iters: int = ITERS) -> IVF:
        """Build the inverted file, keep it as `ivf`, and return it; seeded by the index's id, so always the same.

        Raises InputError when nlist lies outside 1 to n, or iters is negative.
        """
        self.ivf = IVF.build(self.vecs, nlist, iters, PCG32(fnv1a64(self.meta.index_id)))
        return self.ivf

    def nearest(self, q: NDArray[Any], k: int, keep: Mask | None = None, *, nprobe: int = 8) -> Found:
        """(row, score) of the k nearest chunks: through the IVF where there is one, or from 50,000 rows on, else exact.

        Raises InputError as `flat_search` does.
        """
        query = as_query(q, self.meta.dim)
        if self.ivf is None and self.meta.n_chunks >= IVF_FROM:
            self.build_ivf()
        if self.ivf is not None:
            return self.ivf.search(query, k, nprobe, keep)
        return flat_search(self.vecs, query, k, keep, most=self._most)

    def mask(self, filter: Filter) -> Mask | None:
        """Which rows pass the filter, shape (n,), or None when all do; any thread."""
        with self._masking:
            if filter not in self._masks:
                while len(self._masks) >= _KEPT_MASKS:
                    del self._masks[next(iter(self._masks))]
                self._masks[filter] = self._mask(filter)
            return self._masks[filter]

    def _mask(self, filter: Filter) -> Mask | None:
        if not filter:
            return None
        mask = np.ones(len(self.chunks), dtype=np.bool_)
        for wanted, (numbers, of_rows) in ((filter.doc_ids, self._doc_ids), (filter.sources, self._sources)):
            if wanted:
                passes = np.zeros(len(numbers) + 1, dtype=np.bool_)
                passes[[numbers[name] for name in wanted if name in numbers]] = True
                mask &= passes[of_rows]
        if filter.paths:
            numbers, of_rows = self._uris
            fits = re.compile("|".join(map(path_regex, filter.paths)), re.DOTALL).fullmatch
            mask &= np.array([fits(uri) is not None for uri in numbers], dtype=np.bool_)[of_rows]
        return mask

    @cached_property
    def _doc_ids(self) -> _Numbered:
        return _numbered([chunk.doc_id for chunk in self.chunks])

    @cached_property
    def _sources(self) -> _Numbered:
        return _numbered([chunk.source for chunk in self.chunks])

    @cached_property
    def _uris(self) -> _Numbered:
        return _numbered([chunk.uri for chunk in self.chunks])

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {chunk.chunk_id: row for row, chunk in enumerate(self.chunks)}


_KEPT_MASKS = 16

_Numbered = tuple[dict[str, int], NDArray[np.int64]]


def _numbered(names: Sequence[str]) -> _Numbered:
    """A number for each different name, and those of all names in their order."""
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return numbers, np.array([numbers[name] for name in names], dtype=np.int64)


def _normalised(vectors: NDArray[Any]) -> Vectors:
    """The rows at unit length, float32; those that have it already stay as they are, byte for byte."""
    vecs = as_vectors(vectors).astype(np.float32)
    longest(vecs)  # raises for what is not finite
    squares = square_lengths(vecs)
    others = (np.abs(squares - 1) > _UNIT) & (squares > 0)
    vecs[others] = (vecs[others] / np.sqrt(squares[others])[:, None]).astype(np.float32)
    return vecs
