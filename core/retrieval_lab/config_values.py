"""From nested plain values, as YAML and JSON have them, to the typed parts of a configuration.

Every value knows where it was written, so that each fault can say so, and all faults are found at once.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from retrieval_lab.errors import SettingError
from retrieval_lab.retrievers.base import RetrieverSettings
from retrieval_lab.retrievers.registry import RETRIEVERS
from retrieval_lab.settings import (
    CHUNKERS,
    EMBEDDERS,
    EXPANSIONS,
    FUSIONS,
    RERANKERS,
    Bm25Reranker,
    HashEmbedding,
    MarkdownChunker,
    NoExpansion,
    NoReranker,
    RrfFusion,
)
from retrieval_lab.text import printable
from retrieval_lab.types import Filter

T = TypeVar("T")

PARTS: Mapping[str, tuple[Mapping[str, type[Any]], str]] = {
    "chunker": (CHUNKERS, MarkdownChunker.kind),
    "embedder": (EMBEDDERS, HashEmbedding.kind),
    "expansion": (EXPANSIONS, NoExpansion.kind),
    "fusion": (FUSIONS, RrfFusion.kind),
    "reranker": (RERANKERS, Bm25Reranker.kind),
}
"""Each part that comes in kinds: the kinds by name, and the one that is meant when none is named."""

KEYS = (
    "chunker",
    "contextual_headers",
    "embedder",
    "retrievers",
    "expansion",
    "fusion",
    "reranker",
    "mmr_lambda",
    "top_k",
    "filter",
    "support_floor",
)

_SCALARS: Mapping[str, Any] = {
    "contextual_headers": bool,
    "mmr_lambda": float | None,
    "top_k": int,
    "support_floor": float,
}

_FILTERS: Mapping[str, str] = {"doc_ids": "document ids", "sources": "sources", "paths": "patterns of paths"}

_SHOWN_CHARS = 60
_LARGEST = 2**31 - 1  # what PostgreSQL's int holds, and more than any setting means


@dataclass(frozen=True, slots=True)
class Given:
    """A value and where it was written, such as `lab.yaml:3`. A mapping's values and a list's items are Given too."""

    value: Any
    origin: str


def given(value: Any, origin: str) -> Given:
    """The plain value, with one origin for all of it."""
    if isinstance(value, Mapping):
        return Given({str(key): given(inner, origin) for key, inner in value.items()}, origin)
    if isinstance(value, list | tuple):
        return Given([given(inner, origin) for inner in value], origin)
    return Given(value, origin)


class Reader:
    """Reads the parts of a configuration and collects what is wrong with them in `faults`, a line each."""

    def __init__(self) -> None:
        self.faults: list[str] = []

    def arguments(self, root: Given) -> dict[str, Any]:
        """The arguments of a PipelineConfig; what is not given or faulty is left to the default."""
        values = self._mapping(root, "", KEYS)
        read: dict[str, Any] = {}
        for key, value in values.items():
            found = self._top(key, value)
            if found is not None:
                read[key] = found[0]
        if isinstance(read.get("reranker"), NoReranker) and "mmr_lambda" not in values:
            read["mmr_lambda"] = None  # the default is for pipelines with a reranker
        return read

    def fault(self, at: Given, key: str, message: str) -> None:
        """Note what is wrong with the value of a key."""
        self.faults.append(printable(": ".join(part for part in (at.origin, key, message) if part)))

    def _top(self, key: str, value: Given) -> tuple[Any] | None:
        """The value in a tuple, since None is a value too; None after a fault."""
        if key in PARTS:
            part = self._part(key, value)
            return None if part is None else (part,)
        if key == "retrievers":
            retrievers = self._retrievers(value)
            return None if retrievers is None else (retrievers,)
        if key == "filter":
            return (self._filter(value),)
        return self._scalar(key, value, _SCALARS[key])

    def _part(self, key: str, value: Given) -> Any:
        kinds, usual = PARTS[key]
        entries = self._entries(value, key)
        if entries is None:
            return None
        kind = entries.pop("kind", Given(usual, value.origin))
        if not isinstance(kind.value, str) or kind.value not in kinds:
            self.fault(kind, f"{key}.kind", _unknown(kind.value, kinds, "the kinds are"))
            return None
        return self._settings(kinds[kind.value], entries, key, value, {})

    def _retrievers(self, value: Given) -> tuple[RetrieverSettings, ...] | None:
        if not isinstance(value.value, dict):
            expected = f"expected a mapping of names, such as {', '.join(RETRIEVERS)}, to settings"
            self.fault(value, "retrievers", f"{expected}, found {_shown(value.value)}")
            return None
        before = len(self.faults)
        found = [self._retriever(name, entry) for name, entry in value.value.items()]
        return tuple(one for one in found if one is not None) if len(self.faults) == before else None

    def _retriever(self, name: str, value: Given) -> RetrieverSettings | None:
        key = f"retrievers.{name}"
        entries = self._entries(value, key)
        if entries is None:
            return None
        kind = entries.pop("kind", Given(name, value.origin))
        if not isinstance(kind.value, str) or kind.value not in RETRIEVERS:
            mend = "a list of another name needs a kind" if kind.value == name else "the kinds are"
            self.fault(kind, f"{key}.kind", _unknown(kind.value, RETRIEVERS, mend))
            return None
        made: RetrieverSettings | None = self._settings(RETRIEVERS[kind.value], entries, key, value, {"name": name})
        return made

    def _filter(self, value: Given) -> Filter:
        entries = self._mapping(value, "filter", _FILTERS)
        parts = {part: self._texts(f"filter.{part}", _FILTERS[part], entry) for part, entry in entries.items()}
        return Filter(**{part: texts for part, texts in parts.items() if texts is not None})

    def _texts(self, key: str, what: str, value: Given) -> tuple[str, ...] | None:
        if not isinstance(value.value, list):
            self.fault(value, key, f"expected a list of {what}, found {_shown(value.value)}")
            return None
        found = [self._scalar(key, item, str) for item in value.value]
        return tuple(item[0] for item in found if item is not None)

    def _entries(self, value: Given, key: str) -> dict[str, Given] | None:
        """The settings of one part; a text alone is its kind, nothing at all is every default."""
        if value.value is None:
            return {}
        if isinstance(value.value, str):
            return {"kind": value}
        if isinstance(value.value, dict):
            return dict(value.value)
        self.fault(value, key, f"expected a kind or a mapping with its settings, found {_shown(value.value)}")
        return None

    def _settings(
        self, kind: type[T], entries: Mapping[str, Given], key: str, at: Given, known: Mapping[str, Any]
    ) -> T | None:
        types = get_type_hints(kind)
        names = [entry.name for entry in fields(kind) if entry.name not in known]  # type: ignore[arg-type]
        before = len(self.faults)
        read = dict(known)
        for name, value in entries.items():
            if name not in names:
                which = f"{kind.kind} takes" if names else f"{kind.kind} takes no settings"  # type: ignore[attr-defined]
                self.fault(value, f"{key}.{name}", _unknown_key(name, names, which))
            elif (scalar := self._scalar(f"{key}.{name}", value, types[name])) is not None:
                read[name] = scalar[0]
        if len(self.faults) > before:
            return None
        try:
            return kind(**read)
        except SettingError as error:
            self.fault(entries.get(error.key, at), key, str(error))
            return None

    def _mapping(self, value: Given, key: str, names: Iterable[str]) -> dict[str, Given]:
        """The values of the known keys; each unknown one is a fault."""
        if value.value is None:
            return {}
        if not isinstance(value.value, dict):
            self.fault(value, key, f"expected a mapping with {', '.join(names)}, found {_shown(value.value)}")
            return {}
        for name, inner in value.value.items():
            if name not in names:
                self.fault(inner, f"{key}.{name}" if key else name, _unknown_key(name, list(names), "the keys are"))
        return {name: inner for name, inner in value.value.items() if name in names}

    def _scalar(self, key: str, value: Given, expected: Any) -> tuple[Any] | None:
        for kind in get_args(expected) if get_origin(expected) not in (None, Literal) else (expected,):
            if (read := _as_kind(value.value, kind)) is not None:
                return read
        self.fault(value, key, f"expected {_described(expected)}, found {_shown(value.value)}")
        return None


def _as_kind(value: Any, kind: Any) -> tuple[Any] | None:
    if get_origin(kind) is Literal:
        return (value,) if value in get_args(kind) else None
    if kind in (int, float):
        return (value,) if _is_number(value, kind) else None
    if kind is type(None):
        return (None,) if value is None else None
    return (value,) if isinstance(value, kind) else None


def _is_number(value: Any, kind: type[int] | type[float]) -> bool:
    if isinstance(value, bool) or not isinstance(value, int if kind is int else int | float):
        return False
    return isinstance(value, float) or abs(value) <= _LARGEST


_NAMES: Mapping[Any, str] = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}


def _described(expected: Any) -> str:
    if get_origin(expected) is Literal:
        return " or ".join(get_args(expected))
    if expected in _NAMES:
        return _NAMES[expected]
    return " or ".join("null" if kind is type(None) else _NAMES[kind] for kind in get_args(expected))


def _unknown_key(name: str, names: list[str], which: str) -> str:
    return f"unknown key; {which}{' ' if names else ''}{', '.join(names)}{_perhaps(name, names)}"


def _unknown(value: Any, possible: Iterable[str], which: str) -> str:
    names = list(possible)
    return f"unknown kind {_shown(value)}; {which}: {', '.join(names)}{_perhaps(str(value), names)}"


def _perhaps(name: str, names: list[str]) -> str:
    close = difflib.get_close_matches(name, names, n=1)
    return f" (did you mean {close[0]}?)" if close else ""


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, int) and abs(value) > _LARGEST:
        return "a number that is too large"  # Python refuses to print some
    return "nothing" if value is None else repr(value)[:_SHOWN_CHARS]


def read_with(build: Callable[..., T], root: Given) -> tuple[T | None, tuple[str, ...]]:
    """What `build` makes of the arguments that `root` gives, or None, and what is wrong, a line each."""
    reader = Reader()
    arguments = reader.arguments(root)
    if not reader.faults:
        try:
            return build(**arguments), ()
        except SettingError as error:
            places = [_place(root, key) for key in (error.key, error.also)]
            at = next((place for place in places if place is not None), root)
            reader.fault(at, "", str(error))
    return None, tuple(reader.faults)


def _place(root: Given, key: str | None) -> Given | None:
    """Where the value of a dotted key was written."""
    found: Given | None = root if key else None
    for name in (key or "").split("."):
        inner = found.value if found is not None else None
        found = inner.get(name) if isinstance(inner, dict) else None
    return found
