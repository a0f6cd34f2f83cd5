"""Answering the question on the screen, with citations."""

from __future__ import annotations

from textual import on

from retrieval_lab_tui.ablation_work import AblationWork
from retrieval_lab_tui.cited import Cited, Heard
from retrieval_lab_tui.screens.cited import CitedScreen


class Citing(AblationWork):
    """An app that answers what is on its screen."""

    def action_answer(self) -> None:
        answer = self.explore.answer
        served = None if answer is None else self.serving(answer)
        if answer is None or served is None:
            self.say("Nothing to answer", "Ask a question first.")
        elif served.lab.replayed:
            self.say("No answer", "A bundle has no answers; open its corpus to ask for one.")
        else:
            self.push_screen(CitedScreen(Cited(self._jobs, self.post_message, served.lab, answer), self.explore.clock))

    @on(Heard)
    def _heard(self, event: Heard) -> None:
        for screen in () if self.ending else self.screen_stack:
            if isinstance(screen, CitedScreen):
                screen.heard(event.text)

    @on(CitedScreen.PassageWanted)
    def _read_source(self, event: CitedScreen.PassageWanted) -> None:
        self.to_lists()
        self.explore.neighbour(event.chunk)
        self.explore.action_read()
