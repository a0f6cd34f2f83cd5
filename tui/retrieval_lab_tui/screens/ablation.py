"""The configurations of an ablation: each with one measure and its interval, against the best, beside its latency."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Static

from retrieval_lab.ablation.cell import Failure
from retrieval_lab.ablation.standings import ALL, SPLITS, Entry, Standings, measures_of, pareto_front
from retrieval_lab.config import PipelineConfig
from retrieval_lab.shorten import shorten_middle
from retrieval_lab_tui.ablation_table import Order, Row, Table, arranged, detail
from retrieval_lab_tui.actions import ABLATION, bindings
from retrieval_lab_tui.display import one_line, safe
from retrieval_lab_tui.kept_ablations import Board, CellRun, KeptAblations
from retrieval_lab_tui.scatter import FRONT, Point, scatter
from retrieval_lab_tui.screens.ablations import AblationChooser
from retrieval_lab_tui.widgets.key_line import KeyLine

_ROOM_FOR_BOTH = 140
_PLOT_SHARE = 0.42
_ABOVE_ROWS = 3
_NAME_WIDTH = 24
_LEGEND = "the best mean", "95% interval", "to the best, paired"
_SHORT_LEGEND = "best", "95%", "to it"
_NONE_KEPT = " No ablation is kept of this corpus: `retrieval-lab ablate GRID` makes one."


class AblationScreen(Screen[None]):
    """Shows one ablation, the newest first; `file` is the configuration that settings are named against."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(ABLATION)

    DEFAULT_CSS = """
    AblationScreen {
        & #title, & #state { height: 1; text-wrap: nowrap; text-overflow: ellipsis; }
        & #title { background: $panel; }
        & #trouble { height: auto; max-height: 4; padding: 0 1; color: $text-warning; display: none; }
        & #table { width: 1fr; }
        & #heads { height: 1; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
        & VerticalScroll { padding: 0 1; scrollbar-size-vertical: 1; }
        & #rows { height: auto; text-wrap: nowrap; text-overflow: ellipsis; }
        & #unreadable { height: auto; color: $text-warning; }
        & #plot { width: 42%; height: 100%; padding: 0 1; text-wrap: nowrap; }
        & #plot.alone { width: 1fr; }
        & #detail { height: 3; padding: 0 1; background: $panel; }
    }
    """

    class OpenWanted(Message):
        """A configuration is to be used."""

        def __init__(self, entry: Entry) -> None:
            super().__init__()
            self.entry = entry

    class CompareWanted(Message):
        """A cell is to be compared with the configuration in use, which may be another of the cells."""

        def __init__(self, system: CellRun, cells: tuple[CellRun, ...], measure: str) -> None:
            super().__init__()
            self.system = system
            self.cells = cells
            self.measure = measure

    def __init__(self, ablations: KeptAblations, file: PipelineConfig, now: PipelineConfig) -> None:
        super().__init__()
        self._ablations = ablations
        self._file = file
        self._now = now
        self._folder: Path | None = None
        self._board: Board | None = None
        self._is_read = False
        self._progress = ""
        self._trouble: str | None = None
        self._measure, self._split, self._order = "", ALL, Order.BEST
        self._shown: tuple[str, str] = ("", ALL)
        """What the standings are of, while those of another measure or split are on their way."""
        self._standings = Standings(0, {}, None)
        self._rows: tuple[Row, ...] = ()
        self._row = 0
        self._plot: bool | None = None
        """Whether the plot is wanted; None leaves it to the room."""

    @property
    def row(self) -> Row | None:
        """What is under the cursor."""
        return self._rows[self._row] if self._rows else None

    @property
    def rows(self) -> tuple[Row, ...]:
        """What is listed, in its order."""
        return self._rows

    @property
    def board(self) -> Board | None:
        """The ablation, once it is read."""
        return self._board

    def compose(self) -> ComposeResult:
        yield Static(id="title")
        yield Static(id="state")
        yield Static(id="trouble")
        with Horizontal():
            with Vertical(id="table"):
                yield Static(id="heads")
                with VerticalScroll(can_focus=False):
                    yield Static(id="rows")
                    yield Static(id="unreadable")
            yield Static(id="plot")
        yield Static(id="detail")
        yield KeyLine(ABLATION)

    def on_mount(self) -> None:
        self.action_read()

    def on_resize(self) -> None:
        self.call_after_refresh(self._draw)  # the plot's room is known once all is laid out

    def on_screen_resume(self) -> None:
        self._draw()

    # What the app tells the screen.

    def reading(self, done: int, total: int) -> None:
        """So many of the cells are read."""
        self._progress = f": {done} of {total}"
        if not self._is_read and self.query("#state"):
            self.query_one("#state", Static).update(self._state(), layout=False)

    def refused(self, reason: str) -> None:
        """What was asked for last could not be done."""
        self._trouble = reason
        self._draw()

    def _read(self, board: Board | None) -> None:
        self._is_read = True
        self._board = board
        self._folder = None if board is None else board.folder
        names = self._measures
        if self._measure not in names:
            self._measure = next(iter(names), "")
        self._stand()

    def _not_read(self, error: Exception) -> None:
        self._is_read = True
        self.refused(str(error))

    def _stand(self) -> None:
        if self._board is None:
            self._draw()
            return
        wanted = (self._measure, self._split)

        def done(found: Standings) -> None:
            self._shown, self._standings = wanted, found
            self._arrange()

        self._ablations.stand(self._board, *wanted, done, self._not_read)

    # What the user does.

    def action_read(self) -> None:
        self._trouble = None
        self._is_read, self._progress = False, ""
        self._ablations.read(self._folder, self._read, self._not_read)
        self._draw()

    def action_move(self, rows: int) -> None:
        if self._rows:
            self._row = max(0, min(len(self._rows) - 1, self._row + rows))
            self._trouble = None
            self._draw()

    def action_step_measure(self, step: int) -> None:
        names = self._measures
        if names:
            self._measure = names[(names.index(self._measure) + step) % len(names)]
            self._stand()

    def action_step_split(self) -> None:
        self._split = SPLITS[(SPLITS.index(self._split) + 1) % len(SPLITS)]
        self._stand()

    def action_order(self) -> None:
        orders = list(Order)
        self._order = orders[(orders.index(self._order) + 1) % len(orders)]
        self._arrange()

    def action_plot(self) -> None:
        self._plot = not self._has_plot
        self._draw()
        self.call_after_refresh(self._draw)

    def action_another(self) -> None:
        folders = self._ablations.folders()

        def chosen(place: int | None) -> None:
            if place is not None:
                self._folder, self._board = folders[place], None
                self._measure, self._row, self._rows = "", 0, ()
                self.action_read()

        if folders:
            self.app.push_screen(AblationChooser(folders, self._folder), chosen)

    def action_open(self) -> None:
        entry = self._entry_here()
        if entry is not None:
            self.post_message(self.OpenWanted(entry))

    def action_compare(self) -> None:
        entry, board = self._entry_here(), self._board
        if entry is not None and board is not None:
            cells = tuple(CellRun(board.folder, one) for one in board.entries)
            self.post_message(self.CompareWanted(CellRun(board.folder, entry), cells, self._shown[0]))

    def action_leave(self) -> None:
        self._ablations.stop()  # now: once the screen is gone, another one may be reading
        self.dismiss()

    def on_click(self, event: events.Click) -> None:
        """A click on a configuration goes to it; on the one under the cursor, uses it."""
        rows = self.query_one("#rows", Static)
        place = event.get_content_offset(rows)
        if place is None or event.widget is not rows or place.y >= len(self._rows):
            return
        if place.y == self._row:
            self.action_open()
        else:
            self.action_move(place.y - self._row)

    def _entry_here(self) -> Entry | None:
        """The configuration under the cursor; of one that failed it is said that there is nothing to see."""
        found = self.row.of if self.row is not None else None
        if isinstance(found, Failure):
            self.refused("This configuration failed, so it has no numbers and no lists; its error stands below.")
            return None
        return found

    # Drawing.

    @property
    def _measures(self) -> tuple[str, ...]:
        """The measures that there are, that of the rule first."""
        if self._board is None:
            return ()
        rule = self._board.manifest.rule.measure
        return tuple(sorted(measures_of(self._board.entries), key=lambda name: name != rule))

    @property
    def _is_wide(self) -> bool:
        return self.size.width >= _ROOM_FOR_BOTH

    @property
    def _has_plot(self) -> bool:
        return self._is_wide if self._plot is None else self._plot

    def _arrange(self) -> None:
        """Put the rows in order again; the cursor stays where it was."""
        here = self.row
        board = self._board
        self._rows = () if board is None else arranged(board, self._standings, self._order)
        self._row = next((place for place, one in enumerate(self._rows) if here is not None and one.is_of(here)), 0)
        self._draw()

    def _draw(self) -> None:
        if not self.is_attached or not self.query("#title"):
            return
        self.query_one("#title", Static).update(self._title(), layout=False)
        self.query_one("#state", Static).update(self._state(), layout=False)
        trouble = self.query_one("#trouble", Static)
        if trouble.display != (self._trouble is not None):
            self.call_after_refresh(self._draw)  # the plot has another height then
        trouble.display = self._trouble is not None
        trouble.update(Content(safe(self._trouble or "")))
        self.query_one("#table").display = self._is_wide or not self._has_plot
        plot = self.query_one("#plot", Static)
        plot.display = self._has_plot
        plot.set_class(not self._is_wide, "alone")
        self._draw_table()
        self._draw_plot()
        row = self.row
        of = Content("") if row is None else detail(row, self._file, self._now, self.size.width - 2)
        self.query_one("#detail", Static).update(of)

    def _draw_table(self) -> None:
        beside = round(self.size.width * _PLOT_SHARE) if self._has_plot and self._is_wide else 0
        table = Table(self._rows, self.size.width - beside - 3, None if self._board is None else self._board.decided)
        self.query_one("#heads", Static).update(table.heads() if self._rows else Content(""), layout=False)
        lines = [table.line(place, place == self._row) for place in range(len(self._rows))]
        self.query_one("#rows", Static).update(Content("\n").join(lines))
        self.query_one("#unreadable", Static).update(Content("\n").join(self._unreadable()))
        self.query_one(VerticalScroll).scroll_to(y=max(0, self._row - _ABOVE_ROWS), animate=False)

    def _draw_plot(self) -> None:
        plot = self.query_one("#plot", Static)
        room = plot.content_size
        if not plot.display or not room.width or room.height < 2:
            return
        placed = [row for row in self._rows if isinstance(row.of, Entry) and row.standing is not None]
        where = [(row.ms, row.standing.estimate.value) for row in placed if row.standing is not None]
        front = set(pareto_front(where))
        points = [
            Point(row.number, ms, quality, place in front)
            for place, (row, (ms, quality)) in enumerate(zip(placed, where, strict=True))
        ]
        here = self.row.number if self.row is not None else None
        head = Content.assemble(
            (one_line(self._shown[0]), "bold"),
            (" over the median latency  ", "$foreground-muted"),
            (FRONT, "bold $success"),
            (" none is faster and better", "$foreground-muted"),
        )
        lines = scatter(points, here, room.width, room.height - 1) if points else []
        plot.update(Content("\n").join([head, *lines]), layout=False)

    def _title(self) -> Content:
        title = Content.assemble((" ablation ", "bold $accent"))
        board = self._board
        if board is None:
            return title
        counts = [f"{len(board.entries)} done"]
        counts += [f"{len(board.failures)} failed"] if board.failures else []
        more = " (r reads again)" if self._is_wide else ""  # the last line says so, too
        counts += [f"{board.pending} pending{more}"] if board.pending else []
        parts = [f"{', '.join(counts)} · {self._order.value}"]
        parts += [f"labels of {one_line(board.manifest.level)}s"] if board.manifest.level != "chunk" else []
        parts += [f"a: {board.others} more"] if board.others else []
        name = shorten_middle(one_line(board.manifest.name), _NAME_WIDTH)
        return Content.assemble(title, " ", (name, "bold"), f" · {' · '.join(parts)}")

    def _state(self) -> Content:
        if not self._is_read:
            return Content(f" reading the cells{self._progress or '…'}")
        if self._board is None:
            return Content("" if self._trouble else _NONE_KEPT)
        if not self._board.entries:
            return Content(" no configuration is measured yet")
        measure, split = self._shown
        of_rule = " (the rule's)" if measure == self._board.manifest.rule.measure else ""
        dealt = " (dealt)" if split != ALL and self._board.entries[0].dealt else ""
        count = self._standings.queries
        queries = f"{split}{dealt} {count}" + (f" quer{'y' if count == 1 else 'ies'}" if self._is_wide else "")
        return Content.assemble(
            (f" ◂ {one_line(measure)}{of_rule} ▸  ", "bold $accent"),
            (f"{queries}  ", "bold"),
            *self._legend(),
        )

    def _legend(self) -> Iterator[tuple[str, str]]:
        """What the marks are, in few words where there is little room."""
        best, interval, difference = _LEGEND if self._is_wide else _SHORT_LEGEND
        yield "┊", "bold"
        yield f" {best}  ─●─ {interval}  Δ {difference}", "$foreground-muted"
        if self._board is not None and self._board.decided is not None:
            yield "  ★", "bold $success"
            yield " shipped by the report" if self._is_wide else " ships", "$foreground-muted"

    def _unreadable(self) -> Iterator[Content]:
        for line in self._board.broken if self._board is not None else ():
            yield Content.assemble(("not read  ", "bold"), one_line(line))
