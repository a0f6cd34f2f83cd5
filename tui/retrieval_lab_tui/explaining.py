"""What is found out about one passage when its explanation is open: the words as read, and what would rescue it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from textual.message import Message

from retrieval_lab.config import PipelineConfig
from retrieval_lab.diagnosis.journey import Journey
from retrieval_lab.diagnosis.parse_view import ParseView, PassageView
from retrieval_lab.diagnosis.replay import Replay
from retrieval_lab.diagnosis.rescue import Rescues
from retrieval_lab.diagnosis.rescues import rescues
from retrieval_lab.errors import InputError
from retrieval_lab.lab import Lab
from retrieval_lab_tui.jobs import Cancelled, Failed, Jobs


class RescueProgressed(Message):
    """So many of the steps are tried, and which one is now; a newer one may replace it unseen."""

    def __init__(self, done: int, total: int, what: str) -> None:
        super().__init__()
        self.done = done
        self.total = total
        self.what = what

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, RescueProgressed)


@dataclass(frozen=True, slots=True)
class Words:
    """How full-text search read the question, and the passage where there is one."""

    query: ParseView
    passage: PassageView | None


class Explaining:
    """Starts the jobs `words` and `rescue` for one journey under one configuration."""

    def __init__(
        self, jobs: Jobs, post: Callable[[Message], object], lab: Lab, journey: Journey, config: PipelineConfig
    ) -> None:
        self.journey = journey
        self.config = config
        self._jobs = jobs
        self._post = post
        self._lab = lab

    def words(self, done: Callable[[Words], None], failed: Failed) -> None:
        """Have the question and the passage parsed."""

        def work(_: Cancelled) -> Words:
            passage = None if self._lab.replayed else self.journey.chunk_id
            return Words(
                self._lab.parse_view(self.journey.query, self.config),
                None if passage is None else self._lab.parse_passage(passage),
            )

        self._jobs.start("words", work, done, failed)

    def rescues(self, done: Callable[[Rescues], None], failed: Failed, *, reindex: bool) -> None:
        """Have every single change tried; with `reindex` also other ways of indexing."""
        golden = self.journey.golden
        asked = self.journey.query if golden is None else golden

        def progress(step: int, total: int, what: str) -> None:
            self._post(RescueProgressed(step, total, what))

        def work(cancelled: Cancelled) -> Rescues:
            if isinstance(self._lab, Replay):
                return _kept(self._lab)
            chunk = self.journey.chunk_id if golden is None else None
            return rescues(
                self._lab, asked, chunk, self.config, reindex=reindex, progress=progress, cancelled=cancelled
            )

        self._jobs.start("rescue", work, done, failed)

    def stop(self) -> bool:
        """Let the search for rescues end; whether one was running."""
        running = self._jobs.running("rescue")
        self._jobs.drop("rescue")
        return running


def _kept(lab: Replay) -> Rescues:
    if lab.bundle.rescues is None:
        raise InputError("this bundle was made without rescues; `trace --golden ID --bundle FILE` finds them")
    return lab.bundle.rescues
