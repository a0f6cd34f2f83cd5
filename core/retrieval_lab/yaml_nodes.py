"""Reading YAML as nodes, which know their lines, with one fault for whatever is wrong with the file."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import yaml

from retrieval_lab.errors import Fault

SCALARS = {f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "timestamp")}
"""The tags of plain values. Any other is an instruction to make something, which no file of the lab needs."""

_LARGE = 100_000  # characters, which PyYAML takes half a second for
_MAPPING = "tag:yaml.org,2002:map"
_SEQUENCE = "tag:yaml.org,2002:seq"


class NotYaml(ValueError):
    """A text is no YAML, or none that is taken here; `line` counts from 1 and may be unknown."""

    def __init__(self, line: int | None, message: str) -> None:
        self.line = line
        super().__init__(message)


def read_nodes(path: Path) -> yaml.Node | Fault | None:
    """The root node of a file, None when it holds nothing, or what is wrong with it."""
    try:
        if path.exists() and not path.is_file():  # a pipe would keep us waiting
            raise OSError(
                errno.EISDIR if path.is_dir() else errno.EINVAL,
                "Is a directory" if path.is_dir() else "it is not a file",
            )
        return parse_nodes(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        return Fault(path, None, f"cannot be read: {error.strerror}")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        return Fault(path, line, f"not UTF-8: byte 0x{error.object[error.start]:02x}")
    except NotYaml as error:
        return Fault(path, error.line, str(error))


def parse_nodes(text: str) -> yaml.Node | None:
    """The root node of a text, None when it holds nothing. Raises NotYaml."""
    # libyaml is three times as fast, which a golden set of thousands of queries needs. What it refuses is read again by
    # PyYAML, which takes a little more, such as surrogate pairs as JSON writes them, and says better what is wrong.
    if len(text) >= _LARGE and yaml.__with_libyaml__:
        fast = yaml.CSafeLoader(text)
        try:
            return fast.get_single_node()
        except (yaml.YAMLError, ValueError, OverflowError, RecursionError):
            pass
        finally:
            fast.dispose()
    return _parse_slowly(text)


def _parse_slowly(text: str) -> yaml.Node | None:
    loader: yaml.SafeLoader | None = None
    try:
        loader = yaml.SafeLoader(text)
        return loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise NotYaml(mark.line + 1 if mark else None, f"not YAML: {error.problem}") from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise NotYaml(line, f"not YAML: the character U+{int(error.character):04X} is not allowed") from error
    except (ValueError, OverflowError) as error:  # an escape such as \U00110000, which PyYAML lets through
        raise NotYaml(loader.line + 1 if loader else None, f"not YAML: {error}") from error
    except RecursionError as error:
        raise NotYaml(None, "nested too deeply; expected a list or a mapping that is flat") from error
    finally:
        if loader is not None:
            loader.dispose()


def plain_value(node: yaml.ScalarNode) -> Any:
    """The text, number, boolean, date or None of a scalar. Raises NotYaml when it is none of these."""
    name = node.tag.rpartition(":")[2]
    if node.tag not in SCALARS:
        raise NotYaml(_line(node), f"the tag {node.tag} is not taken here; write a plain value")
    constructor = yaml.constructor.SafeConstructor()
    try:
        return getattr(constructor, f"construct_yaml_{name}")(node)
    except (ValueError, LookupError, AttributeError, OverflowError) as error:
        raise NotYaml(_line(node), f"not YAML: {node.value[:60]!r} is no {name}") from error


def require_plain(node: yaml.Node) -> None:
    """Raises NotYaml for a mapping or list with a tag that would make something else of it."""
    if node.tag not in (_MAPPING, _SEQUENCE):
        raise NotYaml(_line(node), f"the tag {node.tag} is not taken here; write a plain mapping or list")


def double_quoted(text: str) -> str:
    """The text as a double-quoted YAML string on one line, with nothing invisible in it."""
    return '"' + "".join(_escaped(char) for char in text) + '"'


def _escaped(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    if char.isprintable():
        return char
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"


def key_text(node: yaml.Node) -> str:
    """The key of an entry as it is written; what is no key is named by its shape."""
    if isinstance(node, yaml.ScalarNode):
        return str(node.value)
    return "a mapping" if isinstance(node, yaml.MappingNode) else "a list"


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
