"""Work off the screen's thread.

Threads are daemons of our own rather than Textual's workers, because Textual waits for a thread worker to end
before the app can leave. A job's end comes back as a message, so that whoever started it hears of it on the screen's
thread; the end of a job that a newer one has superseded is dropped.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Awaitable, Callable
from typing import Any

from textual.message import Message

Done = Callable[[Any], Awaitable[None] | None]
Failed = Callable[[Exception], None]
Cancelled = Callable[[], bool]


class Finished(Message):
    """A job ended: with `result`, or with `error`."""

    def __init__(self, kind: str, number: int, tell: Callable[[], Awaitable[None] | None]) -> None:
        super().__init__()
        self.kind = kind
        self.number = number
        self.tell = tell


class Jobs:
    """Starts jobs, numbers them within their kind, and knows which one is the newest and whether it still runs."""

    def __init__(self, post: Callable[[Message], object]) -> None:
        self._post = post
        self._newest: dict[str, int] = {}
        self._running: set[tuple[str, int]] = set()

    def start(self, kind: str, work: Callable[[Cancelled], Any], done: Done, failed: Failed) -> None:
        """Run the work in a thread; an older job of this kind is superseded, which it can ask of its argument.

        `done` gets the work's result or `failed` its error, when `settle` is called with the message of its end.
        """
        number = self._newest.get(kind, 0) + 1
        self._newest[kind] = number
        self._running.add((kind, number))

        def run() -> None:
            try:
                result = work(lambda: self._newest[kind] != number)
            except Exception as error:  # noqa: BLE001 - whatever it is, the screen shows it
                found = error
                self._post(Finished(kind, number, lambda: failed(found)))
            else:
                self._post(Finished(kind, number, lambda: done(result)))

        threading.Thread(target=run, name=f"{kind}-{number}", daemon=True).start()

    def running(self, kind: str) -> bool:
        """Whether the newest job of the kind is still at work."""
        return (kind, self._newest.get(kind, 0)) in self._running

    def drop(self, kind: str) -> None:
        """Let the newest job of the kind count as superseded."""
        self._newest[kind] = self._newest.get(kind, 0) + 1

    async def settle(self, finished: Finished) -> None:
        """Note that a job ended, and tell whoever started it if its result is still wanted."""
        self._running.discard((finished.kind, finished.number))
        if self._newest.get(finished.kind) == finished.number:
            outcome = finished.tell()
            if inspect.isawaitable(outcome):
                await outcome
