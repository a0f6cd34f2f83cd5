"""Only the newest job of a kind counts, and a failing job ends as any other."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Queue
from typing import Any

from textual.message import Message

from retrieval_lab_tui.jobs import Finished, Jobs


class Caller:
    """Starts jobs and writes down what it is told of them."""

    def __init__(self) -> None:
        self.inbox: Queue[Message] = Queue()
        self.jobs = Jobs(self.inbox.put)
        self.told: list[object] = []

    def start(self, kind: str, work: Callable[[Callable[[], bool]], Any]) -> None:
        self.jobs.start(kind, work, self.told.append, lambda error: self.told.append(type(error)))

    async def settle(self) -> None:
        message = self.inbox.get(timeout=5)
        assert isinstance(message, Finished)
        await self.jobs.settle(message)


async def test_a_result_comes_back() -> None:
    caller = Caller()
    caller.start("ask", lambda _: 42)
    assert caller.jobs.running("ask")
    await caller.settle()
    assert (caller.told, caller.jobs.running("ask")) == ([42], False)


async def test_an_error_comes_back() -> None:
    caller = Caller()
    caller.start("ask", lambda _: 1 / 0)
    await caller.settle()
    assert caller.told == [ZeroDivisionError]


async def test_a_result_may_be_taken_by_a_coroutine() -> None:
    caller = Caller()

    async def take(result: object) -> None:
        caller.told.append(result)

    caller.jobs.start("open", lambda _: "lab", take, caller.told.append)
    await caller.settle()
    assert caller.told == ["lab"]


async def test_an_older_result_is_dropped_even_when_it_comes_last() -> None:
    caller = Caller()
    gate = threading.Event()
    caller.start("ask", lambda _: gate.wait(5) and "old")
    caller.start("ask", lambda _: "new")
    await caller.settle()
    gate.set()
    await caller.settle()
    assert caller.told == ["new"]


async def test_a_job_can_ask_whether_it_is_still_wanted() -> None:
    caller = Caller()
    gate = threading.Event()
    seen: list[bool] = []

    def work(cancelled: Callable[[], bool]) -> None:
        seen.append(cancelled())
        gate.wait(5)
        seen.append(cancelled())

    caller.start("ask", work)
    while not seen:
        pass
    caller.jobs.drop("ask")
    gate.set()
    await caller.settle()
    assert (seen, caller.told) == ([False, True], [])


async def test_kinds_do_not_disturb_each_other_and_a_dropped_job_is_not_wanted() -> None:
    caller = Caller()
    caller.start("open", lambda _: "lab")
    first = caller.inbox.get(timeout=5)
    caller.start("ask", lambda _: "answer")
    caller.jobs.drop("ask")
    assert isinstance(first, Finished)
    await caller.jobs.settle(first)
    await caller.settle()
    assert caller.told == ["lab"]
