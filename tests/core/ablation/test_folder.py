"""Cells, failures and manifests: read back as they were, whole or not at all, and files that are none."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from retrieval_lab.ablation.cell import Cell, Failure, cell_key, labels_hash
from retrieval_lab.ablation.folder import AblationFolder, Manifest, ablation_folders, ablation_path
from retrieval_lab.ablation.rule import Rule
from retrieval_lab.config import PipelineConfig
from retrieval_lab.errors import InputError
from retrieval_lab.settings import ModelReranker, NoReranker
from retrieval_lab.types import GoldenQuery
from tests.core.evals.made import CONFIG, ranked

CELL = Cell(name="ours", run=ranked("ours", 1, None), index_seconds=1.5, memory=80_000_000, processes=2)
FAILURE = Failure("theirs", PipelineConfig(reranker=ModelReranker()), "no model")
MANIFEST = Manifest(
    name="grid",
    corpus="/some/where",
    keys=("k1", "k2", "k3"),
    rule=Rule("mrr@2", "hit@2", 0.5, 10.0),
    left_out=(("a", "b"),),
    level="document",
)


@pytest.fixture
def folder(tmp_path: Path) -> AblationFolder:
    made = AblationFolder(tmp_path / "one")
    made.begin(MANIFEST)
    made.keep("k1", CELL)
    made.keep("k2", FAILURE)
    return made


def test_what_is_kept_is_read_back(folder: AblationFolder) -> None:
    found = folder.load()
    assert found.manifest == MANIFEST
    assert found.cells == (CELL,)
    assert found.failures == (FAILURE,)
    assert found.pending == 1
    assert Cell.from_dict(json.loads(json.dumps(replace(CELL, index_seconds=None).to_dict()))).index_seconds is None


def test_a_cell_of_an_older_version_was_made_alone() -> None:
    document = CELL.to_dict()
    del document["processes"]
    assert Cell.from_dict(document).processes == 1


def test_cells_come_in_the_order_of_the_grid_and_others_are_not_read(folder: AblationFolder) -> None:
    folder.keep("k3", replace(CELL, name="last"))
    folder.keep("of another grid", replace(CELL, name="other"))
    folder.begin(replace(MANIFEST, keys=("k3", "k1")))
    assert [cell.name for cell in folder.load().cells] == ["last", "ours"]


def test_a_cell_takes_the_place_of_its_failure_but_not_the_other_way(folder: AblationFolder) -> None:
    folder.keep("k2", replace(CELL, name="theirs"))
    assert (len(folder.load().cells), folder.load().failures) == (2, ())
    assert list((folder.path / "failed").iterdir()) == []
    folder.keep("k2", FAILURE)
    assert (len(folder.load().cells), folder.load().failures) == (2, ())


def test_a_new_name_reaches_the_run(folder: AblationFolder) -> None:
    folder.keep("k1", CELL.named("better"))
    (cell,) = folder.load().cells
    assert (cell.name, cell.run.name, cell.run.queries) == ("better", "better", CELL.run.queries)


def test_a_write_that_fails_leaves_what_was_there(folder: AblationFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(InputError, match=r"k1\.json: cannot be written: No space left"):
        folder.keep("k1", replace(CELL, name="new"))
    monkeypatch.undo()
    assert folder.load().cells == (CELL,)
    assert [path.name for path in (folder.path / "cells").iterdir()] == ["k1.json"]


def changed(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    document = json.loads(path.read_text(encoding="utf-8"))
    change(document)
    path.write_text(json.dumps(document), encoding="utf-8")


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        (
            "cells/k1.json",
            lambda d: d.update(format=9),
            "this is no cell of format 1: its format is 9; delete the file",
        ),
        ("cells/k1.json", lambda d: d.update(memory=-1), "this cell is broken: memory is -1"),
        ("cells/k1.json", lambda d: d.update(index_seconds="x"), "broken: index_seconds is 'x'; expected a number"),
        ("cells/k1.json", lambda d: d["run"]["queries"][0].pop("kind"), r"broken: .*queries\[0\].kind is missing"),
        ("failed/k2.json", lambda d: d["config"].update(top_k=0), "this failure is broken: .*top_k is 0"),
        ("ablation.json", lambda d: d.pop("keys"), "this ablation is broken: keys is missing"),
        ("ablation.json", lambda d: d["rule"].update(target={}), "rule.target names 0 measures; expected one"),
        ("ablation.json", lambda d: d["rule"].update(target={"a": "b"}), "rule.target.a is 'b'; expected a number"),
        ("ablation.json", lambda d: d.update(left_out=[{"name": "x"}]), r"left_out\[0\].reason is missing"),
    ],
)
def test_a_broken_file_is_told_in_one_line(
    folder: AblationFolder, file: str, change: Callable[[dict[str, Any]], object], message: str
) -> None:
    changed(folder.path / file, change)
    with pytest.raises(InputError, match=message) as caught:
        folder.load()
    assert len(str(caught.value).splitlines()) == 1


def test_half_a_file_is_told_with_its_path(folder: AblationFolder) -> None:
    path = folder.path / "cells" / "k1.json"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(InputError, match=r"cells/k1\.json:\d+: not JSON, or only the beginning.*; delete the file"):
        folder.load()


def test_where_there_is_none_the_command_that_makes_one_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no ablation is kept here; `retrieval-lab ablate GRID` makes one"):
        AblationFolder(tmp_path).load()


def test_the_ablations_of_a_corpus_are_found(tmp_path: Path) -> None:
    assert list(ablation_folders(tmp_path)) == []
    for name in ("b", "a"):
        AblationFolder(ablation_path(name, tmp_path)).begin(MANIFEST)
    (tmp_path / "ablations" / "empty").mkdir()
    assert [path.name for path in ablation_folders(tmp_path)] == ["a", "b"]


# --- keys ----------------------------------------------------------------------------------------------------------


def test_a_key_depends_on_all_that_the_numbers_depend_on(tmp_path: Path) -> None:
    keys = {
        cell_key(CONFIG, "d", "g"),
        cell_key(PipelineConfig(top_k=2, reranker=NoReranker(), mmr_lambda=None), "d", "g"),
        cell_key(CONFIG, "e", "g"),
        cell_key(CONFIG, "d", "h"),
    }
    assert len(keys) == 4
    assert cell_key(PipelineConfig(top_k=2), "d", "g") in keys
    local = PipelineConfig(reranker=ModelReranker(model_path=str(tmp_path)))
    assert cell_key(local, "d", "g") == cell_key(local, "d", "g")  # of files that are not there yet, too


def test_labels_are_told_apart_with_their_splits_and_fields_but_not_by_their_order() -> None:
    one, two = (GoldenQuery(name, "what", "k", "doc", "anchor") for name in ("q1", "q2"))
    assert labels_hash([one, two]) == labels_hash([two, one])
    for change in ({"anchor": "other"}, {"split": "dev"}, {"fields": (("day", "1"),)}, {"kind": "other"}):
        assert labels_hash([replace(one, **change), two]) != labels_hash([one, two]), change  # type: ignore[arg-type]
