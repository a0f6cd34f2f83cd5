"""Cells made by the workers of a Dask cluster (extra `cluster`), and written here as they come.

A worker opens the corpus at the same path as this process, and the same server: by the DSN, or by the embedded server
of a data directory that it shares.
"""

from __future__ import annotations

import uuid
from collections.abc import Generator, Sequence
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from retrieval_lab.ablation.cell import Cell, Failure
from retrieval_lab.ablation.folder import AblationFolder
from retrieval_lab.ablation.work import Labs, Outcome, Task, close_batch, keep, one_line, work_in_batch
from retrieval_lab.config import PipelineConfig
from retrieval_lab.errors import EnvironmentMissing
from retrieval_lab.extras import require

_CONNECT_SECONDS = 5


class DaskExecutor:
    """Makes cells on the cluster whose scheduler is at `address`, such as 127.0.0.1:8786."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._dask: Any = None
        self._client: Any = None

    def __enter__(self) -> Self:
        """Connect. Raises MissingExtra, and EnvironmentMissing when nobody answers or there are no workers."""
        self._dask = require("distributed", extra="cluster")
        try:
            self._client = self._dask.Client(f"tcp://{self._address}", timeout=_CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError) as error:
            raise EnvironmentMissing(
                f"no Dask scheduler answers at {self._address} ({one_line(error)}); start one with: dask scheduler"
            ) from error
        if not self._threads:
            self._client.close()
            raise EnvironmentMissing(
                f"the Dask cluster at {self._address} has no workers; start one with: dask worker {self._address}"
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    @property
    def _threads(self) -> int:
        """How many cells the cluster works on at once."""
        return sum(self._client.nthreads().values())

    def outcomes(self, tasks: Sequence[Task], folder: AblationFolder, labs: Labs) -> Generator[Outcome, None, None]:
        """The outcome of each task as soon as the cluster has made it; the labs of this process are not used."""
        labs.close()
        batch, processes = uuid.uuid4().hex, min(self._threads, len(tasks))
        named = [replace(task, batch=batch, processes=processes) for task in tasks]
        futures = {self._client.submit(work_in_batch, task, pure=False): task for task in named}
        try:
            for future in self._dask.as_completed(list(futures), loop=self._client.loop):
                task = futures[future]
                yield keep(task, made_of(future, task), folder)
        finally:
            self._client.cancel(list(futures))
            with suppress(Exception):  # a worker that is gone has no lab open
                self._client.run(close_batch, batch)


def made_of(future: Any, task: Task) -> Cell | Failure:
    """The cell or failure of a task that the cluster is done with, which is a failure where a worker died at it."""
    error = future.exception()
    if error is None:
        made: Cell | Failure = future.result()
        return made
    return Failure(task.name, PipelineConfig.from_dict(task.config), one_line(error))
