"""Ablations from beginning to end: their numbers, what is done again, what fails, and what they say of time."""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Hashable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from retrieval_lab import Lab
from retrieval_lab.ablation import executors
from retrieval_lab.ablation.executors import LocalExecutor, executor_of
from retrieval_lab.ablation.folder import AblationFolder
from retrieval_lab.ablation.pool import pooled
from retrieval_lab.ablation.run import ablate
from retrieval_lab.ablation.work import Labs, Outcome, Task, keep, work
from retrieval_lab.corpus_index import CorpusIndex
from retrieval_lab.errors import FaultyInput, InputError
from retrieval_lab.evals.runs import run
from retrieval_lab.evals.summary import latency
from tests.core.ablation.made_cells import CELLS, GRID, Heard, made, planned, timeless
from tests.core.evals.test_runs import make_corpus

pytestmark = pytest.mark.usefixtures("database")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return make_corpus(tmp_path / "kitchen")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def files(folder: Path) -> dict[str, tuple[int, int]]:
    """The inode and the time of each cell's file."""
    return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in (folder / "cells").iterdir()}


# --- the numbers ---------------------------------------------------------------------------------------------------


def test_a_cell_has_what_a_run_of_its_configuration_has(corpus: Path, out: Path) -> None:
    (corpus / "docs" / "broken.md").write_bytes(b"\xff\xff")
    (corpus / "docs" / "endless.md").write_text(" ".join(f"word{n}" for n in range(120_000)), encoding="utf-8")
    found = made(corpus, out)
    assert [cell.name for cell in found.cells] == CELLS
    assert [cell.run.name for cell in found.cells] == CELLS
    assert (found.failures, found.pending) == ((), 0)
    assert {cell.run.corpus.documents for cell in found.cells} == {3}
    with Lab.open(corpus) as lab:
        for cell in found.cells:
            alone = replace(run(lab, cell.config), name=cell.name)
            assert timeless([replace(cell, run=alone)]) == timeless([cell])


def test_labels_of_chunks_count_as_labels_of_their_documents_where_cells_cut_differently(
    corpus: Path, out: Path
) -> None:
    grid = "chunker: [{kind: words, size: 3, overlap: 1}, documents]\nreranker: [none]\n"
    found = made(corpus, out, grid)
    assert found.manifest.level == "document"
    for cell in found.cells:
        with Lab.open(corpus, cell.config) as lab:
            for record, query in zip(cell.run.queries, lab.golden, strict=True):
                assert (record.level, record.grades) == ("document", {query.doc_id: 1})
                pool = lab.trace(query.query, replace(cell.config, top_k=50)).final
                documents = list(dict.fromkeys(row.chunk_id.partition("#")[0] for row in pool))[:10]
                rank = documents.index(query.doc_id) + 1 if query.doc_id in documents else None
                assert record.measures["recall@10"] == (1.0 if rank else 0.0)
                assert record.measures["mrr@10"] == pytest.approx(1 / rank if rank else 0.0)
                assert record.measures["ndcg@10"] == pytest.approx(1 / math.log2(rank + 1) if rank else 0.0)
    # The anchor of q3 is in no chunk, but its document is there.
    assert all(cell.run.queries[2].undefined is None for cell in found.cells)


def test_the_order_of_work_and_the_number_of_processes_change_no_number(
    corpus: Path, out: Path, tmp_path: Path
) -> None:
    first = made(corpus, out)
    again = planned(corpus, tmp_path / "again")
    backwards = replace(again, tasks=again.tasks[::-1])
    heard = Heard()
    second = ablate(backwards, AblationFolder(tmp_path / "again"), LocalExecutor(1), heard)
    assert heard.names == CELLS[::-1]
    folder = AblationFolder(tmp_path / "pool")
    todo = planned(corpus, folder.path)
    folder.begin(todo.manifest)
    assert sorted(one.task.name for one in pooled(todo.tasks, folder, 2)) == sorted(CELLS)
    third = folder.load()
    assert [cell.name for cell in second.cells] == [cell.name for cell in third.cells] == CELLS
    assert timeless(first.cells) == timeless(second.cells) == timeless(third.cells)
    assert {cell.processes for cell in first.cells} == {1}
    assert {cell.processes for cell in third.cells} == {2}


# --- what is done again --------------------------------------------------------------------------------------------


def test_a_second_run_asks_no_server_and_touches_no_cell(
    corpus: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, before = made(corpus, out), files(out)
    monkeypatch.setenv("RETRIEVAL_LAB_DSN", "postgresql://127.0.0.1:1/nothing")
    heard = Heard()
    assert made(corpus, out, heard=heard) == first
    assert (heard.outcomes, files(out)) == ([], before)


def test_a_grid_that_grew_costs_what_is_new(corpus: Path, out: Path) -> None:
    made(corpus, out)
    before, heard = files(out), Heard()
    found = made(corpus, out, GRID.replace("[null]", "[null, 0.5]"), heard=heard)
    assert heard.names == ["text · lexical · MMR 0.5", "vector+text · lexical · MMR 0.5"]
    assert len(found.cells) == 6
    # The four have other names now, since they tell of MMR, but nobody asked their questions again.
    assert [cell.name for cell in found.cells][:2] == ["text · no reranker · no MMR", "text · lexical · no MMR"]
    assert files(out).keys() > before.keys()


def test_other_labels_or_documents_are_other_cells(corpus: Path, out: Path) -> None:
    made(corpus, out)
    golden = corpus / "golden.yaml"
    golden.write_text(golden.read_text(encoding="utf-8").replace("milk, kind", "steep, kind"), encoding="utf-8")
    assert len(planned(corpus, out).tasks) == 4
    made(corpus, out)
    assert planned(corpus, out).tasks == ()
    (corpus / "docs" / "rice.md").write_text("# rice\n\nWash it.\n", encoding="utf-8")
    assert len(planned(corpus, out).tasks) == 4


def test_a_broken_cell_is_made_again(corpus: Path, out: Path) -> None:
    first = made(corpus, out)
    broken = sorted((out / "cells").iterdir())[1]
    broken.write_text("{", encoding="utf-8")
    heard = Heard()
    second = made(corpus, out, heard=heard)
    assert len(heard.outcomes) == 1
    assert timeless(second.cells) == timeless(first.cells)


def test_what_changes_meanwhile_is_a_failure_not_a_mixture(corpus: Path, out: Path) -> None:
    todo = planned(corpus, out)
    (corpus / "docs" / "rice.md").write_text("# rice\n\nWash it.\n", encoding="utf-8")
    found = ablate(todo, AblationFolder(out), LocalExecutor(1), Heard())
    assert {one.error for one in found.failures} == {"the corpus changed while the ablation ran; run it again"}
    todo = planned(corpus, out)
    (corpus / "golden.yaml").write_text("- {query_id: q, query: a, kind: k, doc_id: tea, anchor: it}\n", "utf-8")
    found = ablate(todo, AblationFolder(out), LocalExecutor(1), Heard())
    assert {one.error for one in found.failures} == {"golden.yaml changed while the ablation ran; run it again"}
    assert len(made(corpus, out).cells) == 4


# --- what fails ----------------------------------------------------------------------------------------------------


def test_cells_that_fail_are_told_and_stop_no_other(corpus: Path, out: Path) -> None:
    grid = """
retrievers: [{vector: }]
embedder: [hash, {kind: fastembed, model_path: /nowhere/embedder}]
reranker: [lexical, {kind: cross-encoder, model_path: /nowhere/reranker}]
mmr_lambda: [null]
"""
    heard = Heard()
    found = made(corpus, out, grid, heard=heard)
    assert [cell.name for cell in found.cells] == ["hash · lexical"]
    errors = {one.name.partition(" · ")[0]: one.error for one in found.failures}
    assert [one.name.count("/nowhere/embedder") for one in found.failures] == [0, 1, 1]
    assert "/nowhere/reranker" in errors["hash"]
    assert all("/nowhere/embedder" in one.error for one in found.failures[1:])
    assert all("\n" not in one.error for one in found.failures)
    assert sum(outcome.error is None for outcome in heard.outcomes) == 1
    again = Heard()
    assert len(made(corpus, out, grid, heard=again).failures) == 3
    assert len(again.outcomes) == 3  # failed cells are tried again


def test_what_no_error_of_ours_foresees_is_a_failure_too(
    corpus: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("division\nby zero")

    with monkeypatch.context() as patch:
        patch.setattr("retrieval_lab.ablation.work.run", broken)
        found = made(corpus, out)
    assert {one.error for one in found.failures} == {"ZeroDivisionError: division; by zero"}
    assert len(made(corpus, out).cells) == 4
    assert list((out / "failed").iterdir()) == []


def test_a_process_that_is_killed_costs_the_cell_that_it_was_at(corpus: Path, out: Path) -> None:
    grid = "retrievers: [{text: }]\nreranker: [lexical]\nmmr_lambda: [null, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6]\n"
    todo, folder = planned(corpus, out, grid), AblationFolder(out)
    folder.begin(todo.manifest)
    outcomes = pooled(todo.tasks, folder, 1)
    assert next(outcomes).error is None
    (worker,) = multiprocessing.active_children()
    os.kill(worker.pid or 0, signal.SIGKILL)
    errors = [outcome.error for outcome in outcomes]
    assert len(errors) == 6
    (error,) = [one for one in errors if one]
    assert error == "the process that made it was ended by SIGKILL; perhaps memory ran out: try fewer --jobs"
    found = folder.load()
    assert (len(found.cells), len(found.failures), found.pending) == (6, 1, 0)
    assert multiprocessing.active_children() == []


def test_no_process_is_left_when_nobody_waits_any_more(corpus: Path, out: Path) -> None:
    todo, folder = planned(corpus, out), AblationFolder(out)
    outcomes = pooled(todo.tasks, folder, 1)
    next(outcomes)
    assert multiprocessing.active_children()
    outcomes.close()
    assert multiprocessing.active_children() == []


def test_a_folder_that_cannot_be_written_stops_the_work(corpus: Path, out: Path) -> None:
    out.mkdir()
    (out / "cells").touch()
    todo, folder = planned(corpus, out), AblationFolder(out)
    for outcomes in (pooled(todo.tasks, folder, 1), LocalExecutor(1).outcomes(todo.tasks, folder, Labs())):
        with pytest.raises(InputError, match="cannot be written"):
            list(outcomes)
    assert multiprocessing.active_children() == []


def test_a_golden_set_that_is_missing_or_faulty_is_told_before_any_work(corpus: Path, out: Path) -> None:
    (corpus / "golden.yaml").write_text("- {query_id: 1}\n", encoding="utf-8")
    with pytest.raises(FaultyInput, match=r"golden\.yaml:1"):
        planned(corpus, out)
    (corpus / "golden.yaml").unlink()
    with pytest.raises(InputError, match="no golden queries"):
        planned(corpus, out)
    assert not out.exists()


# --- time and memory -----------------------------------------------------------------------------------------------


def test_the_time_of_an_index_is_that_of_the_run_which_made_it(corpus: Path, out: Path) -> None:
    grid = "embedder: [hash, {kind: hash, dims: 64}]\nreranker: [none, lexical]\nmmr_lambda: [null]\n"
    heard = Heard()
    seconds = [cell.index_seconds for cell in made(corpus, out, grid, heard=heard).cells]
    assert all(one is not None and 0 < one < 30 for one in seconds)
    assert seconds[0] == seconds[1] != seconds[2] == seconds[3]
    assert {one.doc_id for one in heard.indexed} == {None, "bread", "soup", "tea"}
    grid = grid.replace("[none, lexical]", "[none, lexical, {kind: lexical, k1: 2.0}]")
    seconds = [cell.index_seconds for cell in made(corpus, out, grid).cells]
    assert [one is None for one in seconds] == [False, False, True] * 2


def test_what_is_fitted_once_counts_in_no_latency(corpus: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    once = CorpusIndex.once

    def slowly(self: CorpusIndex, key: Hashable, make: Callable[[], Any]) -> Any:
        def slow() -> Any:
            time.sleep(0.5)
            return make()

        return once(self, key, slow)

    monkeypatch.setattr(CorpusIndex, "once", slowly)
    began = time.perf_counter()
    found = made(corpus, out, "retrievers: [{lsa: {dims: 1}}]\nreranker: [none]\n")
    assert time.perf_counter() - began > 0.5
    (cell,) = found.cells
    assert latency(cell.run).p95 < 0.4


def test_memory_is_in_bytes(corpus: Path, out: Path) -> None:
    memory = [cell.memory for cell in made(corpus, out).cells]
    assert memory == sorted(memory)
    with Path("/proc/self/status").open(encoding="utf-8") as status:
        (peak,) = [int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM")]
    assert memory[-1] == pytest.approx(peak, rel=0.05)


# --- where the work is done ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("clock", "jobs", "alone"),
    [
        ([0, 2, 4, 6, 8, 10], 1, 6),
        ([0, 2], 2, 1),  # 10 s are left, of which two processes save 5
        ([0, 0.3, 0.6, 0.9, 1.2, 1.5], 2, 6),  # 1.5 s are left, of which they save 0.75
        ([0, 0.3], 4, 1),  # and four 1.1
        ([0, 0.3, 4], 2, 2),  # the second cell says that 8 s are left
    ],
)
def test_processes_are_started_once_they_save_more_than_the_second_that_they_cost(
    out: Path, monkeypatch: pytest.MonkeyPatch, clock: list[float], jobs: int, alone: int
) -> None:
    times = iter(clock)
    monkeypatch.setattr(executors, "perf_counter", lambda: next(times))
    monkeypatch.setattr(executors, "work", lambda task, _labs: task)
    monkeypatch.setattr(executors, "keep", lambda task, _made, _folder: Outcome(task, "alone"))
    given: list[tuple[int, int]] = []

    def pool(tasks: list[Task], _folder: AblationFolder, number: int) -> Iterator[Outcome]:
        given.append((len(tasks), number))
        return iter([Outcome(task, "in the pool") for task in tasks])

    monkeypatch.setattr(executors, "pooled", pool)
    tasks: Any = [f"task {number}" for number in range(6)]
    found = list(LocalExecutor(jobs).outcomes(tasks, AblationFolder(out), Labs()))
    assert [one.task for one in found] == tasks
    assert [one.error for one in found].count("alone") == alone
    assert given == ([(6 - alone, min(jobs, 6 - alone))] if alone < 6 else [])


@pytest.mark.parametrize(("load", "idle"), [(0.0, 4), (1.2, 4), (2.2, 3), (3.9, 1), (40.0, 1)])
def test_processors_that_others_use_are_not_idle(monkeypatch: pytest.MonkeyPatch, load: float, idle: int) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3}, raising=False)
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 9.0, 9.0))
    assert executors.idle_processors() == idle


def test_an_executor_is_named_by_its_address() -> None:
    assert isinstance(executor_of(None, 3), LocalExecutor)
    for address in ("tcp://127.0.0.1:1", "dask://", "127.0.0.1:1"):
        with pytest.raises(InputError, match=r"expected the address of a Dask scheduler: dask://HOST:PORT"):
            executor_of(address, None)
    with pytest.raises(InputError, match="--jobs has no effect with --executor"):
        executor_of("dask://127.0.0.1:1", 2)


def test_a_task_is_plain_values(corpus: Path, out: Path) -> None:
    task = planned(corpus, out).tasks[0]
    assert Task(**json.loads(json.dumps(asdict(task)))) == task
    with Labs() as labs:
        outcome = keep(task, work(task, labs), AblationFolder(out))
    assert outcome == Outcome(task, None)
