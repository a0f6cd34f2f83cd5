"""The index in memory: made once, kept in a folder, in step with the table, and no more than a saving of time."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from retrieval_lab import Lab, PipelineConfig
from retrieval_lab.database import Database
from retrieval_lab.errors import EnvironmentMissing
from retrieval_lab.paths import index_folder, indexes_folder
from retrieval_lab.retrievers.bm25 import Bm25Search
from retrieval_lab.retrievers.dense import FlatSearch
from retrieval_lab.settings import NoReranker
from tests.core.memory import ids_of
from tests.core.ragindex import plain

Connection = psycopg.Connection[Any]

CONFIG = PipelineConfig(retrievers=(Bm25Search(), FlatSearch()), reranker=NoReranker(), mmr_lambda=None)
FILES = ("meta.json", "docs.jsonl", "vectors.f32", "bm25.idx")


@pytest.fixture
def corpus(tmp_path: Path, database: Database) -> Path:  # noqa: ARG001 - keeps the server up
    (tmp_path / "docs").mkdir()
    for name, text in (("bread", "Bake the loaf."), ("tea", "Pour the tea."), ("ships", "Sail to the harbour.")):
        write(tmp_path, name, text)
    return tmp_path


def write(corpus: Path, name: str, text: str) -> None:
    (corpus / "docs" / f"{name}.md").write_text(f"# {name.title()}\n\n{text}\n", encoding="utf-8")


def found(lab: Lab, query: str, name: str = "bm25") -> list[str]:
    return ids_of(lab.trace(query).lists[name])


# --- kept ----------------------------------------------------------------------------------------------------------


def test_it_is_made_once_and_kept_in_the_data_directory(corpus: Path, builds: list[str]) -> None:
    with Lab.open(corpus, CONFIG) as lab:
        folder = index_folder(lab.schema)
        assert not folder.exists()
        assert found(lab, "loaf") == ["bread#000"]
        assert sorted(one.name for one in folder.iterdir()) == sorted(FILES)
        for query in ("tea", "harbour"):
            lab.trace(query)
            lab.explain(query, "tea#000")
        assert lab.work(lambda bench: bench.surroundings().corpus_index().chunk_ids) == (
            "bread#000",
            "ships#000",
            "tea#000",
        )
        assert len(builds) == 1
    assert folder.parent == indexes_folder()
    assert (folder / "bm25.idx").read_bytes() == plain.bm25_file(
        ["# Bread\n\nBake the loaf.", "# Ships\n\nSail to the harbour.", "# Tea\n\nPour the tea."]
    )


def test_another_lab_opens_it(corpus: Path, builds: list[str]) -> None:
    with Lab.open(corpus, CONFIG) as lab:
        before = lab.trace("pour the tea")
    with Lab.open(corpus, CONFIG) as again:
        after = again.trace("pour the tea")
    assert (after.lists, after.fused) == (before.lists, before.fused)
    assert len(builds) == 1


SCRIPT = """
import json, sys
from retrieval_lab import Lab, corpus_index
from tests.core.test_corpus_index import CONFIG, found

def never(*_):
    raise AssertionError("made anew")

corpus_index.index_of_table = never
with Lab.open(sys.argv[1], CONFIG) as lab:
    print(json.dumps(found(lab, "sail to tea")))
"""


def test_another_process_opens_it(corpus: Path) -> None:
    with Lab.open(corpus, CONFIG) as lab:
        wanted = found(lab, "sail to tea")
    root = Path(__file__).resolve().parents[2]
    paths = [str(root), *sys.path]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(corpus)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == wanted
    assert len(wanted) == 2


# --- in step -------------------------------------------------------------------------------------------------------


def change(corpus: Path) -> None:
    write(corpus, "tea", "Pour the cocoa.")


def add(corpus: Path) -> None:
    write(corpus, "cocoa", "Stir the cocoa.")


def remove(corpus: Path) -> None:
    (corpus / "docs" / "tea.md").unlink()


CHANGES: list[tuple[Callable[[Path], None], list[str], list[str]]] = [
    (change, ["tea#000"], ["tea#000"]),
    (add, ["cocoa#000"], ["tea#000"]),
    (remove, [], []),
]


@pytest.mark.parametrize(("change", "cocoa", "tea"), CHANGES, ids=["changed", "added", "gone"])
def test_it_is_made_again_when_a_document_changes(
    corpus: Path, builds: list[str], change: Callable[[Path], None], cocoa: list[str], tea: list[str]
) -> None:
    with Lab.open(corpus, CONFIG) as lab:
        assert found(lab, "cocoa") == []
        assert found(lab, "tea") == ["tea#000"]  # its heading is of the word, too
    change(corpus)
    for _ in range(2):
        with Lab.open(corpus, CONFIG) as lab:
            assert (found(lab, "cocoa"), found(lab, "tea")) == (cocoa, tea)
            assert len(ids_of(lab.trace("tea").lists["flat"])) == len(list((corpus / "docs").iterdir()))
    assert len(builds) == 2


@pytest.mark.parametrize(("change", "cocoa", "tea"), CHANGES, ids=["changed", "added", "gone"])
def test_an_open_lab_follows_when_another_indexes(
    corpus: Path, builds: list[str], change: Callable[[Path], None], cocoa: list[str], tea: list[str]
) -> None:
    with Lab.open(corpus, CONFIG) as lab:
        assert (found(lab, "cocoa"), found(lab, "tea")) == ([], ["tea#000"])
        change(corpus)
        with Lab.open(corpus, CONFIG) as other:
            assert (found(lab, "cocoa"), found(lab, "tea")) == (cocoa, tea)
            assert (found(other, "cocoa"), found(other, "tea")) == (cocoa, tea)
    assert len(builds) == 2


def test_a_schema_that_was_dropped_is_told_as_for_other_lists(corpus: Path, database: Database) -> None:
    with Lab.open(corpus, CONFIG) as lab, database.connect() as conn:
        assert found(lab, "tea") == ["tea#000"]
        conn.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(lab.schema)))
        with pytest.raises(EnvironmentMissing, match="open the corpus again"):
            lab.trace("tea")


# --- damage --------------------------------------------------------------------------------------------------------


def truncated(folder: Path) -> None:
    for name in FILES:
        data = (folder / name).read_bytes()
        (folder / name).write_bytes(data[: len(data) // 2])


def without_a_file(folder: Path) -> None:
    (folder / "bm25.idx").unlink()


def of_another_time(folder: Path) -> None:
    """Whole, but of a table that is no longer so."""
    meta = json.loads((folder / "meta.json").read_bytes())
    (folder / "meta.json").write_text(json.dumps({**meta, "stamp": "1 0123"}))


def empty(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


@pytest.mark.parametrize("damage", [truncated, without_a_file, of_another_time, empty])
def test_a_damaged_folder_is_made_anew(corpus: Path, builds: list[str], damage: Callable[[Path], None]) -> None:
    for _ in range(2):
        with Lab.open(corpus, CONFIG) as lab:
            assert found(lab, "tea") == ["tea#000"]
            if len(builds) == 1:
                damage(index_folder(lab.schema))
    with Lab.open(corpus, CONFIG) as lab:
        assert found(lab, "tea") == ["tea#000"]
    assert len(builds) == 2


@pytest.mark.parametrize("name", FILES)
def test_no_truncation_is_taken_for_an_index(corpus: Path, builds: list[str], name: str) -> None:
    with Lab.open(corpus, CONFIG) as lab:
        wanted = found(lab, "sail to tea")
        file = index_folder(lab.schema) / name
    whole = file.read_bytes()
    for size in range(0, len(whole), max(1, len(whole) // 5)):
        file.write_bytes(whole[:size])
        before = len(builds)
        with Lab.open(corpus, CONFIG) as lab:
            assert found(lab, "sail to tea") == wanted
        assert len(builds) == before + 1
        whole = file.read_bytes()


def a_file_in_its_place(folder: Path) -> None:
    folder.parent.mkdir(exist_ok=True)
    folder.write_text("no folder")


def another_file_in_it(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "letter.txt").write_text("not to be lost")


@pytest.mark.parametrize("prepare", [a_file_in_its_place, another_file_in_it])
def test_a_place_that_cannot_be_written_costs_time_alone(
    corpus: Path, builds: list[str], prepare: Callable[[Path], None]
) -> None:
    for opened in (1, 2):
        with Lab.open(corpus, CONFIG) as lab:
            folder = index_folder(lab.schema)
            if not folder.exists():
                prepare(folder)
            assert found(lab, "tea") == ["tea#000"]
            assert found(lab, "loaf") == ["bread#000"]
        assert len(builds) == opened
    left = folder / "letter.txt" if folder.is_dir() else folder
    assert left.read_text() in ("not to be lost", "no folder")
