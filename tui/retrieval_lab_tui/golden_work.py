"""Working with the golden set: from query to query and from miss to miss, its measures behind the questions."""

from __future__ import annotations

from textual import on

from retrieval_lab.errors import Cancelled
from retrieval_lab.offline import IndexLab
from retrieval_lab_tui.asking import known
from retrieval_lab_tui.measuring import MeasuringEnded, MeasuringProgressed
from retrieval_lab_tui.screens.measures import MeasuresScreen
from retrieval_lab_tui.screens.picker import Picker
from retrieval_lab_tui.switching import Switching


class GoldenWork(Switching):
    """An app with a golden set to step through."""

    def action_step_golden(self, step: int) -> None:
        if self._has_golden("Nothing to step through") and self._lab is not None:
            last = self.explore.golden_index
            start = -1 if last is None and step > 0 else last or 0
            self._ask_golden((start + step) % len(self._lab.golden))

    def action_step_miss(self, step: int) -> None:
        if not self._has_golden("Nothing to step through"):
            return
        if self.measuring.misses is None:
            self.say("One moment", "The golden queries are still being measured.")
        elif (place := self.measuring.miss(self.explore.golden_index, step)) is None:
            self.say("No misses", "Every golden query finds its passage.")
        else:
            self._ask_golden(place)

    def action_pick(self) -> None:
        def chosen(index: int | None) -> None:
            if index is not None:
                self._ask_golden(index)

        if self._has_golden("Nothing to choose from") and self._lab is not None:
            self.push_screen(Picker(self._lab.golden, self.measuring.results, self.explore.golden_index), chosen)

    def action_measures(self) -> None:
        if self._has_golden("Nothing to measure") and self._lab is not None:
            self.push_screen(MeasuresScreen(self.measuring))

    def _has_golden(self, title: str) -> bool:
        if self._lab is not None and self._lab.replayed:
            self.say(title, "A bundle holds one question only; open the corpus for the others.")
            return False
        if self._lab is not None and not self._lab.golden:
            missing = "There is no golden.yaml."
            if isinstance(self._lab, IndexLab):
                missing = "An index has no golden queries: open it with its corpus's folder, or with --golden FILE."
            self.say(title, "golden.yaml has faults: ! lists them." if self._lab.golden_faults else missing)
        return self._lab is not None and bool(self._lab.golden)

    @on(MeasuringProgressed)
    def _measuring(self, event: MeasuringProgressed) -> None:
        for screen in self._measures_screens():
            screen.progress(event.done, event.total)

    @on(MeasuringEnded)
    def _measured(self, event: MeasuringEnded) -> None:
        if self.ending or isinstance(event.error, Cancelled):
            return
        self.explore.measured(self.measuring.misses, self.measuring.unlabelled)
        screens = self._measures_screens()
        for screen in screens:
            screen.ended(event.error)
        if event.error is not None and not screens:
            self.say("The golden set was not measured", str(known(event.error)), error=True)

    def _measures_screens(self) -> list[MeasuresScreen]:
        """The open one, if there is one; while the app ends there may be no screen at all."""
        return [screen for screen in self.screen_stack if isinstance(screen, MeasuresScreen)] if not self.ending else []

    @on(MeasuresScreen.QueriesWanted)
    def _list_queries(self, event: MeasuresScreen.QueriesWanted) -> None:
        def chosen(index: int | None) -> None:
            if index is not None:
                self.to_lists()
                self._ask_golden(index)

        if self._lab is not None:
            order = self.measuring.worst_first(event.field, event.value, event.measure)
            picker = Picker(self._lab.golden, self.measuring.results, None, order=order, measure=event.measure)
            self.push_screen(picker, chosen)
