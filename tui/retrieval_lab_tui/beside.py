"""Another pipeline's answer beside the one on the screen, question after question."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from textual import on
from textual.message import Message

from retrieval_lab.config import PipelineConfig
from retrieval_lab.errors import Cancelled as WasCancelled
from retrieval_lab_tui.answer import Answer, Question, ask
from retrieval_lab_tui.asking import known
from retrieval_lab_tui.citing import Citing
from retrieval_lab_tui.comparing import sides
from retrieval_lab_tui.embedders import embedders
from retrieval_lab_tui.jobs import Cancelled
from retrieval_lab_tui.labs import Served
from retrieval_lab_tui.measuring import Measuring, nearest_miss
from retrieval_lab_tui.screens.compare import CompareScreen
from retrieval_lab_tui.screens.explain import ExplainScreen
from retrieval_lab_tui.screens.sides import SideChooser
from retrieval_lab_tui.status import question_place
from retrieval_lab_tui.switching import IndexingProgressed, index_name


class Beside(Citing):
    """An app that asks the question on its screen of a second pipeline, too, while a comparison is open."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(clock)
        self.measuring_other = Measuring(self._jobs, self._heard_of_other, "measure_other")

    def action_compare(self) -> None:
        """Choose the other side, then compare."""
        now, file = self.labs.now, self.labs.file
        if now is None or file is None:
            return
        if now.lab.replayed or self._question is None:
            bundle = "A bundle holds the answer of one pipeline only; open the corpus for others."
            self.say("Nothing to compare", bundle if now.lab.replayed else "Ask a question first.")
            return
        found = sides(self.labs, embedders(file.config, (now.config, *self.labs.earlier)))

        def chosen(place: int | None) -> None:
            if place is not None:
                self.call_next(self._compare, now, found[place].config)

        self.push_screen(SideChooser(found), chosen)

    async def _compare(self, now: Served, other: PipelineConfig) -> None:
        for screen in self._compare_screens():  # from one comparison to another
            await screen.dismiss()
        self.measuring_other.forget()
        await self.push_screen(CompareScreen(now.config, other))
        answer, question = self.explore.answer, self._question
        if question is None:
            return
        if answer is not None and answer.question == question and answer.trace.config == now.config:
            self._ask_other(question)
            self._tell("left", answer)
        elif self._jobs.running("ask"):
            self._ask_other(question)
        else:  # it was stopped, or failed
            self._ask(question)

    def _compare_screens(self) -> list[CompareScreen]:
        """The open one, if there is one; while the app ends there may be no screen at all."""
        return [screen for screen in self.screen_stack if isinstance(screen, CompareScreen)] if not self.ending else []

    def _tell(self, side: str, answer: Answer) -> None:
        for screen in self._compare_screens():
            screen.answered(side, answer)

    def _ask(self, question: Question) -> None:
        super()._ask(question)
        self._ask_other(question)

    def _answered(self, answer: Answer) -> None:
        super()._answered(answer)
        self._tell("left", answer)

    def _not_answered(self, error: Exception) -> None:
        super()._not_answered(error)
        for screen in self._compare_screens():
            screen.failed("left", str(known(error)))

    def _ask_other(self, question: Question) -> None:
        """Ask the right side, whose index is made first where it is not open."""
        for screen in self._compare_screens():
            place = question_place(self._lab, question, self.measuring.misses)
            screen.asking(question, place)
            is_open = self.labs.serving(screen.other) is not None
            screen.indexing(None if is_open else index_name(screen.other, screen.config))
            work = partial(self._answer_of_other, screen.other, question)
            self._jobs.start("other", work, self._other_answered, partial(self._other_failed, question))

    def _answer_of_other(self, config: PipelineConfig, question: Question, dropped: Cancelled) -> tuple[Served, Answer]:
        served = self.open_served("other", config, dropped)
        return served, ask(served, None, question, dropped)

    def _other_answered(self, found: tuple[Served, Answer]) -> None:
        served, answer = found
        self._tell("right", answer)
        for screen in self._compare_screens():
            screen.indexing(None)
            self.measuring_other.start(served.lab, served.config)

    def _other_failed(self, question: Question, error: Exception) -> None:
        if isinstance(error, WasCancelled):  # meant for the question before, which ran on the same lab
            self._ask_other(question)
            return
        for screen in self._compare_screens():
            screen.failed("right", str(known(error)))

    def _heard_of_other(self, message: Message) -> None:
        """Of the golden set on the right side only the misses are wanted, when `m` goes to the next."""

    @on(IndexingProgressed)
    def _other_progressed(self, event: IndexingProgressed) -> None:
        if event.job == "other" and self._jobs.running("other"):
            for screen in self._compare_screens():
                screen.progress(event.progress)

    def action_leave_compare(self) -> None:
        """Back to the lists; what the right side still does is dropped."""
        self._jobs.drop("other")
        self.measuring_other.forget()
        for screen in self._compare_screens():
            screen.dismiss()

    def action_step_either_miss(self, step: int) -> None:
        """To the next miss of either side, as far as they are measured."""
        known_misses = {*(self.measuring.misses or ()), *(self.measuring_other.misses or ())}
        place = nearest_miss(sorted(known_misses), self.explore.golden_index, step)
        if place is None or not self._has_golden("Nothing to step through"):
            self.action_step_miss(step)  # which says why there is none
        else:
            self._ask_golden(place)

    @on(CompareScreen.ReadWanted)
    def _read_compared(self, event: CompareScreen.ReadWanted) -> None:
        self.action_leave_compare()
        self.explore.neighbour(event.chunk)
        self.explore.action_read()

    @on(CompareScreen.ExplainWanted)
    def _explain_compared(self, event: CompareScreen.ExplainWanted) -> None:
        self.explain_chunk(event.answer, event.chunk_id)

    @on(ExplainScreen.RescueWanted)
    def _rescue_compared(self) -> None:
        """A rescue is tried among the lists: the comparison was of the settings before."""
        self.call_next(self.action_leave_compare)  # once the explanation over it is closed
