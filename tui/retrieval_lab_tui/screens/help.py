"""All keys on one page."""

from __future__ import annotations

from textual.content import Content

from retrieval_lab_tui.actions import EXPLORE, MOVES, shown_keys
from retrieval_lab_tui.display import ANCHOR_STYLE, TERM_STYLE
from retrieval_lab_tui.screens.dialog import Dialog

_ELSEWHERE = (
    ("tab, shift+tab", "Next or previous pane"),
    ("ctrl+p", "Command palette: every action by name, themes"),
)


class HelpScreen(Dialog):
    """Explains the marks, and lists every action with its keys."""

    def __init__(self) -> None:
        super().__init__("Marks and keys", _page())


def _page() -> Content:
    marks = [
        Content.assemble(("● ", "bold $success"), "holds the golden query's anchor   ▸ is under the cursor"),
        Content("▲ ▼ =  places up, down, unmoved from Fused to Final"),
        Content("Final is ordered by MMR; its score is the reranker's (BM25)"),
        Content.assemble(("Query term", TERM_STYLE), " as full text matched it   ", ("Anchor", ANCHOR_STYLE)),
    ]
    keys = [(shown_keys(action), action.description) for action in (*EXPLORE, *MOVES)] + list(_ELSEWHERE)
    rows = [Content.assemble((f"{key:<18}", "bold $accent"), text) for key, text in keys]
    return Content("\n").join([*marks, Content(""), *rows])
