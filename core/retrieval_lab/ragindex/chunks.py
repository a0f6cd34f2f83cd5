"""The chunks of an index and its description, as `docs.jsonl` and `meta.json` hold them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from hashlib import sha256
from typing import Any, NoReturn

from retrieval_lab.errors import InputError
from retrieval_lab.ragindex.errors import FormatError
from retrieval_lab.ragindex.terms import terms
from retrieval_lab.stored import Stored
from retrieval_lab.text import sendable

WORDS = "words"
"""The tokenizer of an index whose `n_tokens` count terms."""

_MOST_DIMS = 1 << 20


def fingerprint(text: str) -> str:
    """SHA-256 of the text's UTF-8 bytes, hex."""
    return sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class IndexedChunk:
    """One passage of an index, its place being the row of its vector and the number of its document in BM25.

    `source` says where it comes from (`file` for documents from disk), `uri` where exactly there, `n_tokens` how many
    tokens `text` has for the tokenizer that the index names, `fingerprint` is `fingerprint(text)`. `extra` holds
    whatever other keys its line has.
    """

    chunk_id: str
    doc_id: str
    source: str
    uri: str
    text: str
    n_tokens: int
    fingerprint: str
    extra: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        chunk_id: str,
        doc_id: str,
        text: str,
        *,
        source: str = "file",
        uri: str = "",
        n_tokens: int | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> IndexedChunk:
        """The chunk with its fingerprint; `n_tokens` is by default the number of its terms.

        Raises InputError when a text holds a lone surrogate, which is not to be had in UTF-8.
        """
        for value in (chunk_id, doc_id, source, uri, text):
            _require_utf8(value, f"chunk {sendable(chunk_id)[0]}")
        counted = len(terms(text)) if n_tokens is None else n_tokens
        return cls(chunk_id, doc_id, source, uri, text, counted, fingerprint(text), dict(extra or {}))


@dataclass(frozen=True, slots=True)
class Meta:
    """What `meta.json` says: of `chunker` and `extra` (its other keys) whatever was written there.

    `created_at` is the time in RFC 3339, UTC; `dim` is 0 in an index without vectors.
    """

    index_id: str
    created_at: str
    n_chunks: int
    dim: int
    embedding_model: str
    tokenizer: str
    chunker: Any
    k1: float
    b: float
    extra: Mapping[str, Any] = field(default_factory=dict)


def meta_json(meta: Meta) -> bytes:
    """The content of meta.json."""
    named = {name: getattr(meta, name) for name in _META_KEYS if name != "bm25"}
    document = {**named, "bm25": {"k1": meta.k1, "b": meta.b}, **meta.extra}
    return json.dumps(document, indent=2, allow_nan=False).encode()


def docs_jsonl(chunks: Sequence[IndexedChunk]) -> bytes:
    """The content of docs.jsonl.

    ASCII, since some readers end a line at characters that are line ends in Unicode only. No line end follows the last
    line: so a file that lost any of its end can be told from a whole one.
    """
    return "\n".join(json.dumps(_line(chunk), allow_nan=False) for chunk in chunks).encode()


def read_meta(data: bytes) -> Meta:
    """The description in the content of meta.json. Raises FormatError."""
    with _as_format_error("meta.json"):
        stored = Stored(_parsed(data), "")
        bm25 = stored.inner("bm25")
        k1, b = bm25.number("k1"), bm25.number("b")
        n_chunks, dim = stored.count("n_chunks"), stored.count("dim")
        if dim > _MOST_DIMS:
            raise InputError(f"dim is {dim}; expected at most {_MOST_DIMS}")
        texts = {name: stored.text(name) for name in ("index_id", "created_at", "embedding_model", "tokenizer")}
        for name, text in texts.items():
            _require_utf8(text, name)
        chunker = stored.values.get("chunker")
        extra = {name: value for name, value in stored.values.items() if name not in _META_KEYS}
        return Meta(**texts, n_chunks=n_chunks, dim=dim, chunker=chunker, k1=k1, b=b, extra=extra)


def read_docs(data: bytes) -> list[IndexedChunk]:
    """The chunks in the content of docs.jsonl. Raises FormatError, which names the line."""
    lines = data.removesuffix(b"\n").split(b"\n") if data else []
    return list(_read_lines(lines))


def _read_lines(lines: Iterable[bytes]) -> Iterator[IndexedChunk]:
    for number, line in enumerate(lines, start=1):
        with _as_format_error(f"docs.jsonl:{number}"):
            stored = Stored(_parsed(line), "")
            texts = {name: stored.text(name) for name in _TEXT_KEYS}
            for name, text in texts.items():
                _require_utf8(text, name)
            extra = {name: value for name, value in stored.values.items() if name not in _CHUNK_KEYS}
            yield IndexedChunk(**texts, n_tokens=stored.count("n_tokens"), extra=extra)


def _line(chunk: IndexedChunk) -> dict[str, Any]:
    return {**{name: getattr(chunk, name) for name in _CHUNK_KEYS}, **chunk.extra}


_META_KEYS = ("index_id", "created_at", "n_chunks", "dim", "embedding_model", "tokenizer", "chunker", "bm25")
_CHUNK_KEYS = tuple(one.name for one in fields(IndexedChunk) if one.name != "extra")
_TEXT_KEYS = tuple(name for name in _CHUNK_KEYS if name != "n_tokens")


def _parsed(data: bytes) -> Any:
    try:
        return json.loads(data.decode(), parse_constant=_no_constant, parse_float=_finite)
    except (ValueError, RecursionError) as error:  # errors of UTF-8 and of JSON are ValueErrors
        raise InputError(f"not JSON in UTF-8, or only the beginning of it ({error})") from error


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits[:20]} is too large a number")
    return number


def _require_utf8(text: str, what: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{what} holds a lone surrogate, which UTF-8 does not have") from error


@contextmanager
def _as_format_error(place: str) -> Iterator[None]:
    try:
        yield
    except InputError as error:
        raise FormatError(f"{place}: {error}") from error
