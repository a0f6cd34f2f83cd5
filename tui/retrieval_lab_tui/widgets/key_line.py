"""The last line of a screen: its keys, each of which can be clicked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from textual import events
from textual.content import Content
from textual.widget import Widget

from retrieval_lab_tui.actions import Action, Keymap, first_key


class KeyLine(Widget):
    """One line, drawn from the registry: Textual's footer makes its keys anew whenever the focus moves."""

    DEFAULT_CSS = """
    KeyLine { dock: bottom; height: 1; background: $panel; text-wrap: nowrap; text-overflow: ellipsis; }
    """

    def __init__(self, actions: Iterable[Action]) -> None:
        super().__init__()
        self.actions: Sequence[Action] = tuple(action for action in actions if action.footer)

    def render(self) -> Content:
        return Content("").join(self.drawn_keys())

    def drawn_keys(self) -> list[Content]:
        """Each action's first key and label, as they are drawn."""
        keymap: Keymap = getattr(self.app, "keymap", {})  # an app of the tests may have none
        return [
            Content.assemble((f" {first_key(action, keymap)}", "bold $accent"), f" {action.label} ")
            for action in self.actions
        ]

    async def on_click(self, event: events.Click) -> None:
        end = 0
        for action, key in zip(self.actions, self.drawn_keys(), strict=True):
            end += key.cell_length
            if event.x < end:
                await self.screen.run_action(action.run)
                return
