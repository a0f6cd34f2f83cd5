"""Finding out why passages were lost: one explained, all of them judged, a rescue tried."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from textual import on

from retrieval_lab.diagnosis.journey import Journey
from retrieval_lab_tui.answer import Answer
from retrieval_lab_tui.explaining import Explaining, RescueProgressed
from retrieval_lab_tui.golden_work import GoldenWork
from retrieval_lab_tui.judging import Judging
from retrieval_lab_tui.labs import Served
from retrieval_lab_tui.screens.analysis import AnalysisScreen
from retrieval_lab_tui.screens.explain import ExplainScreen


class Diagnosing(GoldenWork):
    """An app that explains what is on its screen."""

    def action_analysis(self) -> None:
        now = self.labs.now
        if self._has_golden("Nothing to analyse") and now is not None:
            self.push_screen(AnalysisScreen(Judging(self._jobs, now.lab, now.config)))

    @on(AnalysisScreen.QueryWanted)
    def _go_to_miss(self, event: AnalysisScreen.QueryWanted) -> None:
        """To its lists; with the explanation over the analysis, so that escape comes back to it."""
        now = self.labs.now
        if now is None:
            return
        if not event.explained:
            self.to_lists()
            self._ask_golden(event.place)
            return
        query = now.lab.golden[event.place]
        self._ask_golden(event.place)
        self._jobs.start(
            "explain",
            lambda _: now.lab.explain(query, config=now.config),
            partial(self._show_journey, now),
            self._not_answered,
        )

    def action_explain(self) -> None:
        answer = self.explore.answer
        served = None if answer is None else self.serving(answer)
        if answer is not None and answer.journey is not None and served is not None:
            self._show_journey(served, answer.journey)
        else:
            self.action_explain_chunk()

    def action_explain_chunk(self) -> None:
        answer, chunk = self.explore.answer, self.explore.chunk
        if answer is None or chunk is None or not self.explain_chunk(answer, chunk.chunk_id):
            self.say("Nothing to explain", "No passage is under the cursor.")

    def explain_chunk(self, answer: Answer, chunk_id: str) -> bool:
        """Show the journey of a chunk through the pipeline of an answer; whether the lab that made it is open."""
        served = self.serving(answer)
        if served is not None:
            self._jobs.start(
                "explain",
                lambda _: served.lab.explain(answer.trace, chunk_id),
                partial(self._show_journey, served),
                self._not_answered,
            )
        return served is not None

    def serving(self, answer: Answer) -> Served | None:
        """The lab that gave an answer, with the configuration; None where it is not open any more."""
        return self.labs.serving(answer.trace.config)

    def _show_journey(self, served: Served, journey: Journey) -> None:
        explaining = Explaining(self._jobs, self.post_message, served.lab, journey, served.config)
        self.push_screen(ExplainScreen(explaining))

    @on(RescueProgressed)
    def _rescue_progressed(self, event: RescueProgressed) -> None:
        for screen in () if self.ending else self.screen_stack:
            if isinstance(screen, ExplainScreen):
                screen.progress(event.done, event.total, event.what)

    @on(ExplainScreen.RescueWanted)
    def _try_rescue(self, event: ExplainScreen.RescueWanted) -> None:
        rescue, question = event.rescue, self._question
        if question is None:
            return
        self.to_lists()
        if rescue.edit is not None:
            self._ask(replace(question, query=rescue.edit.query))
        else:
            self._use(rescue.config)
