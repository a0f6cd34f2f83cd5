"""The runs that are kept of a corpus, each read and summed up, and one set against another; off the screen's thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from textual.message import Message

from retrieval_lab.config import PipelineConfig
from retrieval_lab.errors import Cancelled as WasCancelled
from retrieval_lab.errors import InputError
from retrieval_lab.evals.kept import resolve_run, stored_runs
from retrieval_lab.evals.records import CorpusFacts, QueryRecord
from retrieval_lab.evals.resampling import TIE
from retrieval_lab.evals.runs import Run
from retrieval_lab.evals.summary import Estimate, Summary, summarise
from retrieval_lab.evals.versus import Versus, versus
from retrieval_lab_tui.comparing import differences
from retrieval_lab_tui.jobs import Cancelled, Failed, Jobs
from retrieval_lab_tui.measuring import Measured


@dataclass(frozen=True, slots=True)
class Listed:
    """A run with what it comes to over all queries, without its queries: many may be listed.

    `settings` says what its configuration has otherwise than that of the corpus's file. `source` is its file, or the
    run itself while it is not kept. `is_now` holds for that of the settings of the moment.
    """

    name: str
    created: str
    config: PipelineConfig
    settings: str
    corpus: CorpusFacts
    measures: Mapping[str, Estimate]
    source: Path | Run
    is_now: bool = False

    @property
    def title(self) -> str:
        """What it is called on a screen."""
        return f"now · {self.name}" if self.is_now else self.name

    @property
    def is_kept(self) -> bool:
        """Whether there is a file of it."""
        return isinstance(self.source, Path)

    def read(self) -> Run:
        """The whole run. Raises as `Run.load` does."""
        return self.source if isinstance(self.source, Run) else Run.load(self.source)

    def obstacle(self, baseline: Listed) -> str:
        """Why it cannot be compared with a baseline, in few words; else nothing."""
        if self.corpus.golden_hash != baseline.corpus.golden_hash:
            return "other queries or labels"
        return "" if self.config.top_k == baseline.config.top_k else f"cut at {self.config.top_k}"


class Readable(Protocol):
    """What stands for a run: what a screen calls it, and the whole of it when it is wanted."""

    @property
    def title(self) -> str: ...

    def read(self) -> Run: ...


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A file among the runs that holds none; the reason begins with its name."""

    reason: str


@dataclass(frozen=True, slots=True)
class Kept:
    """What lies among the runs of a corpus, by name."""

    runs: tuple[Listed, ...]
    unreadable: tuple[Unreadable, ...]


@dataclass(frozen=True, slots=True)
class Changed:
    """A query whose measure, or whose first relevant chunk's rank in the final list, is another in the system.

    `difference` is that of the measure, system minus baseline; `carries` whether it is one of those that carry the
    result.
    """

    query_id: str
    query: str
    kind: str
    baseline: int | None
    system: int | None
    difference: float
    carries: bool


@dataclass(frozen=True, slots=True)
class Pair:
    """A system's run against a baseline's.

    `groups` has the comparison over all queries, of which the kind is None, then that over each kind.
    """

    names: tuple[str, str]
    """What the baseline and the system are called."""
    baseline: Run
    system: Run
    groups: tuple[tuple[str | None, Versus], ...]

    def changed(self, group: int, measure: str) -> tuple[Changed, ...]:
        """The queries of a group that changed, the largest change of the measure first, then of 1 / rank."""
        kind, found = self.groups[group]
        carriers = {one.query_id for one in found.measures[measure].carriers}
        pairs = _counted(_of_kind(self.baseline, kind), _of_kind(self.system, kind))
        changes = [_change(before, after, measure, carriers) for before, after in pairs]
        moved = [one for one in changes if abs(one.difference) > TIE or one.baseline != one.system]
        return tuple(sorted(moved, key=lambda one: (-abs(one.difference), -_moved(one))))


class RunsProgressed(Message):
    """So many of the kept runs are read; a newer one may replace it unseen."""

    def __init__(self, done: int, total: int) -> None:
        super().__init__()
        self.done = done
        self.total = total

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, RunsProgressed)


class KeptRuns:
    """Starts the jobs `runs` and `versus` for the runs of one corpus, whose file has the configuration `file`."""

    def __init__(self, jobs: Jobs, post: Callable[[Message], object], corpus: Path, file: PipelineConfig) -> None:
        self.file = file
        self._jobs = jobs
        self._post = post
        self._corpus = corpus

    def read(self, done: Callable[[Kept], None], failed: Failed) -> None:
        """Read and sum up all that are kept."""

        def work(cancelled: Cancelled) -> Kept:
            names = stored_runs(self._corpus)
            found: list[Listed | Unreadable] = []
            for name in names:
                if cancelled():
                    raise WasCancelled("another reading of the runs was asked for")
                self._post(RunsProgressed(len(found), len(names)))
                found.append(_read(name, self._corpus, self.file))
            return Kept(
                tuple(one for one in found if isinstance(one, Listed)),
                tuple(one for one in found if isinstance(one, Unreadable)),
            )

        self._jobs.start("runs", work, done, failed)

    def compare(self, baseline: Readable, system: Readable, done: Callable[[Pair], None], failed: Failed) -> None:
        """Set one run against another; `failed` hears why they cannot be compared."""
        names = (baseline.title, system.title)
        self._jobs.start("versus", lambda _: _pair(names, baseline.read(), system.read()), done, failed)

    def turn(self, pair: Pair, done: Callable[[Pair], None], failed: Failed) -> None:
        """Make the system the baseline, and the baseline the system."""
        names = (pair.names[1], pair.names[0])
        self._jobs.start("versus", lambda _: _pair(names, pair.system, pair.baseline), done, failed)

    def stop(self) -> None:
        """What is still being read or compared is of no use any more."""
        for kind in ("runs", "versus"):
            self._jobs.drop(kind)


def listed(kept: Kept | None, measured: Measured | None, file: PipelineConfig) -> tuple[Listed, ...]:
    """The run of the moment, once it is measured, then the kept ones; it stands there once, also when it is kept."""
    runs = kept.runs if kept is not None else ()
    if measured is None:
        return runs
    now = replace(_listed(measured.run.name, measured.run, measured.summary, measured.run, file), is_now=True)
    itself = next((one for one in runs if one.name == now.name and one.created == now.created), None)
    return (
        now if itself is None else replace(itself, is_now=True),
        *(one for one in runs if one is not itself),
    )


def _listed(name: str, run: Run, summary: Summary, source: Path | Run, file: PipelineConfig) -> Listed:
    settings = "the file's settings" if run.config == file else differences(file, run.config)[1]
    return Listed(name, run.created, run.config, settings, run.corpus, summary.all.measures, source)


def measures_of(runs: Sequence[Listed]) -> tuple[str, ...]:
    """The measures that any of the runs has, each once."""
    return tuple(dict.fromkeys(name for one in runs for name in one.measures))


def _read(name: str, corpus: Path, file: PipelineConfig) -> Listed | Unreadable:
    path = resolve_run(name, corpus)
    try:
        run = Run.load(path)
    except InputError as error:
        return Unreadable(str(error).replace(str(path), path.name))
    return _listed(name, run, summarise(run), path, file)


def _pair(names: tuple[str, str], baseline: Run, system: Run) -> Pair:
    """Raises InputError as `versus` does; kinds of which no query counts in both are left out."""
    groups: list[tuple[str | None, Versus]] = [(None, versus(baseline, system))]
    for kind in sorted({record.kind for record in system.queries}):
        before, after = _of_kind(baseline, kind), _of_kind(system, kind)
        if _counted(before, after):
            groups.append((kind, versus(before, after)))
    return Pair(names, baseline, system, tuple(groups))


def _of_kind(run: Run, kind: str | None) -> Run:
    """The run with the queries of one kind only, with None of all."""
    if kind is None:
        return run
    return replace(run, queries=tuple(record for record in run.queries if record.kind == kind))


def _counted(baseline: Run, system: Run) -> list[tuple[QueryRecord, QueryRecord]]:
    """The queries that have a relevant chunk in both."""
    befores = {record.query_id: record for record in baseline.queries}
    pairs = [(befores[after.query_id], after) for after in system.queries]
    return [(before, after) for before, after in pairs if before.measures and after.measures]


def _change(before: QueryRecord, after: QueryRecord, measure: str, carriers: set[str]) -> Changed:
    return Changed(
        query_id=after.query_id,
        query=after.query,
        kind=after.kind,
        baseline=before.ranks["final"],
        system=after.ranks["final"],
        difference=after.measures[measure] - before.measures[measure],
        carries=after.query_id in carriers,
    )


def _moved(one: Changed) -> float:
    before, after = (1 / rank if rank else 0.0 for rank in (one.baseline, one.system))
    return abs(after - before)
