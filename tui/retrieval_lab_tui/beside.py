"""Another pipeline's answer beside the one on the screen, question after question."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from textual import on
from textual.message import Message

from retrieval_lab.config import PipelineConfig
from retrieval_lab.configurations import configurations
from retrieval_lab.errors import Cancelled as WasCancelled
from retrieval_lab.errors import LabError
from retrieval_lab_tui.answer import Answer, Question, ask
from retrieval_lab_tui.asking import known
from retrieval_lab_tui.comparing import sides
from retrieval_lab_tui.diagnosing import Diagnosing
from retrieval_lab_tui.embedders import embedders
from retrieval_lab_tui.jobs import Cancelled
from retrieval_lab_tui.labs import Served
from retrieval_lab_tui.measuring import Measuring, nearest_miss
from retrieval_lab_tui.screens.compare import CompareScreen
from retrieval_lab_tui.screens.explain import ExplainScreen
from retrieval_lab_tui.screens.sides import SideChooser
from retrieval_lab_tui.status import question_place
from retrieval_lab_tui.switching import IndexingProgressed, index_name


class Beside(Diagnosing):
    """An app that asks the question on its screen of a second pipeline, too, while a comparison is open."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(clock)
        self.measuring_other = Measuring(self._jobs, self._heard_of_other, "measure_other")
        self._known_misses: frozenset[int] | None = None
        """The places of the misses of both sides, where they are known without measuring."""

    def action_compare(self) -> None:
        """Choose the other side, then compare."""
        now, file = self.labs.now, self.labs.file
        if now is None or file is None:
            return
        if now.lab.replayed or self._question is None:
            bundle = "A bundle holds the answer of one pipeline only; open the corpus for others."
            self.say("Nothing to compare", bundle if now.lab.replayed else "Ask a question first.")
            return
        try:
            named = now.lab.offered(configurations(now.lab.corpus))
        except LabError:  # choosing one of them says what is wrong
            named = ()
        others = (now.config, *self.labs.earlier)
        found = sides(self.labs, () if now.lab.serves_one_index else embedders(file.config, others), named)

        def chosen(place: int | None) -> None:
            if place is not None:
                self.call_next(self.compare, now.config, found[place].config)

        self.push_screen(SideChooser(found), chosen)

    async def compare(self, left: PipelineConfig, right: PipelineConfig, misses: frozenset[int] | None = None) -> None:
        """Show the question on the screen in both pipelines; `misses` are the places of either's, where known."""
        for screen in self._compare_screens():  # from one comparison to another
            await screen.dismiss()
        self.measuring_other.forget()
        self._known_misses = misses
        await self.push_screen(CompareScreen(left, right))
        answer, question = self.explore.answer, self._question
        if question is None:
            return
        if answer is not None and answer.question == question and self.serving(answer) == self.labs.now:
            self._ask_others(question)
            self._tell(answer)
        elif self._jobs.running("ask"):
            self._ask_others(question)
        else:  # it was stopped, or failed
            self._ask(question)

    def _compare_screens(self) -> list[CompareScreen]:
        """The open one, if there is one; while the app ends there may be no screen at all."""
        return [screen for screen in self.screen_stack if isinstance(screen, CompareScreen)] if not self.ending else []

    def _tell(self, answer: Answer) -> None:
        """Show an answer on each side that has its pipeline."""
        for screen in self._compare_screens():
            for side in screen.sides_of(answer.trace.config):
                screen.answered(side, answer)

    def _ask(self, question: Question) -> None:
        super()._ask(question)
        self._ask_others(question)

    async def _answered(self, answer: Answer) -> None:
        await super()._answered(answer)
        self._tell(answer)

    def _not_answered(self, error: Exception) -> None:
        super()._not_answered(error)
        for screen in self._compare_screens():
            for side in screen.sides_of(self.labs.now.config) if self.labs.now is not None else ():
                screen.failed(side, str(known(error)))

    def _ask_others(self, question: Question) -> None:
        """Ask each pipeline that is not that of the moment, which answers among the lists."""
        for screen in self._compare_screens():
            now = self.labs.now.config if self.labs.now is not None else None
            screen.asking(question, question_place(self._lab, question, self._shown_misses(screen)))
            others = dict.fromkeys(config for config in (screen.config, screen.other) if config != now)
            self._ask_other(question, tuple(others))

    def _shown_misses(self, screen: CompareScreen) -> tuple[int, ...] | None:
        """Those of the left side; they are counted for the settings of the moment only."""
        is_left = self.labs.now is not None and screen.config == self.labs.now.config
        return self.measuring.misses if is_left else None

    def _ask_other(self, question: Question, configs: tuple[PipelineConfig, ...]) -> None:
        """Ask one pipeline after the other; the index of each is made first where it is not open."""
        if not configs:
            return
        config, *rest = configs
        is_open = self.labs.serving(config) is not None
        for screen in self._compare_screens():
            screen.indexing(None if is_open or self.labs.now is None else index_name(config, self.labs.now.config))

        def failed(error: Exception) -> None:
            self._other_failed(question, configs, error)

        def done(found: tuple[Served, Answer]) -> None:
            self._other_answered(*found)
            self._ask_other(question, tuple(rest))

        self._jobs.start("other", partial(self._answer_of_other, config, question), done, failed)

    def _answer_of_other(self, config: PipelineConfig, question: Question, dropped: Cancelled) -> tuple[Served, Answer]:
        served = self.open_served("other", config, dropped)
        return served, ask(served, None, question, dropped)

    def _other_answered(self, served: Served, answer: Answer) -> None:
        self._tell(answer)
        for screen in self._compare_screens():
            screen.indexing(None)
            if self._known_misses is None:
                self.measuring_other.start(served.lab, served.config)

    def _other_failed(self, question: Question, configs: tuple[PipelineConfig, ...], error: Exception) -> None:
        if isinstance(error, WasCancelled):  # meant for the question before, which ran on the same lab
            self._ask_other(question, configs)
            return
        for screen in self._compare_screens():
            for side in screen.sides_of(configs[0]):
                screen.failed(side, str(known(error)))
        self._ask_other(question, configs[1:])

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
        misses = self._known_misses
        if misses is None:
            misses = frozenset((*(self.measuring.misses or ()), *(self.measuring_other.misses or ())))
        place = nearest_miss(sorted(misses), self.explore.golden_index, step)
        if place is None or not self._has_golden("Nothing to step through"):
            self.action_step_miss(step)  # which says why there is none
        else:
            self._ask_golden(place)

    @on(CompareScreen.ReadWanted)
    def _read_compared(self, event: CompareScreen.ReadWanted) -> None:
        self.action_leave_compare()
        self.to_lists()  # a comparison of runs lies over theirs
        self.explore.neighbour(event.chunk)
        self.explore.action_read()

    @on(CompareScreen.ExplainWanted)
    def _explain_compared(self, event: CompareScreen.ExplainWanted) -> None:
        self.explain_chunk(event.answer, event.chunk_id)

    @on(ExplainScreen.RescueWanted)
    def _rescue_compared(self) -> None:
        """A rescue is tried among the lists: the comparison was of the settings before."""
        self.call_next(self.action_leave_compare)  # once the explanation over it is closed
