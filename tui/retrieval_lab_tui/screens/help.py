"""All marks and all keys on one page."""

from __future__ import annotations

from collections.abc import Iterator

from textual.content import Content

from retrieval_lab_tui.actions import GROUPS, Action, Keymap, shown_keys
from retrieval_lab_tui.display import ANCHOR_STYLE, TERM_STYLE, one_line
from retrieval_lab_tui.preferences import keys_path
from retrieval_lab_tui.screens.dialog import Dialog

_KEYS_WIDTH = 13
_TEXT_WIDTH = 42
_ELSEWHERE = (
    ("tab", "Next pane; with shift the one before"),
    ("mouse", "Everything can be clicked; the wheel scrolls"),
)


class HelpScreen(Dialog):
    """Explains the marks, and lists every action with its keys and the name that a keymap has for it."""

    def __init__(self, keymap: Keymap) -> None:
        super().__init__("Marks and keys", Content("\n").join(_lines(keymap)))


def _lines(keymap: Keymap) -> Iterator[Content]:
    yield Content.assemble(("● ", "bold $success"), "holds the golden query's anchor   ▸ is under the cursor")
    yield Content("▲ ▼ =  places up, down, unmoved between Fused and Final")
    yield Content("246 of 687  the rank in the whole corpus, beyond the end of a list")
    yield Content.assemble(("Query term", TERM_STYLE), " as full text matched it   ", ("Anchor", ANCHOR_STYLE))
    for where, actions in GROUPS.items():
        yield Content("")
        if where:
            yield Content.styled(where, "bold $accent")
        yield from (_row(action, keymap) for action in actions)
        if not where:
            yield from (_line(keys, text) for keys, text in _ELSEWHERE)
    yield Content("")
    yield Content("Other keys go into this file, one `name: keys` a line, with the names at the right:")
    yield Content(one_line(str(keys_path())))


def _row(action: Action, keymap: Keymap) -> Content:
    return Content.assemble(
        _line(shown_keys(action, keymap), action.description.ljust(_TEXT_WIDTH)), (f" {action.id}", "$foreground-muted")
    )


def _line(keys: str, text: str) -> Content:
    return Content.assemble((f"{keys:<{_KEYS_WIDTH}}", "bold"), text)
