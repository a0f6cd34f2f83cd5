"""Asking questions of the open lab, under the settings of the moment."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

from textual import on
from textual.widgets import Input

from retrieval_lab.config import PipelineConfig
from retrieval_lab.errors import LabError
from retrieval_lab.history import History
from retrieval_lab.lab import Lab
from retrieval_lab.retrievers.text import TextSearch
from retrieval_lab.types import Chunk
from retrieval_lab_tui.answer import Answer, Question, ask, typed
from retrieval_lab_tui.exporting import Exporting
from retrieval_lab_tui.jobs import Finished, Jobs
from retrieval_lab_tui.live_settings import stepped
from retrieval_lab_tui.measuring import Measuring
from retrieval_lab_tui.screens.explore import ExploreScreen
from retrieval_lab_tui.screens.settings import SettingsScreen


class Asking(Exporting):
    """An app that asks one question at a time, off the screen's thread; the newest replaces the one before."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(clock)
        self._lab: Lab | None = None
        self._jobs = Jobs(self.post_message)
        self._question: Question | None = None
        self._live: PipelineConfig | None = None
        """Other settings than the file's, None while they are the file's."""
        self._history: History | None = None
        self.measuring = Measuring(self._jobs, self.post_message)

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
        self.explore.not_answered(str(known(error)))

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
        if not self.ending:
            await self._jobs.settle(event)

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

    def source(self) -> tuple[Path, int] | None:
        chunk = self.explore.chunk
        return None if self._lab is None or chunk is None else self._lab.source(chunk)


def known(error: Exception) -> LabError:
    """The error in words for the screen."""
    return error if isinstance(error, LabError) else LabError(f"{type(error).__name__}: {error}")


def _neighbour(lab: Lab, chunk_id: str, step: int, _: Callable[[], bool]) -> Chunk | None:
    before, after = lab.neighbours(chunk_id)
    return before if step < 0 else after
