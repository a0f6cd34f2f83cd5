"""Choosing one of many: typing narrows the list, enter takes what is under the cursor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from retrieval_lab_tui.actions import CHOOSER, Action, bindings
from retrieval_lab_tui.display import safe
from retrieval_lab_tui.widgets.key_line import KeyLine

_SHOWN = 500
"""More rows than this take longer to lay out than anybody reads; typing narrows them."""


class Chooser(ModalScreen[int | None]):
    """Ends with the place of what was chosen among all that there is, or with None."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(CHOOSER)
    PLACEHOLDER: ClassVar[str] = "Type to narrow"
    MORE: ClassVar[tuple[Action, ...]] = ()
    """What can be done beside choosing."""

    DEFAULT_CSS = """
    Chooser {
        align: center middle;
        & > Vertical {
            width: 100; max-width: 100%; height: 80%; max-height: 40; min-height: 10;
            border: round $accent; border-title-style: bold; padding: 0 1; background: $surface;
        }
        & Input, & Input:focus { border: none; height: 1; padding: 0; background: $foreground 8%; }
        & OptionList { border: none; height: 1fr; padding: 0; background: $surface; text-wrap: nowrap;
            text-overflow: ellipsis; scrollbar-size-vertical: 1; }
    }
    """

    def found(self, typed: Sequence[str]) -> list[int]:
        """The places of what fits the words that were typed, in lower case."""
        raise NotImplementedError

    def row(self, place: int) -> Content:
        """How one of them is shown."""
        raise NotImplementedError

    def heading(self, found: str) -> tuple[str, str]:
        """What the frame says above and below; `found` tells how many fit."""
        raise NotImplementedError

    def why_not(self, place: int) -> str | None:  # noqa: ARG002 - most choosers have nothing of the kind
        """Why this one cannot be chosen; None when it can."""
        return None

    @property
    def current(self) -> int | None:
        """The place that the cursor begins at, if it is shown."""
        return None

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Input(placeholder=self.PLACEHOLDER)
            yield OptionList(markup=False)
        yield KeyLine((*CHOOSER, *self.MORE))

    def on_mount(self) -> None:
        self.fill()

    @on(Input.Changed)
    def fill(self) -> None:
        """Show what fits."""
        found = self.found(self.query_one(Input).value.lower().split())
        shown = found[:_SHOWN]
        options = self.query_one(OptionList)
        options.clear_options()
        options.add_options(Option(self.row(place), id=str(place)) for place in shown)
        if shown:
            options.highlighted = shown.index(self.current) if self.current in shown else 0
        panel = self.query_one(Vertical)
        more = f", the first {_SHOWN} shown" if len(found) > _SHOWN else ""
        above, below = self.heading(f"{len(found)}{more}")
        panel.border_title, panel.border_subtitle = Content(above), Content(below)

    @on(Input.Submitted)
    def action_choose(self) -> None:
        options = self.query_one(OptionList)
        if options.highlighted is not None:
            self._take(options.get_option_at_index(options.highlighted))

    @on(OptionList.OptionSelected)
    def _clicked(self, event: OptionList.OptionSelected) -> None:
        self._take(event.option)

    def _take(self, option: Option) -> None:
        place = int(option.id or 0)
        if (reason := self.why_not(place)) is not None:
            self.notify(safe(reason), title="Cannot be chosen", severity="error", markup=False)
        elif self.is_current:  # a click and enter may come together
            self.dismiss(place)

    def action_move(self, rows: int) -> None:
        options = self.query_one(OptionList)
        if options.option_count:
            options.highlighted = max(0, min(options.option_count - 1, (options.highlighted or 0) + rows))
