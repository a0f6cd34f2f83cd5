"""What a terminal tool owes its users, whatever it shows: keys, sizes, colours, storms, long lists, hostile text.

A server that goes away, a slow question and leaving while indexing are in test_states; the terminal that cannot be
used is in test_cli, and what the program writes to a real one in test_hostile.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from textual import events
from textual.app import App, ComposeResult
from textual.content import Content
from textual.geometry import Region
from textual.keys import _character_to_key, key_to_character
from textual.message_pump import MessagePump
from textual.pilot import Pilot
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input, Static

from retrieval_lab.types import GoldenQuery
from retrieval_lab_tui.actions import EXPLORE, GROUPS
from retrieval_lab_tui.app import ExplorerApp
from retrieval_lab_tui.screens.measures import MeasuresScreen
from retrieval_lab_tui.screens.palette import Palette
from retrieval_lab_tui.screens.settings import SettingsScreen
from retrieval_lab_tui.widgets.key_line import KeyLine
from retrieval_lab_tui.widgets.passage import Passage
from retrieval_lab_tui.widgets.ranked_list import RankedList, Row
from tests.tui.driving import NARROW, WIDE, Answered, WaitFor, ranked, shown, write
from tests.tui.fakes import gated

OPENERS = {"s": "SettingsScreen", "e": "MeasuresScreen", "f": "Picker", "question_mark": "HelpScreen"}
OPENERS |= {"exclamation_mark": "ProblemsScreen", "ctrl+p": "Palette", "C": "SideChooser", "R": "RunsScreen"}
OPENERS |= {"b": "AblationScreen"}


# --- 1: the keyboard alone ------------------------------------------------------------------------------------------


async def test_every_action_has_a_key_that_works_where_it_should(
    app: ExplorerApp, answered: Answered, golden: list[GoldenQuery]
) -> None:
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, golden[0].query)
        for action in EXPLORE:
            for key in action.keys.split(","):
                bound = app.screen.active_bindings[_character_to_key(key) if len(key) == 1 else key]
                assert bound.enabled, key
                assert bound.binding.action.removeprefix("app.") == action.run.removeprefix("app."), key


async def test_tab_goes_in_reading_order_and_escape_comes_back(
    app: ExplorerApp, answered: Answered, golden: list[GoldenQuery]
) -> None:
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, golden[0].query)
        await pilot.press("slash")
        places = []
        for _ in range(6):
            assert app.focused is not None
            places.append(app.focused.region.offset)
            await pilot.press("tab")
        assert places == sorted(places, key=lambda place: (place.y, place.x))
        assert len(set(places)) == 6
        await pilot.press("slash", "x", "escape")
        assert isinstance(app.focused, RankedList)
        assert app.explore.query_one("#query", Input).value == golden[0].query


async def test_escape_backs_out_of_every_screen(
    app: ExplorerApp, answered: Answered, golden: list[GoldenQuery], wait_for: WaitFor
) -> None:
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, golden[0].query)
        for key, name in OPENERS.items():
            await pilot.press(key)
            await wait_for(pilot, lambda name=name: type(app.screen).__name__ == name)
            await pilot.press("escape")
            await wait_for(pilot, lambda: app.screen is app.explore)


@pytest.mark.parametrize("key", ["", "s", "e", "f", "C", "R", "b", "question_mark"])
async def test_the_footer_tells_the_truth(
    app: ExplorerApp, answered: Answered, golden: list[GoldenQuery], key: str
) -> None:
    """Each key in it is bound on this screen to the action of that label, and all of it is seen."""
    async with app.run_test(size=NARROW) as pilot:
        await answered(pilot, golden[0].query)
        if key:
            await pilot.press(key)
            await pilot.pause()
        line = app.screen.query_one(KeyLine)
        assert sum(one.cell_length for one in line.drawn_keys()) <= NARROW[0]
        for action in line.actions:
            first = action.keys.split(",")[0]
            bound = app.screen.active_bindings[first].binding
            assert (bound.description, bound.id) == (action.label, action.id) or first == "enter"


async def test_help_names_every_action(app: ExplorerApp, answered: Answered, golden: list[GoldenQuery]) -> None:
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, golden[0].query)
        await pilot.press("question_mark")
        page = str(app.screen.query_one(Static).visual)
        for group in GROUPS.values():
            for action in group:
                assert action.description in page
                assert action.id in page


async def test_the_palette_has_every_action(app: ExplorerApp, answered: Answered, golden: list[GoldenQuery]) -> None:
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, golden[0].query)
        await pilot.press("ctrl+p")
        assert isinstance(app.screen, Palette)
        labels = {command.label for command in app.screen.commands}
        assert {action.label for action in EXPLORE} <= labels
        await pilot.press(*"light lab", "enter")
        assert app.theme == "lab-light"
        await pilot.press("ctrl+p", *"golden next", "enter")
        await answered(pilot, golden[1].query)


# --- 2 and 3: sizes -------------------------------------------------------------------------------------------------


def visible(screen: Screen[object]) -> Iterator[Widget]:
    """The widgets that are drawn, without the insides of what scrolls."""
    for widget in screen.query("*"):
        if widget.region.area and widget.display and not any(isinstance(one, Passage) for one in widget.ancestors):
            yield widget


@pytest.mark.parametrize("size", [NARROW, (120, 40), (160, 45), (240, 70), (40, 10)])
async def test_no_control_is_cut_off(
    app: ExplorerApp, answered: Answered, golden: list[GoldenQuery], size: tuple[int, int]
) -> None:
    async with app.run_test(size=size) as pilot:
        await answered(pilot, golden[0].query)
        screen = Region(0, 0, *size)
        for widget in visible(app.screen):
            assert screen.contains_region(widget.region), widget


async def test_a_narrow_screen_has_one_pane_tabs_query_fate_passage_and_footer(
    app: ExplorerApp, answered: Answered, golden: list[GoldenQuery]
) -> None:
    async with app.run_test(size=NARROW) as pilot:
        await answered(pilot, golden[0].query)
        panes = [stage for stage in app.explore.stages if ranked(app, stage).region.area]
        assert panes == ["final"]
        for selector in ("#query", "#fate", "#tabs", "#passage", "KeyLine"):
            assert app.explore.query_one(selector).region.area > 0, selector


async def test_a_wide_screen_has_four_equal_panes_over_the_passage(
    app: ExplorerApp, answered: Answered, golden: list[GoldenQuery]
) -> None:
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, golden[0].query)
        regions = [ranked(app, stage).region for stage in app.explore.stages]
        assert len({region.size for region in regions}) == 1
        assert [region.x for region in regions] == sorted(region.x for region in regions)
        assert app.explore.query_one(Passage).region.y >= regions[0].bottom
        assert not app.explore.query_one("#tabs").region.area


# --- 4: without colour ----------------------------------------------------------------------------------------------


def drawn(widget: Widget) -> list[Strip]:
    """What the widget draws, line by line, its border too."""
    return widget.render_lines(Region(0, 0, widget.outer_size.width, widget.outer_size.height))


def text_of(strip: Strip) -> str:
    return "".join(segment.text for segment in strip)


async def test_without_colour_anchor_terms_wanted_row_verdict_and_focus_are_told_apart(
    monkeypatch: pytest.MonkeyPatch, answered: Answered, golden: list[GoldenQuery], wait_for: WaitFor
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app = ExplorerApp()
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, golden[0].query)
        await wait_for(pilot, lambda: app.measuring.misses is not None)
        assert app.no_color
        lines = drawn(ranked(app, "final"))
        wanted = next(line for line in lines if "agent-loops#002" in text_of(line))
        assert "▸●" in text_of(wanted)
        styles = [(segment.text, segment.style) for line in lines[:4] for segment in line if segment.style]
        assert any(style.reverse and "limit" in text for text, style in styles)
        assert any(style.underline and "Moosleitner" in text for text, style in styles)
        focused, other = (text_of(drawn(ranked(app, stage))[0])[0] for stage in ("final", "vector"))
        assert focused != other
        assert "FOUND" in shown(app, "#fate")
        for segments in app.screen._compositor.render_strips():
            for segment in segments:
                color = segment.style.color if segment.style else None
                if color is not None and color.triplet is not None:
                    assert len({color.triplet.red, color.triplet.green, color.triplet.blue}) == 1
    app.close_lab()


# --- 5: a storm of sizes while a question runs ----------------------------------------------------------------------


async def test_a_storm_of_sizes_while_a_question_runs_breaks_nothing(
    small_corpus: Path, answered: Answered, wait_for: WaitFor
) -> None:
    gates = {"how long does the loaf bake": threading.Event()}
    gates["how long does the loaf bake"].set()
    app = ExplorerApp(small_corpus, open_lab=gated(gates))
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, "how long does the loaf bake")
        await pilot.press("1", "j")
        cursor = ranked(app, "vector").cursor
        await write(pilot, "leeks")
        await wait_for(pilot, lambda: "leeks" in gates)
        for size in ((20, 5), (1, 1), (1, 70), (240, 1), (39, 9), (139, 35), (140, 36), NARROW, WIDE):
            await pilot.resize_terminal(*size)
            await pilot.pause()
        assert "asking" in shown(app, "#header")
        assert (app.explore.active, ranked(app, "vector").cursor) == ("vector", cursor)
        gates["leeks"].set()
        await answered(pilot, "leeks")
    app.close_lab()


# --- 7: long lists --------------------------------------------------------------------------------------------------


class OneList(App[None]):
    """A list alone, which counts the lines that it draws."""

    def compose(self) -> ComposeResult:
        yield CountingList("final", "Final", "")


class CountingList(RankedList):
    lines = 0

    def render_line(self, y: int) -> Strip:
        self.lines += 1
        return super().render_line(y)


def rows(count: int) -> tuple[Row, ...]:
    return tuple(
        Row(f"doc#{rank:05d}", rank, "1.00", "", "Heading", Content("a passage"), False) for rank in range(1, count + 1)
    )


async def test_a_list_of_ten_thousand_draws_no_more_than_one_of_a_hundred() -> None:
    drawn_lines = {}
    for count in (100, 10_000):
        app = OneList()
        async with app.run_test(size=NARROW) as pilot:
            one = app.query_one(CountingList)
            one.show(rows(count), 2 * count, "")
            await pilot.pause()
            one.focus()
            one.lines = 0
            await pilot.press("end")
            await pilot.pause()
            assert one.cursor == count - 1
            assert f"{count:05d}" in "".join(text_of(line) for line in drawn(one))
            await pilot.press("home", *["j"] * 5)
            drawn_lines[count] = one.lines
            assert str(one.border_title) == f"Final · {count} of {2 * count}"
    assert drawn_lines[10_000] <= 1.5 * drawn_lines[100]


# --- the mouse ------------------------------------------------------------------------------------------------------


async def click_key(pilot: Pilot[None], label: str) -> None:
    line = pilot.app.screen.query_one(KeyLine)
    before = 0
    for action, key in zip(line.actions, line.drawn_keys(), strict=True):
        if action.label == label:
            await pilot.click(line, offset=(before + key.cell_length // 2, 0))
        before += key.cell_length


async def test_tabs_fate_and_footer_can_be_clicked(
    app: ExplorerApp, answered: Answered, golden: list[GoldenQuery], wait_for: WaitFor
) -> None:
    async with app.run_test(size=NARROW) as pilot:
        await answered(pilot, golden[0].query)
        await pilot.click("#tabs", offset=(20, 0))
        await wait_for(pilot, lambda: app.explore.active == "text")
        await pilot.press("G")
        assert app.explore.chunk is not None
        assert app.explore.chunk.chunk_id != "agent-loops#002"
        await pilot.click("#fate")
        await wait_for(pilot, lambda: app.explore.chunk is not None and app.explore.chunk.chunk_id == "agent-loops#002")
        await click_key(pilot, "Help")
        await wait_for(pilot, lambda: type(app.screen).__name__ == "HelpScreen")


async def test_settings_can_be_changed_with_the_mouse(
    app: ExplorerApp, answered: Answered, golden: list[GoldenQuery], wait_for: WaitFor
) -> None:
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, golden[0].query)
        await click_key(pilot, "Settings")
        await wait_for(pilot, lambda: isinstance(app.screen, SettingsScreen))
        await pilot.pause()
        top_k = Static, (24, 15)
        await pilot.click(top_k[0], offset=top_k[1])
        assert "k 10" in shown(app, "#header")
        await pilot.click(top_k[0], offset=top_k[1])
        await wait_for(pilot, lambda: "k 15" in shown(app, "#header"))
        await pilot.click(Static, offset=(20, 15))
        await wait_for(pilot, lambda: "k 10" in shown(app, "#header"))


async def test_a_number_among_the_measures_can_be_clicked(
    app: ExplorerApp, answered: Answered, golden: list[GoldenQuery], wait_for: WaitFor
) -> None:
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, golden[0].query)
        await wait_for(pilot, lambda: app.measuring.measured is not None)
        await pilot.press("e")
        await wait_for(pilot, lambda: isinstance(app.screen, MeasuresScreen))
        await pilot.click("#groups", offset=(48, 3))
        await pilot.pause()
        await pilot.click("#groups", offset=(48, 3))
        await wait_for(pilot, lambda: type(app.screen).__name__ == "Picker")
        assert "by precision@10" in str(app.screen.query_one("Vertical").border_title)


# --- a random walk --------------------------------------------------------------------------------------------------

KEYS = [key for group in GROUPS.values() for action in group for key in action.keys.split(",")]
WALK = [key for key in KEYS if key not in ("q", "ctrl+q")] + list("abc -\"'[") + ["tab", "shift+tab", "backspace"]


def pumps(app: ExplorerApp) -> Iterator[MessagePump]:
    """Whoever may still have a key to handle."""
    yield app
    for screen in app.screen_stack:
        yield screen
        yield from screen.query("*")


@pytest.mark.parametrize("seed", [1, 2])
async def test_a_walk_of_a_thousand_keys_ends_where_it_can_go_on(
    small_corpus: Path,
    answered: Answered,
    wait_for: WaitFor,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
) -> None:
    """Every key but those that leave, in any order, on every screen; an exception would end the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.delenv("EDITOR", raising=False)
    choose = random.Random(seed)
    app = ExplorerApp(small_corpus)
    async with app.run_test(size=NARROW, notifications=True) as pilot:
        await answered(pilot, "how long does the loaf bake")
        for step in range(1000):
            key = choose.choice(WALK)
            # Not through the pilot, which waits for an idle moment after each.
            name = _character_to_key(key) if len(key) == 1 else key
            app.post_message(events.Key(name, key if len(key) == 1 else key_to_character(name)))
            if step % 25 == 0:
                await pilot.pause()
            if step % 250 == 0:
                await pilot.resize_terminal(*choose.choice(((30, 8), NARROW, (140, 36))))
        await wait_for(pilot, lambda: not any(node._message_queue.qsize() for node in pumps(app)))
        assert app.is_running
        for _ in range(30):  # no screen lies deeper
            if app.screen is not app.explore:
                await pilot.press("escape")
                await pilot.pause()
        assert app.screen is app.explore
        if not app._jobs.running("open") and app._lab is None:
            await pilot.press("r")  # escape had stopped it
        await wait_for(pilot, lambda: app._lab is not None)
        await write(pilot, "potatoes")
        await answered(pilot, "potatoes")
    app.close_lab()
