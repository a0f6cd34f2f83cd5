"""The golden set under the settings of the moment: evaluated off the screen's thread, and kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from textual.message import Message

from retrieval_lab.config import PipelineConfig
from retrieval_lab.diagnosis.funnel import Funnel, funnel
from retrieval_lab.evals.kept import require_free, resolve_run
from retrieval_lab.evals.records import QueryRecord
from retrieval_lab.evals.runs import Run, run
from retrieval_lab.evals.slices import KIND, slice_fields, value_of
from retrieval_lab.evals.summary import Group, Summary, sliced, summarise
from retrieval_lab.lab import Lab
from retrieval_lab_tui.jobs import Cancelled, Failed, Jobs

ALL = "all"


@dataclass(frozen=True, slots=True)
class Measured:
    """One evaluation of the golden set, and what it comes to."""

    run: Run
    summary: Summary
    funnel: Funnel

    @property
    def fields(self) -> tuple[str, ...]:
        """What the queries can be parted by, the kind first."""
        return slice_fields(self.run)

    def groups(self, field: str = KIND) -> tuple[tuple[str, Group], ...]:
        """All queries, then those of each value of a label field."""
        return ((ALL, self.summary.all), *sliced(self.run, self.summary, field).items())


class MeasuringProgressed(Message):
    """So many golden queries are measured; a newer one may replace it unseen."""

    def __init__(self, done: int, total: int) -> None:
        super().__init__()
        self.done = done
        self.total = total

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, MeasuringProgressed)


class MeasuringEnded(Message):
    """All golden queries are measured; or none could be, for the reason `error`."""

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__()
        self.error = error


class Measuring:
    """What is known of the golden set; starts the jobs `kind` and `keep`."""

    def __init__(self, jobs: Jobs, post: Callable[[Message], object], kind: str = "measure") -> None:
        self.measured: Measured | None = None
        self.results: dict[str, QueryRecord] | None = None
        """The record of each golden query by its id, None until all are measured."""
        self.misses: tuple[int, ...] | None = None
        """The places of the misses in the golden set, in its order."""
        self.unlabelled = 0
        """How many golden queries have a label that finds no chunk."""
        self._jobs = jobs
        self._post = post
        self._kind = kind

    def start(self, lab: Lab, config: PipelineConfig) -> None:
        """Measure, unless it was done or is being done."""
        if lab.replayed or not lab.golden or self.measured is not None or self._jobs.running(self._kind):
            return

        def progress(done: int, total: int) -> None:
            self._post(MeasuringProgressed(done, total))

        def work(cancelled: Cancelled) -> Measured:
            made = run(lab, config, progress=progress, cancelled=cancelled)
            return Measured(made, summarise(made), funnel(lab, config, cancelled=cancelled))

        self._jobs.start(self._kind, work, self._done, self._failed)

    def _done(self, measured: Measured) -> None:
        self.measured = measured
        self.results = {record.query_id: record for record in measured.run.queries}
        self.misses = tuple(place for place, record in enumerate(measured.run.queries) if record.is_miss)
        self.unlabelled = sum(record.is_unlabelled for record in measured.run.queries)
        self._post(MeasuringEnded())

    def _failed(self, error: Exception) -> None:
        self._post(MeasuringEnded(error))

    def forget(self) -> None:
        """Other settings, or another corpus: nothing is known any more, and what runs is stopped."""
        self.measured = self.results = self.misses = None
        self.unlabelled = 0
        self._jobs.drop(self._kind)

    def miss(self, here: int | None, step: int) -> int | None:
        """The place of the next miss after (1) or before (-1) the place `here`, around the end; None without any."""
        return nearest_miss(self.misses or (), here, step)

    def keep(self, lab: Lab, done: Callable[[str], None], failed: Failed) -> None:
        """Keep the run under its name, which is made of its time; `done` gets its path."""
        measured = self.measured
        if measured is None:
            return
        path = resolve_run(measured.run.name, lab.corpus)

        def work(_: Cancelled) -> str:
            require_free(path)
            measured.run.save(path)
            return str(path)

        self._jobs.start("keep", work, done, failed)

    def worst_first(self, field: str, value: str | None, measure: str) -> Sequence[str]:
        """The ids of the queries with a value of a label field, or of all, by a measure, the worst first.

        Undefined ones are last.
        """
        queries = self.measured.run.queries if self.measured is not None else ()
        records = [record for record in queries if value is None or value_of(record, field) == value]
        return [record.query_id for record in sorted(records, key=lambda one: one.measures.get(measure, 2.0))]


def nearest_miss(misses: Sequence[int], here: int | None, step: int) -> int | None:
    """The place after (1) or before (-1) the place `here`, around the end; None without any."""
    if not misses:
        return None
    ahead = [place for place in misses if here is None or (place - here) * step > 0]
    nearest = min if step > 0 else max
    return nearest(ahead) if ahead else nearest(misses)
