"""A page of text over the screen, closed by the keys that opened it."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Footer, Static

from retrieval_lab_tui.actions import DIALOG, bindings


class Dialog(ModalScreen[None]):
    """Shows one page that scrolls."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(DIALOG)

    DEFAULT_CSS = """
    Dialog {
        align: center middle;
        & > VerticalScroll {
            width: 80; max-width: 100%; height: auto; max-height: 100%; margin-bottom: 1;
            border: round $accent; border-title-style: bold; padding: 0 1; background: $surface;
            scrollbar-size-vertical: 1;
        }
    }
    """

    def __init__(self, title: str, page: Content) -> None:
        super().__init__()
        self._title = title
        self._page = page

    def compose(self) -> ComposeResult:
        with VerticalScroll() as scroll:
            scroll.border_title = Content(self._title)
            yield Static(self._page)
        yield Footer(show_command_palette=False)
