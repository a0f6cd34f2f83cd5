"""Who makes the cells: this process and others beside it, or a Dask cluster.

An executor takes tasks and says of each how it ended, in the order in which they end; its cell is in the folder by
then. It is entered before anything is indexed, so that one that cannot work says so first.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from time import perf_counter
from types import TracebackType
from typing import Protocol, Self

from retrieval_lab.ablation.cluster import DaskExecutor
from retrieval_lab.ablation.folder import AblationFolder
from retrieval_lab.ablation.pool import pooled
from retrieval_lab.ablation.work import Labs, Outcome, Task, keep, work
from retrieval_lab.errors import InputError

_STARTUP_SECONDS = 1.0
"""What a process takes until it works: the interpreter, the imports, opening a corpus."""

_DASK = "dask://"


class Executor(Protocol):
    """Makes cells, between `__enter__` and `__exit__`."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def outcomes(self, tasks: Sequence[Task], folder: AblationFolder, labs: Labs) -> Generator[Outcome, None, None]:
        """The outcome of each task as soon as it has ended; `labs` are those of this process.

        Raises InputError when the folder cannot be written.
        """
        ...


class LocalExecutor:
    """Makes cells on this machine, in at most `jobs` processes.

    Without a number there are as many as processors that have nothing else to do: on those that have, more processes
    would not be done sooner, and would measure each other's work as their latency.
    """

    def __init__(self, jobs: int | None = None) -> None:
        self._jobs = jobs

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def outcomes(self, tasks: Sequence[Task], folder: AblationFolder, labs: Labs) -> Generator[Outcome, None, None]:
        """One cell after another in this process, until more of them would save more time than they cost."""
        began = perf_counter()
        for done, task in enumerate(tasks):
            jobs = min(self._jobs or idle_processors(), len(tasks) - done)
            if done and _pays((perf_counter() - began) / done * (len(tasks) - done), jobs):
                labs.close()
                yield from pooled(tasks[done:], folder, jobs)
                return
            yield keep(task, work(task, labs), folder)


def _pays(seconds: float, jobs: int) -> bool:
    """Whether work of so many seconds is done sooner by several processes, which have to start first."""
    return seconds - seconds / jobs > _STARTUP_SECONDS


def executor_of(address: str | None, jobs: int | None) -> Executor:
    """The executor at an address such as dask://127.0.0.1:8786, without one that of this machine.

    Raises InputError for another address, and when a number of jobs is given with one.
    """
    if address is None:
        return LocalExecutor(jobs)
    if not address.startswith(_DASK) or not address.removeprefix(_DASK).strip("/"):
        raise InputError(f"--executor {address!r}: expected the address of a Dask scheduler: dask://HOST:PORT")
    if jobs is not None:
        raise InputError("--jobs has no effect with --executor: the cluster has as many processes as it has")
    return DaskExecutor(address.removeprefix(_DASK).strip("/"))


def idle_processors() -> int:
    """How many processors this process may use, itself included: those that the last minute's load left free."""
    there = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    of_others = max(0, round(os.getloadavg()[0]) - 1)
    return max(1, there - of_others)
