"""File names for the ids of a collection: safe on every file system, each its own, readable where the id is.

An ASCII letter, a digit, `-`, `_` and `.` stand for themselves, but not a dot at either end; every other character is
written as the percent-encoded bytes of its UTF-8 form (RFC 3986, section 2.1). Where that is too long, it is cut and a
hash of the id follows; where another id has the same name but for case, a number does. Both come after a `~`, which no
other name holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import sha256

MAX_CHARS = 120
"""Of a name. File systems take 255 bytes, and chunk ids and the names of temporary files are longer."""

_HASH_CHARS = 16
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]|^\.|\.$")
# Names that Windows keeps for devices, whatever their ending.
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?", re.IGNORECASE)


def file_stems(ids: Iterable[str]) -> dict[str, str]:
    """The stem of the file of each id, by the id, in their order; no two are alike, also where case does not count."""
    stems: dict[str, str] = {}
    taken: set[str] = set()
    for one in dict.fromkeys(ids):
        stem, number = _stem(one), 1
        free = stem
        while free.lower() in taken:
            number += 1
            free = f"{stem}~{number}"
        taken.add(free.lower())
        stems[one] = free
    return stems


def _stem(text: str) -> str:
    stem = _UNSAFE.sub(_percent, text)
    if _RESERVED.fullmatch(stem):
        stem = f"%{ord(stem[0]):02X}{stem[1:]}"
    if len(stem) > MAX_CHARS:
        digest = sha256(text.encode(errors="surrogatepass")).hexdigest()[:_HASH_CHARS]
        stem = f"{stem[: MAX_CHARS - _HASH_CHARS - 1]}~{digest}"
    return stem or "%"


def _percent(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode(errors="surrogatepass"))
