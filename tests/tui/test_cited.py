"""The answer on screen: its sources and support, its citations as links, what is doubtful, stopping and failing."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Static

from retrieval_lab.answer import REFUSAL
from retrieval_lab.answering import Claude
from retrieval_lab_tui import cited
from retrieval_lab_tui.app import ExplorerApp
from retrieval_lab_tui.screens.cited import CitedScreen
from retrieval_lab_tui.widgets.passage import Passage
from tests.tui.driving import NARROW, WIDE, Answered, WaitFor, write
from tests.tui.fakes import streamed

KNOWN = "How many tokens does the agent at Moosleitner allow for each tool result?"
WHOLE = "A result may have 1,500 tokens [2]. Nobody knows why. See also [1, 3] and [9]."


def text(app: ExplorerApp, selector: str) -> str:
    return str(app.screen.query_one(selector, Static).visual)


async def opened(pilot: Pilot[None], wait_for: WaitFor, state: str = " cited · ") -> CitedScreen:
    """The answer of the question on the screen, once its state has come to hold the text."""
    app = pilot.app
    assert isinstance(app, ExplorerApp)
    await pilot.press("A")
    await wait_for(pilot, lambda: isinstance(app.screen, CitedScreen) and state in text(app, "#state"))
    assert isinstance(app.screen, CitedScreen)
    return app.screen


async def test_without_a_login_the_sources_answer(app: ExplorerApp, answered: Answered, wait_for: WaitFor) -> None:
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, KNOWN)
        screen = await opened(pilot, wait_for)
        assert "extractive · " in text(app, "#state")
        assert "$0.0000" in text(app, "#state")
        rows = text(app, "#rows").splitlines()
        assert len(rows) >= 5
        assert sum(" cited " in row for row in rows) == len({row for row in rows if " cited " in row}) >= 1
        assert " cited " in rows[screen.source.number - 1]  # type: ignore[union-attr]
        await pilot.press("escape")
        assert app.screen is app.explore


async def test_a_question_about_something_else_is_refused_and_nobody_is_asked(
    app: ExplorerApp, answered: Answered, wait_for: WaitFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(**_: Any) -> AsyncIterator[Any]:
        pytest.fail("the SDK was asked")
        yield

    monkeypatch.setattr(cited, "usual_answerer", lambda: Claude(query_fn=never))
    async with app.run_test(size=NARROW) as pilot:
        await answered(pilot, KNOWN)
        await write(pilot, "How do I grow basil on a balcony?")
        await answered(pilot, "How do I grow basil on a balcony?")
        await opened(pilot, wait_for, "nobody was asked")
        await wait_for(pilot, lambda: text(app, "#text") == REFUSAL)
        assert " refused " in text(app, "#state")
        assert all("<" in row for row in text(app, "#rows").splitlines())


async def test_claude_is_heard_as_it_speaks_and_can_be_stopped(
    app: ExplorerApp, answered: Answered, wait_for: WaitFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()
    monkeypatch.setattr(cited, "usual_answerer", lambda: Claude(query_fn=streamed(WHOLE, gate)))
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, KNOWN)
        await opened(pilot, wait_for, "claude")
        await wait_for(pilot, lambda: "Nobody knows why" in text(app, "#text"))
        assert "esc stops" in text(app, "#state")
        await pilot.press("escape")
        assert text(app, "#text") == "stopped"
        gate.set()
        await pilot.pause(0.3)
        assert text(app, "#text") == "stopped"
        await pilot.press("r")
        await wait_for(pilot, lambda: "2 of 3 cited · $0.0123" in text(app, "#state"))


async def test_doubts_are_marked_and_named(
    app: ExplorerApp, answered: Answered, wait_for: WaitFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cited, "usual_answerer", lambda: Claude(query_fn=streamed(WHOLE)))
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, KNOWN)
        await opened(pilot, wait_for)
        said = text(app, "#text").splitlines()
        assert said[0] == "A result may have 1,500 tokens [2]. ! Nobody knows why. See also [1, 3] and [9]."
        assert said[1:] == ["! no source has the number [9]"]


async def test_a_citation_is_a_link_to_its_passage(
    app: ExplorerApp, answered: Answered, wait_for: WaitFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cited, "usual_answerer", lambda: Claude(query_fn=streamed(WHOLE)))
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, KNOWN)
        screen = await opened(pilot, wait_for)
        assert screen.source is not None
        assert screen.source.number == 2  # the first that is cited
        line = text(app, "#text").splitlines()[0]
        await pilot.click("#text", offset=(line.index("3] and"), 0))
        assert screen.source.number == 3
        assert screen.query_one(Passage).text.plain == screen.source.chunk.text
        await pilot.press("1")
        assert screen.source.number == 1
        await pilot.press("j", "down", "k")
        assert screen.source.number == 2
        await pilot.click("#rows", offset=(5, 3))
        assert screen.source.number == 4
        wanted = screen.source.chunk
        await pilot.press("enter")
        await wait_for(pilot, lambda: app.screen is app.explore)
        assert app.explore.chunk == wanted


async def test_the_other_one_can_be_asked(
    app: ExplorerApp, answered: Answered, wait_for: WaitFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cited, "usual_answerer", lambda: Claude(query_fn=streamed(WHOLE)))
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, KNOWN)
        await opened(pilot, wait_for)
        assert "claude (claude-opus-5-5) · " in text(app, "#state")
        await pilot.press("c")
        await wait_for(pilot, lambda: "extractive · " in text(app, "#state"))
        await pilot.press("y")
        assert app.clipboard == text(app, "#text")


async def test_a_failure_is_told_and_half_an_answer_is_not_kept(
    app: ExplorerApp, answered: Answered, wait_for: WaitFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    from claude_agent_sdk import CLINotFoundError

    async def failing(**_: Any) -> AsyncIterator[Any]:
        async for message in streamed("Half an")():
            yield message
            raise CLINotFoundError

    monkeypatch.setattr(cited, "usual_answerer", lambda: Claude(query_fn=failing))
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, KNOWN)
        await pilot.press("A")
        await wait_for(pilot, lambda: isinstance(app.screen, CitedScreen) and "Claude" in text(app, "#text"))
        assert "Half" not in text(app, "#text")


async def test_who_fails_leaves_the_answer_of_who_spoke_before(
    app: ExplorerApp, answered: Answered, wait_for: WaitFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    from claude_agent_sdk import CLINotFoundError

    async def failing(**_: Any) -> AsyncIterator[Any]:
        raise CLINotFoundError
        yield

    monkeypatch.setattr(cited, "Claude", lambda: Claude(query_fn=failing))
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, KNOWN)
        await opened(pilot, wait_for)
        before = text(app, "#text")
        await pilot.press("c")
        await wait_for(pilot, lambda: before in text(app, "#text") and text(app, "#text") != before)
        assert "Claude" in text(app, "#text").splitlines()[0]
        assert "extractive · " in text(app, "#state")


@pytest.mark.parametrize("hostile", ["[@click=app.quit]go[/] [1]", "\x1b[31mred [1]", "see [link](http://x) [/] [1]"])
async def test_an_answer_is_data(
    app: ExplorerApp, answered: Answered, wait_for: WaitFor, monkeypatch: pytest.MonkeyPatch, hostile: str
) -> None:
    monkeypatch.setattr(cited, "usual_answerer", lambda: Claude(query_fn=streamed(hostile)))
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, KNOWN)
        await opened(pilot, wait_for)
        assert hostile.replace("\x1b", "␛") in text(app, "#text")
        await pilot.click("#text", offset=(18, 0))
        assert app.is_running


async def test_a_key_that_comes_twice_closes_the_answer_once(
    app: ExplorerApp, answered: Answered, wait_for: WaitFor
) -> None:
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, KNOWN)
        screen = await opened(pilot, wait_for)
        for _ in range(2):
            screen.action_read()
        await wait_for(pilot, lambda: app.screen is app.explore)
        await pilot.pause()
        assert app.screen is app.explore
