"""The runs that are kept, each with one measure and its interval on a scale that all share."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import ClassVar

from rich.cells import cell_len
from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Static

from retrieval_lab.evals.interval_scale import Scale, scale_of
from retrieval_lab.evals.summary import Estimate
from retrieval_lab.shorten import shorten_middle
from retrieval_lab_tui.actions import RUNS, bindings
from retrieval_lab_tui.display import one_line, safe
from retrieval_lab_tui.interval_bars import interval_bar
from retrieval_lab_tui.kept_runs import Kept, KeptRuns, Listed, listed, measures_of
from retrieval_lab_tui.measuring import Measuring
from retrieval_lab_tui.widgets.key_line import KeyLine

_USUAL_MEASURE = "ndcg@{}"
_ROOM_FOR_ONE_LINE = 140
_MARKS, _NAME_WIDTH, _TIME_WIDTH, _QUERIES_WIDTH, _VALUE_WIDTH, _ENDS_WIDTH = 4, 24, 16, 8, 6, 9
_BESIDE_BAR = _MARKS + _NAME_WIDTH + _QUERIES_WIDTH + 1 + _VALUE_WIDTH + 1 + _ENDS_WIDTH
_MOST_BAR = 40


class RunsScreen(Screen[None]):
    """Shows the run of the moment, once it is measured, above the kept ones; ◆ marks the baseline of comparisons."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(RUNS)

    DEFAULT_CSS = """
    RunsScreen {
        & #title, & #state { height: 1; text-wrap: nowrap; text-overflow: ellipsis; }
        & #title { background: $panel; }
        & #trouble { height: auto; max-height: 4; padding: 0 1; color: $text-error; display: none; }
        & #heads { height: 1; padding: 0 1; margin-top: 1; text-wrap: nowrap; text-overflow: ellipsis; }
        & VerticalScroll { padding: 0 1; scrollbar-size-vertical: 1; }
        & #rows { height: auto; text-wrap: nowrap; text-overflow: ellipsis; }
        & #unreadable { height: auto; margin-top: 1; color: $text-warning; }
    }
    """

    class CompareWanted(Message):
        """A run is to be compared with a baseline, by a measure first."""

        def __init__(self, kept_runs: KeptRuns, baseline: Listed, system: Listed, measure: str) -> None:
            super().__init__()
            self.kept_runs = kept_runs
            self.baseline = baseline
            self.system = system
            self.measure = measure

    def __init__(self, kept_runs: KeptRuns, measuring: Measuring) -> None:
        super().__init__()
        self._kept_runs = kept_runs
        self._measuring = measuring
        self._kept: Kept | None = None
        self._trouble: str | None = None
        self._state = " reading the runs…"
        self._runs: tuple[Listed, ...] = ()
        self._baseline: Listed | None = None
        self._row = 0
        self._measure: str | None = None
        self._by_time = False

    @property
    def run(self) -> Listed | None:
        """The run under the cursor."""
        return self._runs[self._row] if self._runs else None

    @property
    def baseline(self) -> Listed | None:
        """The run that others are compared with."""
        return self._baseline

    def compose(self) -> ComposeResult:
        yield Static(id="title")
        yield Static(id="state")
        yield Static(id="trouble")
        yield Static(id="heads")
        with VerticalScroll(can_focus=False):
            yield Static(id="rows")
            yield Static(id="unreadable")
        yield KeyLine(RUNS)

    def on_mount(self) -> None:
        self.read()

    def on_resize(self) -> None:
        self._draw()

    def on_screen_resume(self) -> None:
        self._draw()

    def on_unmount(self) -> None:
        self._kept_runs.stop()

    # What the app tells the screen.

    def read(self) -> None:
        """Read the kept runs, again where one was kept meanwhile."""
        self._kept_runs.read(self._seen, self._failed)
        self._draw()

    def reading(self, done: int, total: int) -> None:
        """So many of the kept runs are read."""
        if self._kept is None:
            self._progress("reading the runs", done, total)

    def measuring(self, done: int, total: int) -> None:
        """So many of the golden queries are measured under the settings of the moment."""
        self._progress("measuring the settings of the moment", done, total)

    def measured(self) -> None:
        """The run of the moment is there, or will not come."""
        self._arrange()

    def refused(self, reason: str) -> None:
        """What was asked for last could not be done."""
        self._trouble = reason
        self._draw()

    def _progress(self, what: str, done: int, total: int) -> None:
        width = max(4, min(_MOST_BAR, self.size.width - len(what) - 24))
        filled = done * width // max(1, total)
        bar = (("█" * filled, "$accent"), ("░" * (width - filled), "$foreground-muted"))
        self.query_one("#state", Static).update(
            Content.assemble(f" {what} ", *bar, f" {done} of {total}"), layout=False
        )

    def _seen(self, kept: Kept) -> None:
        self._kept = kept
        self._arrange()

    def _failed(self, error: Exception) -> None:
        self.refused(str(error))

    # What the user does.

    def action_move(self, rows: int) -> None:
        if self._runs:
            self._row = max(0, min(len(self._runs) - 1, self._row + rows))
            self._trouble = None
            self._draw()

    def action_baseline(self) -> None:
        self._baseline = self.run
        self._trouble = None
        self._draw()

    def action_step(self, step: int) -> None:
        """To the next measure, around the end."""
        names = measures_of(self._runs)
        if names:
            here = names.index(self._measure) if self._measure in names else 0
            self._measure = names[(here + step) % len(names)]
            self._arrange()

    def action_order(self) -> None:
        self._by_time = not self._by_time
        self._arrange()

    def action_compare(self) -> None:
        run, baseline = self.run, self._baseline
        if run is None or baseline is None or self._measure is None:
            return
        if run is baseline:
            others = "go to another run, or press space on one" if len(self._runs) > 1 else "no other run is kept yet"
            self.refused(f"This run is the baseline: {others}.")
        else:
            self._trouble = None
            self._draw()
            self.query_one("#state", Static).update(Content(f" comparing with {one_line(baseline.title)}…"))
            self.post_message(self.CompareWanted(self._kept_runs, baseline, run, self._measure))

    def on_click(self, event: events.Click) -> None:
        """A click on a run goes to it; on the run under the cursor, compares it."""
        rows = self.query_one("#rows", Static)
        place = event.get_content_offset(rows)
        row = None if place is None or event.widget is not rows else place.y // self._row_lines
        if row is None or row >= len(self._runs):
            return
        if row == self._row:
            self.action_compare()
        else:
            self.action_move(row - self._row)

    def action_leave(self) -> None:
        self.dismiss()

    # Drawing.

    def _arrange(self) -> None:
        """Put the runs in order again; cursor and baseline stay on their runs."""
        runs = listed(self._kept, self._measuring.measured, self._kept_runs.file)
        names = measures_of(runs)
        if self._measure not in names:
            self._measure = _USUAL_MEASURE.format(self._kept_runs.file.top_k)
            self._measure = self._measure if self._measure in names else next(iter(names), None)
        here, was_empty = self.run, not self._runs
        now = [one for one in runs if one.is_now]
        self._runs = (*now, *self._ordered(one for one in runs if not one.is_now))
        self._row = 0 if here is None or was_empty else self._place(here) or 0
        self._baseline = self._usual_baseline(self._baseline)
        self._draw()

    def _ordered(self, runs: Iterable[Listed]) -> list[Listed]:
        """The newest first, or by the measure, of equal ones the newer first; those without it last."""
        newest = sorted(runs, key=lambda one: one.created, reverse=True)
        return newest if self._by_time else sorted(newest, key=self._badness)

    def _badness(self, run: Listed) -> float:
        found = self._estimate(run)
        return math.inf if found is None else -found.value

    def _estimate(self, run: Listed) -> Estimate | None:
        return run.measures.get(self._measure or "")

    def _place(self, run: Listed) -> int | None:
        """Where a run of before stands now."""
        return next((place for place, one in enumerate(self._runs) if _same(one, run)), None)

    def _usual_baseline(self, chosen: Listed | None) -> Listed | None:
        """The chosen one; else the newest kept run that the first one can be compared with."""
        place = None if chosen is None else self._place(chosen)
        if place is not None:
            return self._runs[place]
        if self._kept is None or not self._runs:
            return None
        fitting = [one for one in self._runs[1:] if not self._runs[0].obstacle(one)]
        return max(fitting, key=lambda one: one.created) if fitting else self._runs[0]

    @property
    def _is_wide(self) -> bool:
        return self.size.width >= _ROOM_FOR_ONE_LINE

    @property
    def _row_lines(self) -> int:
        return 1 if self._is_wide else 2

    def _draw(self) -> None:
        if not self.is_attached or not self.query("#title"):
            return
        self.query_one("#title", Static).update(self._title(), layout=False)
        self.query_one("#state", Static).update(self._hint(), layout=False)
        trouble = self.query_one("#trouble", Static)
        trouble.display = self._trouble is not None
        trouble.update(Content(safe(self._trouble or "")))
        width = self._bar_width
        shown = [found for run in self._runs if (found := self._estimate(run)) is not None]
        scale = scale_of((found.value, found.interval) for found in shown)
        self.query_one("#heads", Static).update(self._heads(scale, width))
        lines = [line for row, run in enumerate(self._runs) for line in self._lines(row, run, scale, width)]
        self.query_one("#rows", Static).update(Content("\n").join(lines))
        self.query_one("#unreadable", Static).update(Content("\n").join(self._unreadable()))
        self.query_one(VerticalScroll).scroll_to(y=max(0, (self._row - 3) * self._row_lines), animate=False)

    @property
    def _bar_width(self) -> int:
        room = self.size.width - 3 - _BESIDE_BAR
        return max(5, min(_MOST_BAR, (room - _TIME_WIDTH) // 2 if self._is_wide else room))

    def _title(self) -> Content:
        count = len(self._runs)
        title = Content.assemble((" runs ", "bold $accent"))
        if self._kept is None:
            return title
        order = "the newest first" if self._by_time else f"the best {one_line(self._measure or '')} first"
        return title + Content(f" {count} run{'' if count == 1 else 's'} · {order}" if count else "")

    def _hint(self) -> Content:
        if self._kept is None:
            return Content(" reading the runs…")
        if not self._kept.runs:
            return Content.assemble(
                " No other run is kept yet: ",
                ("w", "bold"),
                " keeps this one, `retrieval-lab eval --save` another",
            )
        return Content.assemble(
            (f" ◂ {one_line(self._measure or '')} ▸  ", "bold $accent"),
            ("◆", "bold"),
            (" baseline  ", "$foreground-muted"),
            ("┊", "bold"),
            (" its mean  ─●─ 95% interval over the queries", "$foreground-muted"),
        )

    def _heads(self, scale: Scale, width: int) -> Content:
        if not self._runs:
            return Content("")
        made, differs = (f" {'made (UTC)':<{_TIME_WIDTH}}", "  against the file") if self._is_wide else ("", "")
        left = f"{'':{_MARKS}}{'run':<{_NAME_WIDTH}}{made}{'queries':>{_QUERIES_WIDTH}} {'mean':<{_VALUE_WIDTH}}"
        return Content.styled(f"{left}{scale.ends(width)} {'95%':<{_ENDS_WIDTH}}{differs}", "$foreground-muted")

    def _lines(self, row: int, run: Listed, scale: Scale, width: int) -> Iterator[Content]:
        """One line, or two where time and settings find no room beside the bar."""
        is_here = row == self._row
        mark = Content.assemble("▸" if is_here else " ", ("◆" if run is self._baseline else " ", "bold"), "  ")
        name = shorten_middle(one_line(run.title), _NAME_WIDTH)
        named = mark + Content.styled(name + " " * (_NAME_WIDTH - cell_len(name)), "bold")
        named = named.stylize("reverse") if is_here else named
        made = Content.styled(
            f"{one_line(run.created).replace('T', ' ')[:_TIME_WIDTH]:<{_TIME_WIDTH}}", "$foreground-muted"
        )
        queries = f"{run.corpus.queries:>{_QUERIES_WIDTH}} "
        numbers, settings = self._numbers(run, scale, width), self._settings(run)
        if self._is_wide:
            yield Content.assemble(named, " ", made, queries, numbers, "  ", settings)
        else:
            yield Content.assemble(named, queries, numbers)
            yield Content.assemble(" " * _MARKS, made, "  ", settings)

    def _numbers(self, run: Listed, scale: Scale, width: int) -> Content:
        found = self._estimate(run)
        if found is None:
            return Content("–".ljust(_VALUE_WIDTH + width + 1 + _ENDS_WIDTH))
        mean = self._estimate(self._baseline) if self._baseline is not None else None
        bar = interval_bar(found.value, found.interval, scale, width, mark=None if mean is None else mean.value)
        ends = "" if found.interval is None else f"{found.interval.low:.2f}–{found.interval.high:.2f}"
        return Content.assemble(
            (f"{found.value:<{_VALUE_WIDTH}.3f}", "bold"), bar, (f" {ends:<{_ENDS_WIDTH}}", "$foreground-muted")
        )

    def _settings(self, run: Listed) -> Content:
        """What the run's configuration has otherwise than the file's, after why it cannot be compared."""
        obstacle = run.obstacle(self._baseline) if self._baseline is not None else ""
        unkept = "not kept · " if not run.is_kept else ""
        parts = [(f"{obstacle} · ", "$warning")] if obstacle else []
        return Content.assemble(*parts, (f"{unkept}{run.settings}", "$foreground-muted"))

    def _unreadable(self) -> Iterator[Content]:
        for one in self._kept.unreadable if self._kept is not None else ():
            yield Content.assemble(("not read  ", "bold"), one_line(one.reason))


def _same(left: Listed, right: Listed) -> bool:
    """Whether both are one run, which may have been kept, or have become that of the moment, in between."""
    return (left.name, left.created) == (right.name, right.created)
