"""The explorer: opens a corpus, asks its questions off the screen's thread, and shows what comes back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from textual import on
from textual.message import Message
from textual.widgets import Input

from retrieval_lab.config import PipelineConfig
from retrieval_lab.diagnosis.journey import Journey
from retrieval_lab.diagnosis.replay import Replay
from retrieval_lab.errors import Cancelled, FaultyInput, LabError
from retrieval_lab.history import History
from retrieval_lab.index import IndexingCancelled, Progress
from retrieval_lab.lab import Lab
from retrieval_lab.retrievers.text import TextSearch
from retrieval_lab.types import Chunk
from retrieval_lab_tui import preferences, themes
from retrieval_lab_tui.actions import EXPLORE, Keymap, shown_keys
from retrieval_lab_tui.answer import Answer, Question, ask, typed
from retrieval_lab_tui.explaining import Explaining, RescueProgressed
from retrieval_lab_tui.exporting import Exporting
from retrieval_lab_tui.jobs import Finished, Jobs
from retrieval_lab_tui.judging import Judging
from retrieval_lab_tui.live_settings import stepped
from retrieval_lab_tui.measuring import Measuring, MeasuringEnded, MeasuringProgressed
from retrieval_lab_tui.screens.analysis import AnalysisScreen
from retrieval_lab_tui.screens.confirm import Confirm
from retrieval_lab_tui.screens.explain import ExplainScreen
from retrieval_lab_tui.screens.explore import ExploreScreen
from retrieval_lab_tui.screens.help import HelpScreen
from retrieval_lab_tui.screens.measures import MeasuresScreen
from retrieval_lab_tui.screens.palette import Command, Palette
from retrieval_lab_tui.screens.picker import Picker
from retrieval_lab_tui.screens.problems import ProblemsScreen
from retrieval_lab_tui.screens.settings import SettingsScreen

OpenLab = Callable[..., Lab]

_LOOK_AT_FILES_SECONDS = 2.0


class IndexingProgressed(Message):
    """Indexing came this far; a newer one may replace it unseen."""

    def __init__(self, progress: Progress) -> None:
        super().__init__()
        self.progress = progress

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, IndexingProgressed)


class ExplorerApp(Exporting):
    """`config` is the pipeline, None for the one of the corpus's lab.yaml. `open_lab` is called as `Lab.open` is, in a
    thread, and `clock` tells the seconds that a question takes; tests give others.

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
        self._lab: Lab | None = None
        self._leaving = threading.Event()
        self._indexing: Progress | None = None
        self._jobs = Jobs(self.post_message)
        self._question: Question | None = None
        self._live: PipelineConfig | None = None
        self._history: History | None = None
        self.measuring = Measuring(self._jobs, self.post_message)

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
        if self._lab is not None:
            _let_go(self._lab)

    # Opening.

    def _open(self) -> None:
        self._indexing = None
        self.explore.opening()

        def progress(step: Progress) -> None:
            self.post_message(IndexingProgressed(step))

        def work(dropped: Callable[[], bool]) -> Lab:
            return self._open_lab(
                self._corpus,
                self._config,
                self._dsn,
                progress=progress,
                cancelled=lambda: self._leaving.is_set() or dropped(),
            )

        self._jobs.start("open", work, self._opened, self._not_opened)

    @on(IndexingProgressed)
    def _progressed(self, event: IndexingProgressed) -> None:
        if self._jobs.running("open"):
            self._indexing = event.progress
            self.explore.indexing(event.progress)

    async def _opened(self, lab: Lab) -> None:
        self._lab = lab
        self._live = self._indexing = None
        self.measuring.forget()
        self.problem = FaultyInput(lab.index.faults) if lab.index.faults else None
        await self.explore.opened(lab)
        self._history = History(lab.corpus)
        self.explore.remember(self._history.questions)
        if isinstance(lab, Replay):
            self._ask(Question(lab.bundle.trace.query, *((lab.golden[0], 0) if lab.golden else ())))
        elif self._question is not None and self._question.golden is None:
            self._ask(self._question)
        elif lab.golden:
            self._ask_golden(min(self._question.index or 0, len(lab.golden) - 1) if self._question is not None else 0)

    def _not_opened(self, error: Exception) -> None:
        self.problem = _known(error)
        self.explore.failed(str(self.problem), interrupted=isinstance(error, IndexingCancelled))

    def _stop_opening(self) -> None:
        """The job ends at the next document, and its result is not waited for."""
        self._jobs.drop("open")
        done = self._indexing
        count = f" after {done.done} of {done.total} documents" if done is not None else ""
        self._not_opened(IndexingCancelled(f"You stopped it{count}. What is done is kept."))

    def look_at_files(self) -> None:
        """Ask, off this thread, whether the corpus's files are what they were when it was opened."""
        if self._lab is not None and not self._jobs.running("files"):
            lab = self._lab
            self._jobs.start("files", lambda _: lab.changed_files(), self.explore.files_changed, lambda _: None)

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
        self._jobs.start("ask", partial(ask, lab, question, config), self._answered, self._not_answered)

    def _cancel_running(self, lab: Lab) -> None:
        """In a thread of its own: the server may be slow to answer, and keys must not wait for it."""
        if self._jobs.running("ask"):
            threading.Thread(target=lab.cancel, daemon=True).start()

    def _answered(self, answer: Answer) -> None:
        self.explore.answered(answer)
        if self._lab is not None:
            self.measuring.start(self._lab, self._live or self._lab.config)

    def _not_answered(self, error: Exception) -> None:
        self.explore.not_answered(str(_known(error)))

    @on(ExploreScreen.NeighbourWanted)
    def _neighbour_wanted(self, event: ExploreScreen.NeighbourWanted) -> None:
        lab = self._lab
        if lab is not None:
            work = partial(_neighbour, lab, event.chunk_id, event.step)
            self._jobs.start("neighbour", work, self._show_neighbour, self._not_answered)

    def _show_neighbour(self, chunk: Chunk | None) -> None:
        if chunk is None:
            self.say("End of the document", "The document has no chunk there.")
        else:
            self.explore.neighbour(chunk)

    @on(Finished)
    async def _finished(self, event: Finished) -> None:
        await self._jobs.settle(event)

    # Measuring the golden set, behind the questions.

    @on(MeasuringProgressed)
    def _measuring(self, event: MeasuringProgressed) -> None:
        for screen in self._measures_screens():
            screen.progress(event.done, event.total)

    @on(MeasuringEnded)
    def _measured(self, event: MeasuringEnded) -> None:
        if isinstance(event.error, Cancelled):
            return
        self.explore.measured(self.measuring.misses)
        screens = self._measures_screens()
        for screen in screens:
            screen.ended(event.error)
        if event.error is not None and not screens:
            self.say("The golden set was not measured", str(_known(event.error)), error=True)

    def _measures_screens(self) -> list[MeasuresScreen]:
        """The open one, if there is one; while the app ends there may be no screen at all."""
        return [screen for screen in self.screen_stack if isinstance(screen, MeasuresScreen)] if self.is_running else []

    @on(MeasuresScreen.QueriesWanted)
    def _list_queries(self, event: MeasuresScreen.QueriesWanted) -> None:
        def chosen(index: int | None) -> None:
            if index is not None:
                self.pop_screen()
                self._ask_golden(index)

        if self._lab is not None:
            order = self.measuring.worst_first(event.kind, event.measure)
            picker = Picker(self._lab.golden, self.measuring.results, None, order=order, measure=event.measure)
            self.push_screen(picker, chosen)

    # Other settings.

    @on(SettingsScreen.Changed)
    def _settings_changed(self, event: SettingsScreen.Changed) -> None:
        self._use(event.config)

    @on(SettingsScreen.SaveWanted)
    def _save_settings(self) -> None:
        lab, screen = self._lab, self.screen
        if lab is None or not isinstance(screen, SettingsScreen):
            return
        try:
            path = lab.save_config(self._live or lab.config)
        except LabError as error:
            self.say("Not saved", str(error), error=True)
            return
        self._live = None
        screen.saved()
        self.say("Settings saved", f"{path} (the one before: .bak)")
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

    # Actions of the registry that concern the whole app.

    def source(self) -> tuple[Path, int] | None:
        chunk = self.explore.chunk
        return None if self._lab is None or chunk is None else self._lab.source(chunk)

    def action_step_golden(self, step: int) -> None:
        if self._has_golden("Nothing to step through") and self._lab is not None:
            last = self.explore.golden_index
            start = -1 if last is None and step > 0 else last or 0
            self._ask_golden((start + step) % len(self._lab.golden))

    def action_step_miss(self, step: int) -> None:
        if not self._has_golden("Nothing to step through"):
            return
        if self.measuring.misses is None:
            self.say("One moment", "The golden queries are still being measured.")
        elif (place := self.measuring.miss(self.explore.golden_index, step)) is None:
            self.say("No misses", "Every golden query finds its passage.")
        else:
            self._ask_golden(place)

    def action_pick(self) -> None:
        def chosen(index: int | None) -> None:
            if index is not None:
                self._ask_golden(index)

        if self._has_golden("Nothing to choose from") and self._lab is not None:
            self.push_screen(Picker(self._lab.golden, self.measuring.results, self.explore.golden_index), chosen)

    def action_measures(self) -> None:
        if self._has_golden("Nothing to measure") and self._lab is not None:
            self.push_screen(MeasuresScreen(self.measuring, self._lab))

    def _has_golden(self, title: str) -> bool:
        if self._lab is not None and self._lab.replayed:
            self.say(title, "A bundle holds one question only; open the corpus for the others.")
            return False
        if self._lab is not None and not self._lab.golden:
            faulty = "golden.yaml has faults: ! lists them." if self._lab.golden_faults else "There is no golden.yaml."
            self.say(title, faulty)
        return self._lab is not None and bool(self._lab.golden)

    # Why a passage was lost.

    def action_analysis(self) -> None:
        if self._has_golden("Nothing to analyse") and self._lab is not None:
            self.push_screen(AnalysisScreen(Judging(self._jobs, self._lab, self._live or self._lab.config)))

    @on(AnalysisScreen.QueryWanted)
    def _go_to_miss(self, event: AnalysisScreen.QueryWanted) -> None:
        """To its lists; with the explanation over the analysis, so that escape comes back to it."""
        lab = self._lab
        if lab is None:
            return
        if not event.explained:
            self.pop_screen()
            self._ask_golden(event.place)
            return
        config = self._live or lab.config
        query = lab.golden[event.place]

        def show(journey: Journey) -> None:
            self.push_screen(ExplainScreen(Explaining(self._jobs, self.post_message, lab, journey, config)))

        self._ask_golden(event.place)
        self._jobs.start("explain", lambda _: lab.explain(query, config=config), show, self._not_answered)

    def action_explain(self) -> None:
        answer = self.explore.answer
        if answer is not None and answer.journey is not None:
            self._show_journey(answer, answer.journey)
        else:
            self.action_explain_chunk()

    def action_explain_chunk(self) -> None:
        lab, answer, chunk = self._lab, self.explore.answer, self.explore.chunk
        if lab is None or answer is None or chunk is None:
            self.say("Nothing to explain", "No passage is under the cursor.")
            return
        self._jobs.start(
            "explain",
            lambda _: lab.explain(answer.trace, chunk.chunk_id),
            partial(self._show_journey, answer),
            self._not_answered,
        )

    def _show_journey(self, answer: Answer, journey: Journey) -> None:
        if self._lab is not None:
            config = answer.trace.config
            self.push_screen(ExplainScreen(Explaining(self._jobs, self.post_message, self._lab, journey, config)))

    @on(RescueProgressed)
    def _rescue_progressed(self, event: RescueProgressed) -> None:
        for screen in self.screen_stack if self.is_running else ():
            if isinstance(screen, ExplainScreen):
                screen.progress(event.done, event.total, event.what)

    @on(ExplainScreen.RescueWanted)
    def _try_rescue(self, event: ExplainScreen.RescueWanted) -> None:
        lab, rescue, question = self._lab, event.rescue, self._question
        if lab is None or question is None:
            return
        if rescue.config.indexing != lab.config.indexing:
            self.say("Not tried", "This change needs another index: set it in lab.yaml, and open the corpus again.")
            return
        self.pop_screen()
        if rescue.edit is not None:
            self._ask(replace(question, query=rescue.edit.query))
        else:
            self._use(rescue.config)

    def action_toggle_operators(self) -> None:
        """Full-text search without operators, for a dash or a quote that was meant as text; or with them again."""
        lab = self._lab
        if lab is None:
            return
        config = self._live or lab.config
        texts = [one.name for one in config.retrievers if isinstance(one, TextSearch)]
        for name in texts:
            config = stepped(config, f"retrievers.{name}.operators", 1)
        if texts:
            self._use(config)
        else:
            self.say("No full-text search", "This pipeline has none, so there are no operators.")

    def action_settings(self) -> None:
        if self._lab is not None:
            self.push_screen(SettingsScreen(self._live or self._lab.config, self._lab.config))

    def action_file_settings(self) -> None:
        if self._lab is not None and self._live is not None:
            self._use(self._lab.config)

    def action_toggle_dark(self) -> None:
        self.theme = themes.opposite(self.theme, dark=self.current_theme.dark)

    def action_again(self) -> None:
        """Open the corpus again, with its files and its server as they are now, and ask the last question again."""
        if self._jobs.running("open"):
            return
        if self._lab is not None:
            self._jobs.drop("ask")
            self._jobs.drop("files")
            threading.Thread(target=_let_go, args=(self._lab,), daemon=True).start()
            self._lab = None
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


def _known(error: Exception) -> LabError:
    return error if isinstance(error, LabError) else LabError(f"{type(error).__name__}: {error}")


def _let_go(lab: Lab) -> None:
    lab.cancel()
    lab.close()


def _neighbour(lab: Lab, chunk_id: str, step: int, _: Callable[[], bool]) -> Chunk | None:
    before, after = lab.neighbours(chunk_id)
    return before if step < 0 else after
