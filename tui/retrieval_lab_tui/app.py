"""The explorer: opens a corpus, asks its questions off the screen's thread, and shows what comes back."""

from __future__ import annotations

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

from retrieval_lab.errors import LabError
from retrieval_lab.index import Progress
from retrieval_lab.lab import Lab
from retrieval_lab.types import GoldenQuery
from retrieval_lab_tui.actions import EXPLORE
from retrieval_lab_tui.answer import Answer, ask
from retrieval_lab_tui.display import safe
from retrieval_lab_tui.jobs import Finished, Jobs
from retrieval_lab_tui.screens.explore import ExploreScreen
from retrieval_lab_tui.screens.help import HelpScreen

OpenLab = Callable[..., Lab]


class IndexingProgressed(Message):
    """Indexing came this far; a newer one may replace it unseen."""

    def __init__(self, progress: Progress) -> None:
        super().__init__()
        self.progress = progress

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, IndexingProgressed)


class ExplorerApp(App[None]):
    """`open_lab` is called as `Lab.open` is, in a thread; tests give another."""

    TITLE = "retrieval lab"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (140, "-wide")]  # noqa: RUF012 - Textual declares it without ClassVar
    VERTICAL_BREAKPOINTS = [(0, "-short"), (36, "-tall")]  # noqa: RUF012

    def __init__(self, corpus: Path | None = None, dsn: str | None = None, *, open_lab: OpenLab = Lab.open) -> None:
        super().__init__()
        self._corpus = corpus
        self._dsn = dsn
        self._open_lab = open_lab
        self._lab: Lab | None = None
        self._leaving = threading.Event()
        self._jobs = Jobs(self.post_message)
        self._golden_index: int | None = None
        self.explore = ExploreScreen()

    def on_mount(self) -> None:
        self.push_screen(self.explore)
        self.call_after_refresh(self._open)

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        yield from super().get_system_commands(screen)
        for action in EXPLORE:
            run = partial(self.explore.run_action, action.name)
            yield SystemCommand(f"{action.label}", f"{action.description} ({action.keys})", run)

    def close_lab(self) -> None:
        """Let go of the database; called when the screen is gone."""
        self._leaving.set()
        if self._lab is not None:
            self._lab.cancel()
            self._lab.close()

    # Opening.

    def _open(self) -> None:
        self.explore.opening()

        def progress(step: Progress) -> None:
            self.post_message(IndexingProgressed(step))

        self._jobs.start(
            "open",
            partial(self._open_lab, self._corpus, dsn=self._dsn, progress=progress, cancelled=self._leaving.is_set),
        )

    @on(IndexingProgressed)
    def _indexing(self, event: IndexingProgressed) -> None:
        self.explore.indexing(event.progress)

    def _opened(self, lab: Lab) -> None:
        self._lab = lab
        self.explore.opened(lab)
        for fault in lab.index.faults:
            self._warn("Left out of the index", str(fault))
        for fault in lab.golden_faults[:3]:
            self._warn("golden.yaml is not used", str(fault))
        if lab.golden:
            self._ask_golden(0)
        else:
            self.explore.action_focus_query()

    # Asking.

    @on(Input.Submitted, "#query")
    def _submitted(self, event: Input.Submitted) -> None:
        if not event.value.strip() or self._lab is None:
            return
        current = self._golden_query()
        if current is not None and current.query == event.value:
            self._ask(event.value, current)
        else:
            self._ask(event.value, None)

    def _golden_query(self) -> GoldenQuery | None:
        if self._lab is None or self._golden_index is None:
            return None
        return self._lab.golden[self._golden_index]

    def _step_golden(self, step: int) -> None:
        if self._lab is None:
            return
        if not self._lab.golden:
            self.notify("This corpus has no golden queries.", title="Nothing to step through", markup=False)
            return
        start = -1 if self._golden_index is None and step > 0 else self._golden_index or 0
        self._ask_golden((start + step) % len(self._lab.golden))

    def _ask_golden(self, index: int) -> None:
        self._golden_index = index
        query = self._golden_query()
        if query is not None:
            self._ask(query.query, query)

    def _ask(self, query: str, golden: GoldenQuery | None) -> None:
        lab = self._lab
        if lab is None:
            return
        if self._jobs.running("ask"):
            lab.cancel()
        position = (self._golden_index + 1, golden) if golden is not None and self._golden_index is not None else None
        self.explore.asking(query, position)
        self._jobs.start("ask", partial(ask, lab, query, golden))

    @on(Finished)
    def _finished(self, event: Finished) -> None:
        if not self._jobs.accept(event):
            return
        if event.error is not None:
            self._failed(event.kind, event.error)
        elif isinstance(event.result, Lab):
            self._opened(event.result)
        elif isinstance(event.result, Answer):
            self.explore.answered(event.result)

    def _failed(self, kind: str, error: Exception) -> None:
        reason = str(error) if isinstance(error, LabError) else f"{type(error).__name__}: {error}"
        if kind == "open":
            self.explore.failed(reason)
        else:
            self.explore.idle()
            self.notify(safe(reason), title="The question was not answered", severity="error", markup=False)

    def _warn(self, title: str, text: str) -> None:
        self.notify(safe(text), title=title, severity="warning", timeout=10, markup=False)

    # Actions of the registry that concern the whole app.

    def action_next_golden(self) -> None:
        self._step_golden(1)

    def action_previous_golden(self) -> None:
        self._step_golden(-1)

    def action_retry(self) -> None:
        if self._lab is None and not self._jobs.running("open"):
            self._open()

    def action_help(self) -> None:
        self.push_screen(HelpScreen())

    def action_back_out(self) -> None:
        """Stop the query that is running; with none, go back to the lists."""
        if self._lab is not None and self._jobs.running("ask"):
            self._jobs.drop("ask")
            self._lab.cancel()
            self.explore.idle()
            self.notify("The last answer stands.", title="Stopped", markup=False)
        elif self._lab is not None:
            self.explore.focus_lists()
