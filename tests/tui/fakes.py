"""Labs that wait or fail when a test wants them to."""

from __future__ import annotations

import threading
from typing import Any

from retrieval_lab.lab import Lab
from retrieval_lab.trace import Trace
from retrieval_lab.types import GoldenQuery


class GatedLab(Lab):
    """A lab whose answers wait for a gate, question by question."""

    gates: dict[str, threading.Event]

    def trace(self, query: str | GoldenQuery, *args: Any, **kwargs: Any) -> Trace:
        text = query.query if isinstance(query, GoldenQuery) else query
        self.gates.setdefault(text, threading.Event()).wait(10)
        return super().trace(query, *args, **kwargs)
