"""The measures of the golden set with their intervals as bars, over the funnel."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Static

from retrieval_lab.diagnosis.funnel_text import funnel_text
from retrieval_lab.evals.slices import KIND
from retrieval_lab.evals.summary import Estimate, Group, NoAnswer
from retrieval_lab_tui.actions import MEASURES, bindings
from retrieval_lab_tui.display import one_line, safe
from retrieval_lab_tui.measuring import Measured, Measuring
from retrieval_lab_tui.widgets.key_line import KeyLine

_NAME_WIDTH = 18
_GROUP_WIDTH = 46
_BAR_WIDTH = 12
_VALUE_WIDTH = 5
_HEAD_LINES = 2
_FUNNEL_WIDTH = 100


class MeasuresScreen(Screen[None]):
    """Shows what it is given; a cell under the cursor stands for the queries behind it."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(MEASURES)

    DEFAULT_CSS = """
    MeasuresScreen {
        & #title { height: 1; background: $panel; }
        & VerticalScroll { padding: 1 1 0 1; scrollbar-size-vertical: 1; }
        & #groups { height: auto; }
        & #funnel { margin-top: 1; height: auto; }
    }
    """

    class QueriesWanted(Message):
        """The queries with a value of a label field, or all, are to be listed by a measure, the worst first."""

        def __init__(self, field: str, value: str | None, measure: str) -> None:
            super().__init__()
            self.field = field
            self.value = value
            self.measure = measure

    def __init__(self, measuring: Measuring) -> None:
        super().__init__()
        self._measuring = measuring
        self._row = self._column = 0
        self._field = KIND
        self._parts: tuple[tuple[str, Group], ...] = ()
        """All queries and those of each value of the field, as they are shown."""

    @property
    def measured(self) -> Measured | None:
        """What is shown, None until it is known."""
        return self._measuring.measured

    def compose(self) -> ComposeResult:
        yield Static(id="title")
        with VerticalScroll(can_focus=False):
            yield Static(id="groups")
            yield Static(id="funnel")
        yield KeyLine(MEASURES)

    def on_mount(self) -> None:
        self._draw()

    def on_resize(self) -> None:
        self._draw()

    def progress(self, done: int, total: int) -> None:
        """So many of the queries are measured."""
        if self.measured is not None:
            return
        width = max(10, self.size.width - 40)
        filled = done * width // max(1, total)
        bar = Content.assemble(("█" * filled, "$accent"), ("░" * (width - filled), "$foreground-muted"))
        self.query_one("#groups", Static).update(Content.assemble(f"measuring {done} of {total}  ", bar))

    def ended(self, error: Exception | None) -> None:
        """All are measured, or an error came between."""
        if error is not None:
            self.query_one("#groups", Static).update(Content.styled(safe(str(error)), "$error"))
        else:
            self._draw()

    def on_click(self, event: events.Click) -> None:
        """A click on a number goes to it; on the number under the cursor, to the queries behind it."""
        groups = self.query_one("#groups", Static)
        place = event.get_content_offset(groups)
        if self.measured is None or event.widget is not groups or place is None:
            return
        first, fit = self._shown_columns(len(self._parts))
        row = place.y - _HEAD_LINES
        column = first + (place.x - _NAME_WIDTH) // (_GROUP_WIDTH - _NAME_WIDTH)
        is_number = 0 <= row < len(self.measured.summary.all.measures) and first <= column < first + fit
        if not is_number or place.x < _NAME_WIDTH or column >= len(self._parts):
            return
        if (self._row, self._column) == (row, column):
            self.action_queries()
        self._row, self._column = row, column
        self._draw()

    def action_move(self, rows: int, columns: int) -> None:
        if self.measured is not None:
            self._column = (self._column + columns) % max(1, len(self._parts))
            self._row = (self._row + rows) % max(1, len(self.measured.summary.all.measures))
            self._draw()

    def action_queries(self) -> None:
        if self.measured is not None and self.measured.summary.all.measures:
            measure = list(self.measured.summary.all.measures)[self._row]
            self.post_message(self.QueriesWanted(self._field, self._value, measure))

    def action_part_by(self) -> None:
        """Part the queries by the next label field."""
        if self.measured is not None:
            fields = self.measured.fields
            self._field = fields[(fields.index(self._field) + 1) % len(fields)]
            self._column, self._parts = 0, ()
            self._draw()

    @property
    def _value(self) -> str | None:
        """The value of the field under the cursor, None for all."""
        return self._parts[self._column][0] if self._column else None

    def _draw(self) -> None:
        title = Content.assemble((" measures ", "bold $accent"))
        if self.measured is not None:
            run = self.measured.run
            self._parts = self._parts or self.measured.groups(self._field)
            title += Content(
                f" {one_line(run.corpus.folder)} · {run.corpus.queries} queries · cut {run.k}"
                f" · median {self.measured.summary.latency.median * 1e3:.0f} ms a query"
            )
            if self._field != KIND:
                title += Content.styled(f" · by {one_line(self._field)}", "bold")
            self.query_one("#groups", Static).update(Content("\n").join(self._lines(self.measured)))
            self.query_one("#funnel", Static).update(self._funnel(self.measured))
        self.query_one("#title", Static).update(title)

    def _funnel(self, measured: Measured) -> Content:
        """Where the passages are lost, of all queries or of the kind under the cursor."""
        name = self._value if self._field == KIND else None
        of = "all queries" if name is None else f"{one_line(name)} queries"
        kind = name if name in measured.funnel.by_kind else None
        picture = funnel_text(measured.funnel, min(_FUNNEL_WIDTH, self.size.width - 4), kind=kind)
        return Content.assemble((f"Where the passages of {of} are lost\n", "bold"), safe(picture))

    def _shown_columns(self, groups: int) -> tuple[int, int]:
        """The first group on the screen, and how many fit."""
        fit = max(1, (self.size.width - 2 - _NAME_WIDTH) // (_GROUP_WIDTH - _NAME_WIDTH))
        return max(0, min(self._column - fit + 1, groups - fit)) if self._column >= fit else 0, fit

    def _lines(self, measured: Measured) -> list[Content]:
        """The groups side by side, as many as fit; the one under the cursor is among them."""
        first, fit = self._shown_columns(len(self._parts))
        shown = list(enumerate(self._parts))[first : first + fit]
        width = _GROUP_WIDTH - _NAME_WIDTH
        head = Content(" " * _NAME_WIDTH)
        for _, (name, group) in shown:
            head += Content.styled(f"{one_line(name)[: width - 8]} · {group.queries}".ljust(width), "bold")
        hidden = len(self._parts) - first - len(shown)
        if hidden:
            head = head.truncate(max(0, self.size.width - 12)) + Content.styled(f" → {hidden} more", "$accent")
        lines = [head, Content("")]
        for row, measure in enumerate(measured.summary.all.measures):
            line = Content.styled(measure.ljust(_NAME_WIDTH), "$foreground-muted")
            for column, (_, group) in shown:
                cell = _cell(group.measures.get(measure))
                # Only the number is reversed: a reversed bar would say the contrary.
                is_here = (row, column) == (self._row, self._column)
                line += (cell.stylize("reverse", 0, _VALUE_WIDTH) if is_here else cell) + Content("  ")
            lines.append(line)
        if measured.summary.no_answer is not None:
            lines += [Content(""), Content(_unanswerable(measured.summary.no_answer))]
        if measured.summary.undefined:
            lines += [Content(""), Content(f"not counted, no chunk holds the anchor: {_names(measured)}")]
        return lines


def _unanswerable(found: NoAnswer) -> str:
    """How many questions that nothing answers would get an answer."""
    return f"nothing answers {found.share.of}: {found.share.count} of them pass the support floor of {found.floor:g}"


def _names(measured: Measured) -> str:
    return one_line(", ".join(measured.summary.undefined))


def _cell(estimate: Estimate | None) -> Content:
    """The value, its interval as a bar, and its ends; 26 cells wide."""
    if estimate is None:
        return Content("–".ljust(_GROUP_WIDTH - _NAME_WIDTH - 2))
    value = (f"{estimate.value:.3f} ", "bold")
    if estimate.interval is None:
        return Content.assemble(value, " " * (_BAR_WIDTH + 8))
    low, high = estimate.interval.low, estimate.interval.high
    ends = f" {_short(low)}–{_short(high)}"
    return Content.assemble(value, _bar(low, estimate.value, high), (ends, "$foreground-muted"))


def _bar(low: float, value: float, high: float) -> Content:
    """Solid up to the interval's low end, then dark up to the value and light up to the high end."""
    places = [round(number * _BAR_WIDTH) for number in (low, value, high)]
    text = "█" * places[0] + "▓" * (places[1] - places[0]) + "░" * (places[2] - places[1])
    return Content.styled(text.ljust(_BAR_WIDTH), "$accent")


def _short(number: float) -> str:
    return f"{number:.2f}".removeprefix("0") if number < 1 else "1.0"
