"""The ablations that are kept of a corpus, read and summed up off the screen's thread."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from textual.message import Message

from retrieval_lab.ablation.cell import Cell, Failure
from retrieval_lab.ablation.folder import AblationFolder, Manifest, ablation_folders
from retrieval_lab.ablation.standings import Entry, Standings, entry, standings
from retrieval_lab.errors import Cancelled as WasCancelled
from retrieval_lab.errors import InputError
from retrieval_lab.evals.runs import Run
from retrieval_lab.stored import read_json
from retrieval_lab_tui.jobs import Cancelled, Failed, Jobs

_METRICS = "metrics.json"


@dataclass(frozen=True, slots=True)
class Board:
    """An ablation as far as it is done, without the lists of its queries.

    `broken` has a line for each file that could not be read. `decided` is the name of the configuration that the
    ablation's report decided for, None without a report or where it decided for none. `others` says how many more
    ablations are kept.
    """

    folder: Path
    manifest: Manifest
    entries: tuple[Entry, ...]
    failures: tuple[Failure, ...]
    broken: tuple[str, ...]
    decided: str | None
    others: int

    @property
    def pending(self) -> int:
        """How many configurations are not done yet."""
        return len(self.manifest.keys) - len(self.entries) - len(self.failures) - len(self.broken)


@dataclass(frozen=True, slots=True)
class CellRun:
    """The run of an entry, for a comparison; it is read from its file when it is wanted."""

    folder: Path
    entry: Entry

    @property
    def title(self) -> str:
        """What it is called on a screen."""
        return self.entry.name

    def read(self) -> Run:
        """The whole run. Raises InputError when the file is gone or broken."""
        return AblationFolder(self.folder).cell(self.entry.key).run


class AblationProgressed(Message):
    """So many of the cells are read; a newer one may replace it unseen."""

    def __init__(self, done: int, total: int) -> None:
        super().__init__()
        self.done = done
        self.total = total

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, AblationProgressed)


class KeptAblations:
    """Starts the jobs `ablation` and `standings` for the ablations of one corpus; each cell is read once."""

    def __init__(self, jobs: Jobs, post: Callable[[Message], object], corpus: Path) -> None:
        self.corpus = corpus
        self._jobs = jobs
        self._post = post
        self._entries: dict[tuple[Path, str], tuple[int, Entry]] = {}
        """Each with the time of its file, which is another once the cell was made again."""
        self._standings: dict[tuple[str, str], tuple[tuple[Entry, ...], Standings]] = {}

    def folders(self) -> list[Path]:
        """The folders of all that are kept, the one that was begun last first."""
        return sorted(ablation_folders(self.corpus), key=lambda one: AblationFolder(one).begun(), reverse=True)

    def read(self, folder: Path | None, done: Callable[[Board | None], None], failed: Failed) -> None:
        """Read an ablation, by default the newest; `done` gets None when none is kept."""

        def work(cancelled: Cancelled) -> Board | None:
            folders = self.folders()
            chosen = folder or next(iter(folders), None)
            others = sum(one != chosen for one in folders)
            return None if chosen is None else self._board(chosen, others, cancelled)

        self._jobs.start("ablation", work, done, failed)

    def stand(self, board: Board, measure: str, split: str, done: Callable[[Standings], None], failed: Failed) -> None:
        """Where the configurations stand; at once where it was asked before and no cell came since."""
        entries, found = self._standings.get((measure, split), ((), None))
        if found is not None and entries == board.entries:
            self._jobs.drop("standings")
            done(found)
            return

        def keep(made: Standings) -> None:
            self._standings[measure, split] = (board.entries, made)
            done(made)

        self._jobs.start("standings", lambda _: standings(board.entries, measure, split), keep, failed)

    def stop(self) -> None:
        """What is still being read is of no use any more."""
        for kind in ("ablation", "standings"):
            self._jobs.drop(kind)

    def _board(self, path: Path, others: int, cancelled: Cancelled) -> Board:
        folder = AblationFolder(path)
        manifest = folder.manifest()
        found: list[Entry | Failure] = []
        broken: list[str] = []
        for done, key in enumerate(manifest.keys):
            if cancelled():
                raise WasCancelled("another reading of an ablation was asked for")
            self._post(AblationProgressed(done, len(manifest.keys)))
            try:
                made = self._read(folder, key)
            except InputError as error:
                broken.append(str(error).replace(f"{path}/", ""))
            else:
                found += [] if made is None else [made]
        return Board(
            path,
            manifest,
            tuple(one for one in found if isinstance(one, Entry)),
            tuple(one for one in found if isinstance(one, Failure)),
            tuple(broken),
            _decided(path),
            others,
        )

    def _read(self, folder: AblationFolder, key: str) -> Entry | Failure | None:
        written = folder.written(key)
        before, known = self._entries.get((folder.path, key), (0, None))
        if known is not None and before == written:
            return known
        made = folder.made(key)
        if not isinstance(made, Cell):
            return made
        summed = entry(key, made)
        self._entries[folder.path, key] = (written, summed)
        return summed


def _decided(folder: Path) -> str | None:
    """The name that the report's numbers have as the decision; None where there is no report, or another format."""
    try:
        data = read_json(folder / _METRICS)
    except (InputError, FileNotFoundError):
        return None
    decision = data.get("decision") if isinstance(data, dict) else None
    chosen = decision.get("chosen") if isinstance(decision, dict) else None
    return chosen if isinstance(chosen, str) else None
