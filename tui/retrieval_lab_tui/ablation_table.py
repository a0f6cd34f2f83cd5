"""The rows of an ablation: their order, their numbers and how each is drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from rich.cells import cell_len
from textual.content import Content

from retrieval_lab.ablation.cell import Failure
from retrieval_lab.ablation.standings import Entry, Standing, Standings
from retrieval_lab.config import PipelineConfig
from retrieval_lab.evals.interval_scale import scale_of
from retrieval_lab.shorten import shorten_middle
from retrieval_lab.wording import interval_text, signed
from retrieval_lab_tui.comparing import differences
from retrieval_lab_tui.display import one_line
from retrieval_lab_tui.interval_bars import interval_bar, sureness
from retrieval_lab_tui.kept_ablations import Board
from retrieval_lab_tui.list_names import fitting

_MARKS, _NUMBER, _VALUE, _DIFFERENCE, _INTERVAL, _MS = 2, 4, 6, 7, 12, 7
_FIXED = _MARKS + _NUMBER + 1 + _VALUE + _DIFFERENCE + _INTERVAL + _MS
_LEAST_BAR, _GOOD_BAR, _MOST_BAR = 5, 14, 48
_LEAST_NAME, _LEAST_PART = 8, 3
_DECIDED = "★"
_BETWEEN = " · "
"""What a grid puts between the parts of a name."""


class Order(Enum):
    """What stands first; the value says so on the screen."""

    BEST = "best first"
    WORST = "worst first"
    FASTEST = "fastest first"


@dataclass(frozen=True, slots=True)
class Row:
    """A configuration with its number on the screen, from 1, and where it stands; None without the measure.

    A failed one has no numbers, and stands last. Others are measured against the one that `is_best`.
    """

    number: int
    of: Entry | Failure
    standing: Standing | None
    is_best: bool

    @property
    def ms(self) -> float:
        """The median latency of a query in milliseconds."""
        return self.of.latency.median * 1e3 if isinstance(self.of, Entry) else math.nan

    def is_of(self, other: Row) -> bool:
        """Whether both are of one configuration, which may be measured by now, or again."""
        return self.of.config == other.of.config


def arranged(board: Board, standings: Standings, order: Order) -> tuple[Row, ...]:
    """The rows in their order, equal ones in that of the grid; those without the measure, then the failed ones last."""

    def place(entry: Entry) -> tuple[bool, float]:
        standing = standings.by_key.get(entry.key)
        if order is Order.FASTEST:
            return False, entry.latency.median
        if standing is None:
            return True, 0.0
        mean = standing.estimate.value
        return False, mean if order is Order.WORST else -mean

    ordered: list[Entry | Failure] = [*sorted(board.entries, key=place), *board.failures]
    return tuple(_row(number, one, standings) for number, one in enumerate(ordered, start=1))


def _row(number: int, of: Entry | Failure, standings: Standings) -> Row:
    key = of.key if isinstance(of, Entry) else ""
    return Row(number, of, standings.by_key.get(key), key == standings.best)


class Table:
    """Draws rows in so many cells; `decided` is the name of the configuration that a report decided for."""

    def __init__(self, rows: Sequence[Row], width: int, decided: str | None) -> None:
        self._rows = rows
        self._decided = decided
        room = max(_LEAST_BAR + _LEAST_NAME, width - _FIXED)
        longest = max((cell_len(one_line(row.of.name)) for row in rows), default=0)
        self._name = max(_LEAST_NAME, min(longest, room - _GOOD_BAR))
        self._bar = min(_MOST_BAR, room - self._name)
        found = [row.standing.estimate for row in rows if row.standing is not None]
        self._scale = scale_of((one.value, one.interval) for one in found)
        self._best = next((row.standing.estimate.value for row in rows if row.is_best and row.standing), None)

    def heads(self) -> Content:
        """The names of the columns, with both ends of the scale over the bars."""
        named = f"{'':{_MARKS}}{'#':>{_NUMBER - 1}} {'configuration'[: self._name]:<{self._name}}"
        numbers = f"{'Δ':<{_DIFFERENCE}}{'95%':<{_INTERVAL}}{'ms':>{_MS - 1}}"
        text = f"{named} {'mean':<{_VALUE}}{self._scale.ends(self._bar)} {numbers}"
        return Content.styled(text, "$foreground-muted")

    def line(self, place: int, is_here: bool) -> Content:
        """One row; that under the cursor is reversed as far as its name goes."""
        row = self._rows[place]
        name = short_name(one_line(row.of.name), self._name)
        is_failed = isinstance(row.of, Failure)
        mark = (_DECIDED, "bold $success") if row.of.name == self._decided and not is_failed else " "
        number = f"{'✗' if is_failed else row.number:>{_NUMBER - 1}} "
        named = Content.assemble(
            "▸" if is_here else " ", mark, number, (name + " " * (self._name - cell_len(name)), "bold")
        )
        named = named.stylize("reverse") if is_here else named
        if isinstance(row.of, Failure):
            return Content.assemble(named, " ", (one_line(row.of.error), "$error"))
        return Content.assemble(named, " ", self._numbers(row), f"{_ms(row.ms):>{_MS}}")

    def _numbers(self, row: Row) -> Content:
        standing = row.standing
        if standing is None:
            return Content("–".ljust(_VALUE + self._bar + _DIFFERENCE + _INTERVAL))
        estimate = standing.estimate
        bar = interval_bar(estimate.value, estimate.interval, self._scale, self._bar, mark=self._best)
        between = "best" if row.is_best else signed(standing.difference)
        interval = "" if row.is_best else interval_text(standing.difference_interval)
        style = sureness(standing.difference, standing.difference_interval)
        return Content.assemble(
            (f"{estimate.value:<{_VALUE}.3f}", "bold"),
            bar,
            " ",
            (f"{between:<{_DIFFERENCE}}", f"bold {style}".strip()),
            f"{interval:<{_INTERVAL - 1}}",
        )


def short_name(name: str, width: int) -> str:
    """The name in at most so many cells; each of its parts is cut in its middle, so that none is lost."""
    if cell_len(name) <= width:
        return name
    parts = name.split(_BETWEEN)
    fitted = fitting(parts, width - len(parts) + 1, _LEAST_PART)
    return shorten_middle(name, width) if fitted is None else _BETWEEN.strip().join(fitted)


def detail(row: Row, file: PipelineConfig, now: PipelineConfig, width: int) -> Content:
    """What the row has no room for: the whole name, the interval, the settings that the file has otherwise."""
    of = row.of
    if isinstance(of, Failure):
        head = Content.assemble(("✗ ", "bold $error"), (shorten_middle(one_line(of.name), width - 2), "bold"))
        return Content("\n").join([head, Content.styled(one_line(of.error), "$error")])
    facts = []
    if row.standing is not None and (interval := row.standing.estimate.interval) is not None:
        facts.append(f"{row.standing.estimate.value:.3f} ({interval.low:.3f}–{interval.high:.3f})")
    facts.append(f"median {_ms(row.ms)} ms, p95 {_ms(of.latency.p95 * 1e3)} ms")
    if of.index_seconds is not None:
        facts.append(f"index made in {of.index_seconds:.1f} s")
    if of.config == now:
        facts.append("in use")
    settings = "the file's settings" if of.config == file else differences(file, of.config)[1]
    number = f"{row.number} "
    return Content("\n").join(
        [
            Content.assemble((number, "bold"), (shorten_middle(one_line(of.name), width - len(number)), "bold")),
            Content(" · ".join(facts)),
            Content.styled(f"against the file: {settings}", "$foreground-muted"),
        ]
    )


def _ms(value: float) -> str:
    """Milliseconds in three digits or so."""
    return f"{value:.2f}" if value < 1 else f"{value:.1f}" if value < 100 else f"{value:.0f}"
