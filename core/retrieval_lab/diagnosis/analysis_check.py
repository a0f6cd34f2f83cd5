"""Is the analysis of a corpus's misses complete, and does it agree with a key?

What must hold: each miss has one row, no other query has one, every kind is of its vocabulary, each failure used has a
paragraph that names it, and not every row has the same failure. With a key, which has the failures that other readers
accept for a query, at least 70% of the judgments must be among them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml

from retrieval_lab.diagnosis.analysis_file import FAILURE, FIX, LEAST_WORDS, TODO, Document, Paragraph, Row
from retrieval_lab.diagnosis.kinds import Failure, Fix
from retrieval_lab.errors import Fault
from retrieval_lab.yaml_nodes import key_text, read_nodes

LEAST_PERCENT = 70
"""So many of a hundred judgments at least are among those that a key accepts."""

_SHOWN_CHARS = 60


@dataclass(frozen=True, slots=True)
class Misses:
    """The golden set as it went: the ids of the misses in its order, and of the queries that have no relevant chunk.

    `queries` has the question of every golden query by its id.
    """

    ids: tuple[str, ...]
    unlabelled: tuple[str, ...]
    queries: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Key:
    """The failures that are accepted for each query, the lines they stand in, and what is wrong with the file."""

    path: Path
    accepted: Mapping[str, tuple[Failure, ...]]
    lines: Mapping[str, int]
    faults: tuple[Fault, ...]


@dataclass(frozen=True, slots=True)
class Agreement:
    """On how many of the misses that a key covers the analysis has an accepted failure."""

    agreed: int
    of: int

    @property
    def is_enough(self) -> bool:
        """Whether that is the least share or more."""
        return self.agreed * 100 >= self.of * LEAST_PERCENT

    def __str__(self) -> str:
        return f"{self.agreed} of {self.of} judgments agree with the key"

    def to_dict(self) -> dict[str, Any]:
        """The agreement as JSON has it; `least` is the share that is needed."""
        return {"agreed": self.agreed, "of": self.of, "least": LEAST_PERCENT / 100, "enough": self.is_enough}


@dataclass(frozen=True, slots=True)
class Status:
    """How far an analysis has come.

    `judged` are the misses whose row has a failure and a fix of the vocabularies, `todo` those whose row has not,
    `absent` those without a row. `stale` are the ids of rows that are of no miss. `failures` and `fixes` count the
    kinds in the rows of misses, in the order of the vocabularies. `lacking` are the failures used that no paragraph
    explains, `unlabelled` the queries that cannot be a miss, since no chunk is relevant.
    """

    judged: tuple[str, ...]
    todo: tuple[str, ...]
    absent: tuple[str, ...]
    stale: tuple[str, ...]
    failures: Mapping[Failure, int]
    fixes: Mapping[Fix, int]
    lacking: tuple[Failure, ...]
    unlabelled: tuple[str, ...]

    @property
    def misses(self) -> int:
        """How many misses there are."""
        return len(self.judged) + len(self.todo) + len(self.absent)

    def to_dict(self) -> dict[str, Any]:
        """The status as JSON has it."""
        lists = {name: list(getattr(self, name)) for name in ("judged", "todo", "absent", "stale")}
        return {
            "misses": self.misses,
            **lists,
            "failures": dict(self.failures),
            "fixes": dict(self.fixes),
            "lacking": list(self.lacking),
            "unlabelled": list(self.unlabelled),
        }


# --- the checks ----------------------------------------------------------------------------------------------------


def check_analysis(document: Document, path: Path, misses: Misses, key: Key | None = None) -> list[Fault]:
    """Everything that is wrong with an analysis, in the order of its lines; `path` is the file it was read from.

    What is wrong with the key itself is in its `faults` and in `unknown_ids`.
    """
    faults = [*_of_rows(document, path, misses), *_of_paragraphs(document, path)]
    faults += [*_without_row(document, path, misses), *_of_sameness(document, path)]
    if key is not None and (found := agreement(document, misses, key)) is not None and not found.is_enough:
        faults.append(Fault(path, None, f"{found}; expected at least {LEAST_PERCENT}%"))
    return sorted(faults, key=lambda fault: fault.line or 0)


def _of_rows(document: Document, path: Path, misses: Misses) -> Iterator[Fault]:
    first: dict[str, Row] = {}
    wanted, unlabelled = set(misses.ids), set(misses.unlabelled)
    for row in document.rows:
        earlier = first.setdefault(row.query_id, row)
        if not row.query_id:
            yield Fault(path, row.line, "the row has no query_id")
        elif earlier is not row:
            yield Fault(path, row.line, f"a second row; the first is in line {earlier.line}", row.query_id)
        elif row.query_id not in wanted:
            yield Fault(path, row.line, f"{_why_other(row, misses, unlabelled)}; delete the row", row.query_id)
        if {row.failure, row.fix} <= {"", TODO}:
            message = f"not judged yet; write a failure ({', '.join(Failure)}) and a fix ({', '.join(Fix)})"
            yield Fault(path, row.line, message, row.query_id or None)
            continue
        yield from _of_kind(row, FAILURE, row.failure, tuple(Failure), path)
        yield from _of_kind(row, FIX, row.fix, tuple(Fix), path)


def _why_other(row: Row, misses: Misses, unlabelled: Collection[str]) -> str:
    if row.query_id in unlabelled:
        return "no miss, since no chunk is relevant to it (`retrieval-lab check` says why)"
    if row.query_id in misses.queries:
        return "no miss: its passage is in the final list"
    return "the golden set has no such query"


def _of_kind(row: Row, name: str, value: str, vocabulary: tuple[str, ...], path: Path) -> Iterator[Fault]:
    if value in vocabulary:
        return
    if value in ("", TODO):
        message = f"no {name} is chosen yet; write one of {', '.join(vocabulary)}"
    else:
        message = f"{name} is {value[:_SHOWN_CHARS]!r}; {_expected(value, vocabulary)}"
    yield Fault(path, row.line, message, row.query_id or None)


def _expected(value: str, vocabulary: tuple[str, ...]) -> str:
    close = get_close_matches("-".join(value.lower().split()), vocabulary, n=1)
    return f"{f'did you mean {close[0]}? ' if close else ''}expected one of {', '.join(vocabulary)}"


def _without_row(document: Document, path: Path, misses: Misses) -> Iterator[Fault]:
    there = {row.query_id for row in document.rows}
    line = document.tables[0].header + 1 if document.tables else None
    if line is None:
        yield Fault(path, None, "no table with the columns query_id, failure and fix")
    for query_id in misses.ids:
        if query_id not in there:
            yield Fault(path, line, "a miss without a row; `retrieval-lab analysis init` adds it", query_id)


def _of_paragraphs(document: Document, path: Path) -> Iterator[Fault]:
    for kind, line in _first_lines(document).items():
        longest = _longest(document, kind)
        if longest is None:
            message = f"no paragraph below the table names {kind}; write one of at least {LEAST_WORDS} words"
            yield Fault(path, line, message)
        elif longest.words < LEAST_WORDS:
            message = f"the paragraph on {kind} has {longest.words} words; expected at least {LEAST_WORDS}"
            yield Fault(path, longest.line, message)


def _longest(document: Document, kind: Failure) -> Paragraph | None:
    """The longest paragraph that speaks for a failure."""
    about = (paragraph for paragraph in document.paragraphs if paragraph.names(kind))
    return max(about, key=lambda paragraph: paragraph.words, default=None)


def _first_lines(document: Document) -> dict[Failure, int | None]:
    """The line in which each failure is used first, in the order of the vocabulary."""
    lines = {row.failure: row.line for row in reversed(document.rows)}
    return {kind: lines[kind] for kind in Failure if kind in lines}


def _of_sameness(document: Document, path: Path) -> Iterator[Fault]:
    """One row alone can have only one failure."""
    failures = {row.failure for row in document.rows}
    if len(document.rows) > 1 and len(failures) == 1 and failures <= set(Failure):
        message = f"all {len(document.rows)} rows have the failure {failures.pop()}; read each miss for itself"
        yield Fault(path, document.rows[0].line, message)


# --- how far it is -------------------------------------------------------------------------------------------------


def status(document: Document, misses: Misses) -> Status:
    """How far an analysis has come."""
    there = document.by_query()
    rows = {query_id: there[query_id] for query_id in misses.ids if query_id in there}
    failures = Counter(row.failure for row in rows.values())
    fixes = Counter(row.fix for row in rows.values())
    wanted = set(misses.ids)
    return Status(
        judged=tuple(query_id for query_id, row in rows.items() if row.is_judged),
        todo=tuple(query_id for query_id, row in rows.items() if not row.is_judged),
        absent=tuple(query_id for query_id in misses.ids if query_id not in rows),
        stale=tuple(dict.fromkeys(row.query_id for row in document.rows if row.query_id not in wanted)),
        failures={kind: failures[kind] for kind in Failure},
        fixes={kind: fixes[kind] for kind in Fix},
        lacking=tuple(
            kind
            for kind in _first_lines(document)
            if (found := _longest(document, kind)) is None or found.words < LEAST_WORDS
        ),
        unlabelled=misses.unlabelled,
    )


def agreement(document: Document, misses: Misses, key: Key) -> Agreement | None:
    """How many of the misses that the key covers have an accepted failure; None when it covers none of them."""
    covered = [query_id for query_id in misses.ids if query_id in key.accepted]
    rows = document.by_query()
    agreed = sum(query_id in rows and rows[query_id].failure in key.accepted[query_id] for query_id in covered)
    return Agreement(agreed, len(covered)) if covered else None


# --- the key -------------------------------------------------------------------------------------------------------


def read_key(path: Path) -> Key:
    """The key in a YAML file, a mapping of query ids to lists of failures, with what is wrong; raises nothing."""
    accepted: dict[str, tuple[Failure, ...]] = {}
    lines: dict[str, int] = {}
    faults: list[Fault] = []
    root = read_nodes(path) if path.exists() else Fault(path, None, "no such file")
    if isinstance(root, Fault):
        faults.append(root)
    elif not isinstance(root, yaml.MappingNode):
        line = None if root is None else root.start_mark.line + 1
        faults.append(Fault(path, line, "expected a mapping such as 'q08: [ranking, reranker-demotion]'"))
    else:
        for key_node, value in root.value:
            query_id, line = key_text(key_node), key_node.start_mark.line + 1
            if query_id in lines:
                faults.append(Fault(path, line, f"a second entry; the first is in line {lines[query_id]}", query_id))
                continue
            lines[query_id] = line
            before = len(faults)
            kinds = tuple(_failures(value, path, query_id, faults))
            if len(faults) == before:
                accepted[query_id] = kinds
    return Key(path, accepted, lines, tuple(faults))


def unknown_ids(key: Key, misses: Misses) -> list[Fault]:
    """What is wrong with the ids of a key: those that the golden set does not have, or that it covers no miss."""
    faults = [
        Fault(key.path, line, "the golden set has no such query", query_id)
        for query_id, line in key.lines.items()
        if query_id not in misses.queries
    ]
    if misses.ids and not key.faults and not set(misses.ids) & key.accepted.keys():
        faults.append(Fault(key.path, None, "it covers none of the misses, so nothing can agree with it"))
    return faults


def _failures(node: yaml.Node, path: Path, query_id: str, faults: list[Fault]) -> Iterator[Failure]:
    """The failures of one entry, a list or one alone."""
    items = node.value if isinstance(node, yaml.SequenceNode) else [node]
    if not items:
        faults.append(Fault(path, node.start_mark.line + 1, "no failure is accepted; expected at least one", query_id))
    for item in items:
        text = key_text(item)
        if isinstance(item, yaml.ScalarNode) and text in tuple(Failure):
            yield Failure(text)
        else:
            message = f"{text[:_SHOWN_CHARS]!r} is no failure; {_expected(text, tuple(Failure))}"
            faults.append(Fault(path, item.start_mark.line + 1, message, query_id))
