"""Other settings than the file's: those that the open index serves at once, and those that need another index."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from textual import on
from textual.message import Message

from retrieval_lab.config import PipelineConfig
from retrieval_lab.configurations import configurations
from retrieval_lab.errors import LabError
from retrieval_lab.index import Progress
from retrieval_lab.retrievers.text import TextSearch
from retrieval_lab.settings import ChunkerSettings, DocumentChunker, MarkdownChunker
from retrieval_lab_tui.asking import Asking, known
from retrieval_lab_tui.embedders import embedder_name, embedders
from retrieval_lab_tui.jobs import Cancelled
from retrieval_lab_tui.labs import Served
from retrieval_lab_tui.live_settings import stepped
from retrieval_lab_tui.screens.configurations import ConfigurationChooser
from retrieval_lab_tui.screens.settings import SettingsScreen

_SETTLE_SECONDS = 0.25
_LOOK_SECONDS = 0.02


class IndexingProgressed(Message):
    """The indexing that a job does came this far; a newer one of the same job may replace it unseen."""

    def __init__(self, job: str, progress: Progress) -> None:
        super().__init__()
        self.job = job
        self.progress = progress

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, IndexingProgressed) and message.job == self.job


class Switching(Asking):
    """An app whose settings can be changed; while another index is made, questions go to the one before."""

    def _use(self, config: PipelineConfig) -> None:
        """Make this the configuration of the moment, once an index serves it."""
        now = self.labs.now
        if now is None:
            return
        self._jobs.drop("switch")
        served = Served(now.lab, config) if now.lab.replayed else self.labs.serving(config)
        if served is not None:
            self._take(served)
            return
        self.explore.switching(self.labs.names.get(config) or index_name(config, now.config))
        for screen in self._settings_screens():
            screen.wait()
        self._jobs.start("switch", partial(self.open_served, "switch", config), self._take, self._not_switched)

    def open_served(self, job: str, config: PipelineConfig, dropped: Cancelled) -> Served:
        """The work of a job: the configuration served, after a pause in which another may have been chosen.

        Raises as `Labs.open` does.
        """
        labs, begin = self.labs, time.monotonic() + _SETTLE_SECONDS
        while labs.serving(config) is None and time.monotonic() < begin and not dropped():
            time.sleep(_LOOK_SECONDS)
        return labs.open(config, lambda step: self._progress(job, step), self._until(dropped))

    def _progress(self, job: str, step: Progress) -> None:
        self.post_message(IndexingProgressed(job, step))

    def _until(self, dropped: Cancelled) -> Callable[[], bool]:
        """When the work that may be dropped is to stop."""
        raise NotImplementedError

    def _take(self, served: Served) -> None:
        if self.labs.now is not None:
            self._cancel_running(self.labs.now.lab)
        self.labs.use(served)
        self.measuring.forget()
        self.explore.measured(None)
        self._settled()
        if self._question is not None:
            self._ask(self._question)

    def _settled(self, trouble: str = "") -> None:
        """Nothing is being switched any more; what is shown is the configuration of the moment."""
        self.explore.switching(None)
        for screen in self._settings_screens():
            if self.labs.now is not None and self.labs.file is not None:
                screen.settled(self.labs.now.config, self.labs.file.config, trouble)

    def _not_switched(self, error: Exception) -> None:
        text = str(known(error))
        self._settled(text)
        if not self._settings_screens():
            self.say("Not switched", text, error=True)

    def stop_switching(self) -> bool:
        """Stay with the index of the moment; whether another one was being made."""
        running = self._jobs.running("switch")
        self._jobs.drop("switch")
        if running:
            self._settled()
        return running

    @on(IndexingProgressed)
    def _switch_progressed(self, event: IndexingProgressed) -> None:
        if event.job == "switch" and self._jobs.running("switch") and not self.ending:
            self.explore.switch_progressed(event.progress)
            for screen in self._settings_screens():
                screen.progress(event.progress)

    def _settings_screens(self) -> list[SettingsScreen]:
        """The open one, if there is one; while the app ends there may be no screen at all."""
        return [screen for screen in self.screen_stack if isinstance(screen, SettingsScreen)] if not self.ending else []

    @on(SettingsScreen.Changed)
    def _settings_changed(self, event: SettingsScreen.Changed) -> None:
        self._use(event.config)

    @on(SettingsScreen.StopWanted)
    def _stop_wanted(self) -> None:
        self.stop_switching()

    @on(SettingsScreen.SaveWanted)
    def _save_settings(self) -> None:
        if self.labs.now is None:
            return
        if self._jobs.running("switch"):
            self.say("Not saved", "The index of these settings is still being made; w saves them once it is ready.")
            return
        try:
            path = self.labs.save()
        except LabError as error:
            self.say("Not saved", str(error), error=True)
            return
        self._settled()
        self.say("Settings saved", f"{path} (the one before: .bak)")
        if self._question is not None:
            self._ask(self._question)

    def action_toggle_operators(self) -> None:
        """Full-text search without operators, for a dash or a quote that was meant as text; or with them again."""
        if self.labs.now is None:
            return
        config = self.labs.now.config
        texts = [one.name for one in config.retrievers if isinstance(one, TextSearch)]
        for name in texts:
            config = stepped(config, f"retrievers.{name}.operators", 1)
        if texts:
            self._use(config)
        else:
            self.say("No full-text search", "This pipeline has none, so there are no operators.")

    def action_settings(self) -> None:
        now, file = self.labs.now, self.labs.file
        if now is not None and file is not None:
            others = (now.config, *self.labs.earlier)
            offered = () if now.lab.serves_one_index else embedders(file.config, others)
            screen = SettingsScreen(now.config, file.config, offered)
            screen.switching = self._jobs.running("switch")
            self.push_screen(screen)

    def action_configurations(self) -> None:
        """Choose a pipeline that has a name, and ask the question with it."""
        now = self.labs.now
        if now is None:
            return
        if now.lab.replayed:
            self.say("No other configuration", "A bundle holds the answer of one pipeline only; open its corpus.")
            return
        try:
            found = now.lab.offered(configurations(now.lab.corpus))
        except LabError as error:
            self.say("No configurations", str(error), error=True)
            return

        def chosen(place: int | None) -> None:
            if place is not None and (config := found[place].config) is not None:
                self.labs.names[config] = found[place].name
                self._use(config)

        self.push_screen(ConfigurationChooser(found, now.config, self.labs.name), chosen)

    def action_file_settings(self) -> None:
        if self.labs.file is not None and (self.labs.live or self._jobs.running("switch")):
            self._use(self.labs.file.config)


def index_name(config: PipelineConfig, before: PipelineConfig) -> str:
    """What the new index is of, in few words."""
    if config.embedder != before.embedder:
        return embedder_name(config.embedder)
    if config.chunker != before.chunker:
        return _cut_name(config.chunker)
    return "with headings" if config.contextual_headers else "without headings"


def _cut_name(chunker: ChunkerSettings) -> str:
    if isinstance(chunker, DocumentChunker):
        return "whole documents"
    if isinstance(chunker, MarkdownChunker):
        return f"chunks of {chunker.max_chars}, overlap {chunker.overlap}"
    return f"chunks of {chunker.size} {chunker.kind}, overlap {chunker.overlap}"
