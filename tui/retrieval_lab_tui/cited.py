"""A cited answer to the question on the screen: its grounds, then what the answerer says, as it comes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from textual.message import Message

from retrieval_lab.answering import Answerer, Claude, Extractive, Grounds, Said, grounds, say, usual_answerer
from retrieval_lab.lab import Lab
from retrieval_lab_tui.answer import Answer
from retrieval_lab_tui.jobs import Cancelled, Failed, Jobs


class Heard(Message):
    """The answer so far; a newer one may replace it unseen."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, Heard)


@dataclass(frozen=True, slots=True)
class Found:
    """What a question can be answered from, and who would answer it usually."""

    grounds: Grounds
    usual: Answerer


class Cited:
    """Starts the jobs `grounds` and `say` for one traced question."""

    def __init__(self, jobs: Jobs, post: Callable[[Message], object], lab: Lab, answer: Answer) -> None:
        self.answer = answer
        self._jobs = jobs
        self._post = post
        self._lab = lab

    def find(self, done: Callable[[Found], None], failed: Failed) -> None:
        """Have the sources looked up, with their support."""

        def work(cancelled: Cancelled) -> Found:
            return Found(grounds(self._lab, self.answer.trace, cancelled=cancelled), usual_answerer())

        self._jobs.start("grounds", work, done, failed)

    def say(self, made: Grounds, answerer: Answerer, done: Callable[[Said], None], failed: Failed) -> None:
        """Have the answerer speak; a `Heard` comes whenever there is more of it."""

        def work(cancelled: Cancelled) -> Said:
            def heard(text: str) -> None:
                if not cancelled():
                    self._post(Heard(text))

            return say(made, answerer, heard=heard, cancelled=cancelled)

        self._jobs.start("say", work, done, failed)

    def stop(self) -> bool:
        """Let whoever is speaking stop; whether anybody was."""
        running = self._jobs.running("say")
        self._jobs.drop("say")
        self._jobs.drop("grounds")
        return running


def other(answerer: Answerer) -> Answerer:
    """The one who answers when this one is not to."""
    return Claude() if isinstance(answerer, Extractive) else Extractive()
