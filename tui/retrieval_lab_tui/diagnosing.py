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
from retrieval_lab_tui.screens.analysis import AnalysisScreen
from retrieval_lab_tui.screens.explain import ExplainScreen


class Diagnosing(GoldenWork):
    """An app that explains what is on its screen."""

    def action_analysis(self) -> None:
        if self._has_golden("Nothing to analyse") and self._lab is not None:
            self.push_screen(AnalysisScreen(Judging(self._jobs, self._lab, self._live or self._lab.config)))

    @on(AnalysisScreen.QueryWanted)
    def _go_to_miss(self, event: AnalysisScreen.QueryWanted) -> None:
        """To its lists; with the explanation over the analysis, so that escape comes back to it."""
        lab = self._lab
        if lab is None:
            return
        if not event.explained:
            self.pop_screen()
            self._ask_golden(event.place)
            return
        config = self._live or lab.config
        query = lab.golden[event.place]

        def show(journey: Journey) -> None:
            self.push_screen(ExplainScreen(Explaining(self._jobs, self.post_message, lab, journey, config)))

        self._ask_golden(event.place)
        self._jobs.start("explain", lambda _: lab.explain(query, config=config), show, self._not_answered)

    def action_explain(self) -> None:
        answer = self.explore.answer
        if answer is not None and answer.journey is not None:
            self._show_journey(answer, answer.journey)
        else:
            self.action_explain_chunk()

    def action_explain_chunk(self) -> None:
        lab, answer, chunk = self._lab, self.explore.answer, self.explore.chunk
        if lab is None or answer is None or chunk is None:
            self.say("Nothing to explain", "No passage is under the cursor.")
            return
        self._jobs.start(
            "explain",
            lambda _: lab.explain(answer.trace, chunk.chunk_id),
            partial(self._show_journey, answer),
            self._not_answered,
        )

    def _show_journey(self, answer: Answer, journey: Journey) -> None:
        if self._lab is not None:
            config = answer.trace.config
            self.push_screen(ExplainScreen(Explaining(self._jobs, self.post_message, self._lab, journey, config)))

    @on(RescueProgressed)
    def _rescue_progressed(self, event: RescueProgressed) -> None:
        for screen in () if self.ending else self.screen_stack:
            if isinstance(screen, ExplainScreen):
                screen.progress(event.done, event.total, event.what)

    @on(ExplainScreen.RescueWanted)
    def _try_rescue(self, event: ExplainScreen.RescueWanted) -> None:
        lab, rescue, question = self._lab, event.rescue, self._question
        if lab is None or question is None:
            return
        if rescue.config.indexing != lab.config.indexing:
            self.say("Not tried", "This change needs another index: set it in lab.yaml, and open the corpus again.")
            return
        self.pop_screen()
        if rescue.edit is not None:
            self._ask(replace(question, query=rescue.edit.query))
        else:
            self._use(rescue.config)
