"""What the tests of the explorer read from its screen and write into it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from textual.pilot import Pilot
from textual.widgets import Input, Static

from retrieval_lab_tui.app import ExplorerApp
from retrieval_lab_tui.widgets.ranked_list import RankedList

WIDE = (200, 60)
NARROW = (80, 24)

Answered = Callable[[Pilot[None], str], Awaitable[None]]
WaitFor = Callable[[Pilot[None], Callable[[], object]], Awaitable[None]]


def ranked(app: ExplorerApp, stage: str) -> RankedList:
    return app.explore.query_one(f"#list-{stage}", RankedList)


def shown(app: ExplorerApp, selector: str) -> str:
    return str(app.explore.query_one(selector, Static).visual)


async def write(pilot: Pilot[None], text: str) -> None:
    await pilot.press("slash")
    pilot.app.screen.query_one("#query", Input).value = text
    await pilot.press("enter")
