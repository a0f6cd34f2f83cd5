"""Reading golden.yaml: every fault of the file at once, each with its line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import yaml

from retrieval_lab.errors import Fault, FaultyInput
from retrieval_lab.text import sendable
from retrieval_lab.types import GoldenQuery
from retrieval_lab.yaml_nodes import NotYaml, parse_nodes, plain_value, read_nodes

KEYS = ("query_id", "query", "kind", "doc_id", "anchor")
GRADED_KEYS = ("query_id", "query", "kind", "relevant")
"""The keys of a query with `relevant` in the place of `doc_id` and `anchor`."""
OPTIONAL_KEYS = ("split", "fields")

_ALL_KEYS = (*KEYS, "relevant", *OPTIONAL_KEYS)
_SHOWN_CHARS = 60
_STRING = "tag:yaml.org,2002:str"
_INTEGER = "tag:yaml.org,2002:int"
_MAPPING = "tag:yaml.org,2002:map"
_SEQUENCE = "tag:yaml.org,2002:seq"
_READ_AS = {
    "tag:yaml.org,2002:int": "a number",
    "tag:yaml.org,2002:float": "a number",
    "tag:yaml.org,2002:bool": "a boolean",
    "tag:yaml.org,2002:timestamp": "a date",
    "tag:yaml.org,2002:null": "nothing",
    "tag:yaml.org,2002:merge": "a merge key",
    "tag:yaml.org,2002:value": "a default value",
}


@dataclass(frozen=True, slots=True)
class GoldenFile:
    """The queries that could be read, in the order of the file, and a fault for everything else in it.

    `lines` has for each of the queries, by its id, the line in which the value of each key begins, and for a graded
    document that stands in another line than its list does, that line under `relevant.DOC_ID`. `files` has the files of
    those keys that are not in `path`, for labels in other formats.
    """

    path: Path
    queries: tuple[GoldenQuery, ...]
    lines: Mapping[str, Mapping[str, int]]
    faults: tuple[Fault, ...]
    files: Mapping[str, Path] = field(default_factory=lambda: MappingProxyType({}))

    def place(self, query_id: str, key: str) -> tuple[Path, int | None]:
        """The file and the line of a key; of a key with a dot, those of the part before it where it has none."""
        lines, whole = self.lines.get(query_id, {}), key.partition(".")[0]
        return self.files.get(whole, self.path), lines.get(key, lines.get(whole))


def read_golden(path: Path | str) -> GoldenFile:
    """The good queries of a YAML file together with what is wrong with the others; raises nothing for its contents."""
    file = Path(path)
    return _read(file, read_nodes(file))


def parse_golden(text: str, path: Path) -> GoldenFile:
    """What `read_golden` would give for a file at the path with this text."""
    try:
        return _read(path, parse_nodes(text))
    except NotYaml as error:
        return _read(path, Fault(path, error.line, str(error)))


def _read(path: Path, root: yaml.Node | Fault | None) -> GoldenFile:
    reader = _Reader(path)
    queries = tuple(reader.queries(root))
    return GoldenFile(path, queries, reader.lines, tuple(reader.faults))


def load_golden(path: Path | str) -> list[GoldenQuery]:
    """The golden queries of a YAML file, in its order.

    The file is a list of mappings with the keys query_id, query, kind, doc_id and anchor, all non-blank strings; query
    ids are unique. In the place of doc_id and anchor may stand `relevant`: a mapping of doc_ids to grades (whole
    numbers, those above 0 relevant), or a list of doc_ids, which have grade 1; empty for a question that nothing in the
    corpus answers. `split`, a string, and `fields`, a mapping of strings to strings, may be left out. Raises
    FaultyInput with every fault of the file and its line. `read_golden` gives the rest in spite of faults.
    """
    golden = read_golden(path)
    if golden.faults:
        raise FaultyInput(golden.faults)
    return list(golden.queries)


class _Reader:
    """Walks the YAML nodes, which know their lines, and collects faults on the way."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.faults: list[Fault] = []
        self.lines: dict[str, dict[str, int]] = {}
        self._first: dict[str, tuple[int, dict[str, str | None]]] = {}

    def queries(self, root: yaml.Node | Fault | None) -> Iterator[GoldenQuery]:
        if root is None:
            root = Fault(self.path, None, "the file is empty; expected a list of queries, [] for none")
        if isinstance(root, Fault):
            self.faults.append(root)
            return
        if not isinstance(root, yaml.SequenceNode):
            self._fault(root, f"expected a list of queries, each beginning with '- query_id:', found {_shape(root)}")
            return
        for number, node in enumerate(root.value, start=1):
            query = self._query(node, number)
            if query is not None:
                yield query

    def _query(self, node: yaml.Node, number: int) -> GoldenQuery | None:
        """The query of one list entry, or None after noting at least one fault."""
        if not isinstance(node, yaml.MappingNode):
            self._fault(node, f"entry {number}: expected a mapping with {', '.join(KEYS)}, found {_shape(node)}")
            return None
        before = len(self.faults)
        pairs = self._pairs(node)
        id_node = pairs.get("query_id")
        query_id = id_node.value if isinstance(id_node, yaml.ScalarNode) and id_node.tag == _STRING else None
        label = query_id[:_SHOWN_CHARS] if query_id else f"entry {number}"
        self.faults[before:] = [Fault(f.path, f.line, f.message, label) for f in self.faults[before:]]
        lines = {key: _line(value) for key, value in pairs.items()}
        texts = {key: self._string(pairs[key], key, label) for key in (*KEYS, "split") if key in pairs}
        relevant = self._relevant(pairs["relevant"], label, lines) if "relevant" in pairs else ()
        fields = self._fields(pairs["fields"], label) if "fields" in pairs else ()
        self._require_keys(node, pairs, label)
        if query_id and id_node is not None:
            self._note_id(query_id, id_node, {**texts, "relevant": repr(relevant)})
        if len(self.faults) > before:
            return None
        self.lines[query_id or ""] = lines
        written = {key: value for key, value in texts.items() if value is not None}
        return GoldenQuery(**{"doc_id": "", "anchor": "", **written}, relevant=relevant, fields=fields)

    def _require_keys(self, node: yaml.Node, pairs: Mapping[str, yaml.Node], label: str) -> None:
        graded = "relevant" in pairs
        missing = [key for key in (GRADED_KEYS if graded else KEYS) if key not in pairs]
        if missing:
            self._fault(node, f"missing {', '.join(missing)}", label)
        both = [key for key in ("doc_id", "anchor") if key in pairs]
        if graded and both:
            message = f"relevant stands beside {' and '.join(both)}; a label is the one or the other: delete either"
            self._fault(pairs["relevant"], message, label)

    def _relevant(self, node: yaml.Node, label: str, lines: dict[str, int]) -> tuple[tuple[str, int], ...]:
        """The graded documents, by doc_id; `lines` gets those of documents that stand below the beginning."""
        if isinstance(node, yaml.MappingNode) and node.tag == _MAPPING:
            entries = [(key, self._grade(value, label)) for key, value in node.value]
        elif isinstance(node, yaml.SequenceNode) and node.tag == _SEQUENCE:
            entries = [(key, 1) for key in node.value]
        else:
            expected = "expected doc_ids with grades, as {a: 2, b: 0}, or a list of doc_ids, [] for no answer"
            self._fault(node, f"relevant is {_shape(node)}; {expected}", label)
            return ()
        grades: dict[str, int] = {}
        for key, grade in entries:
            doc_id = self._string(key, "a doc_id of relevant", label)
            if doc_id in grades:
                self._fault(key, f"relevant names {doc_id[:_SHOWN_CHARS]!r} twice; delete one of the two", label)
            elif doc_id is not None:
                grades[doc_id] = grade
                if _line(key) != _line(node):
                    lines[f"relevant.{doc_id}"] = _line(key)
        return tuple(sorted(grades.items()))

    def _grade(self, node: yaml.Node, label: str) -> int:
        if isinstance(node, yaml.ScalarNode) and node.tag == _INTEGER:
            try:
                return int(plain_value(node))
            except NotYaml:
                pass
        self._fault(node, f"a grade is {_shape(node)}; expected a whole number, such as 0, 1 or 2", label)
        return 0

    def _fields(self, node: yaml.Node, label: str) -> tuple[tuple[str, str], ...]:
        if not isinstance(node, yaml.MappingNode) or node.tag != _MAPPING:
            self._fault(node, f"fields is {_shape(node)}; expected names with texts, as {{topic: bread}}", label)
            return ()
        found: dict[str, str] = {}
        for key, value in node.value:
            name, text = self._string(key, "a name of fields", label), self._string(value, "a value of fields", label)
            if name in found:
                self._fault(key, f"fields has {name[:_SHOWN_CHARS]!r} twice; delete one of the two", label)
            elif name is not None and text is not None:
                found[name] = text
        return tuple(found.items())

    def _pairs(self, node: yaml.MappingNode) -> dict[str, yaml.Node]:
        """The value node of every known key; unknown and repeated keys become faults."""
        pairs: dict[str, yaml.Node] = {}
        lines: dict[str, int] = {}
        for key_node, value in node.value:
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else None
            if key not in _ALL_KEYS:
                self._fault(key_node, f"unknown key {_shown(key_node)}; the keys are {', '.join(_ALL_KEYS)}")
            elif key in pairs:
                self._fault(key_node, f"{key} is repeated; it stands first in line {lines[key]}")
            else:
                pairs[key] = value
                lines[key] = _line(key_node)
        return pairs

    def _string(self, node: yaml.Node, key: str, label: str) -> str | None:
        if not isinstance(node, yaml.ScalarNode):
            self._fault(node, f"{key} is {_shape(node)}; expected text", label)
        elif node.tag != _STRING:
            kind = _READ_AS.get(node.tag, f"{node.tag}")
            self._fault(node, f"{key} {_shown(node)} is read as {kind}; put it in quotes to make it text", label)
        elif not node.value.strip():
            self._fault(node, f"{key} is blank; expected text", label)
        else:
            value = _with_pairs_joined(node.value)
            if not sendable(value)[1]:
                return value
            self._fault(node, f"{key} {_shown(node)} holds a NUL or half a surrogate pair; no text has these", label)
        return None

    def _note_id(self, query_id: str, node: yaml.Node, values: dict[str, str | None]) -> None:
        line, first = self._first.setdefault(query_id, (_line(node), values))
        if first is values:
            return
        mend = "with the same content; delete one" if first == values else "with other content; rename one"
        message = f"query_id is repeated; it stands first in line {line} {mend} of the two"
        self._fault(node, message, query_id[:_SHOWN_CHARS])

    def _fault(self, node: yaml.Node, message: str, query_id: str | None = None) -> None:
        self.faults.append(Fault(self.path, _line(node), message, query_id))


def _with_pairs_joined(value: str) -> str:
    """The value with surrogate pairs, as JSON writes characters such as emoji, made the characters they stand for."""
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _shape(node: yaml.Node) -> str:
    if isinstance(node, yaml.MappingNode):
        return "a mapping"
    return "a list" if isinstance(node, yaml.SequenceNode) else _shown(node)


def _shown(node: yaml.Node) -> str:
    return repr(node.value[:_SHOWN_CHARS]) if isinstance(node, yaml.ScalarNode) else _shape(node)
