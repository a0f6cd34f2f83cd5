"""The folder of an index: read as far as it can be trusted, written whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from secrets import token_hex

import numpy as np

from retrieval_lab.embed import Vectors
from retrieval_lab.errors import InputError
from retrieval_lab.ragindex.bm25 import BM25
from retrieval_lab.ragindex.chunks import IndexedChunk, Meta, docs_jsonl, meta_json, read_docs, read_meta
from retrieval_lab.ragindex.errors import FormatError, IndexError_
from retrieval_lab.ragindex.swap import swapped

META, DOCS, VECTORS, TERMS = FILES = ("meta.json", "docs.jsonl", "vectors.f32", "bm25.idx")

_BYTES = 4  # of a float32


def read_index(path: Path) -> tuple[Meta, tuple[IndexedChunk, ...], Vectors, BM25]:
    """The content of an index folder, its vectors memory-mapped.

    Raises FormatError for a file that is not as the format has it, IndexError_ for files that are missing, cannot be
    read or do not belong together.
    """
    if not path.is_dir():
        raise IndexError_(f"{path}: no such folder; an index is a folder with {', '.join(FILES)}")
    try:
        meta = read_meta(_content(path / META))
        chunks = tuple(read_docs(_content(path / DOCS)))
        vecs = _vectors(path / VECTORS, meta)
        bm25 = _bm25(_content(path / TERMS), meta)
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from error
    require_consistent(meta, chunks, bm25, path)
    return meta, chunks, vecs, bm25


def require_consistent(meta: Meta, chunks: Iterable[IndexedChunk], bm25: BM25, path: Path | str) -> None:
    """Raises IndexError_ when the parts have different numbers of chunks, or two chunks one id."""
    ids = [chunk.chunk_id for chunk in chunks]
    if not len(ids) == meta.n_chunks == bm25.n:
        raise IndexError_(
            f"{path}: {META} has {meta.n_chunks} chunks, {DOCS} {len(ids)}, {TERMS} {bm25.n}; expected one number"
        )
    if len(set(ids)) < len(ids):
        seen: set[str] = set()
        twice = next(one for one in ids if one in seen or seen.add(one))  # type: ignore[func-returns-value]
        raise IndexError_(f"{path}: two chunks have the id {twice!r}")


def write_index(path: Path, meta: Meta, chunks: tuple[IndexedChunk, ...], vecs: Vectors, bm25: BM25) -> None:
    """Write the folder; an index that is there already is replaced, whole or not at all.

    Raises InputError when the place holds anything else than an index, or cannot be written.
    """
    # Everything that may fail for what it holds, before the disk is touched.
    contents: dict[str, bytes | memoryview] = {
        META: meta_json(meta),
        DOCS: docs_jsonl(chunks),
        VECTORS: np.ascontiguousarray(vecs, dtype="<f4").data,
        TERMS: bm25.to_bytes(),
    }
    target = path.resolve()
    try:
        _require_replaceable(target)
        _put(target, contents)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from error


def _require_replaceable(target: Path) -> None:
    if not target.exists():
        return
    names = sorted(one.name for one in target.iterdir()) if target.is_dir() else [target.name]
    others = [name for name in names if name not in FILES or not target.is_dir()]
    if others:
        raise InputError(f"{target}: holds {others[0]!r}, so it is no index to replace; name a new or an empty folder")


def _put(target: Path, contents: Mapping[str, bytes | memoryview]) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    new, old = (target.with_name(f".{target.name}.{kind}-{os.getpid()}-{token_hex(4)}") for kind in ("new", "old"))
    try:
        new.mkdir()
        for name, content in contents.items():
            with (new / name).open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())  # else a machine that fails may have the new names before the contents
        _exchange(target, new, old)
    finally:
        for folder in (new, old) if target.exists() else (new,):
            shutil.rmtree(folder, ignore_errors=True)


def _exchange(target: Path, new: Path, old: Path) -> None:
    """Put `new` in the place of `target`, which goes to one of the other two; where that fails, all is as before."""
    if not target.exists():
        new.rename(target)
    elif not swapped(new, target):
        target.rename(old)
        try:
            new.rename(target)
        except OSError:
            with suppress(OSError):
                old.rename(target)
            raise


def _content(path: Path) -> bytes:
    if not path.is_file():  # a pipe would keep us waiting
        raise IndexError_(f"{path}: no such file; an index is a folder with {', '.join(FILES)}")
    try:
        return path.read_bytes()
    except OSError as error:
        raise IndexError_(f"{path}: cannot be read: {error.strerror}") from error


def _vectors(path: Path, meta: Meta) -> Vectors:
    if not path.is_file():
        raise IndexError_(f"{path}: no such file; an index is a folder with {', '.join(FILES)}")
    found, expected = path.stat().st_size, _BYTES * meta.n_chunks * meta.dim
    if found != expected:
        raise FormatError(
            f"{VECTORS}: {found} bytes; expected {expected}, for {meta.n_chunks} vectors of {meta.dim} dimensions"
        )
    if not expected:
        return np.zeros((meta.n_chunks, meta.dim), dtype=np.float32)
    try:
        return np.memmap(path, dtype="<f4", mode="r", shape=(meta.n_chunks, meta.dim))
    except (OSError, ValueError) as error:
        raise IndexError_(f"{path}: cannot be read: {error}") from error


def _bm25(data: bytes, meta: Meta) -> BM25:
    try:
        return BM25.from_bytes(data, meta.k1, meta.b)
    except FormatError:
        raise
    except InputError as error:
        raise FormatError(f"{META}: {error}") from error
