"""Work off the screen's thread.

Threads are daemons of our own rather than Textual's workers, because Textual waits for a thread worker to end
before the app can leave. A job's result comes back as a message; whoever started it compares `number` with the
newest and drops the rest.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from textual.message import Message


class Finished(Message):
    """A job ended: with `result`, or with `error`."""

    def __init__(self, kind: str, number: int, result: Any, error: Exception | None) -> None:
        super().__init__()
        self.kind = kind
        self.number = number
        self.result = result
        self.error = error


class Jobs:
    """Starts jobs, numbers them within their kind, and knows which one is the newest and whether it still runs."""

    def __init__(self, post: Callable[[Message], object]) -> None:
        self._post = post
        self._newest: dict[str, int] = {}
        self._running: set[tuple[str, int]] = set()

    def start(self, kind: str, work: Callable[[], Any]) -> None:
        """Run the work in a thread; an older job of this kind is superseded."""
        number = self._newest.get(kind, 0) + 1
        self._newest[kind] = number
        self._running.add((kind, number))
        threading.Thread(target=self._run, args=(kind, number, work), name=f"{kind}-{number}", daemon=True).start()

    def running(self, kind: str) -> bool:
        """Whether the newest job of the kind is still at work."""
        return (kind, self._newest.get(kind, 0)) in self._running

    def drop(self, kind: str) -> None:
        """Let the newest job of the kind count as superseded."""
        self._newest[kind] = self._newest.get(kind, 0) + 1

    def accept(self, finished: Finished) -> bool:
        """Note that a job ended; whether its result is still wanted."""
        self._running.discard((finished.kind, finished.number))
        return self._newest.get(finished.kind) == finished.number

    def _run(self, kind: str, number: int, work: Callable[[], Any]) -> None:
        result, error = None, None
        try:
            result = work()
        except Exception as raised:  # noqa: BLE001 - whatever it is, the screen shows it
            error = raised
        self._post(Finished(kind, number, result, error))
