"""The explorer: opens a corpus, asks its questions off the screen's thread, and shows what comes back."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from textual import on
from textual.app import App, SystemCommand
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Input

from retrieval_lab.config import PipelineConfig
from retrieval_lab.config_file import config_path, save_config
from retrieval_lab.errors import FaultyInput, LabError
from retrieval_lab.evals.versus import Versus
from retrieval_lab.history import History
from retrieval_lab.index import Progress
from retrieval_lab.lab import Cancelled, Lab
from retrieval_lab.types import Chunk
from retrieval_lab_tui.actions import EXPLORE, shown_keys
from retrieval_lab_tui.answer import Answer, Question, ask, typed
from retrieval_lab_tui.display import safe
from retrieval_lab_tui.jobs import Finished, Jobs
from retrieval_lab_tui.measuring import Measuring, MeasuringProgressed
from retrieval_lab_tui.screens.explore import ExploreScreen
from retrieval_lab_tui.screens.help import HelpScreen
from retrieval_lab_tui.screens.measures import Measured, MeasuresScreen, worst_first
from retrieval_lab_tui.screens.palette import Palette
from retrieval_lab_tui.screens.picker import Picker
from retrieval_lab_tui.screens.problems import ProblemsScreen
from retrieval_lab_tui.screens.settings import SettingsScreen

OpenLab = Callable[..., Lab]


class IndexingProgressed(Message):
    """Indexing came this far; a newer one may replace it unseen."""

    def __init__(self, progress: Progress) -> None:
        super().__init__()
        self.progress = progress

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, IndexingProgressed)


class ExplorerApp(App[None]):
    """`config` is the pipeline, None for the one of the corpus's lab.yaml. `open_lab` is called as `Lab.open` is, in a
    thread; tests give another.

    `problem` is why the corpus could not be opened, or which of its files were left out; None when all is well.
    """

    TITLE = "retrieval lab"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (140, "-wide")]  # noqa: RUF012 - Textual declares it without ClassVar
    VERTICAL_BREAKPOINTS = [(0, "-short"), (36, "-tall")]  # noqa: RUF012

    def __init__(
        self,
        corpus: Path | None = None,
        dsn: str | None = None,
        *,
        config: PipelineConfig | None = None,
        open_lab: OpenLab = Lab.open,
    ) -> None:
        super().__init__()
        self.problem: LabError | None = None
        self.explore = ExploreScreen()
        self._corpus = corpus
        self._dsn = dsn
        self._config = config
        self._open_lab = open_lab
        self._lab: Lab | None = None
        self._leaving = threading.Event()
        self._jobs = Jobs(self.post_message)
        self._question: Question | None = None
        self._live: PipelineConfig | None = None
        self._history: History | None = None
        self.measuring = Measuring(self._jobs, self.post_message)

    def on_mount(self) -> None:
        self.push_screen(self.explore)
        self.call_after_refresh(self._open)

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        for command in super().get_system_commands(screen):
            if command.title not in ("Keys", "Quit"):  # ours say more
                yield command
        for action in EXPLORE:
            run = partial(self.explore.run_action, action.name)
            yield SystemCommand(action.label, f"{action.description} ({shown_keys(action)})", run)

    def close_lab(self) -> None:
        """Let go of the database; called when the screen is gone."""
        self._leaving.set()
        if self._lab is not None:
            _let_go(self._lab)

    # Opening.

    def _open(self) -> None:
        self.explore.opening()

        def progress(step: Progress) -> None:
            self.post_message(IndexingProgressed(step))

        self._jobs.start(
            "open",
            partial(
                self._open_lab,
                self._corpus,
                self._config,
                self._dsn,
                progress=progress,
                cancelled=self._leaving.is_set,
            ),
        )

    @on(IndexingProgressed)
    def _indexing(self, event: IndexingProgressed) -> None:
        self.explore.indexing(event.progress)

    async def _opened(self, lab: Lab) -> None:
        self._lab = lab
        self._live = None
        self.measuring.forget()
        self.problem = FaultyInput(lab.index.faults) if lab.index.faults else None
        await self.explore.opened(lab)
        self._history = History(lab.corpus)
        self.explore.remember(self._history.questions)
        if self._question is not None and self._question.golden is None:
            self._ask(self._question)
        elif lab.golden:
            self._ask_golden(min(self._question.index or 0, len(lab.golden) - 1) if self._question is not None else 0)

    # Asking.

    @on(Input.Submitted, "#query")
    def _submitted(self, event: Input.Submitted) -> None:
        if self._lab is None:
            return
        current = self._question
        if current is not None and (not event.value.strip() or event.value == current.shown):
            self._ask(current)
        elif event.value.strip():
            if self._history is not None:
                self._history.add(event.value)
                self.explore.remember(self._history.questions)
            self._ask(typed(event.value, current))

    def _step_golden(self, step: int) -> None:
        if self._lab is None:
            return
        if not self._lab.golden:
            self.notify("This corpus has no golden queries.", title="Nothing to step through", markup=False)
            return
        last = self.explore.golden_index
        start = -1 if last is None and step > 0 else last or 0
        self._ask_golden((start + step) % len(self._lab.golden))

    def _ask_golden(self, index: int) -> None:
        if self._lab is not None:
            query = self._lab.golden[index]
            self._ask(Question(query.query, query, index))

    def _ask(self, question: Question) -> None:
        lab = self._lab
        if lab is None:
            return
        self._cancel_running(lab)
        self._question = question
        config = self._live or lab.config
        self.explore.asking(question, config)
        self._jobs.start("ask", partial(ask, lab, question, config))

    def _cancel_running(self, lab: Lab) -> None:
        """In a thread of its own: the server may be slow to answer, and keys must not wait for it."""
        if self._jobs.running("ask"):
            threading.Thread(target=lab.cancel, daemon=True).start()

    @on(ExploreScreen.NeighbourWanted)
    def _neighbour_wanted(self, event: ExploreScreen.NeighbourWanted) -> None:
        if self._lab is not None:
            self._jobs.start("neighbour", partial(_neighbour, self._lab, event.chunk_id, event.step))

    @on(Finished)
    async def _finished(self, event: Finished) -> None:
        if not self._jobs.accept(event):
            return
        if event.error is not None:
            self._failed(event.kind, event.error)
        elif event.kind == "open":
            await self._opened(event.result)
        else:
            done: dict[str, Callable[[Any], None]] = {
                "ask": self._answered,
                "neighbour": self._show_neighbour,
                "measure": self._measured,
                "compare": self._compared,
                "keep": self._kept,
            }
            done[event.kind](event.result)

    def _answered(self, answer: Answer) -> None:
        self.explore.answered(answer)
        if self._lab is not None:
            self.measuring.start(self._lab, self._live or self._lab.config)

    def _measured(self, measured: Measured) -> None:
        self.measuring.done(measured)
        self.explore.measured(self.measuring.misses)
        if isinstance(self.screen, MeasuresScreen):
            self.screen.show(measured)

    def _compared(self, found: tuple[str, Versus]) -> None:
        if isinstance(self.screen, MeasuresScreen):
            self.screen.compare(*found)

    def _kept(self, path: str) -> None:
        self.notify(safe(path), title="Run kept", markup=False)

    def _show_neighbour(self, chunk: Chunk | None) -> None:
        if chunk is None:
            self.notify("The document has no chunk there.", title="End of the document", markup=False)
        else:
            self.explore.neighbour(chunk)

    # Measuring the golden set, behind the questions.

    @on(MeasuringProgressed)
    def _measuring(self, event: MeasuringProgressed) -> None:
        if isinstance(self.screen, MeasuresScreen) and self.measuring.measured is None:
            self.screen.progress(event.done, event.total)

    @on(MeasuresScreen.QueriesWanted)
    def _list_queries(self, event: MeasuresScreen.QueriesWanted) -> None:
        lab, measured = self._lab, self.measuring.measured
        if lab is None or measured is None:
            return

        def chosen(index: int | None) -> None:
            if index is not None:
                self.pop_screen()
                self._ask_golden(index)

        order = worst_first(measured.run, event.kind, event.measure)
        self.push_screen(Picker(lab.golden, self.measuring.results, None, order=order, measure=event.measure), chosen)

    @on(MeasuresScreen.ComparisonWanted)
    def _compare_next(self) -> None:
        if self._lab is not None:
            self.measuring.compare_next(self._lab)

    @on(MeasuresScreen.KeepWanted)
    def _keep_run(self) -> None:
        if self._lab is not None:
            self.measuring.keep(self._lab)

    # Other settings.

    @on(SettingsScreen.Changed)
    def _settings_changed(self, event: SettingsScreen.Changed) -> None:
        self._use(event.config)

    @on(SettingsScreen.SaveWanted)
    def _save_settings(self) -> None:
        lab, screen = self._lab, self.screen
        if lab is None or not isinstance(screen, SettingsScreen):
            return
        path = config_path(lab.corpus)
        try:
            save_config(self._live or lab.config, path)
        except LabError as error:
            self.notify(safe(str(error)), title="Not saved", severity="error", markup=False)
            return
        lab.config = self._live or lab.config
        self._live = None
        screen.saved()
        self.notify(f"{safe(str(path))} (the one before: .bak)", title="Settings saved", markup=False)
        if self._question is not None:
            self._ask(self._question)

    def _use(self, config: PipelineConfig) -> None:
        lab = self._lab
        if lab is None:
            return
        self._live = None if config == lab.config else config
        self.measuring.forget()
        self.explore.measured(None)
        if self._question is not None:
            self._ask(self._question)

    def _step_miss(self, step: int) -> None:
        if self._lab is None:
            return
        if self.measuring.misses is None:
            self.notify("The golden queries are still being measured.", title="One moment", markup=False)
        elif (place := self.measuring.miss(self.explore.golden_index, step)) is None:
            self.notify("Every golden query finds its passage.", title="No misses", markup=False)
        else:
            self._ask_golden(place)

    def _failed(self, kind: str, error: Exception) -> None:
        known = error if isinstance(error, LabError) else LabError(f"{type(error).__name__}: {error}")
        if kind == "open":
            self.problem = known
            self.explore.failed(str(known))
        elif kind == "compare" and isinstance(self.screen, MeasuresScreen):
            self.screen.say(safe(str(known)))
        elif kind == "keep":
            self.notify(safe(str(known)), title="Not kept", severity="error", markup=False)
        elif kind == "measure":
            if not isinstance(error, Cancelled):
                self.notify(safe(str(known)), title="The golden set was not measured", severity="error", markup=False)
        else:
            self.explore.not_answered(str(known))

    # Actions of the registry that concern the whole app.

    def action_next_golden(self) -> None:
        self._step_golden(1)

    def action_previous_golden(self) -> None:
        self._step_golden(-1)

    def action_next_miss(self) -> None:
        self._step_miss(1)

    def action_previous_miss(self) -> None:
        self._step_miss(-1)

    def action_pick(self) -> None:
        if self._lab is None:
            return
        if not self._lab.golden:
            self.notify("This corpus has no golden queries.", title="Nothing to choose from", markup=False)
            return

        def chosen(index: int | None) -> None:
            if index is not None:
                self._ask_golden(index)

        self.push_screen(Picker(self._lab.golden, self.measuring.results, self.explore.golden_index), chosen)

    def action_measures(self) -> None:
        if self._lab is None or not self._lab.golden:
            self.notify("This corpus has no golden queries.", title="Nothing to measure", markup=False)
            return
        screen = MeasuresScreen()
        screen.measured = self.measuring.measured
        self.push_screen(screen)

    def action_settings(self) -> None:
        if self._lab is not None:
            self.push_screen(SettingsScreen(self._live or self._lab.config, self._lab.config))

    def action_file_settings(self) -> None:
        if self._lab is not None and self._live is not None:
            self._use(self._lab.config)

    def action_copy_id(self) -> None:
        self._copy("chunk id", self.explore.chunk.chunk_id if self.explore.chunk else None)

    def action_copy_passage(self) -> None:
        self._copy("passage", self.explore.chunk.text if self.explore.chunk else None)

    def action_copy_trace(self) -> None:
        answer = self.explore.answer
        self._copy("trace", json.dumps(answer.trace.to_dict(), indent=1) if answer else None)

    def _copy(self, what: str, text: str | None) -> None:
        if text is None:
            self.notify("No passage is under the cursor.", title="Nothing to copy", markup=False)
        else:
            self.copy_to_clipboard(text)
            self.notify(f"{what}, {len(text):,} characters", title="Sent to the clipboard", markup=False)

    def action_again(self) -> None:
        """Open the corpus again, with its files and its server as they are now, and ask the last question again."""
        if self._jobs.running("open"):
            return
        if self._lab is not None:
            self._jobs.drop("ask")
            threading.Thread(target=_let_go, args=(self._lab,), daemon=True).start()
            self._lab = None
        self._open()

    def action_command_palette(self) -> None:
        if not isinstance(self.screen, Palette):
            self.push_screen(Palette(id="--command-palette"))

    def action_problems(self) -> None:
        self.push_screen(ProblemsScreen(self.explore.problems))

    def action_help(self) -> None:
        self.push_screen(HelpScreen())

    def action_back_out(self) -> None:
        """Stop the query that is running; with none, undo what was typed and go back to the lists."""
        if self._lab is None:
            return
        if self._jobs.running("ask"):
            self._cancel_running(self._lab)
            self._jobs.drop("ask")
            self.explore.not_answered("stopped")
        elif self._question is not None:
            self.explore.write(self._question)
        self.explore.focus_lists()


def _let_go(lab: Lab) -> None:
    lab.cancel()
    lab.close()


def _neighbour(lab: Lab, chunk_id: str, step: int) -> Chunk | None:
    before, after = lab.neighbours(chunk_id)
    return before if step < 0 else after
