"""Cells made by processes of this machine, each of which writes its own; one that dies costs the cell it was at."""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from retrieval_lab.ablation.cell import Failure
from retrieval_lab.ablation.folder import AblationFolder
from retrieval_lab.ablation.work import Labs, Outcome, Task, keep, work
from retrieval_lab.config import PipelineConfig
from retrieval_lab.errors import InputError

_END_SECONDS = 5.0


@dataclass(slots=True)
class _Worker:
    """A process and the task that it is at."""

    process: BaseProcess
    connection: Connection
    task: Task

    def give(self, task: Task) -> None:
        self.task = task
        with suppress(OSError):  # it has died: who waits for its answer learns of that
            self.connection.send(task)

    def answer(self) -> Outcome | None:
        """How its task ended; None where it died before it could say so.

        Raises InputError when a cell cannot be written.
        """
        try:
            said: Outcome | InputError = self.connection.recv()
        except (EOFError, OSError):
            return None
        if isinstance(said, InputError):
            raise said
        return said

    def end(self) -> None:
        """Wait for a process that has nothing to do any more."""
        self.connection.close()
        self.process.join(_END_SECONDS)

    def stop(self) -> None:
        """End it, whatever it is at."""
        self.connection.close()
        self.process.terminate()
        self.process.join(_END_SECONDS)
        if self.process.is_alive():
            self.process.kill()


def pooled(tasks: Sequence[Task], folder: AblationFolder, jobs: int) -> Generator[Outcome, None, None]:
    """The outcome of each task, made by so many processes, as soon as it has ended.

    A process that dies is a failure of its cell, and another takes its place. No process is left when the iterator is
    closed. Raises InputError when the folder cannot be written.
    """
    waiting = deque(replace(task, processes=jobs) for task in tasks)
    working: dict[Connection, _Worker] = {}

    def start() -> None:
        worker = _started(folder.path, waiting.popleft())
        working[worker.connection] = worker

    try:
        for _ in range(min(jobs, len(waiting))):
            start()
        while working:
            for connection in wait(list(working)):
                worker = working[connection]  # type: ignore[index]
                outcome = worker.answer()
                if outcome is not None and waiting:
                    worker.give(waiting.popleft())
                else:
                    del working[worker.connection]
                    worker.end()
                    if outcome is None and waiting:
                        start()
                yield outcome or _died(worker, folder)
    finally:
        for worker in working.values():
            worker.stop()


def _started(folder: Path, task: Task) -> _Worker:
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, folder), daemon=True)
    with _without_interrupts():
        process.start()
    theirs.close()
    worker = _Worker(process, ours, task)
    worker.give(task)
    return worker


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Ctrl-C reaches the whole group of processes; those that start here leave it to the one that started them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(connection: Connection, path: Path) -> None:
    """What a process does: one task after another, until the other end of the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    folder = AblationFolder(path)
    with Labs() as labs, suppress(EOFError, OSError):
        while True:
            task: Task = connection.recv()
            try:
                connection.send(keep(task, work(task, labs), folder))
            except InputError as error:
                connection.send(error)


def _died(worker: _Worker, folder: AblationFolder) -> Outcome:
    code, task = worker.process.exitcode, worker.task
    how = f"with exit code {code}"
    if code is not None and code < 0:
        named = signal.Signals(-code)
        how = f"by {named.name}" + ("; perhaps memory ran out: try fewer --jobs" if named == signal.SIGKILL else "")
    error = f"the process that made it was ended {how}"
    return keep(task, Failure(task.name, PipelineConfig.from_dict(task.config), error), folder)
