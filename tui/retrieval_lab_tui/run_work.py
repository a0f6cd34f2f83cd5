"""Working with the runs that are kept: listed, one against another, and the lists behind a difference."""

from __future__ import annotations

from functools import partial

from textual import on

from retrieval_lab.evals.runs import Run
from retrieval_lab_tui.asking import known
from retrieval_lab_tui.beside import Beside
from retrieval_lab_tui.kept_runs import KeptRuns, Pair, RunsProgressed
from retrieval_lab_tui.measuring import MeasuringEnded, MeasuringProgressed
from retrieval_lab_tui.screens.runs import RunsScreen
from retrieval_lab_tui.screens.versus import VersusScreen


class RunWork(Beside):
    """An app of whose corpus runs are kept."""

    def action_runs(self) -> None:
        now, file = self.labs.now, self.labs.file
        if now is None or file is None:
            return
        if now.lab.replayed:
            self.say("No runs", "A bundle holds one question only; open the corpus for its runs.")
            return
        kept_runs = KeptRuns(self._jobs, self.post_message, now.lab.corpus, file.config)
        self.push_screen(RunsScreen(kept_runs, self.measuring))

    def action_keep_run(self) -> None:
        """Keep the run of the moment under its name."""
        if self._lab is None or not self._has_golden("Nothing to keep"):
            return
        if self.measuring.measured is None:
            self.say("One moment", "The golden queries are still being measured.")
            return

        def kept(path: str) -> None:
            self.say("Run kept", path)
            for screen in self._runs_screens():
                screen.read()

        def failed(error: Exception) -> None:
            self.say("Not kept", str(known(error)), error=True)

        self.measuring.keep(self._lab, kept, failed)

    def _runs_screens(self) -> list[RunsScreen]:
        """The open one, if there is one; while the app ends there may be no screen at all."""
        return [screen for screen in self.screen_stack if isinstance(screen, RunsScreen)] if not self.ending else []

    @on(RunsProgressed)
    def _runs_read(self, event: RunsProgressed) -> None:
        for screen in self._runs_screens():
            screen.reading(event.done, event.total)

    @on(MeasuringProgressed)
    def _runs_wait(self, event: MeasuringProgressed) -> None:
        for screen in self._runs_screens():
            screen.measuring(event.done, event.total)

    @on(MeasuringEnded)
    def _run_of_the_moment(self) -> None:
        for screen in self._runs_screens():
            screen.measured()

    @on(RunsScreen.CompareWanted)
    def _compare_runs(self, event: RunsScreen.CompareWanted) -> None:
        kept_runs = event.kept_runs

        def compared(pair: Pair) -> None:
            if self._runs_screens() == [self.screen]:
                self.push_screen(VersusScreen(kept_runs, pair, event.measure))

        def refused(error: Exception) -> None:
            for screen in self._runs_screens():
                screen.refused(str(known(error)))

        kept_runs.compare(event.baseline, event.system, compared, refused)

    @on(VersusScreen.ListsWanted)
    def _lists_of_both(self, event: VersusScreen.ListsWanted) -> None:
        """Ask the query again of both pipelines, as golden.yaml has it now."""
        golden = self._lab.golden if self._lab is not None else ()
        places = {query.query_id: place for place, query in enumerate(golden)}
        if event.query_id not in places:
            self.say("Not to be asked", f"golden.yaml has no query {event.query_id!r} any more.", error=True)
            return
        pair = event.pair
        misses = {*_misses(pair.baseline), *_misses(pair.system)}
        known_places = frozenset(places[query_id] for query_id in misses if query_id in places)
        self._ask_golden(places[event.query_id])
        self.call_next(partial(self.compare, pair.baseline.config, pair.system.config, known_places))


def _misses(run: Run) -> list[str]:
    return [record.query_id for record in run.queries if record.is_miss]
