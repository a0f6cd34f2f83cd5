"""What a person prefers, kept between runs: the theme, which the explorer writes, and other keys, which it only reads.

Both lie in the data directory. `keys.yaml` maps an action's id, as the help screen names it, to a key or to several
with commas between them:

    next_miss: ctrl+n, m
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import yaml

from retrieval_lab.errors import Fault
from retrieval_lab.paths import data_dir
from retrieval_lab.whole_file import write_whole
from retrieval_lab.yaml_nodes import key_text, plain_value, read_nodes
from retrieval_lab_tui.actions import GROUPS, Keymap

KEYS_FILE = "keys.yaml"
_THEME_FILE = "theme"


def keys_path() -> Path:
    """Where a person writes other keys; the file need not exist."""
    return data_dir() / KEYS_FILE


def read_theme() -> str | None:
    """The name of the theme that was kept, None without one."""
    with suppress(OSError, UnicodeDecodeError):
        return (data_dir() / _THEME_FILE).read_text(encoding="utf-8").strip() or None
    return None


def write_theme(name: str) -> None:
    """Keep the name of the theme. A folder that cannot be written is no reason to stop: then it lasts for this run."""
    with suppress(OSError):
        write_whole(data_dir() / _THEME_FILE, f"{name}\n")


def read_keymap(path: Path) -> tuple[Keymap, tuple[Fault, ...]]:
    """The keys of the file, without those that cannot be used, and a fault for each of these."""
    if not path.exists():
        return {}, ()
    root = read_nodes(path)
    if isinstance(root, Fault):
        return {}, (root,)
    if root is None or (isinstance(root, yaml.ScalarNode) and not root.value):
        return {}, ()
    if not isinstance(root, yaml.MappingNode):
        return {}, (Fault(path, root.start_mark.line + 1, "expected `action: key` on each line"),)
    keymap: dict[str, str] = {}
    faults: list[Fault] = []
    for name_node, value_node in root.value:
        line = name_node.start_mark.line + 1
        try:
            name, keys = _entry(name_node, value_node, keymap)
            keymap[name] = keys
        except ValueError as error:
            faults.append(Fault(path, line, str(error)))
    return keymap, tuple(faults)


def _entry(name_node: yaml.Node, value_node: yaml.Node, before: Keymap) -> tuple[str, str]:
    """An action's id and its keys. Raises ValueError for what cannot be used beside the entries `before`."""
    name = key_text(name_node)
    actions = {action.id: action for group in GROUPS.values() for action in group}
    if name not in actions:
        raise ValueError(f"{name}: no such action; the help screen (?) lists their names")
    if name in before:
        raise ValueError(f"{name}: is there twice")
    value = plain_value(value_node) if isinstance(value_node, yaml.ScalarNode) else None
    # A digit is a key too.
    text = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    keys = [key.strip() for key in text.split(",")]
    if not all(keys) or any(" " in key for key in keys):
        raise ValueError(f"{name}: expected a key such as ctrl+n, or several with commas between them")
    for key in keys:
        for other in _bound_beside(name, key, before):
            raise ValueError(f"{name}: the key {key} is that of {other}; give {other} another first, or choose another")
    return name, ",".join(keys)


def _bound_beside(name: str, key: str, keymap: Keymap) -> Iterator[str]:
    """The other actions that have the key where this action works."""
    group = next(group for group in GROUPS.values() if any(action.id == name for action in group))
    for action in group:
        if action.id != name and key in keymap.get(action.id, action.keys).split(","):
            yield action.id
