"""Cost against quality in text: numbered points over a logarithmic axis, with the ones that no other beats."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from textual.content import Content

from retrieval_lab.evals.interval_scale import Scale, scale_of

FRONT, OTHER = "◆", "●"
_STEP_ACROSS, _STEP_UP, _CORNER = "┄", "┆", "┘"
_LEFT, _BELOW = 6, 2
_LEAST_MS = 0.01
"""What was not measured, or took no time, stands here: a logarithm needs more than 0."""
_MOST_NUMBERS = 3
_TICK_ROOM = 7


@dataclass(frozen=True, slots=True)
class Point:
    """A configuration by the number of its row; `ms` is its median latency, `is_front` whether no other beats it."""

    number: int
    ms: float
    quality: float
    is_front: bool


@dataclass(frozen=True, slots=True)
class _Axes:
    """The plane in cells: x to the right from 0, y downwards from 0, the top being the best quality."""

    ms: Scale
    """Of the logarithms."""
    quality: Scale
    width: int
    height: int

    def place(self, point: Point) -> tuple[int, int]:
        """The cell of a point."""
        return self.x(point.ms), self.height - 1 - self.quality.cell(point.quality, self.height)

    def x(self, ms: float) -> int:
        return self.ms.cell(math.log10(max(_LEAST_MS, ms)), self.width)


class _Grid:
    """Characters with a style each."""

    def __init__(self, width: int, height: int) -> None:
        self.width = width
        self._cells = [[(" ", "")] * width for _ in range(height)]

    def is_free(self, x: int, y: int, length: int) -> bool:
        return x >= 0 and x + length <= self.width and all(char == " " for char, _ in self._cells[y][x : x + length])

    def at(self, x: int, y: int) -> str:
        """The character there; beyond the grid nothing stands."""
        return self._cells[y][x][0] if 0 <= x < self.width else " "

    def write(self, x: int, y: int, text: str, style: str) -> None:
        for place, char in enumerate(text[: self.width - x], start=x):
            self._cells[y][place] = (char, style)

    def rows(self) -> Iterator[Content]:
        for row in self._cells:
            runs = groupby(row, key=lambda cell: cell[1])
            yield Content.assemble(*(("".join(char for char, _ in cells), style) for style, cells in runs))


def scatter(points: Sequence[Point], here: int | None, width: int, height: int) -> list[Content]:
    """The lines of the picture, `height` of them; `here` is the number that is under the cursor.

    A point is `◆` when it is of the front, whose steps are dotted, else `●`, with its number beside it; of points in
    one cell the numbers stand together. A number that finds no room beside its point is left out, but never that
    under the cursor, which is reversed.
    """
    axes = _Axes(
        _log_scale(point.ms for point in points),
        scale_of((point.quality, None) for point in points),
        max(1, width - _LEFT - 1),
        max(1, height - _BELOW),
    )
    grid = _Grid(axes.width, axes.height)
    shared: dict[tuple[int, int], list[Point]] = {}
    for point in sorted(points, key=lambda one: (one.number != here, not one.is_front, one.number)):
        shared.setdefault(axes.place(point), []).append(point)
    for (x, y), some in shared.items():
        grid.write(x, y, FRONT if any(one.is_front for one in some) else OTHER, _style(some, here))
    for (x, y), some in shared.items():
        _label(grid, x, y, some, here)
    _steps(grid, [axes.place(point) for point in points if point.is_front])
    return [*_with_axis(grid.rows(), axes), *_below(axes)]


def _log_scale(values: Iterable[float]) -> Scale:
    """A scale of logarithms with room at both ends, so that no point sticks to an axis."""
    found = [math.log10(max(_LEAST_MS, one)) for one in values] or [0.0]
    margin = max(0.1, (max(found) - min(found)) * 0.06)
    return Scale(min(found) - margin, max(found) + margin)


def _style(points: Sequence[Point], here: int | None) -> str:
    if any(one.number == here for one in points):
        return "bold reverse"
    return "bold $success" if any(one.is_front for one in points) else "$foreground-muted"


def _label(grid: _Grid, x: int, y: int, points: Sequence[Point], here: int | None) -> None:
    numbers = [str(one.number) for one in points]
    more = f"+{len(numbers) - _MOST_NUMBERS}" if len(numbers) > _MOST_NUMBERS else ""
    text = ",".join(numbers[:_MOST_NUMBERS]) + more
    right, left = x + 1, x - len(text)
    # No two numbers may run together, and none may look like that of the point before it.
    if grid.is_free(right, y, len(text)) and not grid.at(right + len(text), y).isdigit():
        grid.write(right, y, text, _style(points, here))
    elif grid.is_free(left, y, len(text)) and grid.at(left - 1, y) == " ":
        grid.write(left, y, text, _style(points, here))
    elif any(one.number == here for one in points):
        grid.write(right if right + len(text) <= grid.width else max(0, left), y, text, _style(points, here))


def _steps(grid: _Grid, front: Iterable[tuple[int, int]]) -> None:
    """The best quality that there is up to each latency, as steps through what is free."""
    places = sorted(set(front))
    for (x, y), (next_x, next_y) in pairwise(places):
        for across in range(x + 1, next_x):
            _dot(grid, across, y, _STEP_ACROSS)
        for up in range(next_y + 1, y):
            _dot(grid, next_x, up, _STEP_UP)
        if next_y < y:
            _dot(grid, next_x, y, _CORNER)


def _dot(grid: _Grid, x: int, y: int, char: str) -> None:
    if grid.is_free(x, y, 1):
        grid.write(x, y, char, "$success")


def _with_axis(rows: Iterable[Content], axes: _Axes) -> Iterator[Content]:
    """Each row after its quality, where there is room to say it, and the axis."""
    every = max(2, axes.height // 5)
    for y, row in enumerate(rows):
        share = (axes.height - 1 - y) / max(1, axes.height - 1)
        value = axes.quality.low + share * (axes.quality.high - axes.quality.low)
        named = y % every == 0
        label = f"{value:.3f}┤" if named else " " * (_LEFT - 1) + "│"
        yield Content.assemble((label, "$foreground-muted"), row)


def _below(axes: _Axes) -> Iterator[Content]:
    line = ["─"] * axes.width
    names = _Grid(axes.width + 1, 1)
    for ms in _ticks(axes):
        x, text = axes.x(ms), f"{ms:g}"
        start = max(0, min(axes.width - len(text), x - len(text) // 2))
        if names.is_free(max(0, start - 1), 0, min(len(text) + 2, axes.width - max(0, start - 1))):
            line[x] = "┴"
            names.write(start, 0, text, "$foreground-muted")
    yield Content.styled(f"{'':{_LEFT - 1}}└{''.join(line)}", "$foreground-muted")
    yield Content.assemble((f"{'ms':<{_LEFT}}", "$foreground-muted"), *names.rows())


def _ticks(axes: _Axes) -> list[float]:
    """1, 2 and 5 of each power of ten on the axis; only the powers where those would be too many."""
    low, high = axes.ms.low, axes.ms.high
    powers = range(math.floor(low), math.ceil(high) + 1)
    all_ticks = [factor * 10.0**power for power in powers for factor in (1, 2, 5)]
    found = [tick for tick in all_ticks if low <= math.log10(tick) <= high]
    if len(found) * _TICK_ROOM <= axes.width or high - low < 1:
        return found
    return [tick for tick in found if math.isclose(math.log10(tick) % 1, 0, abs_tol=1e-9)] or found
