"""An ablation from its grid to its folder: what is missing is made, what is there stays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from retrieval_lab.ablation.cell import Cell, Failure, cell_key, labels_hash
from retrieval_lab.ablation.executors import Executor
from retrieval_lab.ablation.folder import Ablation, AblationFolder, Manifest
from retrieval_lab.ablation.grid import Grid
from retrieval_lab.ablation.work import Labs, Outcome, Task, golden_at, keep, one_line
from retrieval_lab.config import Indexing, PipelineConfig
from retrieval_lab.corpus import GOLDEN_FILE, read_corpus
from retrieval_lab.database import Database, configured_dsn
from retrieval_lab.errors import Fault, InputError
from retrieval_lab.evals.runs import hash_of_documents
from retrieval_lab.golden_set import GoldenSet
from retrieval_lab.index import Progress


@dataclass(frozen=True, slots=True)
class Plan:
    """What an ablation is to consist of, and the tasks for those of its cells that are not done.

    `done` are the keys of the others; `renamed` those that another grid had under other names, with the new ones.
    `faults` are those of the files of the corpus that are left out.
    """

    manifest: Manifest
    tasks: tuple[Task, ...]
    done: tuple[str, ...]
    renamed: tuple[tuple[str, Cell], ...]
    faults: tuple[Fault, ...]


class Watch(Protocol):
    """Hears of the work as it goes on."""

    def indexing(self, progress: Progress) -> None:
        """An index is being made."""

    def ended(self, outcome: Outcome) -> None:
        """A cell is done, or has failed."""


def plan(grid: Grid, corpus: Path, folder: AblationFolder, dsn: str | None = None) -> Plan:
    """What of a grid over a corpus is not in the folder yet. No server is asked, and nothing is written.

    Failed cells are tried again, and so are those whose files are broken. Raises InputError when the folder is no
    corpus or has no golden queries, FaultyInput when golden.yaml has faults.
    """
    corpus = corpus.absolute()
    files, golden_set = read_corpus(corpus), GoldenSet.open(corpus / GOLDEN_FILE)
    golden_set.require()
    documents = hash_of_documents(files.documents)
    labels = labels_hash(golden_at(grid.level, golden_set.queries))
    tasks = [
        Task(
            key=cell_key(spec.config, documents, labels),
            name=spec.name,
            corpus=str(corpus),
            config=spec.config.to_dict(),
            dsn=dsn or configured_dsn(),
            level=grid.level,
            documents_hash=documents,
            labels_hash=labels,
        )
        for spec in grid.specs
    ]
    manifest = Manifest(
        name=grid.name,
        corpus=str(corpus),
        keys=tuple(task.key for task in tasks),
        rule=grid.rule,
        left_out=tuple((one.name, one.reason) for one in grid.left_out),
        level=grid.level,
    )
    there = {task.key: cell for task in tasks if (cell := _there(task, folder)) is not None}
    return Plan(
        manifest=manifest,
        tasks=tuple(task for task in tasks if task.key not in there),
        done=tuple(there),
        renamed=tuple(
            (task.key, there[task.key].named(task.name))
            for task in tasks
            if task.key in there and there[task.key].name != task.name
        ),
        faults=files.faults,
    )


def _there(task: Task, folder: AblationFolder) -> Cell | None:
    """The cell of a task if it is there and whole; a broken one is made again."""
    with suppress(InputError):
        return folder.cell(task.key) if folder.has(task.key) else None
    return None


def ablate(plan: Plan, folder: AblationFolder, executor: Executor, watch: Watch) -> Ablation:
    """Make the cells that are missing, and return the ablation; whatever happens, those that are done are kept.

    Each index is made once, before the cells. What goes wrong with one cell is kept as its failure and stops no other.
    Raises InputError when the folder cannot be written, EnvironmentMissing when there is no server or no cluster.
    """
    folder.begin(plan.manifest)
    for key, cell in plan.renamed:
        folder.keep(key, cell)
    if plan.tasks:
        # The embedded server stays up for as long as the database is open, whatever becomes of other processes.
        with executor, Database.open(plan.tasks[0].dsn), Labs() as labs:
            ready: list[Task] = []
            for task, failure in _indexed(plan.tasks, labs, watch.indexing):
                if failure is None:
                    ready.append(task)
                else:
                    watch.ended(keep(task, failure, folder))
            with closing(executor.outcomes(ready, folder, labs)) as outcomes:
                for outcome in outcomes:
                    watch.ended(outcome)
    return folder.load()


def _indexed(
    tasks: Sequence[Task], labs: Labs, hear: Callable[[Progress], None]
) -> Iterator[tuple[Task, Failure | None]]:
    """The tasks, those of one index after another, once it is there, or with the reason why it is not."""
    by_index: dict[Indexing, list[Task]] = {}
    for task in tasks:
        by_index.setdefault(PipelineConfig.from_dict(task.config).indexing, []).append(task)
    for group in by_index.values():
        config = PipelineConfig.from_dict(group[0].config)
        try:
            seconds = labs.opened(group[0].corpus, config, group[0].dsn, hear).index_seconds
        except Exception as error:  # noqa: BLE001 - whatever it is, other indexes can be made
            failed = one_line(error)
            yield from ((one, Failure(one.name, PipelineConfig.from_dict(one.config), failed)) for one in group)
        else:
            yield from ((replace(one, index_seconds=seconds), None) for one in group)
