"""The passage under the cursor, with its place and its rank in every list."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from retrieval_lab_tui.actions import PASSAGE, bindings


class Passage(VerticalScroll, can_focus=True):
    """Scrolls one passage; the border's top names its place, the bottom its ranks."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(PASSAGE)

    DEFAULT_CSS = """
    Passage {
        border: round $foreground 30%;
        border-title-style: bold;
        border-title-color: $foreground;
        border-subtitle-color: $text-muted;
        padding: 0 1;
        scrollbar-size-vertical: 1;
        &:focus { border: heavy $accent; border-title-color: $accent; }
        & > Static { height: auto; }
    }
    """

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's name for it
        super().__init__(id=id)
        self._text = Content("")
        self._first_mark = 0

    def compose(self) -> ComposeResult:
        yield Static()

    def show(self, title: Content, ranks: Content, text: Content, first_mark: int = 0) -> None:
        """Put in another passage and scroll to the line of the offset `first_mark`, with one line before it."""
        self.border_title = title
        self.border_subtitle = ranks
        self.query_one(Static).update(text)
        self._first_mark = first_mark
        self._text = text
        self.call_after_refresh(self._reveal)

    def on_resize(self) -> None:
        self._reveal()

    def _reveal(self) -> None:
        width = self.query_one(Static).size.width
        before = self._text[: self._first_mark].wrap(width) if width and self._first_mark else []
        self.scroll_to(y=max(0, len(before) - 2), animate=False)
