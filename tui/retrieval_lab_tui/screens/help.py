"""All keys on one page."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.keys import format_key
from textual.screen import ModalScreen
from textual.widgets import Static

from retrieval_lab_tui.actions import EXPLORE, MOVES, Action
from retrieval_lab_tui.display import ANCHOR_STYLE, TERM_STYLE

_ELSEWHERE = (
    ("tab, shift+tab", "Next or previous pane"),
    ("ctrl+p", "Command palette: every action by name, themes"),
)


class HelpScreen(ModalScreen[None]):
    """Lists every action with its keys, and explains the marks."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape,q,question_mark,f1", "dismiss", "Close")]

    DEFAULT_CSS = """
    HelpScreen {
        align: center middle;
        & > VerticalScroll {
            width: 72; scrollbar-size-vertical: 1; max-width: 100%; height: auto; max-height: 100%;
            border: round $accent; padding: 0 2; background: $surface;
        }
    }
    """

    def compose(self) -> ComposeResult:
        with VerticalScroll() as scroll:
            scroll.border_title = "Keys"
            scroll.border_subtitle = "escape closes"
            yield Static(_page())


def _page() -> Content:
    keys = [(_keys(action), action.description) for action in (*EXPLORE, *MOVES)] + list(_ELSEWHERE)
    rows = [Content.assemble((f"{key:<18}", "bold $accent"), text) for key, text in keys]
    marks = [
        Content.assemble(("● ", "bold $success"), "the row that holds the golden query's anchor"),
        Content("▸ the chunk under the cursor, in every list"),
        Content("▲ ▼ places up or down since the fused list"),
        Content.assemble("in a passage: ", ("query term", TERM_STYLE), ", ", ("anchor", ANCHOR_STYLE)),
    ]
    return Content("\n").join([*rows, Content(""), *marks])


def _keys(action: Action) -> str:
    return ", ".join(format_key(key) for key in action.keys.split(","))
