"""The explorer's own delays, measured inside the app: the pilot that could press the keys takes longer than they do."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import psutil
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
    title = "explorer: question to four lists painted, median / the limit"
    return Ratio(title, statistics.median(app.painted), _MOST_PAINT_SECONDS, 1)


async def _keys(app: TimedApp) -> list[Ratio]:
    """Keys while there is always a question on its way and an evaluation at work."""
    app.handled.clear()
    for number in range(_KEYS_PRESSED):
        if not app._jobs.running("ask"):
            app.action_step_golden(1)
        if app.measuring.measured is not None:
            app.measuring.forget()
        key = _KEYS[number % len(_KEYS)]
        app.post_message(events.Key(key, key if len(key) == 1 else None))
        await asyncio.sleep(_KEY_SECONDS)
    await asyncio.sleep(0.5)  # for the last of them
    percentiles = statistics.quantiles(app.handled, n=100)
    title = "explorer: key to the end of its handler, busy,"
    return [
        Ratio(f"{title} median / the limit", percentiles[49], _MOST_KEY_SECONDS, 1),
        Ratio(f"{title} p95 / the limit", percentiles[94], _MOST_KEY_SECONDS, 1),
        Ratio(f"{title} slowest / the limit", max(app.handled), _MOST_KEY_SECONDS),
    ]


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
