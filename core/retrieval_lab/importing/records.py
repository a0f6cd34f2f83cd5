"""Reading JSON Lines, one object a line, with a fault for every line that is none and every value of another kind."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from retrieval_lab.errors import InputError
from retrieval_lab.importing.source import Notes, SourceDocument, storable_text
from retrieval_lab.stored import shown
from retrieval_lab.text import has_words, sendable
from retrieval_lab.trec import read_bytes

NOT_JSON = "lines that are no JSON object"
BAD_VALUES = "lines with a value that is missing, blank or of another kind"
REPEATED = "lines that repeat an id"
NUMBERS = "ids that are numbers, taken as text"
WITHOUT_WORDS = "documents without a word, kept"
UNSTORABLE = "texts with a NUL or half a surrogate pair, a space in its place"


@dataclass(frozen=True, slots=True)
class Record:
    """One line of a file, from 1, and its values."""

    path: Path
    line: int
    values: Mapping[str, Any]
    notes: Notes

    def id(self, key: str = "_id") -> str | None:
        """The id; None after noting a fault."""
        value = self.values.get(key)
        if isinstance(value, int) and not isinstance(value, bool):
            self.notes.left_out(NUMBERS, f"{self.path}:{self.line}: {value}")
            return str(value)
        text = self.text(key)
        if text is not None and sendable(text)[1]:
            self.notes.fault(BAD_VALUES, self.path, self.line, f"{key} holds a NUL or half a surrogate pair")
            return None
        return text

    def text(self, key: str, *, blank: bool = False) -> str | None:
        """The text, which may be blank where `blank` says so; None after noting a fault."""
        value = self.values.get(key)
        if not isinstance(value, str):
            found = f"{key} is {shown(value)}" if key in self.values else f"{key} is missing"
            self.notes.fault(BAD_VALUES, self.path, self.line, f"{found}; expected text")
        elif not value.strip() and not blank:
            self.notes.fault(BAD_VALUES, self.path, self.line, f"{key} is blank; expected text")
        else:
            return value
        return None

    def literal(self, key: str) -> str | None:
        """The text, blank or not, as a file can hold it; None after noting a fault."""
        text = self.text(key, blank=True)
        if text is not None and sendable(text)[1]:
            self.notes.left_out(UNSTORABLE, f"{self.path}:{self.line}: {key}")
        return None if text is None else storable_text(text)


def read_records(path: Path, notes: Notes) -> Iterator[Record]:
    """The objects of a file, unpacked when its name ends in `.gz`. Raises InputError when it cannot be read."""
    for number, line in enumerate(read_bytes(path).split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line.decode())
        except UnicodeDecodeError as error:
            notes.fault(NOT_JSON, path, number, f"not UTF-8: byte 0x{line[error.start]:02x}")
        except (ValueError, RecursionError) as error:
            notes.fault(NOT_JSON, path, number, f"not JSON: {getattr(error, 'msg', error)}")
        else:
            if isinstance(value, dict):
                yield Record(path, number, value, notes)
            else:
                notes.fault(NOT_JSON, path, number, f"the line is {shown(value)}; expected an object")


def read_documents(path: Path, notes: Notes) -> Iterator[SourceDocument]:
    """The documents of a `corpus.jsonl`: `_id`, `title`, which may be missing, and `text`; each id once."""
    first: dict[str, tuple[int, str, str]] = {}
    for record in read_records(path, notes):
        doc_id, text = record.id(), record.literal("text")
        title = record.literal("title") if record.values.get("title") is not None else ""
        if doc_id is None or text is None or title is None:
            continue
        line, *content = first.setdefault(doc_id, (record.line, title, text))
        if line != record.line:
            which = "the same" if content == [title, text] else "another"
            message = f"document {doc_id!r} stands in line {line} already, with {which} text; keep one of the two"
            notes.fault(REPEATED, path, record.line, message)
            continue
        if not has_words(f"{title} {text}"):
            notes.left_out(WITHOUT_WORDS, f"{doc_id} ({path.name}:{record.line})")
        yield SourceDocument(doc_id, title, text, path, record.line)


def existing(folder: Path, *names: str) -> Path | None:
    """The first of the files that is there, packed by gzip or not."""
    candidates = (folder / f"{name}{suffix}" for name in names for suffix in ("", ".gz"))
    return next((path for path in candidates if path.is_file()), None)


def required(folder: Path, name: str, form: str) -> Path:
    """The file in the folder, packed or not. Raises InputError when there is none."""
    found = existing(folder, name)
    if found is None:
        raise InputError(f"{folder}: no {name} or {name}.gz; {form}")
    return found
