"""The tabs over the one list that a narrow screen shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from textual import events
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from retrieval_lab_tui.columns import Column


class Tabs(Static):
    """One tab a list with its number key and, where it is known, the wanted passage's rank in it."""

    class Clicked(Message):
        """The tab at this place, from 0, was clicked."""

        def __init__(self, place: int) -> None:
            super().__init__()
            self.place = place

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's name for it
        super().__init__(id=id)
        self._ends: tuple[int, ...] = ()

    def show(self, lists: Sequence[Column], ranks: Mapping[str, int | None], active: str) -> None:
        """Draw the tabs; `ranks` has the wanted passage's rank by stage, None where the list does not hold it."""
        tabs = [_tab(number, column, ranks, active) for number, column in enumerate(lists, start=1)]
        widths = [tab.cell_length + 1 for tab in tabs]
        self._ends = tuple(sum(widths[:count]) for count in range(1, len(widths) + 1))
        self.update(Content(" ").join(tabs))

    def on_click(self, event: events.Click) -> None:
        place = next((place for place, end in enumerate(self._ends) if event.x < end), None)
        if place is not None:
            self.post_message(self.Clicked(place))


def _tab(number: int, column: Column, ranks: Mapping[str, int | None], active: str) -> Content:
    mark = f" ●{ranks[column.stage] or '–'}" if column.stage in ranks else ""
    return Content.styled(f" {number} {column.title}{mark} ", "bold reverse" if column.stage == active else "")
