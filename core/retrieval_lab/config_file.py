"""Where a corpus's configuration comes from: the command line, lab.yaml, the defaults, in this order."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from retrieval_lab.config import PipelineConfig
from retrieval_lab.config_values import PARTS, Given, given, read_with
from retrieval_lab.errors import Fault, InputError
from retrieval_lab.paths import corpus_home
from retrieval_lab.retrievers.registry import RETRIEVERS
from retrieval_lab.settings import NoReranker
from retrieval_lab.text import printable
from retrieval_lab.whole_file import write_whole
from retrieval_lab.yaml_nodes import NotYaml, key_text, parse_nodes, plain_value, read_nodes, require_plain

CONFIG_FILE = "lab.yaml"
DEFAULT = "default"
COMMAND_LINE = "--set"

_NULL = "tag:yaml.org,2002:null"
_SHOWN_CHARS = 60


@dataclass(frozen=True, slots=True)
class Override:
    """A part of the configuration as an option of the command line names it: its key, its settings as plain values."""

    option: str
    key: str
    value: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class EffectiveConfig:
    """A configuration, the file it was read from (None when there is none), and where each value comes from.

    `origins` has the dotted key of every value: `default`, `lab.yaml:3` or an option such as `--set`.
    """

    config: PipelineConfig
    path: Path | None
    origins: Mapping[str, str]


def config_path(corpus: Path) -> Path:
    """Where the configuration of a corpus lies, or would: beside it, or in the data directory if it is read-only."""
    beside = corpus / CONFIG_FILE
    return beside if beside.exists() else corpus_home(corpus) / CONFIG_FILE


def effective_config(
    corpus: Path | None, *, path: Path | None = None, overrides: Sequence[str | Override] = ()
) -> EffectiveConfig:
    """The configuration of a corpus: `overrides` over a file over the defaults, a later override over an earlier one.

    An override is `KEY=VALUE`, the key with dots, or an Override, which replaces the whole part. The file is `path`,
    which must exist, else the one of the corpus if there is one. A file that names `retrievers` names all of them; an
    override changes one, or takes it out when it is null. Naming another kind drops the settings of the kind before.
    Raises InputError with everything that is wrong, a line each, with the file and line or the option.
    """
    if path is None and corpus is not None and config_path(corpus).exists():
        path = config_path(corpus)
    file = Given({}, DEFAULT) if path is None else read_settings(path)
    if not isinstance(file.value, dict):
        raise InputError(f"{file.origin}: expected a mapping of settings, such as 'top_k: 10', found something else")
    merged = dict(file.value)
    merged.setdefault("retrievers", given(dict.fromkeys(_default_retrievers()), DEFAULT))
    for override in overrides:
        if isinstance(override, Override):
            merged = _with_part(merged, override)
        else:
            merged = _overridden(merged, *_parsed(override))
    config, faults = read_with(PipelineConfig, Given(merged, DEFAULT))
    if config is None:
        raise InputError("\n".join(faults))
    return EffectiveConfig(config, path, dict(_origins(config.to_dict(), Given(merged, DEFAULT))))


def parts_of(path: Path) -> frozenset[str]:
    """The parts of a configuration that a file names, such as `retrievers`. Raises InputError when it is none."""
    file = read_settings(path)
    return frozenset(file.value) if isinstance(file.value, dict) else frozenset()


def described(effective: EffectiveConfig) -> str:
    """The configuration as YAML that can be saved as lab.yaml, each value with its origin in a comment."""
    rows = list(_rows(effective.config.to_dict(), effective.origins, "", 0))
    width = min(max(len(text) for text, _ in rows), 60)
    return "\n".join(f"{text.ljust(width)}  # {origin}" if origin else text for text, origin in rows)


def save_config(config: PipelineConfig, path: Path) -> None:
    """Write the configuration as a lab.yaml, whole or not at all; a file before it stays beside it as lab.yaml.bak.

    Raises InputError when it cannot be written.
    """
    text = yaml.safe_dump(config.to_dict(), sort_keys=False, allow_unicode=True)
    try:
        if path.exists():  # it may hold comments, which are nowhere else
            shutil.copy2(path, path.with_name(f"{path.name}.bak"))
        write_whole(path, text)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from error


# --- reading -------------------------------------------------------------------------------------------------------


def read_settings(path: Path) -> Given:
    """The content of a YAML file, each value with its line; an empty file is an empty mapping.

    Raises InputError when it cannot be read or is no YAML.
    """
    root = read_nodes(path)
    if isinstance(root, Fault):
        raise InputError(str(root))
    if root is None or (isinstance(root, yaml.ScalarNode) and root.tag == _NULL):
        return Given({}, f"{path}:1")
    try:
        return _Nodes(f"{path}:{{line}}").given(root)
    except NotYaml as error:
        raise InputError(f"{path}:{error.line}: {error}") from error


class _Nodes:
    """Makes plain values of YAML nodes; `origin` says where one was written, with a place for the line."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._made: dict[int, Given] = {}  # what an alias stands for is made once
        self._open: set[int] = set()

    def given(self, node: yaml.Node) -> Given:
        """The value of a node. Raises NotYaml."""
        if id(node) in self._open:
            raise NotYaml(node.start_mark.line + 1, "an alias stands within what it means")
        if id(node) not in self._made:
            self._open.add(id(node))
            self._made[id(node)] = self._make(node)
            self._open.remove(id(node))
        return self._made[id(node)]

    def _make(self, node: yaml.Node) -> Given:
        if isinstance(node, yaml.ScalarNode):
            return Given(plain_value(node), self._at(node))
        require_plain(node)
        if isinstance(node, yaml.SequenceNode):
            return Given([self.given(item) for item in node.value], self._at(node))
        entries: dict[str, Given] = {}
        for key_node, value_node in node.value:
            key = key_text(key_node)
            if key in entries:
                raise NotYaml(key_node.start_mark.line + 1, f"{key} is repeated")
            # The line of the key: a mapping's own line is that of its first entry.
            entries[key] = Given(self.given(value_node).value, self._at(key_node))
        return Given(entries, self._at(node))

    def _at(self, node: yaml.Node) -> str:
        return self._origin.format(line=node.start_mark.line + 1)


# --- the command line ----------------------------------------------------------------------------------------------


def _parsed(override: str) -> tuple[list[str], Given]:
    key, equals, text = override.partition("=")
    if not equals or not key.strip():
        raise InputError(
            f"{COMMAND_LINE} {printable(override)!r}: expected KEY=VALUE, such as top_k=20 or reranker.kind=none"
        )
    try:
        root = parse_nodes(text)
        value = Given(None, COMMAND_LINE) if root is None else _Nodes(COMMAND_LINE).given(root)
    except NotYaml as error:
        raise InputError(
            f"{COMMAND_LINE} {printable(override)[:_SHOWN_CHARS]}: {error}; put a text in quotes"
        ) from error
    return key.strip().split("."), value


def _overridden(values: Mapping[str, Given], keys: Sequence[str], value: Given) -> dict[str, Given]:
    """The values with one of them replaced."""
    first, *rest = keys
    merged = dict(values)
    if first == "retrievers" and rest:
        retrievers = merged[first].value if isinstance(merged[first].value, dict) else {}
        name, *inner = rest
        if not inner and value.value is None and name in retrievers:
            merged[first] = Given({one: entry for one, entry in retrievers.items() if one != name}, value.origin)
            return merged
        if (
            name not in retrievers
            and name not in RETRIEVERS
            and inner != ["kind"]
            and not isinstance(value.value, dict)
        ):
            raise InputError(
                f"{value.origin}: {'.'.join(keys)}: no retriever has this name; there are {', '.join(retrievers)}"
            )
        entry = _changed(retrievers.get(name), inner, value, usual=name)
        merged[first] = Given({**retrievers, name: entry}, value.origin)
    elif first in PARTS:
        merged[first] = _changed(merged.get(first), rest, value, usual=PARTS[first][1])
        _drop_what_is_of_no_use(merged, first)
    elif rest and isinstance(old := merged.get(first, Given({}, value.origin)).value, dict):
        merged[first] = Given(_overridden(old, rest, value), value.origin)
    else:
        merged[first] = value if not rest else given({rest[0]: value.value}, value.origin)
    return merged


def _with_part(values: Mapping[str, Given], part: Override) -> dict[str, Given]:
    """The values with one part replaced by what an option says."""
    merged = {**values, part.key: given(part.value, part.option)}
    _drop_what_is_of_no_use(merged, part.key)
    return merged


def _drop_what_is_of_no_use(values: dict[str, Given], changed: str) -> None:
    """Without a reranker MMR has none; what the command line itself says stays, and is a fault if it does not fit."""
    without = changed == "reranker" and _kind(values[changed], "") == NoReranker.kind
    if without and "mmr_lambda" in values and not values["mmr_lambda"].origin.startswith("--"):
        del values["mmr_lambda"]


def _changed(old: Given | None, keys: Sequence[str], value: Given, *, usual: str) -> Given:
    """A part with one setting replaced, or all of it when no key is left; another kind begins anew."""
    before = _as_mapping(old)
    if len(keys) > 1:
        return Given({**before, ".".join(keys): value}, value.origin)  # no setting has parts: the reader says so
    change = {keys[0]: value} if keys else _as_mapping(value)
    kind = change.get("kind")
    if kind is not None and kind.value != _kind(Given(before, value.origin), usual):
        before = {}
    return Given({**before, **change}, value.origin)


def _as_mapping(part: Given | None) -> dict[str, Given]:
    if part is None or part.value is None:
        return {}
    return dict(part.value) if isinstance(part.value, dict) else {"kind": part}


def _kind(part: Given, usual: str) -> Any:
    kind = _as_mapping(part).get("kind")
    return usual if kind is None else kind.value


# --- showing -------------------------------------------------------------------------------------------------------


def _origins(value: Any, at: Given | None, key: str = "") -> Iterator[tuple[str, str]]:
    if not isinstance(value, dict):
        yield key, DEFAULT if at is None else at.origin
        return
    known = {} if at is None else _as_mapping(at)
    for name, inner in value.items():
        yield from _origins(inner, known.get(name), f"{key}.{name}" if key else name)


def _rows(value: Mapping[str, Any], origins: Mapping[str, str], key: str, depth: int) -> Iterator[tuple[str, str]]:
    for name, inner in value.items():
        path = f"{key}.{name}" if key else name
        if isinstance(inner, dict):
            yield f"{'  ' * depth}{name}:", ""
            yield from _rows(inner, origins, path, depth + 1)
        else:
            text = yaml.safe_dump(inner, default_flow_style=True, allow_unicode=True, width=10**6)
            value_text = text.removesuffix("...\n").strip()  # the mark after a document that is one scalar
            yield f"{'  ' * depth}{name}: {value_text}", origins[path]


def _default_retrievers() -> list[str]:
    return [retriever.name for retriever in PipelineConfig().retrievers]
