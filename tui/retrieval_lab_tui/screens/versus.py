"""A system's run against a baseline's: every measure with its difference, and the queries that changed."""

from __future__ import annotations

from collections.abc import Iterator
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

from retrieval_lab.evals.comparison import Comparison
from retrieval_lab.evals.interval_scale import Scale, scale_around_zero
from retrieval_lab.evals.versus import Versus
from retrieval_lab.shorten import shorten_middle
from retrieval_lab.wording import interval_text, signed
from retrieval_lab_tui.actions import VERSUS, bindings
from retrieval_lab_tui.comparing import differences
from retrieval_lab_tui.display import one_line, safe
from retrieval_lab_tui.interval_bars import interval_bar, p_text, sureness
from retrieval_lab_tui.kept_runs import Changed, KeptRuns, Pair
from retrieval_lab_tui.measuring import ALL
from retrieval_lab_tui.widgets.key_line import KeyLine

_MEASURE_WIDTH, _COUNTS_WIDTH = 16, 8
_BESIDE_BAR = 2 + _MEASURE_WIDTH + 6 + 6 + 8 + 1 + 12 + 6 + _COUNTS_WIDTH + 1
_MOST_BAR = 61
_NAME_WIDTH, _KIND_WIDTH, _ID_WIDTH = 30, 12, 12
_CARRIES = "★"
_REVERSED = 10
_NOWHERE = 10**9
_SHOWN = 500
"""More rows than this take longer to lay out than anybody reads; the largest changes stand first."""


class VersusScreen(Screen[None]):
    """Shows one pair of runs; the measure that is chosen puts the queries in order."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(VERSUS)

    DEFAULT_CSS = """
    VersusScreen {
        & #title { height: 1; background: $panel; text-wrap: nowrap; text-overflow: ellipsis; }
        & #sides { height: 2; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
        & #trouble { height: auto; max-height: 3; padding: 0 1; color: $text-warning; display: none; }
        & #kinds { height: 1; padding: 0 1; background: $panel; text-wrap: nowrap; text-overflow: ellipsis; }
        & #heads, & #changed { height: 1; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
        & #changed { background: $panel; }
        & #over { height: auto; max-height: 50%; padding: 0 1; scrollbar-size-vertical: 1; }
        & #under { height: 1fr; padding: 0 1; scrollbar-size-vertical: 1; }
        & #measures, & #queries { height: auto; text-wrap: nowrap; text-overflow: ellipsis; }
    }
    """

    class ListsWanted(Message):
        """The lists of a golden query in both pipelines are to be shown side by side."""

        def __init__(self, pair: Pair, query_id: str) -> None:
            super().__init__()
            self.pair = pair
            self.query_id = query_id

    def __init__(self, kept_runs: KeptRuns, pair: Pair, measure: str) -> None:
        super().__init__()
        self._kept_runs = kept_runs
        self._pair = pair
        self._measure = measure if measure in pair.groups[0][1].measures else next(iter(pair.groups[0][1].measures))
        self._group = 0
        self._row = 0
        self._trouble: str | None = None
        self._changed: tuple[Changed, ...] = ()
        self._kinds: list[tuple[int, int]] = []
        """Where the name of each group begins and ends."""

    @property
    def pair(self) -> Pair:
        """The runs that are compared."""
        return self._pair

    @property
    def found(self) -> Versus:
        """The comparison over the queries of the kind that is shown."""
        return self._pair.groups[self._group][1]

    def compose(self) -> ComposeResult:
        yield Static(id="title")
        yield Static(id="sides")
        yield Static(id="trouble")
        yield Static(id="kinds")
        yield Static(id="heads")
        with VerticalScroll(id="over", can_focus=False):
            yield Static(id="measures")
        yield Static(id="changed")
        with VerticalScroll(id="under", can_focus=False):
            yield Static(id="queries")
        yield KeyLine(VERSUS)

    def on_mount(self) -> None:
        self._sort()

    def on_resize(self) -> None:
        self._draw()

    # What the user does.

    def action_move(self, rows: int) -> None:
        if self._changed:
            self._row = max(0, min(len(self._changed[:_SHOWN]) - 1, self._row + rows))
            self._draw()

    def action_step_kind(self, step: int) -> None:
        self._show_group((self._group + step) % len(self._pair.groups))

    def action_step_measure(self, step: int) -> None:
        names = list(self.found.measures)
        self._show_measure(names[(names.index(self._measure) + step) % len(names)])

    def action_turn(self) -> None:
        self._kept_runs.turn(self._pair, self._turned, self._failed)

    def action_lists(self) -> None:
        if self._changed:
            self.post_message(self.ListsWanted(self._pair, self._changed[self._row].query_id))

    def action_leave(self) -> None:
        self.dismiss()

    def on_click(self, event: events.Click) -> None:
        """A click on a kind, a measure or a query goes to it; on the query under the cursor, to its lists."""
        widget = event.widget
        place = event.get_content_offset(widget) if isinstance(widget, Static) else None
        if widget is None or place is None:
            return
        if widget.id == "kinds":
            for group, (start, end) in enumerate(self._kinds):
                if start <= place.x < end:
                    self._show_group(group)
        elif widget.id == "measures" and place.y < len(self.found.measures):
            self._show_measure(list(self.found.measures)[place.y])
        elif widget.id == "queries" and place.y < len(self._changed[:_SHOWN]):
            if place.y == self._row:
                self.action_lists()
            else:
                self.action_move(place.y - self._row)

    def _show_group(self, group: int) -> None:
        self._group = group
        self._sort()

    def _show_measure(self, measure: str) -> None:
        self._measure = measure
        self._sort()

    def _turned(self, pair: Pair) -> None:
        self._pair = pair
        self._sort()

    def _failed(self, error: Exception) -> None:
        self._trouble = str(error)
        self._draw()

    def _sort(self) -> None:
        """The queries of the kind that changed, by the measure; the cursor stays on its query where it can."""
        here = self._changed[self._row].query_id if self._changed else None
        self._changed = self._pair.changed(self._group, self._measure)
        self._row = next((row for row, one in enumerate(self._changed[:_SHOWN]) if one.query_id == here), 0)
        self._draw()

    # Drawing.

    def _draw(self) -> None:
        if not self.is_attached or not self.query("#title"):
            return
        self.query_one("#title", Static).update(self._title(), layout=False)
        self.query_one("#sides", Static).update(Content("\n").join(self._sides()), layout=False)
        trouble = self.query_one("#trouble", Static)
        said = [*((self._trouble,) if self._trouble else ()), *self._pair.groups[0][1].warnings]
        trouble.display = bool(said)
        trouble.update(Content(safe("\n".join(said))))
        self.query_one("#kinds", Static).update(self._groups(), layout=False)
        width = max(
            5, min(_MOST_BAR, self.size.width - 3 - _BESIDE_BAR) // 2 * 2 + 1
        )  # odd: 0 has a cell in the middle
        scale = scale_around_zero((one.difference, one.difference_interval) for one in self.found.measures.values())
        self.query_one("#heads", Static).update(_heads(scale, width), layout=False)
        rows = [self._difference(name, one, scale, width) for name, one in self.found.measures.items()]
        self.query_one("#measures", Static).update(Content("\n").join(rows))
        self.query_one("#changed", Static).update(self._moves(), layout=False)
        queries = list(self._queries())
        nothing = Content.styled(
            "  every query has its first relevant chunk at the rank of before", "$foreground-muted"
        )
        self.query_one("#queries", Static).update(Content("\n").join(queries or [nothing]))
        self.query_one("#over", VerticalScroll).scroll_to(y=max(0, self._measure_row - 2), animate=False)
        self.query_one("#under", VerticalScroll).scroll_to(y=max(0, self._row - 3), animate=False)

    @property
    def _measure_row(self) -> int:
        return list(self.found.measures).index(self._measure)

    def _title(self) -> Content:
        before, after = (one.median * 1e3 for one in self._pair.groups[0][1].latency)
        return Content.assemble(
            (" runs ", "bold $accent"),
            " B against the baseline A, paired by query",
            (f" · median {before:.0f} → {after:.0f} ms a query", "$foreground-muted"),
        )

    def _sides(self) -> Iterator[Content]:
        sides = differences(self._pair.baseline.config, self._pair.system.config)
        names = _padded([shorten_middle(one_line(name), _NAME_WIDTH) for name in self._pair.names])
        for letter, name, settings in zip("AB", names, sides, strict=True):
            yield Content.assemble((f"{letter} {name}  ", "bold"), (settings, "$foreground-muted"))

    def _groups(self) -> Content:
        line = Content("")
        self._kinds = []
        for group, (kind, found) in enumerate(self._pair.groups):
            name = f" {ALL if kind is None else one_line(kind)} {found.queries} "
            self._kinds.append((line.cell_length, line.cell_length + cell_len(name)))
            line += Content.styled(name, "reverse bold" if group == self._group else "") + Content(" ")
        excluded = self.found.excluded
        note = f" not counted, no relevant chunk: {one_line(', '.join(excluded))}" if excluded else ""
        return line + Content.styled(note, "$foreground-muted")

    def _difference(self, name: str, one: Comparison, scale: Scale, width: int) -> Content:
        style = sureness(one.difference, one.difference_interval)
        is_chosen = name == self._measure
        label = shorten_middle(one_line(name), _MEASURE_WIDTH)
        label += " " * (_MEASURE_WIDTH - cell_len(label))
        counts = f"{one.counts.wins}/{one.counts.ties}/{one.counts.losses}"
        interval = interval_text(one.difference_interval)
        return Content.assemble(
            "▸ " if is_chosen else "  ",
            (label, "bold reverse" if is_chosen else ""),
            (f" {one.baseline:.3f} {one.system:.3f} ", "$foreground-muted"),
            (f" {signed(one.difference)} ", f"bold {style}".strip()),
            interval_bar(one.difference, one.difference_interval, scale, width, mark=0.0, style=style),
            f" {interval:<11} {p_text(one.p)} {counts:>{_COUNTS_WIDTH}}",
        )

    def _moves(self) -> Content:
        count = len(self._changed)
        gained = sum(one.baseline is None and one.system is not None for one in self._changed)
        lost = sum(one.baseline is not None and one.system is None for one in self._changed)
        more = f", the first {_SHOWN} shown" if count > _SHOWN else ""
        head = f" {count} quer{'y' if count == 1 else 'ies'} changed{more} · {gained} gained, {lost} lost "
        carry = f" by {one_line(self._measure)} · {_CARRIES} carries it · rank A → B"
        return Content.assemble((head, "bold"), (carry, "$foreground-muted"))

    def _queries(self) -> Iterator[Content]:
        changed = self._changed[:_SHOWN]
        ids = _padded([shorten_middle(one_line(one.query_id), _ID_WIDTH) for one in changed])
        kinds = _padded([shorten_middle(one_line(one.kind), _KIND_WIDTH) for one in changed])
        for row, (one, query_id, kind) in enumerate(zip(changed, ids, kinds, strict=True)):
            ranks = f"{_rank(one.baseline):>3} → {_rank(one.system):<3}"
            line = Content.assemble(
                "▸" if row == self._row else " ",
                (_CARRIES, "bold $warning") if one.carries else " ",
                f" {signed(one.difference)} ",
                (ranks, f"bold {_move_style(one)}".strip()),
                f" {query_id}  ",
                (f"{kind}  ", "$foreground-muted"),
                one_line(one.query),
            )
            yield line.stylize("reverse", 0, _REVERSED) if row == self._row else line


def _heads(scale: Scale, width: int) -> Content:
    left = f"{'':{_MEASURE_WIDTH + 2}} {'A':<5} {'B':<5}  {'B-A':<6} "
    right = f" {'95%':<11} {'p':<5} {'w/t/l':>{_COUNTS_WIDTH}}"
    return Content.styled(f"{left}{scale.ends(width, sign=True)}{right}", "$foreground-muted")


def _rank(rank: int | None) -> str:
    return "–" if rank is None else str(rank)


def _move_style(one: Changed) -> str:
    """The colour of a rank that was another: better or worse."""
    if one.system == one.baseline:
        return ""
    return "$success" if (one.system or _NOWHERE) < (one.baseline or _NOWHERE) else "$error"


def _padded(texts: list[str]) -> list[str]:
    """The texts, all as wide as the widest."""
    width = max(map(cell_len, texts), default=0)
    return [text + " " * (width - cell_len(text)) for text in texts]
