"""The tabs over the one list that a narrow screen shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from textual import events
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from retrieval_lab.shorten import shorten_middle
from retrieval_lab_tui.columns import Column

_LONGEST_TITLE = 40
_SHORT_TITLE = 12
_HINT_WIDTH = 4
"""Cells of `‹ 2 `, or of ` 2 ›`."""


class Tabs(Static):
    """One tab a list with its number key and, where it is known, the wanted passage's rank in it.

    Tabs that do not all fit get shorter titles; where that does not help, those around the active one are shown, and
    at the ends how many there are beyond.
    """

    class Clicked(Message):
        """The tab at this place, from 0, was clicked."""

        def __init__(self, place: int) -> None:
            super().__init__()
            self.place = place

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's name for it
        super().__init__(id=id)
        self._ends: dict[int, int] = {}
        """Where each tab that is shown ends, by its place; beyond the ends stand the neighbours of those shown."""
        self._first = 0
        self._shown: tuple[Sequence[Column], Mapping[str, int | None], str] = ((), {}, "")

    def show(self, lists: Sequence[Column], ranks: Mapping[str, int | None], active: str) -> None:
        """Draw the tabs; `ranks` has the wanted passage's rank by stage, None where the list does not hold it."""
        self._shown = lists, ranks, active
        self._draw()

    def on_resize(self) -> None:
        self._draw()

    def _draw(self) -> None:
        lists, ranks, active = self._shown
        room = self.size.width
        longest = _LONGEST_TITLE
        if room and _width([_tab(n, one, ranks, active, longest) for n, one in enumerate(lists, start=1)]) > room:
            longest = _SHORT_TITLE
        tabs = [_tab(number, column, ranks, active, longest) for number, column in enumerate(lists, start=1)]
        place = next((place for place, column in enumerate(lists) if column.stage == active), 0)
        first, last = self._window(tabs, place, room) if room else (0, len(tabs))
        left = Content.styled(f"‹ {first} ", "bold $accent") if first else Content("")
        right = Content.styled(f" {len(tabs) - last} ›", "bold $accent") if last < len(tabs) else Content("")
        self._first, self._ends = first, {}
        end = left.cell_length
        if first:
            self._ends[first - 1] = end
        for shown in range(first, last):
            end += tabs[shown].cell_length + 1
            self._ends[shown] = end
        if last < len(tabs):
            self._ends[last] = room
        self.update(Content.assemble(left, Content(" ").join(tabs[first:last]), right))

    def _window(self, tabs: Sequence[Content], active: int, room: int) -> tuple[int, int]:
        """The first tab that is shown and the one after the last: from where they began before, as far as that goes."""
        if _width(tabs) <= room:
            return 0, len(tabs)
        first = min(self._first, active)
        while first < active and _width(tabs[first : active + 1]) > room - 2 * _HINT_WIDTH:
            first += 1
        last = active + 1
        while last < len(tabs) and _width(tabs[first : last + 1]) <= room - 2 * _HINT_WIDTH:
            last += 1
        while first > 0 and _width(tabs[first - 1 : last]) <= room - 2 * _HINT_WIDTH:
            first -= 1
        return first, last

    def on_click(self, event: events.Click) -> None:
        place = next((place for place, end in self._ends.items() if event.x < end), None)
        if place is not None:
            self.post_message(self.Clicked(place))


def _width(tabs: Sequence[Content]) -> int:
    return sum(tab.cell_length for tab in tabs) + len(tabs) - 1


def _tab(number: int, column: Column, ranks: Mapping[str, int | None], active: str, longest: int) -> Content:
    mark = f" ●{ranks[column.stage] or '–'}" if column.stage in ranks else ""
    title = shorten_middle(column.title, longest)
    return Content.styled(f" {number} {title}{mark} ", "bold reverse" if column.stage == active else "")
