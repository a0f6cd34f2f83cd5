"""Evaluating the golden set off the screen's thread, and comparing it with a kept run."""

from __future__ import annotations

from collections.abc import Callable

from textual.message import Message

from retrieval_lab.config import PipelineConfig
from retrieval_lab.evals.runs import Run, resolve_run, run
from retrieval_lab.evals.summary import summarise
from retrieval_lab.evals.versus import Versus, versus
from retrieval_lab.lab import Lab
from retrieval_lab_tui.screens.measures import Measured


class MeasuringProgressed(Message):
    """So many golden queries are measured; a newer one may replace it unseen."""

    def __init__(self, done: int, total: int) -> None:
        super().__init__()
        self.done = done
        self.total = total

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, MeasuringProgressed)


def measure(
    lab: Lab, config: PipelineConfig | None, progress: Callable[[int, int], None], cancelled: Callable[[], bool]
) -> Measured:
    """Evaluate the golden set. Raises as `evals.runs.run` does."""
    made = run(lab, config, progress=progress, cancelled=cancelled)
    return Measured(made, summarise(made))


def compare_with(lab: Lab, name: str, system: Run) -> tuple[str, Versus]:
    """The kept run's name, and this run against it. Raises as `Run.load` and `versus` do."""
    return name, versus(Run.load(resolve_run(name, lab.corpus)), system)
