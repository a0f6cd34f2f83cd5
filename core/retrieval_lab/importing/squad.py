"""Reading SQuAD: paragraphs become documents, answers become anchors, unanswerable questions stay without an answer.

Rajpurkar et al., "SQuAD: 100,000+ Questions for Machine Comprehension of Text" (EMNLP 2016), and "Know What You Don't
Know: Unanswerable Questions for SQuAD" (ACL 2018) for version 2.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from retrieval_lab.errors import FaultyInput
from retrieval_lab.importing.grades import NO_ANSWER
from retrieval_lab.importing.records import BAD_VALUES, REPEATED
from retrieval_lab.importing.source import Answer, Notes, Source, SourceDocument, SourceQuery, storable_text
from retrieval_lab.stored import shown
from retrieval_lab.trec import read_bytes

KIND = "squad"
PARAGRAPH_AGAIN = "paragraphs that stand in the file before, kept once"
NO_ANSWER_GIVEN = "questions whose answers cannot be used"

_KEY = re.compile(r'"(id|context)"\s*:')


def read_squad(path: Path) -> Source:
    """The collection of a file: each paragraph a document, at its first occurrence, each question with its answer.

    A document is called TITLE_NUMBER, paragraphs counted from 0 for each title. The answer of a question is the first
    that stands where it says. Raises InputError when the file cannot be read, FaultyInput when it is no JSON.
    """
    reader = _Reader(path, Notes())
    reader.read()
    notes, documents, queries = reader.notes, tuple(reader.documents), tuple(reader.queries)
    return Source(path, documents, queries, path, path, notes)


@dataclass(slots=True)
class _Reader:
    path: Path
    notes: Notes
    documents: list[SourceDocument] = field(default_factory=list)
    queries: list[SourceQuery] = field(default_factory=list)
    _by_text: dict[str, str] = field(default_factory=dict)
    _numbers: Counter[str] = field(default_factory=Counter)
    _ids: dict[str, int | None] = field(default_factory=dict)
    _lines: dict[str, Iterator[int | None]] = field(default_factory=dict)

    def read(self) -> None:
        """Go through articles, paragraphs and questions."""
        content = read_bytes(self.path)
        try:
            text = content.decode()
            root = json.loads(text)
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            raise FaultyInput.of(self.path, line, "not UTF-8; save the file as UTF-8") from error
        except json.JSONDecodeError as error:
            raise FaultyInput.of(self.path, error.lineno, f"not JSON: {error.msg}") from error
        except (ValueError, RecursionError) as error:
            raise FaultyInput.of(self.path, None, f"not JSON: {error}") from error
        articles = root.get("data") if isinstance(root, dict) else None
        if not isinstance(articles, list):
            raise FaultyInput.of(self.path, None, 'no list "data"; SQuAD has {"data": [{"title", "paragraphs"}]}')
        self._lines = _lines(text, root)
        for number, article in enumerate(articles):
            self._article(article, f"data[{number}]")

    def _article(self, article: Any, place: str) -> None:
        title, paragraphs = (_get(article, key) for key in ("title", "paragraphs"))
        if not isinstance(title, str) or not isinstance(paragraphs, list):
            self._fault(None, f"{place} has no title or no list of paragraphs")
            return
        for number, paragraph in enumerate(paragraphs):
            self._paragraph(storable_text(title), paragraph, f"{place}.paragraphs[{number}]")

    def _paragraph(self, title: str, paragraph: Any, place: str) -> None:
        line = self._line(paragraph, "context")
        context, questions = (_get(paragraph, key) for key in ("context", "qas"))
        questions = questions if isinstance(questions, list) else []
        if not isinstance(context, str) or not context.strip():
            self._fault(line, f"{place}.context is {_told(context)}; expected text; its questions are left out")
            for question in questions:
                self._line(question, "id")
            return
        key = storable_text(context)
        if key in self._by_text:
            self.notes.left_out(PARAGRAPH_AGAIN, f"{place} is {self._by_text[key]}")
        else:
            self._by_text[key] = f"{title}_{self._numbers[title]:03d}"
            self._numbers[title] += 1
            self.documents.append(SourceDocument(self._by_text[key], title, key, self.path, line))
        for number, question in enumerate(questions):
            self._question(question, context, self._by_text[key], title, f"{place}.qas[{number}]")

    def _question(self, question: Any, context: str, doc_id: str, title: str, place: str) -> None:
        line = self._line(question, "id")
        query_id, text = (_get(question, key) for key in ("id", "question"))
        for key, value in (("id", query_id), ("question", text)):
            if not isinstance(value, str) or not storable_text(value).strip():
                self._fault(line, f"{place}.{key} is {_told(value)}; expected text")
                return
        if query_id in self._ids:
            message = f"question {query_id!r} stands twice, first in line {self._ids[query_id]}; keep one of the two"
            self.notes.fault(REPEATED, self.path, line, message, query_id)
            return
        self._ids[query_id] = line
        answers = _get(question, "answers")
        impossible = _get(question, "is_impossible") is True
        found = None if impossible else self._answer(answers, context, doc_id, query_id, line)
        if impossible and answers:
            self.notes.fault(
                NO_ANSWER_GIVEN, self.path, line, "is_impossible is true, and it has answers; delete either", query_id
            )
        elif impossible or found is not None:
            lines = {} if line is None else {"query": line, "anchor": line, "relevant": line}
            fields = (("title", title),) if title.strip() else ()
            kind = NO_ANSWER if impossible else KIND
            self.queries.append(
                SourceQuery(query_id, storable_text(text), kind, answer=found, fields=fields, lines=lines)
            )

    def _answer(self, answers: Any, context: str, doc_id: str, query_id: str, line: int | None) -> Answer | None:
        """The first answer that stands where it says; a fault for each before it, and when there is none."""
        given = answers if isinstance(answers, list) else []
        for answer in given:
            text, start = _get(answer, "text"), _get(answer, "answer_start")
            is_place = isinstance(text, str) and isinstance(start, int) and start >= 0 and bool(text.strip())
            if is_place and context[start : start + len(text)] == text:
                return _in_storable(context, doc_id, start, text)
            message = f"the answer {_told(text)} does not stand at {_told(start)} of its paragraph; correct the place"
            self.notes.fault(NO_ANSWER_GIVEN, self.path, line, message, query_id)
        if not given:
            message = "no answers, and is_impossible is not true; add one of the two"
            self.notes.fault(NO_ANSWER_GIVEN, self.path, line, message, query_id)
        return None

    def _line(self, found: Any, key: str) -> int | None:
        """The line of the key in an object, if it has the key; to be asked for each object in the order of the file."""
        return next(self._lines[key], None) if isinstance(found, dict) and key in found else None

    def _fault(self, line: int | None, message: str) -> None:
        self.notes.fault(BAD_VALUES, self.path, line, message)


def _in_storable(context: str, doc_id: str, start: int, text: str) -> Answer:
    """The answer, without the white space around it, in the paragraph as it is stored, whose line ends are shorter."""
    start += len(text) - len(text.lstrip())
    before = len(storable_text(context[:start]))
    return Answer(doc_id, before, before + len(storable_text(text.strip())))


def _lines(text: str, root: Any) -> dict[str, Iterator[int | None]]:
    """The lines of all `id` and `context` keys, in the order of the file; none are known where the counts disagree.

    A quote inside of a string has a backslash, so no string looks like a key.
    """
    breaks = [match.start() for match in re.finditer("\n", text)]
    found: dict[str, list[int]] = {"id": [], "context": []}
    for match in _KEY.finditer(text):
        if text[match.start() - 1] != "\\":
            found[match[1]].append(bisect_right(breaks, match.start()) + 1)
    expected = Counter(_keys(root))
    return {key: iter(lines if len(lines) == expected[key] else ()) for key, lines in found.items()}


def _keys(value: Any) -> Iterator[str]:
    """Every key of every object within a JSON value."""
    stack = [value]
    while stack:
        one = stack.pop()
        if isinstance(one, dict):
            yield from one
            stack.extend(one.values())
        elif isinstance(one, list):
            stack.extend(one)


def _get(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None


def _told(value: Any) -> str:
    return "missing" if value is None else shown(value)
