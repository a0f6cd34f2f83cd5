"""TREC topics: the queries of a test collection, in the classic tagged form or as lines of id and text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from retrieval_lab.errors import Fault, FaultyInput, InputError
from retrieval_lab.trec import decode_id, encode_id, read_bytes, write_bytes

Form = Literal["tsv", "tagged"]

# Topics carry these words behind the tags, from TREC 1 on, as part of the text.
_LABELS = {"num": re.compile(r"^\s*Number:", re.IGNORECASE), "title": re.compile(r"^\s*Topic:", re.IGNORECASE)}
_TAG = re.compile(r"<(/?)(top|num|title|desc|narr|dom|smry|con|fac|def|head|nat)>", re.IGNORECASE)
_WHITE_SPACE = re.compile(r"[\s\x00]+")
_SHOWN_CHARS = 60


@dataclass(frozen=True, slots=True)
class Topic:
    """A query with its id; `text` is the title, white space made single spaces."""

    query_id: str
    text: str


def read_topics(path: Path, *, encoded: bool = False) -> tuple[Topic, ...]:
    """The topics of a file, in its order: `<top>` with `<num>` and `<title>`, else lines of id, tab and text.

    A file whose first character is `<` is of the tagged form, other sections of which are not read. A name ending in
    `.gz` is that of a gzip file. `encoded` turns ids back into what they were before `write_topics` made them safe.

    Raises FaultyInput with every fault: a topic without id or title, text outside of a topic, a topic that does not
    end, a line without a tab or with two, an id that stands twice, bytes that are not UTF-8, no topic at all. Raises
    InputError when the file cannot be read.
    """
    content = read_bytes(path)
    reader = _Reader(path, encoded)
    try:
        text = content.decode().replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise FaultyInput([Fault(path, line, "not UTF-8; write the file in UTF-8")]) from error
    tagged = text.lstrip().startswith("<")
    for line, query_id, title in reader.tagged(text) if tagged else reader.lines(text):
        reader.add(line, query_id, title)
    return reader.done()


class _Reader:
    """The topics that were read, and the faults that were met on the way."""

    def __init__(self, path: Path, encoded: bool) -> None:
        self.path = path
        self._encoded = encoded
        self._faults: list[Fault] = []
        self._topics: dict[str, tuple[int, Topic]] = {}

    def lines(self, text: str) -> Iterator[tuple[int, str, str]]:
        """The line, id and title of each topic of the form with tabs."""
        for number, line in enumerate(text.split("\n"), start=1):
            if not line.strip():
                continue
            fields = line.split("\t")
            if len(fields) == 2:
                yield number, fields[0], fields[1]
            else:
                columns = "no tab" if len(fields) == 1 else f"{len(fields) - 1} tabs"
                self._fault(number, f"{columns} in {_shown(line)}; expected an id, a tab and the text of the query")

    def tagged(self, text: str) -> Iterator[tuple[int, str, str]]:
        """The line, id and title of each topic of the tagged form."""
        tags = list(_TAG.finditer(text))
        begin: int | None = None
        sections: dict[str, str] = {}
        self._outside(text, 0, tags[0].start() if tags else len(text))
        for tag, following in zip(tags, [*tags[1:], None], strict=True):
            end = following.start() if following else len(text)
            closing, name = tag[1], tag[2].lower()
            if name == "top":
                line = text.count("\n", 0, tag.start()) + 1
                if bool(closing) != (begin is not None):
                    self._fault(begin or line, "</top> has no <top>" if closing else "<top> has no </top>")
                if begin is not None:
                    yield begin, *_titled(sections)
                begin, sections = None if closing else line, {}
            elif not closing:
                sections[name] = sections.get(name, "") + text[tag.end() : end]
            if begin is None:
                self._outside(text, tag.end(), end)
        if begin is not None:
            self._fault(begin, "<top> has no </top>")
            yield begin, *_titled(sections)

    def _outside(self, text: str, start: int, end: int) -> None:
        passed = text[start:end]
        if passed.strip():
            line = text.count("\n", 0, end - len(passed.lstrip())) + 1
            self._fault(line, f"{_shown(passed.strip())} stands outside of <top>; expected nothing there")

    def add(self, line: int, query_id: str, title: str) -> None:
        """Enter a topic, or note what is wrong with it."""
        found, text = (_WHITE_SPACE.sub(" ", part).strip() for part in (query_id, title))
        try:
            key = decode_id(found) if self._encoded else found
        except UnicodeDecodeError:
            self._fault(line, f"the id {_shown(found)} holds encoded bytes that are not UTF-8")
            return
        if not found or " " in found:
            self._fault(line, f"the id of a topic is {_shown(found)}; expected one word")
        elif not text:
            self._fault(line, f"topic {_shown(found)} has no title; expected the text of the query")
        elif key in self._topics:
            self._fault(line, f"topic {_shown(found)} stands twice; it stands first in line {self._topics[key][0]}")
        else:
            self._topics[key] = line, Topic(key, text)

    def done(self) -> tuple[Topic, ...]:
        """The topics. Raises FaultyInput when anything is wrong."""
        if not self._topics and not self._faults:
            self._fault(None, "the file has no topics; expected <top> … </top>, or lines of id, tab and text")
        if self._faults:
            raise FaultyInput(self._faults)
        return tuple(topic for _, topic in self._topics.values())

    def _fault(self, line: int | None, message: str) -> None:
        self._faults.append(Fault(self.path, line, message))


def _titled(sections: Mapping[str, str]) -> tuple[str, str]:
    """The id and the title in the sections of a topic, without the words before them."""
    query_id, title = (label.sub("", sections.get(name, ""), count=1) for name, label in _LABELS.items())
    return query_id, title


def _shown(text: str) -> str:
    return repr(text[:_SHOWN_CHARS])


def write_topics(path: Path, topics: Sequence[Topic], *, form: Form = "tsv") -> None:
    """Write topics, whole or not at all, packed when the name ends in `.gz`.

    Ids are made safe as in the other files, white space in a text becomes single spaces. Raises InputError for a text
    that is blank or, in the tagged form, holds a tag or begins with "Topic:"; for an id that stands twice; and when the
    file cannot be written.
    """
    seen: set[str] = set()
    lines = []
    for topic in topics:
        text = _WHITE_SPACE.sub(" ", topic.text).strip()
        if topic.query_id in seen:
            raise InputError(f"topic {topic.query_id!r} stands twice; expected each once")
        if not text or (form == "tagged" and (_TAG.search(text) or _LABELS["title"].match(text))):
            raise InputError(f"topic {topic.query_id!r}: no reader gets its text {_shown(text)} back; change it")
        seen.add(topic.query_id)
        lines.append(_written(encode_id(topic.query_id), text, form))
    write_bytes(path, iter(lines))


def _written(query_id: str, text: str, form: Form) -> str:
    if form == "tsv":
        return f"{query_id}\t{text}\n"
    return f"<top>\n<num> Number: {query_id}\n<title> {text}\n</top>\n\n"
