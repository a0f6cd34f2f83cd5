"""The passage under the cursor, with its place and its rank in every list."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.binding import BindingType
from textual.content import Content
from textual.reactive import reactive
from textual.strip import Strip
from textual.visual import Visual
from textual.widget import Widget

from retrieval_lab_tui.actions import PASSAGE, bindings

_BAR_WIDTH = 1
_WHEEL_LINES = 3


class Passage(Widget, can_focus=True):
    """Scrolls one passage; the border's top names its place, the bottom its ranks.

    It wraps and scrolls its lines itself: another passage is then no reason to lay out the screen again, which would
    make the cursor wait.
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings(PASSAGE)
    COMPONENT_CLASSES: ClassVar[set[str]] = {"passage--bar"}

    DEFAULT_CSS = """
    Passage {
        border: round $foreground 30%;
        border-title-style: bold;
        border-title-color: $foreground;
        border-subtitle-color: $text-muted;
        padding: 0 1;
        &:focus { border: heavy $accent; border-title-color: $accent; }
        & > .passage--bar { color: $scrollbar; }
    }
    """

    top: reactive[int] = reactive(0)
    """The line that is drawn first, from 0."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's name for it
        super().__init__(id=id)
        self.text = Content("")
        self._first_mark = 0
        self._lines: list[Content] = []

    def show(self, title: Content, ranks: Content, text: Content, first_mark: int = 0) -> None:
        """Put in another passage and scroll to the line of the offset `first_mark`, with one line before it."""
        self.border_title = title
        self.border_subtitle = ranks
        self.text = text
        self._first_mark = first_mark
        self._wrap()

    def on_resize(self) -> None:
        self._wrap()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self.top += _WHEEL_LINES
        event.stop()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self.top -= _WHEEL_LINES
        event.stop()

    def action_scroll_lines(self, lines: int) -> None:
        self.top += lines

    def action_scroll_pages(self, pages: int) -> None:
        self.top += pages * max(1, self.content_size.height - 1)

    def action_scroll_edge(self, side: int) -> None:
        self.top = len(self._lines) if side > 0 else 0

    def validate_top(self, top: int) -> int:
        return max(0, min(top, len(self._lines) - self.content_size.height))

    def _wrap(self) -> None:
        width = self.content_size.width - _BAR_WIDTH - 1
        self._lines = self.text.wrap(width) if width > 0 else []
        before = self.text[: self._first_mark].wrap(width) if width > 0 and self._first_mark else []
        self.top = len(before) - 2
        self.refresh()

    def render_line(self, y: int) -> Strip:
        width = self.content_size.width
        if width <= _BAR_WIDTH + 1:
            return Strip.blank(max(0, width))
        row = self.top + y
        line = self._lines[row] if row < len(self._lines) else Content("")
        text = Visual.to_strips(self, line, width - _BAR_WIDTH, 1, self.get_visual_style(), pad=True)[0]
        bar = Content("▐" if self._is_bar(y) else " ")
        return Strip.join([text, Visual.to_strips(self, bar, 1, 1, self.get_visual_style("passage--bar"))[0]])

    def _is_bar(self, y: int) -> bool:
        """Whether the bar that shows the place in a passage longer than the screen covers this line."""
        height, lines = self.content_size.height, len(self._lines)
        if lines <= height:
            return False
        first = self.top * height // lines
        return first <= y <= first + height * height // lines
