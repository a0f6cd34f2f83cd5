"""Changing one setting in a configuration file, with every other line and comment kept as it was."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from retrieval_lab.errors import InputError
from retrieval_lab.whole_file import write_whole
from retrieval_lab.yaml_nodes import NotYaml, key_text, parse_nodes

_END_MARK = re.compile(r"^\.\.\.", re.MULTILINE)


def write_setting(path: Path, key: str, value: float) -> None:
    """Write `key: value` into the file's top level: in the place of the value that stands there, else as a last line.

    The file is made when there is none. Raises InputError when it is no mapping in block style, or cannot be read or
    written; it stays as it was then.
    """
    try:
        before = path.read_bytes().decode("utf-8-sig") if path.exists() else ""
        write_whole(path, _changed(before, key, value, path))
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8: byte 0x{error.object[error.start]:02x}") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from error


def _changed(text: str, key: str, value: float, path: Path) -> str:
    try:
        root = parse_nodes(text)
        if root is None:
            return _with_line(text, f"{key}: {value:g}")
        if not isinstance(root, yaml.MappingNode) or root.flow_style:
            raise NotYaml(root.start_mark.line + 1, "not a mapping with a line for each setting")
    except NotYaml as error:
        raise InputError(f"{path}:{error.line}: {error}; write {key}: {value:g} into it yourself") from error
    for key_node, value_node in root.value:
        if key_text(key_node) == key:
            gap = "" if value_node.start_mark.index > key_node.end_mark.index + 1 else " "  # `key:` has an empty value
            return f"{text[: value_node.start_mark.index]}{gap}{value:g}{text[value_node.end_mark.index :]}"
    return _with_line(text, f"{' ' * root.start_mark.column}{key}: {value:g}")


def _with_line(text: str, line: str) -> str:
    """The text with one line more, before the mark that ends a document."""
    end = _END_MARK.search(text)
    body, rest = (text[: end.start()], text[end.start() :]) if end else (text, "")
    if body and not body.endswith("\n"):
        body += "\n"
    return f"{body}{line}\n{rest}"
