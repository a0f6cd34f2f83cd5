"""Asking questions of the lab of the moment, under its settings."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

from textual import on
from textual.widgets import Input

from retrieval_lab.errors import LabError
from retrieval_lab.history import History
from retrieval_lab.lab import Lab
from retrieval_lab.types import Chunk
from retrieval_lab_tui.answer import Answer, Question, ask, typed
from retrieval_lab_tui.exporting import Exporting
from retrieval_lab_tui.jobs import Finished, Jobs
from retrieval_lab_tui.labs import Labs
from retrieval_lab_tui.measuring import Measuring
from retrieval_lab_tui.screens.explore import ExploreScreen


class Asking(Exporting):
    """An app that asks one question at a time, off the screen's thread; the newest replaces the one before."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(clock)
        self.labs: Labs
        """What is open of the corpus, with the settings of the moment and the file's."""
        self._jobs = Jobs(self.post_message)
        self._question: Question | None = None
        self._history: History | None = None
        self.measuring = Measuring(self._jobs, self.post_message)

    @property
    def _lab(self) -> Lab | None:
        """The lab that serves the settings of the moment, None until the corpus is open."""
        return None if self.labs.now is None else self.labs.now.lab

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
        now, file = self.labs.now, self.labs.file
        if now is None or file is None:
            return
        self._cancel_running(now.lab)
        self._question = question
        self.explore.asking(question)
        self._jobs.start("ask", partial(ask, now, file, question), self._answered, self._not_answered)

    def _cancel_running(self, lab: Lab) -> None:
        """In a thread of its own: the server may be slow to answer, and keys must not wait for it."""
        if self._jobs.running("ask"):
            threading.Thread(target=lab.cancel, daemon=True).start()

    async def _answered(self, answer: Answer) -> None:
        await self.explore.answered(answer)
        if self.labs.now is not None:
            self.measuring.start(self.labs.now.lab, self.labs.now.config)

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

    def source(self) -> tuple[Path, int] | None:
        chunk = self.explore.chunk
        return None if self._lab is None or chunk is None else self._lab.source(chunk)


def known(error: Exception) -> LabError:
    """The error in words for the screen."""
    return error if isinstance(error, LabError) else LabError(f"{type(error).__name__}: {error}")


def _neighbour(lab: Lab, chunk_id: str, step: int, _: Callable[[], bool]) -> Chunk | None:
    before, after = lab.neighbours(chunk_id)
    return before if step < 0 else after
