"""The explorer's own delays, measured inside the app: the pilot that could press the keys takes longer than they do."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import psutil
from psycopg import Connection
from textual import events

from retrieval_lab_tui.answer import Answer, Question
from retrieval_lab_tui.app import ExplorerApp
from tests.benchmarks.timing import Ratio

_SIZE = (160, 45)
_KEYS = ("j", "k", "l", "j", "h", "1", "2", "3", "4", "G", "g", "w")
_KEYS_PRESSED = 400
_KEY_SECONDS = 1 / 30
_MOST_KEY_SECONDS = 0.05
_MOST_PAINT_SECONDS = 0.2
_QUESTIONS_IN_AN_HOUR = 600
_WARM_QUESTIONS = 100


class TimedApp(ExplorerApp):
    """Writes down the seconds from each key's event to its handler's end, and from each question to its picture."""

    def __init__(self) -> None:
        self.began = time.perf_counter()
        super().__init__()
        self.first_paint = self.first_result = 0.0
        self.handled: list[float] = []
        self.painted: list[float] = []
        self._key_at = self._asked_at = 0.0

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.Key):
            self._key_at = event.time
        await super().on_event(event)

    async def run_action(self, *args: Any, **kwargs: Any) -> bool:
        done = await super().run_action(*args, **kwargs)
        self.handled.append(time.monotonic() - self._key_at)
        return done

    def on_mount(self) -> None:
        super().on_mount()
        self.call_after_refresh(self._paint_first)

    def _paint_first(self) -> None:
        self.first_paint = time.perf_counter() - self.began

    def _ask(self, question: Question) -> None:
        self._asked_at = time.perf_counter()
        super()._ask(question)

    def _answered(self, answer: Answer) -> None:
        super()._answered(answer)
        self.call_after_refresh(self._paint)

    def _paint(self) -> None:
        now = time.perf_counter()
        self.first_result = self.first_result or now - self.began
        self.painted.append(now - self._asked_at)


def ratios() -> Iterator[Ratio]:
    yield from asyncio.run(_measured())


async def _measured() -> list[Ratio]:
    app = TimedApp()
    async with app.run_test(size=_SIZE):
        await _until(lambda: app.measuring.measured is not None)
        found = [
            Ratio("explorer: first paint / first result", app.first_paint, app.first_result),
            await _questions(app),
            *await _keys(app),
            await _memory(app),
        ]
    app.close_lab()
    return found


async def _questions(app: TimedApp) -> Ratio:
    """Every golden query, one after the other, until its lists are on the screen."""
    app.painted.clear()
    for _ in range(48):
        await _next_question(app)
    title = "explorer: question to four lists painted, median / limit"
    return Ratio(title, statistics.median(app.painted), _MOST_PAINT_SECONDS, 1)


async def _keys(app: TimedApp) -> list[Ratio]:
    """Keys while a query hangs in the server and an evaluation is at work; then while answers come without a pause."""
    lab = app._lab
    assert lab is not None

    def hang() -> None:
        if not app._jobs.running("ask"):
            app._jobs.start("ask", lambda _: lab._questions.ask(_sleep), lambda _: None, lambda _: None)
        if app.measuring.measured is not None:
            app.measuring.forget()
            app.measuring.start(lab, lab.config)

    def flood() -> None:
        if not app._jobs.running("ask"):
            app.action_step_golden(1)
        if app.measuring.measured is not None:
            app.measuring.forget()

    waiting = await _pressed(app, hang)
    app._cancel_running(lab)
    await _until(lambda: not app._jobs.running("ask"))
    flooded = await _pressed(app, flood)
    return [
        *_key_ratios("query and evaluation run", waiting, bound=1),
        *_key_ratios("answers without a pause", flooded, bound=None),
    ]


def _sleep(conn: Connection[Any]) -> None:
    conn.execute("SELECT pg_sleep(60)")


async def _pressed(app: TimedApp, keep_busy: Callable[[], None]) -> list[float]:
    app.handled.clear()
    for number in range(_KEYS_PRESSED):
        keep_busy()
        key = _KEYS[number % len(_KEYS)]
        app.post_message(events.Key(key, key if len(key) == 1 else None))
        await asyncio.sleep(_KEY_SECONDS)
    await asyncio.sleep(0.5)  # for the last of them
    return list(app.handled)


def _key_ratios(what: str, seconds: list[float], bound: float | None) -> Iterator[Ratio]:
    percentiles = statistics.quantiles(seconds, n=100)
    for name, value in (("median", percentiles[49]), ("p95", percentiles[94]), ("slowest", max(seconds))):
        # The slowest of some hundred keys is as often another process's doing as ours.
        must = None if name == "slowest" else bound
        yield Ratio(f"explorer: key, {what}, {name} / limit", value, _MOST_KEY_SECONDS, must)


async def _memory(app: TimedApp) -> Ratio:
    """What an hour of questions, one every six seconds, leaves in memory; shown in GB where the others have seconds."""
    process = psutil.Process()
    before = 0
    for number in range(_QUESTIONS_IN_AN_HOUR):
        if number == _WARM_QUESTIONS:
            before = process.memory_info().rss
        await _next_question(app)
    after = process.memory_info().rss
    title = f"explorer: GB after {_QUESTIONS_IN_AN_HOUR} questions / after {_WARM_QUESTIONS}"
    return Ratio(title, after / 1e9, before / 1e9)


async def _next_question(app: TimedApp) -> None:
    painted = len(app.painted)
    app.action_step_golden(1)
    await _until(lambda: len(app.painted) > painted)


async def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "the explorer did not get there"
        await asyncio.sleep(0.001)
