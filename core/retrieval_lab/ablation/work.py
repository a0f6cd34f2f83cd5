"""One cell made in this process, with the labs that the cells of a process share."""

from __future__ import annotations

import resource
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from retrieval_lab.ablation.cell import Cell, Failure, labels_hash
from retrieval_lab.ablation.folder import AblationFolder
from retrieval_lab.config import PipelineConfig
from retrieval_lab.corpus import read_corpus
from retrieval_lab.errors import InputError, LabError
from retrieval_lab.evals.runs import Searched, hash_of_documents, run
from retrieval_lab.index import Progress
from retrieval_lab.lab import Lab
from retrieval_lab.types import GoldenQuery

_RSS_UNIT = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes, Linux KiB

DOCUMENT = "document"


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A cell to be made, in plain values: all that another process needs to know, on this machine or another.

    `config` is what `PipelineConfig.to_dict` gives. `documents_hash` and `labels_hash` are those that the key was made
    of. `index_seconds` is how long its index took where that was made for it. `processes` is how many cells are worked
    on at once, `batch` names the tasks that are handed out together.
    """

    key: str
    name: str
    corpus: str
    config: Mapping[str, Any]
    dsn: str | None
    level: str
    documents_hash: str
    labels_hash: str
    index_seconds: float | None = None
    processes: int = 1
    batch: str = ""


def golden_at(level: str, golden: Iterable[GoldenQuery]) -> tuple[GoldenQuery, ...]:
    """The queries with labels at this level: at `document`, an anchor counts as a label of its document."""
    return tuple(_of_document(query) if level == DOCUMENT and query.anchor else query for query in golden)


def _of_document(query: GoldenQuery) -> GoldenQuery:
    return replace(query, doc_id="", anchor="", relevant=((query.doc_id, 1),))


@dataclass(slots=True)
class Opened:
    """A lab with what is needed of it more than once.

    `index_seconds` is how long it took to open where that made the index, None where the index was there.
    """

    lab: Lab
    index_seconds: float | None
    _searched: Searched | None = None
    _golden: dict[str, tuple[GoldenQuery, ...]] = field(default_factory=dict)

    def documents(self, expected: str) -> Searched:
        """What its index has, as `runs.searched` says it. Raises InputError when its files changed since the plan.

        A lab that was opened for this has just compared its index with the files, which need not be cut again for it.
        """
        if self._searched is None:
            files, left_out = read_corpus(self.lab.corpus), {fault.path for fault in self.lab.index.faults}
            changed = hash_of_documents(files.documents) != expected
            if changed or set(files.paths.values()) & set(self.lab.changed_files()):
                raise InputError("the corpus changed while the ablation ran; run it again")
            found = [one for one in files.documents if files.paths[one.doc_id] not in left_out]
            folders = {one.doc_id: files.paths[one.doc_id].relative_to(self.lab.corpus).parts[0] for one in found}
            self._searched = Searched(len(found), hash_of_documents(found), folders)
        return self._searched

    def golden(self, level: str, expected: str) -> tuple[GoldenQuery, ...]:
        """Its golden queries. Raises InputError when they are not those of this hash any more."""
        if level not in self._golden:
            self.lab.require_golden()
            golden = golden_at(level, self.lab.golden)
            if labels_hash(golden) != expected:
                raise InputError("golden.yaml changed while the ablation ran; run it again")
            self._golden[level] = golden
        return self._golden[level]


class Labs:
    """The labs that a process has open, one for each way of indexing; any thread. `close` closes them all."""

    def __init__(self) -> None:
        self._opened: dict[tuple[object, ...], Opened | LabError] = {}
        self._turn = threading.Lock()

    def opened(
        self,
        corpus: str,
        config: PipelineConfig,
        dsn: str | None,
        progress: Callable[[Progress], None] = lambda _: None,
    ) -> Opened:
        """The lab of a corpus whose index serves the configuration.

        Raises as `Lab.open` does, for the same index again what it raised first.
        """
        place = (corpus, config.indexing, dsn)
        with self._turn:
            if place not in self._opened:
                self._opened[place] = _open(corpus, config, dsn, progress)
            found = self._opened[place]
        if isinstance(found, LabError):
            raise found
        return found

    def close(self) -> None:
        """Close every lab. A second call does nothing."""
        with self._turn:
            for found in self._opened.values():
                if isinstance(found, Opened):
                    found.lab.close()
            self._opened.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _open(
    corpus: str, config: PipelineConfig, dsn: str | None, progress: Callable[[Progress], None]
) -> Opened | LabError:
    began = time.perf_counter()
    try:
        lab = Lab.open(Path(corpus), config, dsn, progress=progress)
    except LabError as error:
        return error
    # A part of an index says nothing about how long all of it takes.
    made = bool(lab.index.indexed) and not lab.index.unchanged
    return Opened(lab, time.perf_counter() - began if made else None)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a task ended: `error` is None where its cell is done."""

    task: Task
    error: str | None


def keep(task: Task, made: Cell | Failure, folder: AblationFolder) -> Outcome:
    """Put what was made of a task into the folder. Raises InputError when it cannot be written."""
    folder.keep(task.key, made)
    return Outcome(task, made.error if isinstance(made, Failure) else None)


def work(task: Task, labs: Labs) -> Cell | Failure:
    """The cell of a task, or why there is none. Raises nothing that is an Exception."""
    config = PipelineConfig.from_dict(task.config)
    try:
        opened = labs.opened(task.corpus, config, task.dsn)
        golden = opened.golden(task.level, task.labels_hash)
        made = run(opened.lab, config, golden=golden, documents=opened.documents(task.documents_hash))
    except Exception as error:  # noqa: BLE001 - whatever it is, the other cells can be made
        return Failure(task.name, config, one_line(error))
    cell = Cell(
        name=made.name,
        run=made,
        index_seconds=task.index_seconds if opened.index_seconds is None else opened.index_seconds,
        memory=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _RSS_UNIT,
        processes=task.processes,
    )
    return cell.named(task.name)


def one_line(error: BaseException) -> str:
    """The error in one line; one that the lab did not raise on purpose with its kind."""
    said = "; ".join(" ".join(line.split()) for line in str(error).splitlines() if line.strip())
    return said if isinstance(error, LabError) and said else f"{type(error).__name__}: {said}".rstrip(": ")


# --- in a process that lives longer than the work ------------------------------------------------------------------

_batches: dict[str, Labs] = {}
_turn = threading.Lock()


def work_in_batch(task: Task) -> Cell | Failure:
    """As `work`, with labs that stay open until `close_batch`."""
    with _turn:
        labs = _batches.setdefault(task.batch, Labs())
    return work(task, labs)


def close_batch(batch: str) -> None:
    """Close the labs of a batch."""
    with _turn:
        labs = _batches.pop(batch, None)
    if labs is not None:
        labs.close()
