"""Changing settings in a configuration file, with every other line and comment kept as it was."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from retrieval_lab.config import PipelineConfig
from retrieval_lab.errors import InputError
from retrieval_lab.whole_file import write_whole
from retrieval_lab.yaml_nodes import NotYaml, key_text, parse_nodes

_END_MARK = re.compile(r"^\.\.\.", re.MULTILINE)
_INDENT = "  "


def write_setting(path: Path, key: str, value: float) -> None:
    """`write_settings` for one setting."""
    write_settings(path, {key: value})


def write_settings(path: Path, settings: Mapping[str, Any]) -> None:
    """Write settings by their dotted keys into the file: in the place of the value that stands there, else as a line.

    All are written or none. The file is made when there is none. A setting of a list, in a file that names no lists,
    names the default ones first, since a file that names any names all. Raises InputError when the file is no mapping
    in block style, has an alias where a setting belongs, or cannot be read or written; it stays as it was then.
    """
    try:
        before = path.read_bytes().decode("utf-8-sig") if path.exists() else ""
        write_whole(path, _changed(before, settings))
    except NotYaml as error:
        by_hand = ", ".join(f"{key}: {inline(value)}" for key, value in settings.items())
        raise InputError(f"{path}:{error.line}: {error}; write {by_hand} into it yourself") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8: byte 0x{error.object[error.start]:02x}") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from error


def _changed(text: str, settings: Mapping[str, Any]) -> str:
    for key, value in {**_default_lists(text, settings), **settings}.items():
        text = _with_setting(text, key.split("."), value)
    return text


def _default_lists(text: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The kinds of the default lists, where a setting of a list would be the first that the file has."""
    root = _root(text)
    named = root is not None and any(key_text(key) == "retrievers" for key, _ in root.value)
    if named or not any(key.startswith("retrievers.") for key in settings):
        return {}
    return {f"retrievers.{one.name}.kind": one.kind for one in PipelineConfig().retrievers}


def _root(text: str) -> yaml.MappingNode | None:
    root = parse_nodes(text)
    if root is None:
        return None
    if not isinstance(root, yaml.MappingNode) or root.flow_style:
        raise NotYaml(root.start_mark.line + 1, "not a mapping with a line for each setting")
    return root


def _with_setting(text: str, keys: Sequence[str], value: Any) -> str:
    root = _root(text)
    if root is None:
        return _with_line(text, _block(keys, value, 0))
    node: yaml.MappingNode = root
    for depth, key in enumerate(keys):
        entry = next((entry for entry in node.value if key_text(entry[0]) == key), None)
        if entry is None:
            return _inserted(text, node, keys[depth:], value, is_root=node is root)
        key_node, inner = entry
        rest = keys[depth + 1 :]
        if inner.start_mark.index < key_node.end_mark.index:
            raise NotYaml(key_node.start_mark.line + 1, f"{key} is an alias")
        if not rest or not isinstance(inner, yaml.MappingNode):
            return _replaced(text, key_node, inner, rest, value)
        node = inner
    return text


def _replaced(text: str, key_node: yaml.Node, inner: yaml.Node, rest: Sequence[str], value: Any) -> str:
    """With another value in the place of one; where that names a kind and the setting lies within, with both."""
    start, end = inner.start_mark.index, inner.end_mark.index
    new = inline(value)
    if rest:
        if not isinstance(inner, yaml.ScalarNode):
            raise NotYaml(inner.start_mark.line + 1, f"{key_text(key_node)} is a list")
        is_empty = inner.tag.endswith(":null")
        new = f"{{{'' if is_empty else f'kind: {text[start:end]}, '}{_flow(rest, value)}}}"
    gap = "" if start > key_node.end_mark.index + 1 else " "  # `key:` has an empty value
    return f"{text[:start]}{gap}{new}{text[end:]}"


def _inserted(text: str, node: yaml.MappingNode, keys: Sequence[str], value: Any, *, is_root: bool) -> str:
    """With a new entry of the mapping: the first of one in braces, else the last line."""
    if node.flow_style:
        place = text.index("{", node.start_mark.index) + 1
        return f"{text[:place]}{_flow(keys, value)}{', ' if node.value else ''}{text[place:]}"
    column = node.value[0][0].start_mark.column
    lines = _block(keys, value, column)
    if is_root:
        return _with_line(text, lines)
    end = text.find("\n", _last(node).end_mark.index)
    body, rest = (text, "") if end < 0 else (text[:end], text[end + 1 :])
    return f"{body}\n{lines}\n{rest}"


def _last(node: yaml.Node) -> yaml.Node:
    """The scalar or the braces at the end of a mapping in block style, whose own end is where the next thing begins."""
    while isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        node = last[1] if isinstance(node, yaml.MappingNode) else last
    return node


def _block(keys: Sequence[str], value: Any, column: int) -> str:
    """The lines of a setting: each key but the last stands above those within it."""
    heads = [f"{' ' * column}{_INDENT * depth}{key}:" for depth, key in enumerate(keys)]
    return "\n".join([*heads[:-1], f"{heads[-1]} {inline(value)}"])


def _flow(keys: Sequence[str], value: Any) -> str:
    first, *rest = keys
    return f"{first}: {{{_flow(rest, value)}}}" if rest else f"{first}: {inline(value)}"


def inline(value: Any) -> str:
    """The value as YAML has it on one line; of a number no more digits than it needs."""
    if isinstance(value, float) and float(short := f"{value:g}") == value and "e" not in short:
        return short
    text = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=10**6)
    return text.removesuffix("...\n").strip()  # the mark after a document that is one scalar


def _with_line(text: str, line: str) -> str:
    """The text with one entry more, before the mark that ends a document."""
    end = _END_MARK.search(text)
    body, rest = (text[: end.start()], text[end.start() :]) if end else (text, "")
    if body and not body.endswith("\n"):
        body += "\n"
    return f"{body}{line}\n{rest}"
