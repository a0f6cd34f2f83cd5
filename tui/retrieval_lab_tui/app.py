"""The explorer: opens a corpus, and takes care of what concerns the whole app."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from textual import on

from retrieval_lab.config import PipelineConfig
from retrieval_lab.diagnosis.replay import Replay
from retrieval_lab.errors import FaultyInput, LabError
from retrieval_lab.history import History
from retrieval_lab.index import IndexingCancelled, Progress
from retrieval_lab.lab import Lab
from retrieval_lab_tui import preferences, themes
from retrieval_lab_tui.actions import EXPLORE, Keymap, shown_keys
from retrieval_lab_tui.answer import Question
from retrieval_lab_tui.asking import known
from retrieval_lab_tui.citing import Citing
from retrieval_lab_tui.jobs import Cancelled
from retrieval_lab_tui.labs import Labs, OpenLab, Served
from retrieval_lab_tui.screens.confirm import Confirm
from retrieval_lab_tui.screens.help import HelpScreen
from retrieval_lab_tui.screens.palette import Command, Palette
from retrieval_lab_tui.screens.problems import ProblemsScreen
from retrieval_lab_tui.switching import IndexingProgressed

_LOOK_AT_FILES_SECONDS = 2.0


class ExplorerApp(Citing):
    """`config` is the pipeline, None for the one of the corpus's lab.yaml, and `config_name` its name if it has one.

    `open_lab` is called as `Lab.open` is, in a thread, and `clock` tells the seconds that a question takes; tests give
    others.

    `problem` is why the corpus could not be opened, or which of its files were left out; None when all is well.
    """

    TITLE = "retrieval lab"
    ENABLE_COMMAND_PALETTE = False  # ours has no markup, and no worker that may fail when it is closed
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (140, "-wide")]  # noqa: RUF012 - Textual declares it without ClassVar
    VERTICAL_BREAKPOINTS = [(0, "-short"), (36, "-tall")]  # noqa: RUF012

    def __init__(
        self,
        corpus: Path | None = None,
        dsn: str | None = None,
        *,
        config: PipelineConfig | None = None,
        config_name: str | None = None,
        open_lab: OpenLab = Lab.open,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(clock)
        self.problem: LabError | None = None
        self.keymap: Keymap = {}
        self._corpus = corpus
        self._dsn = dsn
        self._config = config
        self._open_lab = open_lab
        names = {} if config is None or config_name is None else {config: config_name}
        self.labs = Labs(self._open_one, names=names)
        self._leaving = threading.Event()
        self._indexing: Progress | None = None

    def _prefer(self) -> None:
        """Take up the theme and the keys that the user prefers."""
        for theme in themes.THEMES:
            self.register_theme(theme)
        kept = preferences.read_theme()
        self.theme = kept if kept in self.available_themes else themes.DARK.name
        self.keymap, faults = preferences.read_keymap(preferences.keys_path())
        self.set_keymap(self.keymap)
        self.explore.add_problems(str(fault) for fault in faults)

    def on_mount(self) -> None:
        self._prefer()
        self.watch(self, "theme", preferences.write_theme, init=False)
        self.push_screen(self.explore)
        self.call_after_refresh(self._open)
        self.set_interval(_LOOK_AT_FILES_SECONDS, self.look_at_files)

    def close_lab(self) -> None:
        """Let go of the database; called when the screen is gone."""
        self._leaving.set()
        self.labs.close()

    # Opening.

    def _open(self) -> None:
        self._indexing = None
        self.explore.opening()

        labs = self.labs

        def work(dropped: Cancelled) -> Served:
            return labs.open(None, lambda step: self._progress("open", step), self._until(dropped))

        self._jobs.start("open", work, self._opened, self._not_opened)

    def _open_one(
        self, config: PipelineConfig | None, progress: Callable[[Progress], None], cancelled: Cancelled
    ) -> Lab:
        return self._open_lab(self._corpus, config or self._config, self._dsn, progress=progress, cancelled=cancelled)

    def _until(self, dropped: Cancelled) -> Cancelled:
        return lambda: self._leaving.is_set() or dropped()

    @on(IndexingProgressed)
    def _progressed(self, event: IndexingProgressed) -> None:
        if event.job == "open" and self._jobs.running("open") and not self.ending:
            self._indexing = event.progress
            self.explore.indexing(event.progress)

    async def _opened(self, served: Served) -> None:
        self.labs.use(served)
        lab = served.lab
        self._indexing = None
        self.measuring.forget()
        self.problem = FaultyInput(lab.index.faults) if lab.index.faults else None
        await self.explore.opened(self.labs)
        self._history = History(lab.corpus)
        self.explore.remember(self._history.questions)
        if isinstance(lab, Replay):
            self._ask(Question(lab.bundle.trace.query, *((lab.golden[0], 0) if lab.golden else ())))
        elif self._question is not None and self._question.golden is None:
            self._ask(self._question)
        elif lab.golden:
            self._ask_golden(min(self._question.index or 0, len(lab.golden) - 1) if self._question is not None else 0)

    def _not_opened(self, error: Exception) -> None:
        self.problem = known(error)
        self.explore.failed(str(self.problem), interrupted=isinstance(error, IndexingCancelled))

    def _stop_opening(self) -> None:
        """The job ends at the next document, and its result is not waited for."""
        self._jobs.drop("open")
        done = self._indexing
        count = f" after {done.done} of {done.total} documents" if done is not None else ""
        self._not_opened(IndexingCancelled(f"You stopped it{count}. What is done is kept."))

    def look_at_files(self) -> None:
        """Ask, off this thread, whether the corpus's files are what they were when they were read."""
        if self._lab is not None and not self._jobs.running("files"):
            labs = self.labs
            self._jobs.start("files", lambda _: labs.changed_files(), self.explore.files_changed, lambda _: None)

    def action_toggle_dark(self) -> None:
        self.theme = themes.opposite(self.theme, dark=self.current_theme.dark)

    def action_again(self) -> None:
        """Open the corpus again, with its files and its server as they are now, and ask the last question again."""
        if self._jobs.running("open"):
            return
        for kind in ("ask", "files", "switch", "other"):
            self._jobs.drop(kind)
        self.explore.switching(None)
        threading.Thread(target=self.labs.close, daemon=True).start()
        self.labs = Labs(self._open_one, self.labs.earlier, self.labs.names)
        self._open()

    def action_palette(self) -> None:
        commands = list(self._commands())

        def chosen(place: int | None) -> None:
            if place is not None:
                self.call_next(commands[place].run)

        self.push_screen(Palette(commands), chosen)

    def _commands(self) -> Iterator[Command]:
        for action in EXPLORE:
            run = partial(self.explore.run_action, action.run)
            yield Command(action.label, action.description, shown_keys(action, self.keymap), run)
        for name in sorted(self.available_themes):
            yield Command(f"Theme {name}", "Change the colours", "", partial(setattr, self, "theme", name))

    def action_problems(self) -> None:
        self.push_screen(ProblemsScreen(self.explore.problems))

    def action_help(self) -> None:
        self.push_screen(HelpScreen(self.keymap))

    def action_back_out(self) -> None:
        """Stop what runs; with nothing running, undo what was typed and go back to the lists."""
        if self._lab is None:
            if self._jobs.running("open"):
                self._stop_opening()
            return
        if self.stop_switching():
            return
        if self._jobs.running("ask"):
            self._cancel_running(self._lab)
            self._jobs.drop("ask")
            self.explore.not_answered("stopped")
        elif self._question is not None:
            self.explore.write(self._question)
        self.explore.focus_lists()

    async def action_quit(self) -> None:
        """Leave; while documents are being indexed, only after a question."""

        def answered(leave: bool | None) -> None:
            if leave:
                self.exit()

        step = self._indexing
        if step is None or step.done >= step.total or not self._jobs.running("open"):
            self.exit()
        elif not isinstance(self.screen, Confirm):
            done = f"{step.done} of {step.total} documents are indexed, and stay so; the next start does the rest."
            self.push_screen(Confirm("Leave while indexing?", done), answered)
