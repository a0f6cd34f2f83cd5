"""The file `bm25.idx`: a BM25 index as bytes, and its defensive reading.

All integers are little-endian: magic `TLBM`, u32 version, u32 n_docs, u32 n_terms, f64 avgdl, u32 doc_len of each
document; then the terms in the order of their UTF-8 bytes: u16 length and the bytes, u32 df, u32 length of the
postings, and df pairs (gap, tf) of varints. A gap counts from the document before; the first is the document itself.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from retrieval_lab.errors import InputError
from retrieval_lab.ragindex.errors import FormatError
from retrieval_lab.ragindex.postings import Postings
from retrieval_lab.ragindex.varint import put_uvarints, uvarints

MAGIC = b"TLBM"
VERSION = 1

_HEADER = struct.Struct("<4sIIId")
_TERM = struct.Struct("<H")
_COUNTS = struct.Struct("<II")
_MOST_TERM_BYTES = (1 << 16) - 1
_SHOWN_CHARS = 40

Lengths = NDArray[np.uint32]


def encode(postings: Postings, doc_len: Lengths, avgdl: float) -> bytes:
    """The content of the file. Raises InputError for a term of more than 65,535 bytes."""
    numbers = np.empty(2 * len(postings.docs), dtype=np.uint64)
    numbers[0::2] = _gaps(postings)
    numbers[1::2] = postings.tfs
    packed, places = put_uvarints(numbers)
    body, bounds = packed.tobytes(), places[2 * postings.starts].tolist()
    parts = [_HEADER.pack(MAGIC, VERSION, len(doc_len), len(postings), avgdl), doc_len.astype("<u4").tobytes()]
    dfs = np.diff(postings.starts).tolist()
    for row, (term, df) in enumerate(zip(postings, dfs, strict=True)):
        name = term.encode()
        if len(name) > _MOST_TERM_BYTES:
            raise InputError(
                f"a term of {len(name):,} bytes ({term[:_SHOWN_CHARS]}…) in document {postings[term][0][0]} is too "
                f"long for bm25.idx, which takes {_MOST_TERM_BYTES:,}; leave that document out"
            )
        begin, end = bounds[row], bounds[row + 1]
        parts += (_TERM.pack(len(name)), name, _COUNTS.pack(df, end - begin), body[begin:end])
    return b"".join(parts)


def decode(data: bytes) -> tuple[Postings, Lengths, float]:
    """The postings, the length of each document and the mean length. Raises FormatError."""
    if len(data) < _HEADER.size:
        raise FormatError(f"bm25.idx: {len(data)} bytes, too few for its header of {_HEADER.size}")
    magic, version, n_docs, n_terms, avgdl = _HEADER.unpack_from(data)
    if magic != MAGIC or version != VERSION:
        raise FormatError(f"bm25.idx: begins with {magic!r}, version {version}; expected {MAGIC!r}, version {VERSION}")
    place = _HEADER.size + 4 * n_docs
    if place > len(data):
        raise FormatError(f"bm25.idx: cut short within the lengths of its {n_docs} documents")
    doc_len = np.frombuffer(data, dtype="<u4", count=n_docs, offset=_HEADER.size).astype(np.uint32)
    _check_lengths(doc_len, avgdl)
    names: list[bytes] = []
    dfs: list[int] = []
    bodies: list[bytes] = []
    for name, df, body in _entries(data, place, n_terms):
        names.append(name)
        dfs.append(df)
        bodies.append(body)
    return _postings(names, dfs, bodies, doc_len), doc_len, avgdl


def _check_lengths(doc_len: Lengths, avgdl: float) -> None:
    longest = int(doc_len.max(initial=0))
    # Rounding aside, no mean is less than one of its parts; and nothing may overflow where lengths are divided by it.
    if not (math.isfinite(avgdl) and avgdl >= 0 and avgdl * len(doc_len) >= longest * 0.999):
        raise FormatError(
            f"bm25.idx: the average length is {avgdl}, that of the longest of {len(doc_len)} documents {longest}"
        )


def _entries(data: bytes, place: int, n_terms: int) -> Iterator[tuple[bytes, int, bytes]]:
    """Each term with its df and the bytes of its postings."""
    before: bytes | None = None
    for number in range(n_terms):
        try:
            (size,) = _TERM.unpack_from(data, place)
            name = data[place + 2 : place + 2 + size]
            df, length = _COUNTS.unpack_from(data, place + 2 + size)
        except struct.error as error:
            raise FormatError(f"bm25.idx: cut short within term {number} of {n_terms}") from error
        place += 2 + size + _COUNTS.size
        body = data[place : place + length]
        if len(body) < length:
            raise FormatError(f"bm25.idx: cut short within the postings of term {number} of {n_terms}")
        if before is not None and name <= before:
            raise FormatError(f"bm25.idx: term {number} does not come after the one before it")
        if df == 0 or length < 2 * df:
            raise FormatError(f"bm25.idx: term {number} has {length} bytes for {df} postings")
        yield name, df, body
        place += length
        before = name
    if place != len(data):
        raise FormatError(f"bm25.idx: {len(data) - place} bytes after the last term")


def _postings(names: list[bytes], dfs: list[int], bodies: list[bytes], doc_len: Lengths) -> Postings:
    starts = np.concatenate([[0], np.cumsum(dfs, dtype=np.int64)]).astype(np.int64)
    try:
        rows = {name.decode(): row for row, name in enumerate(names)}
        numbers, ends = uvarints(np.frombuffer(b"".join(bodies), dtype=np.uint8))
    except (UnicodeDecodeError, FormatError) as error:
        raise FormatError(f"bm25.idx: {error}") from error
    # The last number of each term must end where its bytes do.
    bounds = np.cumsum([len(body) for body in bodies], dtype=np.int64) - 1
    if len(numbers) != 2 * starts[-1] or (ends[2 * starts[1:] - 1] != bounds).any():
        raise FormatError("bm25.idx: a term has more or fewer postings than it says")
    gaps, tfs = numbers[0::2], numbers[1::2]
    if (gaps >= len(doc_len)).any():
        raise FormatError(f"bm25.idx: a gap leads past the last of {len(doc_len)} documents")
    docs = np.cumsum(gaps, dtype=np.int64)
    firsts = starts[:-1]
    docs -= np.repeat(docs[firsts] - gaps[firsts].astype(np.int64), dfs)
    repeated = gaps == 0
    repeated[firsts] = False
    if (docs >= len(doc_len)).any() or repeated.any():
        raise FormatError(f"bm25.idx: postings that do not ascend below {len(doc_len)} documents")
    if (tfs == 0).any() or (tfs > doc_len[docs]).any():
        raise FormatError("bm25.idx: a term occurs never in a document of its own, or more often than it has terms")
    return Postings(rows, starts, docs.astype(np.int32), tfs.astype(np.uint32))


def _gaps(postings: Postings) -> NDArray[np.int32]:
    gaps = np.diff(postings.docs, prepend=np.int32(0))
    firsts = postings.starts[:-1]
    gaps[firsts] = postings.docs[firsts]
    return gaps
