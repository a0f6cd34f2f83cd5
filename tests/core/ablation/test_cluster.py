"""A Dask cluster in the place of this process: the same numbers, and what it lacks told in one line."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from retrieval_lab import cli
from retrieval_lab.ablation import cluster, work
from retrieval_lab.ablation.cell import Failure
from retrieval_lab.ablation.executors import executor_of
from retrieval_lab.config import PipelineConfig
from tests.core.ablation.made_cells import CELLS, GRID, Heard, made, planned, timeless
from tests.core.evals.test_runs import make_corpus

pytestmark = pytest.mark.usefixtures("database")

FAILING = "retrievers: [{text: }]\nreranker: [none, {kind: cross-encoder, model_path: /nowhere}]\nmmr_lambda: [null]\n"


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return make_corpus(tmp_path / "kitchen")


def local_cluster(**options: Any) -> Any:
    distributed = pytest.importorskip("distributed")
    return distributed.LocalCluster(
        host="127.0.0.1", protocol="tcp://", dashboard_address="127.0.0.1:0", processes=False, **options
    )


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with local_cluster(n_workers=1, threads_per_worker=2) as found:
        yield found.scheduler_address.replace("tcp://", "dask://")


def test_a_cluster_gives_the_numbers_of_this_process(corpus: Path, tmp_path: Path, address: str) -> None:
    heard = Heard()
    far = made(corpus, tmp_path / "far", executor=executor_of(address, None), heard=heard)
    near = made(corpus, tmp_path / "near")
    assert sorted(heard.names) == sorted(CELLS)
    assert [cell.name for cell in far.cells] == CELLS
    assert timeless(far.cells) == timeless(near.cells)
    assert {cell.processes for cell in far.cells} == {2}
    assert {cell.index_seconds is None for cell in far.cells} == {False}
    assert work._batches == {}  # its labs are closed, though the worker lives on


def test_a_cell_that_fails_on_a_cluster_stops_no_other(corpus: Path, tmp_path: Path, address: str) -> None:
    found = made(corpus, tmp_path / "out", FAILING, executor_of(address, None))
    assert [cell.name for cell in found.cells] == ["no reranker"]
    assert "/nowhere" in found.failures[0].error


def test_a_worker_that_dies_is_a_failure_of_its_cell(corpus: Path, tmp_path: Path) -> None:
    class Dead:
        """As a future is whose worker died too often."""

        def exception(self) -> Exception:
            return RuntimeError("died\nagain and again")

    task = planned(corpus, tmp_path / "out").tasks[0]
    assert cluster.made_of(Dead(), task) == Failure(
        CELLS[0], PipelineConfig.from_dict(task.config), "RuntimeError: died; again and again"
    )


def ablate(corpus: Path, capsys: pytest.CaptureFixture[str], address: str) -> tuple[int, str]:
    grid = corpus.parent / "grid.yaml"
    grid.write_text(GRID, encoding="utf-8")
    out = corpus.parent / "out"
    code = cli.main(["ablate", str(grid), str(corpus), "--out", str(out), "--executor", address])
    return code, capsys.readouterr().err


def test_an_address_where_nobody_answers_is_told_in_one_line(
    corpus: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "_CONNECT_SECONDS", 0.3)
    code, err = ablate(corpus, capsys, "dask://127.0.0.1:1")
    assert code == 3
    assert err.startswith("error: no Dask scheduler answers at 127.0.0.1:1 (")
    assert err.endswith("start one with: dask scheduler\n")
    assert len(err.splitlines()) == 1


def test_a_cluster_without_workers_is_told(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with local_cluster(n_workers=0) as found:
        code, err = ablate(corpus, capsys, found.scheduler_address.replace("tcp://", "dask://"))
    assert code == 3
    assert "has no workers; start one with: dask worker 127.0.0.1:" in err


def test_a_missing_extra_is_named(
    corpus: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    code, err = ablate(corpus, capsys, "dask://127.0.0.1:1")
    assert code == 3
    assert "pip install 'retrieval-lab[cluster]'" in err
    assert len(err.splitlines()) == 1
