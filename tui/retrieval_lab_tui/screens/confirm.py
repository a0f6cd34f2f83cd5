"""A question that must be answered before something is lost or broken off."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Static

from retrieval_lab_tui.actions import CONFIRM, bindings
from retrieval_lab_tui.display import safe


class Confirm(ModalScreen[bool]):
    """Ends with True for yes and False for no; no has the focus."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(CONFIRM)

    DEFAULT_CSS = """
    Confirm {
        align: center middle;
        & > Vertical {
            width: 60; max-width: 100%; height: auto; max-height: 100%;
            border: round $warning; border-title-style: bold; padding: 1 2; background: $surface;
        }
        & Horizontal { height: auto; margin-top: 1; align-horizontal: right; }
        & Button { min-width: 9; margin-left: 2; }
    }
    """

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self._title = title
        self._text = text

    def compose(self) -> ComposeResult:
        with Vertical() as panel:
            panel.border_title = Content(self._title)
            yield Static(Content(safe(self._text)))
            with Horizontal():
                yield Button(Content("y  yes"), id="yes", compact=True)
                yield Button(Content("n  no"), id="no", compact=True)

    def on_mount(self) -> None:
        self.query_one("#no", Button).focus()

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        self.dismiss(event.button.id == "yes")

    def action_answer(self, yes: bool) -> None:
        self.dismiss(yes)
