"""Whole numbers in a varying number of bytes: unsigned LEB128, seven bits a byte, the lowest first."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from retrieval_lab.errors import InputError
from retrieval_lab.ragindex.errors import FormatError

_MOST = (1 << 64) - 1
_MOST_BYTES = 10
_GOES_ON = 0x80
_BITS = 0x7F


def put_uvarint(value: int) -> bytes:
    """The value as a varint, in as few bytes as it takes. Raises InputError unless it fits into 64 bits."""
    if not 0 <= value <= _MOST:
        raise InputError(f"{value} is no varint; expected 0 to {_MOST}")
    out = bytearray()
    while value > _BITS:
        out.append(value & _BITS | _GOES_ON)
        value >>= 7
    out.append(value)
    return bytes(out)


def uvarint(data: bytes, offset: int = 0) -> tuple[int, int]:
    """The value at the offset and the bytes that it takes; (0, 0) where it is cut short or exceeds 64 bits."""
    value = 0
    for place, byte in enumerate(data[offset : offset + _MOST_BYTES]):
        value |= (byte & _BITS) << (7 * place)
        if byte < _GOES_ON:
            return (value, place + 1) if value <= _MOST else (0, 0)
    return 0, 0


def put_uvarints(values: NDArray[np.uint64]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The bytes of all values one after another, and where each begins, with the end of the last."""
    sizes = np.ones(len(values), dtype=np.int64)
    for place in range(1, _MOST_BYTES):
        longer = values >> np.uint64(7 * place) > 0
        if not longer.any():
            break
        sizes += longer
    starts = np.concatenate([[0], np.cumsum(sizes)])
    out = np.zeros(starts[-1], dtype=np.uint8)
    for place in range(int(sizes.max(initial=0))):
        rows = np.flatnonzero(sizes > place)
        septets = (values[rows] >> np.uint64(7 * place)).astype(np.uint8) & _BITS
        out[starts[rows] + place] = septets | np.where(sizes[rows] > place + 1, _GOES_ON, 0).astype(np.uint8)
    return out, starts


def uvarints(data: NDArray[np.uint8]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """All values of the bytes, and the byte at which each ends (the last of its own).

    Raises FormatError when the last is cut short and when one exceeds 64 bits.
    """
    ends = np.flatnonzero(data < _GOES_ON)
    if len(data) and (not len(ends) or ends[-1] != len(data) - 1):
        raise FormatError("the postings end within a number")
    starts = np.concatenate([np.zeros(min(1, len(ends)), dtype=np.int64), ends[:-1] + 1])
    sizes = ends - starts + 1
    longest = int(sizes.max(initial=0))
    if longest > _MOST_BYTES or (data[ends[sizes == _MOST_BYTES]] > 1).any():
        raise FormatError("the postings hold a number beyond 64 bits")
    values = np.zeros(len(ends), dtype=np.uint64)
    for place in range(longest):
        rows = np.flatnonzero(sizes > place)
        septets = (data[starts[rows] + place] & _BITS).astype(np.uint64)
        values[rows] |= septets << np.uint64(7 * place)
    return values, ends
