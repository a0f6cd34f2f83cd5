"""Writing the paragraph about one kind of failure."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static, TextArea

from retrieval_lab.diagnosis.kinds import MEANINGS, Failure
from retrieval_lab_tui.actions import PARAGRAPH, bindings
from retrieval_lab_tui.widgets.key_line import KeyLine


class ParagraphScreen(ModalScreen[str | None]):
    """Ends with the text, or with None when it is not to be kept."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(PARAGRAPH)

    DEFAULT_CSS = """
    ParagraphScreen {
        align: center middle;
        & > Vertical {
            width: 100; max-width: 100%; height: 60%; min-height: 8; margin-bottom: 1;
            border: round $accent; border-title-style: bold; padding: 0 1; background: $surface;
        }
        & Static { height: auto; color: $text-muted; }
        & TextArea { height: 1fr; border: none; padding: 0; }
    }
    """

    def __init__(self, kind: Failure, text: str) -> None:
        super().__init__()
        self._kind = kind
        self._text = text

    def compose(self) -> ComposeResult:
        with Vertical() as panel:
            panel.border_title = Content(self._kind.value)
            yield Static(Content(f"{MEANINGS[self._kind]}. At least 25 words that name the kind."))
            yield TextArea(self._text, soft_wrap=True)
        yield KeyLine(PARAGRAPH)

    def on_mount(self) -> None:
        self.query_one(TextArea).focus()

    def action_keep(self) -> None:
        self.dismiss(self.query_one(TextArea).text)
