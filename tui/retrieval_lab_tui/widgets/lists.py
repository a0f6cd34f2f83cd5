"""The ranked lists of a pipeline side by side, of which four fit on the screen."""

from __future__ import annotations

from textual.containers import Horizontal

from retrieval_lab_tui.columns import Column
from retrieval_lab_tui.widgets.ranked_list import RankedList

_AT_ONCE = 4


class Lists(Horizontal):
    """One list a column. Beyond four of them it scrolls sideways by whole lists, and its edges tell how many follow."""

    DEFAULT_CSS = """
    Lists {
        overflow: hidden hidden;
        & > RankedList { width: 1fr; height: 1fr; }
        &.many > RankedList { width: 25%; }
    }
    """

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's name for it
        super().__init__(id=id)
        self.columns: tuple[Column, ...] = ()
        self._first = 0

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages that have a list, left to right."""
        return tuple(column.stage for column in self.columns)

    def of(self, stage: str) -> RankedList:
        """The list of a stage."""
        return self.query_one(f"#list-{stage}", RankedList)

    async def set_columns(self, wanted: tuple[Column, ...]) -> None:
        """Show the lists of these columns, in their order; a list that was there before stays as it is."""
        stages = {column.stage for column in wanted}
        gone = [self.of(stage) for stage in self.stages if stage not in stages]
        # Whoever asks meanwhile is told of no list that is on its way out or not there yet.
        self.columns = tuple(column for column in self.columns if column.stage in stages)
        for ranked_list in gone:
            await ranked_list.remove()
        new = [column for column in wanted if column.stage not in self.stages]
        mounting = self.mount(*(RankedList(one.stage, one.title, one.numbers) for one in new))
        self.columns = wanted
        for place, column in enumerate(wanted):
            ranked_list = self.of(column.stage)
            ranked_list.title, ranked_list.numbers = column.title, column.numbers
            if self.children[place] is not ranked_list:
                self.move_child(ranked_list, before=place)
        self.set_class(len(wanted) > _AT_ONCE, "many")
        await mounting

    def reveal(self, stage: str) -> None:
        """Scroll until the list of this stage is in sight, no further than it takes."""
        place = self.stages.index(stage)
        first = max(place - _AT_ONCE + 1, min(self._first, place))
        self._first = max(0, min(first, len(self.columns) - _AT_ONCE))
        self.fit()

    def fit(self) -> None:
        """Scroll to the lists in sight as the screen is now, and tell at the edges how many there are beyond."""
        is_single = self.screen.has_class("-narrow")
        first, last = self._first, min(self._first + _AT_ONCE, len(self.columns)) - 1
        for place, stage in enumerate(self.stages):
            left = first if place == first and not is_single else 0
            right = len(self.columns) - 1 - last if place == last and not is_single else 0
            self.of(stage).tell_hidden(left, right)
        self.call_after_refresh(self._scroll)  # the lists have their places only then

    def _scroll(self) -> None:
        if self.columns and self._first < len(self.columns):
            x = 0 if self.screen.has_class("-narrow") else self.of(self.stages[self._first]).virtual_region.x
            self.scroll_to(x=x, animate=False, force=True, immediate=True)
