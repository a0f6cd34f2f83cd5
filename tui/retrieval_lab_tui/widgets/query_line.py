"""The line in which questions are written, with those that were asked before a key away."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import BindingType
from textual.suggester import SuggestFromList
from textual.widgets import Input

from retrieval_lab_tui.actions import QUERY_LINE, bindings


class QueryLine(Input):
    """An input whose up and down keys go through earlier questions; right takes the one that is suggested."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(QUERY_LINE)

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's name for it
        super().__init__(id=id, placeholder="Write a question, then press enter", select_on_focus=False)
        self._questions: tuple[str, ...] = ()
        self._back = 0
        self._draft = ""

    def remember(self, questions: Sequence[str]) -> None:
        """These were asked before, the oldest first."""
        self._questions = tuple(questions)
        self._back = 0
        self.suggester = SuggestFromList(reversed(self._questions), case_sensitive=False)

    def action_earlier(self, steps: int) -> None:
        if self._back == 0:
            self._draft = self.value
        self._back = max(0, min(len(self._questions), self._back + steps))
        self.value = self._questions[-self._back] if self._back else self._draft
        self.cursor_position = len(self.value)
