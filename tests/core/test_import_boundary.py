"""Who may import whom: read from the source of both packages, and seen in fresh interpreters."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import retrieval_lab
import retrieval_lab_tui

CORE, TUI = "retrieval_lab", "retrieval_lab_tui"
ROOTS = {CORE: Path(retrieval_lab.__file__).parent, TUI: Path(retrieval_lab_tui.__file__).parent}
EXTRAS = {
    "fastembed",
    "onnxruntime",
    "tokenizers",
    "huggingface_hub",
    "claude_agent_sdk",
    "scipy",
    "sklearn",
    "matplotlib",
}

# From the bottom to the top; a module imports from its own layer and those below. What is named nowhere here is built
# on the lab; a new module that lower layers need is entered here.
LAYERS = [
    {"types", "errors"},
    {
        "answer",
        "chunker",
        "chunkers",
        "citations",
        "claude",
        "claude_login",
        "corpus",
        "corpus_index",
        "embed",
        "expansion",
        "extension",
        "extractive",
        "extras",
        "filtering",
        "folder_models",
        "fusion",
        "golden",
        "golden_set",
        "highlight",
        "history",
        "hybrid",
        "inline",
        "learned",
        "learned_features",
        "learned_model",
        "lexemes",
        "many_lists",
        "markdown",
        "markers",
        "metrics",
        "mmr",
        "model_cache",
        "model_choice",
        "model_folder",
        "models",
        "paths",
        "pipeline",
        "places",
        "prompt",
        "ragindex",
        "rerank",
        "rerankers",
        "retrievers",
        "runtime",
        "sentence_ends",
        "sentences",
        "settings",
        "similar",
        "statements",
        "stems",
        "stopwords",
        "store",
        "stored",
        "support",
        "text",
        "textquery",
        "trec",
        "trec_topics",
        "whole_file",
        "windows",
        "yaml_nodes",
    },
    {
        "assembly",
        "cluster",
        "config",
        "config_edit",
        "config_file",
        "config_values",
        "configurations",
        "database",
        "diagnosis.dashes",
        "diagnosis.displacement",
        "diagnosis.follow",
        "diagnosis.journey",
        "diagnosis.lost",
        "diagnosis.nearby",
        "diagnosis.parse_view",
        "diagnosis.report",
        "guardian",
        "guarding",
        "index",
        "passages",
        "server",
        "server_admin",
        "session",
        "trace",
    },
    {"doctor", "lab"},
]
ON_THE_LAB = len(LAYERS)
COMMAND_LINE = ON_THE_LAB + 1


def layer(module: str) -> int:
    """The layer of a module of the core, by its name below the package."""
    first, _, rest = module.partition(".")
    if first.startswith("cli") or first == "__main__":
        return COMMAND_LINE
    known = {first, f"{first}.{rest}"}
    return next((number for number, names in enumerate(LAYERS) if known & names), ON_THE_LAB)


@dataclass(frozen=True)
class Import:
    """One import statement: which module of ours imports what, where."""

    module: str
    imported: str
    line: int
    at_import: bool
    """Whether it runs when the module is imported: not for type checkers, in functions or as a script."""


def modules(package: str) -> dict[str, Path]:
    found = {}
    for path in sorted(ROOTS[package].rglob("*.py")):
        parts = (package, *path.relative_to(ROOTS[package]).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = {package: modules(package) for package in ROOTS}


def imports(module: str, path: Path) -> Iterator[Import]:
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]

    def names(node: ast.Import | ast.ImportFrom) -> list[str]:
        if isinstance(node, ast.Import):
            return [alias.name for alias in node.names]
        base = node.module or ""
        if node.level:
            parents = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*parents, base] if base else parents)
        known = {name for found in MODULES.values() for name in found}
        return [f"{base}.{alias.name}" if f"{base}.{alias.name}" in known else base for alias in node.names]

    def walk(node: ast.AST, at_import: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import | ast.ImportFrom):
                for name in names(child):
                    yield Import(module, name, child.lineno, at_import)
            elif isinstance(child, ast.If) and re.search(
                r"TYPE_CHECKING|__name__ == '__main__'", ast.unparse(child.test)
            ):
                yield from walk(child, False)
            else:
                yield from walk(child, at_import and not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef))

    yield from walk(ast.parse(path.read_text(encoding="utf-8")), True)


ALL = [found for package in MODULES.values() for module, path in package.items() for found in imports(module, path)]


def of(package: str) -> list[Import]:
    return [found for found in ALL if found.module.split(".")[0] == package]


def top(name: str) -> str:
    return name.split(".")[0]


def places(found: list[Import]) -> list[str]:
    return [f"{one.module}:{one.line} imports {one.imported}" for one in found]


# --- the source ----------------------------------------------------------------------------------------------------


def test_the_reader_of_imports_sees_every_kind_of_them(tmp_path: Path) -> None:
    source = tmp_path / "x.py"
    source.write_text(
        "import a.b\nfrom c import d\nfrom . import hybrid\nfrom .store import Table\nfrom retrieval_lab import mmr\n"
        "if TYPE_CHECKING:\n    import e\ndef f():\n    import g\ntry:\n    import h\nexcept ImportError:\n    pass\n"
        "if __name__ == '__main__':\n    import i\nclass C:\n    import j\n",
        encoding="utf-8",
    )
    found = {one.imported: one.at_import for one in imports("retrieval_lab.x", source)}
    hybrid, store, mmr = (f"retrieval_lab.{name}" for name in ("hybrid", "store", "mmr"))
    assert found == dict.fromkeys(["a.b", "c", hybrid, store, mmr, "h", "j"], True) | dict.fromkeys("egi", False)


def test_there_is_something_to_check() -> None:
    assert len(MODULES[CORE]) > 20
    assert len(MODULES[TUI]) > 5
    assert any(one.imported.startswith(CORE + ".") for one in of(TUI))


def test_the_core_imports_nothing_of_the_terminal() -> None:
    assert places([one for one in of(CORE) if top(one.imported) in ("textual", TUI)]) == []


def test_the_explorer_does_not_speak_to_the_database() -> None:
    assert places([one for one in of(TUI) if top(one.imported) in ("psycopg", "psycopg_pool", "pgvector")]) == []


# Statements, not words: the explorer may say "ts_rank_cd" or "select a query" to people.
SQL = re.compile(
    r"\bSELECT\s+\S+|\bINSERT\s+INTO\b|\bUPDATE\s+\S+\s+SET\b|\bDELETE\s+FROM\b|\bSET\s+(LOCAL|search_path)\b"
    r"|\b(CREATE|DROP|ALTER|TRUNCATE)\s+(TABLE|INDEX|SCHEMA|EXTENSION|DATABASE)\b|::(tsquery|vector|regclass)\b"
)


@pytest.mark.parametrize("text", ["SELECT 1", "DELETE FROM x", "UPDATE t SET x = 1", "CREATE INDEX i", "%s::vector"])
def test_the_pattern_for_sql_knows_sql(text: str) -> None:
    assert SQL.search(text)


def test_the_explorer_holds_no_sql() -> None:
    texts = [
        (f"{module}:{node.lineno}", node.value)
        for module, path in MODULES[TUI].items()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    assert len(texts) > 50
    assert [(place, text) for place, text in texts if SQL.search(text)] == []


def test_lower_layers_never_import_higher_ones() -> None:
    # The package itself only hands out names at first use, and a module that is also a command imports it as a script.
    inner = [one for one in of(CORE) if one.at_import and one.imported.startswith(CORE + ".") and one.module != CORE]
    assert len(inner) > 30
    below = len(CORE) + 1
    assert places([one for one in inner if layer(one.imported[below:]) > layer(one.module[below:])]) == []


def test_imports_inside_functions_go_down_as_well() -> None:
    below = len(CORE) + 1
    hidden = [one for one in of(CORE) if not one.at_import and one.imported.startswith(CORE + ".")]
    upward = [one for one in hidden if one.module != CORE and layer(one.imported[below:]) > layer(one.module[below:])]
    # `python -m retrieval_lab.metrics` is part of the contract.
    assert [(one.module, one.imported) for one in upward] == [(f"{CORE}.metrics", f"{CORE}.cli_metrics")]


def test_no_modules_import_each_other_in_a_circle() -> None:
    for package in ROOTS:
        graph: dict[str, set[str]] = {module: set() for module in MODULES[package]}
        for one in of(package):
            if one.at_import and one.imported in graph and one.imported != one.module:
                graph[one.module].add(one.imported)
        assert len(list(TopologicalSorter(graph).static_order())) == len(graph)  # raises CycleError


def test_the_modules_of_the_contract_are_where_the_layers_say() -> None:
    contract = [["types"], ["chunker", "embed", "store", "hybrid", "rerank", "metrics"], ["database"], ["lab"]]
    for number, names in enumerate(contract):
        assert {layer(name) for name in names} == {number}
        assert {f"{CORE}.{name}" for name in names} <= set(MODULES[CORE])


def test_types_and_errors_need_the_standard_library_alone() -> None:
    for one in of(CORE):
        if one.module in (f"{CORE}.types", f"{CORE}.errors") and one.imported != f"{CORE}.errors":
            assert top(one.imported) in sys.stdlib_module_names, places([one])


def test_the_guardian_needs_the_standard_library_alone() -> None:
    for one in of(CORE):
        if one.module.startswith(f"{CORE}.guardian"):
            ours = one.imported.startswith(f"{CORE}.guardian")
            assert ours or top(one.imported) in sys.stdlib_module_names, places([one])


def test_the_command_lines_library_is_used_by_the_command_line_only() -> None:
    users = [one for one in of(CORE) if top(one.imported) in ("typer", "click")]
    assert places([one for one in users if layer(one.module[len(CORE) + 1 :]) < COMMAND_LINE]) == []


def test_extras_are_imported_at_the_moment_of_use_only() -> None:
    assert places([one for one in ALL if one.at_import and top(one.imported) in EXTRAS]) == []


# --- fresh interpreters --------------------------------------------------------------------------------------------


def loaded(*lines: str) -> set[str]:
    """The modules that an interpreter has loaded after these lines."""
    script = "\n".join([*lines, "import json, sys", "print(json.dumps(sorted(sys.modules)))"])
    run = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(json.loads(run.stdout.splitlines()[-1]))


def importable(package: str) -> list[str]:
    return [module for module in MODULES[package] if not module.endswith("__main__")]


def test_importing_the_package_alone_loads_nothing_heavy() -> None:
    names = loaded("import retrieval_lab", "retrieval_lab.__all__")
    assert {name for name in names if top(name) == CORE} == {CORE}
    assert names & {"psycopg", "numpy", "pgvector", "yaml", "typer", "rich", "textual", "platformdirs"} == set()


def test_reading_and_chunking_need_no_driver_and_no_arrays() -> None:
    names = loaded("import retrieval_lab.chunker, retrieval_lab.golden, retrieval_lab.types")
    assert names & {"psycopg", "numpy", "pgvector", "typer", "rich"} == set()


def test_the_names_of_the_package_come_at_first_use() -> None:
    for name in retrieval_lab.__all__:
        assert getattr(retrieval_lab, name).__module__ in loaded(f"from retrieval_lab import {name}")


def test_all_of_the_core_loads_without_the_terminal_and_without_extras() -> None:
    names = loaded(*(f"import {module}" for module in importable(CORE)))
    assert set(importable(CORE)) <= names
    assert {top(name) for name in names} & {"textual", TUI, *EXTRAS} == set()


def test_all_of_the_explorer_loads_without_importing_the_driver_itself() -> None:
    hook = (
        "import builtins, sys",
        "plain, asked = builtins.__import__, []",
        "def watched(name, globals=None, *rest, **more):",
        "    asked.append(((globals or {}).get('__name__') or '', name))",
        "    return plain(name, globals, *rest, **more)",
        "builtins.__import__ = watched",
    )
    check = (
        "bad = [(who, name) for who, name in asked if who.split('.')[0] == 'retrieval_lab_tui'"
        " and name.split('.')[0] in ('psycopg', 'pgvector')]",
        "assert not bad, bad",
        "assert any(who.split('.')[0] == 'retrieval_lab_tui' for who, _ in asked)",
    )
    names = loaded(*hook, *(f"import {module}" for module in importable(TUI)), *check)
    assert set(importable(TUI)) <= names
    assert {top(name) for name in names} & EXTRAS == set()
