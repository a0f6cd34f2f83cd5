"""Values kept as JSON files: written whole, read with every value checked, what is wrong told with its place."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from retrieval_lab.errors import InputError
from retrieval_lab.whole_file import write_whole

T = TypeVar("T")

_SHOWN_CHARS = 60


def write_json(path: Path, document: Any, *, indent: int | None = 1) -> None:
    """Write the document, whole or not at all; missing folders are made. Raises InputError when it cannot be written.

    Text stays ASCII, so that names which are not UTF-8 can be written too. Without `indent` it is one line, which is
    written several times as fast.
    """
    text = json.dumps(document, indent=indent, allow_nan=False)
    try:
        write_whole(path, f"{text}\n")
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from error


def read_json(path: Path) -> Any:
    """The document in a file.

    Raises FileNotFoundError when there is no file, InputError when it cannot be read or is no JSON.
    """
    if path.is_fifo():  # it would keep us waiting
        raise InputError(f"{path}: cannot be read: it is not a file")
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        raise
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except json.JSONDecodeError as error:
        raise InputError(f"{path}:{error.lineno}: not JSON, or only the beginning of it ({error.msg})") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON ({error})") from error


class Stored:
    """One JSON object; `place` is where it stands, such as `queries[3]`, empty for the whole document.

    Every method raises InputError when the value of the key is missing or of another kind.
    """

    def __init__(self, value: Any, place: str) -> None:
        self.place = place
        self.values: Mapping[str, Any] = as_mapping(value, place or "the document")

    def text(self, key: str) -> str:
        """A text."""
        return as_text(self._value(key), self._at(key))

    def text_or_none(self, key: str) -> str | None:
        """A text or null."""
        return None if self._value(key) is None else self.text(key)

    def number(self, key: str) -> float:
        """A finite number."""
        return as_number(self._value(key), self._at(key))

    def count(self, key: str) -> int:
        """A whole number, 0 or more."""
        return as_count(self._value(key), self._at(key))

    def flag(self, key: str) -> bool:
        """True or false."""
        value = self._value(key)
        if not isinstance(value, bool):
            raise InputError(f"{self._at(key)} is {shown(value)}; expected true or false")
        return value

    def number_or_none(self, key: str) -> float | None:
        """A finite number or null."""
        return None if self._value(key) is None else self.number(key)

    def rank(self, key: str) -> int:
        """A rank, from 1."""
        return as_rank_from_1(self._value(key), self._at(key))

    def rank_or_none(self, key: str) -> int | None:
        """A rank or null."""
        return as_rank(self._value(key), self._at(key))

    def has(self, key: str) -> bool:
        """Whether the key is there with another value than null."""
        return self.values.get(key) is not None

    def inner(self, key: str) -> Stored:
        """The object in this one."""
        return Stored(self._value(key), self._at(key))

    def each(self, key: str, read: Callable[[Any, str], T]) -> tuple[T, ...]:
        """The items of a list, read one by one with their places."""
        return as_list(self._value(key), self._at(key), read)

    def named(self, key: str, read: Callable[[Any, str], T]) -> dict[str, T]:
        """The values of an object in this one, by name, read one by one with their places."""
        return dict(self._named(key, read))

    def _named(self, key: str, read: Callable[[Any, str], T]) -> Iterator[tuple[str, T]]:
        for name, value in as_mapping(self._value(key), self._at(key)).items():
            yield name, read(value, f"{self._at(key)}.{name}")

    def _value(self, key: str) -> Any:
        if key not in self.values:
            raise InputError(f"{self._at(key)} is missing")
        return self.values[key]

    def _at(self, key: str) -> str:
        return f"{self.place}.{key}" if self.place else key


def as_mapping(value: Any, place: str) -> Mapping[str, Any]:
    """The JSON object. Raises InputError for anything else, as do those below for what they do not expect."""
    if not isinstance(value, dict):
        raise InputError(f"{place} is {shown(value)}; expected an object")
    return value


def as_list(value: Any, place: str, read: Callable[[Any, str], T]) -> tuple[T, ...]:
    """The items of the list, read one by one with their places."""
    if not isinstance(value, list):
        raise InputError(f"{place} is {shown(value)}; expected a list")
    return tuple(read(item, f"{place}[{number}]") for number, item in enumerate(value))


def as_text(value: Any, place: str) -> str:
    """The text."""
    if not isinstance(value, str):
        raise InputError(f"{place} is {shown(value)}; expected text")
    return value


def as_number(value: Any, place: str) -> float:
    """The finite number. JSON has no others, but Python reads and writes them."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        with suppress(OverflowError):  # a whole number in JSON may be larger than any float
            if math.isfinite(number := float(value)):
                return number
    raise InputError(f"{place} is {shown(value)}; expected a number")


def as_whole(value: Any, place: str) -> int:
    """The whole number, which may be negative."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise InputError(f"{place} is {shown(value)}; expected a whole number")
    return value


def as_count(value: Any, place: str) -> int:
    """The whole number, 0 or more."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InputError(f"{place} is {shown(value)}; expected a whole number, 0 or more")
    return value


def as_rank_from_1(value: Any, place: str) -> int:
    """The rank, from 1."""
    if as_count(value, place) == 0:
        raise InputError(f"{place} is 0; ranks count from 1")
    return int(value)


def as_rank(value: Any, place: str) -> int | None:
    """The rank, from 1, or None for null."""
    return None if value is None else as_rank_from_1(value, place)


def shown(value: Any) -> str:
    """What a JSON value is, short enough for a message."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    return "null" if value is None else repr(value)[:_SHOWN_CHARS]


def read_as(noun: str, number: int, data: Any, read: Callable[[Stored], T]) -> T:
    """What `read` makes of a JSON object that has `"format": number`.

    Raises InputError, which names the noun, for another format, and where `read` finds it broken.
    """
    if not isinstance(data, Mapping) or data.get("format") != number:
        is_object = isinstance(data, Mapping)
        found = f"its format is {shown(data.get('format'))}" if is_object else f"it is {shown(data)}"
        raise InputError(f"this is no {noun} of format {number}: {found}")
    try:
        return read(Stored(data, ""))
    except InputError as error:
        raise InputError(f"this {noun} is broken: {'; '.join(str(error).splitlines())}") from error
