"""Labs that wait, hang or fail when a test wants them to, and a clock that stands still."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from typing import Any

from retrieval_lab.index import Progress
from retrieval_lab.lab import Lab
from retrieval_lab.trace import Trace
from retrieval_lab.types import GoldenQuery

Opener = Callable[..., Lab]


@dataclass
class FixedClock:
    """Tells the same second until a test moves it."""

    now: float = 100.0

    def __call__(self) -> float:
        return self.now


class GatedLab(Lab):
    """A lab whose answers wait for a gate, question by question."""

    gates: dict[str, threading.Event]
    closed: frozenset[str] | None

    def trace(self, query: str | GoldenQuery, *args: Any, **kwargs: Any) -> Trace:
        text = query.query if isinstance(query, GoldenQuery) else query
        if self.closed is None or text in self.closed:
            self.gates.setdefault(text, threading.Event()).wait(10)
        return super().trace(query, *args, **kwargs)


def gated(gates: dict[str, threading.Event], closed: Iterable[str] | None = None) -> Opener:
    """Opens labs that wait at these gates: at one for every question, or for the questions `closed` only."""

    def open_gated(*args: Any, **kwargs: Any) -> Lab:
        lab = GatedLab.open(*args, **kwargs)
        lab.gates = gates
        lab.closed = None if closed is None else frozenset(closed)
        return lab

    return open_gated


class SlowLab(Lab):
    """A lab in which the server needs half a minute for every question with the word slow."""

    def trace(self, query: str | GoldenQuery, *args: Any, **kwargs: Any) -> Trace:
        if isinstance(query, str) and "slow" in query:
            self._questions.ask(lambda conn: conn.execute("SELECT pg_sleep(30)"))
        return super().trace(query, *args, **kwargs)


def never_open(*steps: Progress) -> Opener:
    """Reports these steps, then indexes until it is cancelled."""

    def open_never(*_: Any, progress: Callable[[Progress], None], cancelled: Callable[[], bool], **__: Any) -> Lab:
        for step in steps:
            progress(step)
        while not cancelled():
            time.sleep(0.01)
        raise RuntimeError("nobody waits for this")

    return open_never


def slowly_indexed(seconds: float) -> Opener:
    """Opens the real lab, which takes so many seconds more for each document."""

    def open_slowly(*args: Any, progress: Callable[[Progress], None], **kwargs: Any) -> Lab:
        def slow(step: Progress) -> None:
            progress(step)
            time.sleep(seconds)

        return Lab.open(*args, progress=slow, **kwargs)

    return open_slowly


def streamed(text: str, gate: threading.Event | None = None, cost: float = 0.0123) -> Callable[..., AsyncIterator[Any]]:
    """Stands in for the SDK's query: the text word by word in its own messages; once the gate is open, the end."""
    from claude_agent_sdk import AssistantMessage, ResultMessage, StreamEvent, TextBlock

    async def query(**_: Any) -> AsyncIterator[Any]:
        for word in text.split(" "):
            delta = {"type": "text_delta", "text": f"{word} "}
            yield StreamEvent(uuid="u", session_id="s", event={"type": "content_block_delta", "delta": delta})
        while gate is not None and not gate.is_set():
            await asyncio.sleep(0.01)
        yield AssistantMessage(content=[TextBlock(text=text)], model="m")
        yield ResultMessage(
            subtype="success",
            duration_ms=1,
            duration_api_ms=1,
            is_error=False,
            num_turns=1,
            session_id="s",
            total_cost_usd=cost,
            result=text,
        )

    return query
