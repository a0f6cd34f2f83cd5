"""One ranked list: a row a chunk, one to three lines a row, drawn line by line so that length costs nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.content import Content
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.visual import Visual

from retrieval_lab.shorten import shorten_middle
from retrieval_lab_tui.actions import LIST, bindings
from retrieval_lab_tui.display import one_line

_SCORE_WIDTH = 6
_ID_WIDTH_IN_ONE_LINE = 26
_INDENT = 6
_CORNERS = 4
"""Cells of the frame's top line that are not for its title."""
_HINT_WIDTH = 13
"""Cells of `‹ 2 more` with what stands around it."""
_MARKS = 2
_ROOM_FOR_HEADING = 16
_ROOM_FOR_NUMBERS = 46
"""Narrower lists put score and detail on the row's second line, so that the chunk's id stays whole."""


@dataclass(frozen=True, slots=True)
class Row:
    """One chunk in one list, ready to draw.

    `detail` is the list's own column: where fusion found it, or its move since the stage before. `passage` is the
    text as one line with its highlights, cut so that the best match is near its beginning.
    """

    chunk_id: str
    rank: int
    score: str
    detail: str
    heading: str
    passage: Content
    wanted: bool
    grade: str = ""
    """Of a query with graded labels, the grade of what they judge; else empty."""


class RankedList(ScrollView, can_focus=True, inherit_bindings=False):
    """Shows rows, keeps a cursor, and marks the row of the chunk that is under the cursor in another list."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "ranked-list--cursor",
        "ranked-list--cursor-focused",
        "ranked-list--linked",
    }
    BINDINGS = bindings(LIST)

    DEFAULT_CSS = """
    RankedList {
        border: round $foreground 30%;
        border-title-style: bold;
        border-title-color: $foreground;
        border-subtitle-color: $text-muted;
        overflow-x: hidden;
        scrollbar-size-vertical: 1;
        text-wrap: nowrap;
        text-overflow: ellipsis;
        &:focus { border: heavy $accent; border-title-color: $accent; }
        & > .ranked-list--linked { background: $foreground 8%; }
        & > .ranked-list--cursor { background: $foreground 8%; }
        & > .ranked-list--cursor-focused { background: $accent 25%; }
    }
    """

    cursor: reactive[int] = reactive(0)
    """The row under the cursor, from 0."""
    linked: reactive[str | None] = reactive(None)
    """The chunk that is under the cursor of the active list."""
    row_lines: reactive[int] = reactive(1)
    """Lines a row: 1 all in one, 2 with the passage below, 3 with the heading path between them."""

    class Moved(Message):
        """The cursor came to another chunk, or the list was focused."""

        def __init__(self, ranked_list: RankedList) -> None:
            super().__init__()
            self.ranked_list = ranked_list

        @property
        def control(self) -> RankedList:
            return self.ranked_list

    class BeyondWanted(Message):
        """The list out of sight on the left (-1) or on the right (1) of this one is to be shown."""

        def __init__(self, ranked_list: RankedList, step: int) -> None:
            super().__init__()
            self.ranked_list = ranked_list
            self.step = step

    def __init__(self, stage: str, title: str, subtitle: str) -> None:
        super().__init__(id=f"list-{stage}")  # a retriever may have the name of another widget
        self.stage = stage
        self.title = title
        self.numbers = subtitle
        """What the scores and details are."""
        self._tally = ""
        self._hidden = (0, 0)
        self.rows: tuple[Row, ...] = ()
        self._detail_width = self._grade_width = 0
        self._drawn: dict[tuple[object, ...], Strip] = {}
        self.empty_text = ""
        self.border_title = Content(title)
        self.border_subtitle = Content(subtitle)

    def show(
        self,
        rows: tuple[Row, ...],
        total: int,
        empty_text: str,
        seconds: float | None = None,
        keep: str | None = None,
    ) -> None:
        """Put in new rows, of `total` in all.

        The cursor goes to the chunk `keep` where the list has it, else to the first wanted row, else to the first.
        """
        self.rows = rows
        self._drawn.clear()
        self._detail_width = max((len(row.detail) for row in rows), default=0)
        self._grade_width = max((len(row.grade) for row in rows), default=0)
        self.empty_text = empty_text
        count = f"{total}" if total == len(rows) else f"{len(rows)} of {total}"
        time = "" if seconds is None else f" · {seconds * 1e3:.0f} ms"
        self._tally = f" · {count}{time}"
        self._draw_title()
        places = {row.chunk_id: place for place, row in enumerate(rows)}
        wanted = next((place for place, row in enumerate(rows) if row.wanted), 0)
        self.set_reactive(RankedList.cursor, places.get(keep or "", wanted))
        self._measure()
        self._reveal(self.cursor)

    @property
    def chunk_id(self) -> str | None:
        """The chunk under the cursor, None in an empty list."""
        return self.rows[self.cursor].chunk_id if self.rows else None

    @property
    def wanted_rank(self) -> int | None:
        """The best rank of a wanted chunk in this list."""
        return next((row.rank for row in self.rows if row.wanted), None)

    def reveal_wanted(self) -> None:
        """Bring the first wanted row into view, where the list has one."""
        position = next((i for i, row in enumerate(self.rows) if row.wanted), None)
        if position is not None:
            self._reveal(position)

    def reveal_cursor(self) -> None:
        """Bring the row under the cursor into view."""
        self._reveal(self.cursor)

    def _draw_title(self) -> None:
        """The title, cut in its middle where the number of rows would have no room."""
        room = self.size.width - _CORNERS - len(self._tally) if self.size.width else len(self.title)
        self.border_title = Content(f"{shorten_middle(self.title, max(1, room))}{self._tally}")

    def tell_hidden(self, left: int, right: int) -> None:
        """So many lists beyond this one are out of sight on its left, or on its right."""
        self._hidden = (left, right)
        self._draw_numbers()

    def _draw_numbers(self) -> None:
        """What the numbers are, below; and at the outer corner how many lists are out of sight there."""
        left, right = self._hidden
        self.styles.border_subtitle_align = "left" if left else "right"
        room = max(0, self.size.width - _HINT_WIDTH) if left or right else len(self.numbers)
        numbers = Content(shorten_middle(self.numbers, room))
        if left:
            numbers = Content.assemble((f"‹ {left} more", "bold $accent"), "  ", numbers)
        elif right:
            numbers = Content.assemble(numbers, "  ", (f"{right} more ›", "bold $accent"))
        self.border_subtitle = numbers

    def validate_cursor(self, cursor: int) -> int:
        return max(0, min(cursor, len(self.rows) - 1))

    def watch_cursor(self) -> None:
        self._reveal(self.cursor)
        self.refresh()
        self.post_message(self.Moved(self))

    def watch_linked(self) -> None:
        position = next((i for i, row in enumerate(self.rows) if row.chunk_id == self.linked), None)
        if position is not None and not self.has_focus:
            self._reveal(position)
        self.refresh()

    def watch_row_lines(self) -> None:
        self._measure()

    def action_move(self, rows: int) -> None:
        self.cursor += rows

    def action_page(self, pages: int) -> None:
        self.cursor += pages * max(1, self.scrollable_content_region.height // self.row_lines - 1)

    def action_edge(self, side: int) -> None:
        self.cursor = len(self.rows) - 1 if side > 0 else 0

    def on_focus(self) -> None:
        self.post_message(self.Moved(self))

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is not None and self.rows:
            self.cursor = (offset.y + self.scroll_offset.y) // self.row_lines
        elif event.y == self.outer_size.height - 1 and any(self._hidden):
            self._click_below(event.x)

    def _click_below(self, x: int) -> None:
        left, right = self._hidden
        if left and x <= _HINT_WIDTH:
            self.post_message(self.BeyondWanted(self, -1))
        elif right and x >= self.outer_size.width - _HINT_WIDTH:
            self.post_message(self.BeyondWanted(self, 1))

    def on_resize(self) -> None:
        self._measure()
        self._draw_title()
        self._draw_numbers()

    def _measure(self) -> None:
        self.virtual_size = Size(self.scrollable_content_region.width, len(self.rows) * self.row_lines)
        self.refresh()

    def _reveal(self, row: int) -> None:
        region = Region(0, row * self.row_lines, 1, self.row_lines)
        self.scroll_to_region(region, animate=False, force=True, immediate=True)

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        if width <= 0:
            return Strip.blank(0)
        index, line = divmod(y + self.scroll_offset.y, self.row_lines)
        if index >= len(self.rows):
            style = self.get_visual_style()
            text = (
                Content.styled(f" {self.empty_text}", "$foreground-muted") if y == 0 and not self.rows else Content("")
            )
            return Visual.to_strips(self, text, width, 1, style, pad=True)[0]
        row = self.rows[index]
        name = self._style_name(index, row)
        known = (index, line, width, self.row_lines, name, row.chunk_id == self.linked)
        if known not in self._drawn:
            style = self.get_visual_style(*([name] if name else []))
            self._drawn[known] = Visual.to_strips(self, self._line(row, line, width), width, 1, style, pad=True)[0]
        return self._drawn[known]

    def _style_name(self, index: int, row: Row) -> str:
        if index == self.cursor and (self.has_focus or row.chunk_id == self.linked):
            return "ranked-list--cursor-focused" if self.has_focus else "ranked-list--cursor"
        return "ranked-list--linked" if row.chunk_id == self.linked else ""

    def notify_style_update(self) -> None:
        self._drawn.clear()  # another theme, or another frame
        super().notify_style_update()

    def _line(self, row: Row, line: int, width: int) -> Content:
        if self.row_lines == 1:
            return self._whole_row(row, width)
        crowded = width < _ROOM_FOR_NUMBERS
        if line == 0:
            numbers = (f"{row.rank:>3} ",) if crowded else (f"{row.rank:>3} ", *self._numbers(row))
            named = self._with_name(row, width, *numbers)
            return named if self.row_lines == 3 else self._with_heading(row, named, width)
        head = Content(" " * _INDENT)
        if line == 1 and crowded:
            head = Content.assemble(head, *self._numbers(row))
        if line == 1 and self.row_lines == 3:
            return Content.assemble(
                head, (shorten_middle(row.heading, max(0, width - head.cell_length)), "$foreground-muted")
            )
        return Content.assemble(head, row.passage)

    def _with_heading(self, row: Row, named: Content, width: int) -> Content:
        """The heading path behind the name, where a useful part of it fits."""
        room = width - named.cell_length - 2
        if room < _ROOM_FOR_HEADING:
            return named
        return Content.assemble(named, "  ", (shorten_middle(row.heading, room), "$foreground-muted"))

    def _whole_row(self, row: Row, width: int) -> Content:
        numbers = (f"{row.rank:>3} ", *self._numbers(row))
        id_width = min(_ID_WIDTH_IN_ONE_LINE, max(8, width // 3))
        named_width = _MARKS + self._grade_width + Content.assemble(*numbers).cell_length + id_width
        named = self._with_name(row, named_width, *numbers)
        return Content.assemble(named, " " * (named_width - named.cell_length + 2), row.passage)

    def _with_name(self, row: Row, width: int, *numbers: str | tuple[str, str]) -> Content:
        """Marks and numbers, then as much of the chunk's id as fits into the width."""
        pointer = "▸" if row.chunk_id == self.linked else " "
        mark = ("●", "bold $success") if row.wanted else "○" if row.grade else " "
        left = Content.assemble(pointer, mark, *self._grade(row), *numbers)
        name = shorten_middle(one_line(row.chunk_id), max(0, width - left.cell_length))
        return Content.assemble(left, (name, "bold" if row.wanted else ""))

    def _grade(self, row: Row) -> Iterator[tuple[str, str]]:
        if self._grade_width:
            yield row.grade.rjust(self._grade_width), "bold $success" if row.wanted else "$foreground-muted"

    def _numbers(self, row: Row) -> tuple[str, tuple[str, str]]:
        detail = f"{row.detail.rjust(self._detail_width)} " if self._detail_width else ""
        return f"{row.score:>{_SCORE_WIDTH}} ", (detail, "$foreground-muted")
