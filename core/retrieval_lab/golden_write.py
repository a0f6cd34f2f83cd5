"""Writing golden.yaml, and changing the splits in one so that every other character stays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import yaml

from retrieval_lab.errors import InputError
from retrieval_lab.golden import load_golden, parse_golden
from retrieval_lab.types import GoldenQuery
from retrieval_lab.whole_file import write_whole
from retrieval_lab.yaml_nodes import NotYaml, double_quoted, key_text, parse_nodes

_WIDTH = 110

SPLIT = "split"


def golden_yaml(queries: Iterable[GoldenQuery]) -> str:
    """The text of a golden.yaml that reads back as these queries."""
    lines = [line for query in queries for line in _entry(query)]
    return "".join(f"{line}\n" for line in lines) or "[]\n"


def _entry(query: GoldenQuery) -> Iterator[str]:
    yield f"- query_id: {double_quoted(query.query_id)}"
    yield f"  query: {double_quoted(query.query)}"
    yield f"  kind: {double_quoted(query.kind)}"
    if query.level == "chunk":
        yield f"  doc_id: {double_quoted(query.doc_id)}"
        yield f"  anchor: {double_quoted(query.anchor)}"
    else:
        yield from _mapping("relevant", {double_quoted(doc_id): str(grade) for doc_id, grade in query.relevant})
    if query.split:
        yield f"  split: {double_quoted(query.split)}"
    if query.fields:
        yield from _mapping("fields", {double_quoted(name): double_quoted(text) for name, text in query.fields})


def _mapping(key: str, values: Mapping[str, str]) -> Iterator[str]:
    """On one line where that is short, else a line for each."""
    line = f"  {key}: {{{', '.join(f'{name}: {value}' for name, value in values.items())}}}"
    if len(line) <= _WIDTH:
        yield line
        return
    yield f"  {key}:"
    for name, value in values.items():
        # YAML takes a key for one only if it is short, unless a question mark says so.
        yield f"    ? {name}\n    : {value}" if len(name) > _WIDTH else f"    {name}: {value}"


def write_splits(path: Path, splits: Mapping[str, str]) -> None:
    """Set the split of each of these queries in a golden.yaml; every other character stays, comments too.

    Raises FaultyInput when the file has faults, InputError, and it stays as it was, when it cannot be written or has
    no place for a split.
    """
    golden = load_golden(path)
    try:
        text = path.read_bytes().decode()
        mark = "\ufeff" if text.startswith("\ufeff") else ""
        changed = with_splits(text.removeprefix(mark), splits)
        expected = tuple(replace(query, split=splits.get(query.query_id, query.split)) for query in golden)
        if parse_golden(changed, path).queries != expected:
            raise InputError(f"{path}: a split cannot be written into a list in this style; write a line for each key")
        write_whole(path, mark + changed)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from error


def with_splits(text: str, splits: Mapping[str, str]) -> str:
    """The text of a golden.yaml with the split of each of these queries set, and all else as it was.

    Raises InputError when the text is no list of queries, or one of them has no place for another line.
    """
    try:
        root = parse_nodes(text)
    except NotYaml as error:
        raise InputError(f"golden.yaml:{error.line}: {error}") from error
    if not isinstance(root, yaml.SequenceNode):
        raise InputError("golden.yaml: no list of queries, so there is nothing to split")
    pieces: list[str] = []
    done = 0
    for start, end, put in _edits(text, root, splits):
        pieces += text[done:start], put
        done = end
    return "".join([*pieces, text[done:]])


def _edits(text: str, root: yaml.SequenceNode, splits: Mapping[str, str]) -> Iterator[tuple[int, int, str]]:
    """(start, end, text to put there) of every change, in order."""
    for entry in root.value:
        if not isinstance(entry, yaml.MappingNode):
            continue
        nodes = {key_text(key): (key, value) for key, value in entry.value}
        query_id = key_text(nodes["query_id"][1]) if "query_id" in nodes else ""
        if query_id not in splits:
            continue
        value = double_quoted(splits[query_id])
        if SPLIT in nodes:
            node = nodes[SPLIT][1]
            yield node.start_mark.index, node.end_mark.index, value
        elif entry.flow_style:
            last = entry.value[-1][1].end_mark.index
            yield last, last, f", {SPLIT}: {value}"
        else:
            # Before the kind, whose place is known and which every query has: behind a block text it would be part of
            # it, and behind the last key a comment about the next query may stand.
            key = nodes["kind"][0].start_mark
            line_end = "\r\n" if "\r\n" in text[: key.index] else "\n"
            yield key.index, key.index, f"{SPLIT}: {value}{line_end}{' ' * key.column}"
