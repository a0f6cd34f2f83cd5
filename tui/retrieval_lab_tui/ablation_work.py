"""Working with the ablations that are kept: their configurations listed, one of them used or compared."""

from __future__ import annotations

from collections.abc import Sequence

from textual import on

from retrieval_lab.errors import InputError
from retrieval_lab.offline import IndexLab
from retrieval_lab_tui.asking import known
from retrieval_lab_tui.kept_ablations import AblationProgressed, CellRun, KeptAblations
from retrieval_lab_tui.kept_runs import KeptRuns, Pair, Readable, listed
from retrieval_lab_tui.labs import Served
from retrieval_lab_tui.run_work import RunWork
from retrieval_lab_tui.screens.ablation import AblationScreen
from retrieval_lab_tui.screens.versus import VersusScreen


class AblationWork(RunWork):
    """An app of whose corpus ablations are kept."""

    _ablations: KeptAblations | None = None
    """What was read before stays read when the screen is opened again."""

    def action_ablation(self) -> None:
        now, file = self.labs.now, self.labs.file
        if now is None or file is None:
            return
        if now.lab.replayed:
            self.say("No ablation", "A bundle holds one question only; open the corpus for its ablations.")
            return
        if self._ablations is None:
            self._ablations = KeptAblations(self._jobs, self.post_message, now.lab.corpus)
        self.push_screen(AblationScreen(self._ablations, file.config, now.config))

    def _ablation_screens(self) -> list[AblationScreen]:
        """The open one, if there is one; while the app ends there may be no screen at all."""
        return [screen for screen in self.screen_stack if isinstance(screen, AblationScreen)] if not self.ending else []

    @on(AblationProgressed)
    def _ablation_read(self, event: AblationProgressed) -> None:
        for screen in self._ablation_screens():
            screen.reading(event.done, event.total)

    @on(AblationScreen.OpenWanted)
    def _open_configuration(self, event: AblationScreen.OpenWanted) -> None:
        """Use it on the question of the screen; over an index only one that the index serves."""
        lab = self._lab
        try:
            if isinstance(lab, IndexLab):
                lab.fitting(event.entry.config)
        except InputError as error:
            self._refuse(str(error))
            return
        self.to_lists()
        self.labs.names[event.entry.config] = event.entry.name
        self._use(event.entry.config)
        self.explore.focus_lists()

    def _refuse(self, reason: str) -> None:
        for screen in self._ablation_screens():
            screen.refused(reason)

    @on(AblationScreen.CompareWanted)
    def _compare_configuration(self, event: AblationScreen.CompareWanted) -> None:
        """Set the run of a cell against that of the configuration in use."""
        now, file = self.labs.now, self.labs.file
        if now is None or file is None:
            return
        kept_runs = KeptRuns(self._jobs, self.post_message, now.lab.corpus, file.config)
        in_use = self._run_in_use(now, file, event.cells)

        def compared(pair: Pair) -> None:
            if self._ablation_screens() == [self.screen]:
                self.push_screen(VersusScreen(kept_runs, pair, event.measure))

        if in_use is None:
            self._refuse("The configuration in use is none of these, and is not measured yet.")
        elif in_use == event.system:
            self._refuse("This is the configuration in use: go to another one to compare it.")
        else:
            kept_runs.compare(in_use, event.system, compared, lambda error: self._refuse(str(known(error))))

    def _run_in_use(self, now: Served, file: Served, cells: Sequence[CellRun]) -> Readable | None:
        """The cell of the configuration of the moment, else its own run, None until it is measured."""
        in_use = next((one for one in cells if one.entry.config == now.config), None)
        return in_use or next(iter(listed(None, self.measuring.measured, file.config)), None)
