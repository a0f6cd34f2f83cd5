"""The pictures of a report, as PNG bytes that are the same for the same numbers."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from typing import Any, Final

from retrieval_lab.evals.summary import Estimate
from retrieval_lab.extras import require
from retrieval_lab.report.study import Standing, Study
from retrieval_lab.shorten import shorten_middle
from retrieval_lab.text import printable

EXTRA: Final = "evals"
_DPI = 160
_NAME_WIDTH = 52
_MOST_KINDS = 12
_LEAST_MS = 1e-3  # a logarithmic axis has no 0
_INK, _PALE, _BEST, _CHOSEN = "#33414e", "#aab4bd", "#1f6fb2", "#d1495b"
# Offsets in points, the nearest first.
_SPOTS = tuple(
    (radius * math.cos(math.pi * turn / 8), radius * math.sin(math.pi * turn / 8))
    for radius in (12, 18, 25, 33, 42)
    for turn in (0, 2, -2, 4, -4, 6, -6, 8, 1, -1, 3, -3, 5, -5, 7, -7)
)
_COLOURS = (_CHOSEN, _BEST, "#4f9d69", "#e09f3e")
_MARKS = ("D", "o", "s", "^")


def require_plots() -> None:
    """Raises MissingExtra, naming the extra, when pictures cannot be drawn."""
    require("matplotlib", extra=EXTRA)


def quality_png(made: Study) -> bytes:
    """The held-out mean of every configuration with its interval, the best on top, and its dev mean as a lighter mark.

    The configuration that is shipped, and the best, are marked. Raises MissingExtra.
    """
    standings = made.standings
    with _figure(11, 1.6 + 0.34 * len(standings)) as (figure, axes):
        for place, one in enumerate(standings):
            _bar(axes, place, one.held_out.measures[made.measure], _colour(made, one), _mark(made, one))
            if one.dev.queries:
                dev = one.dev.measures[made.measure].value
                axes.plot(dev, place, marker="|", markersize=11, markeredgewidth=2, color=_PALE, zorder=1)
        axes.set_yticks(range(len(standings)))
        axes.set_yticklabels([_name(one.name) for one in standings], parse_math=False)
        for label, one in zip(axes.get_yticklabels(), standings, strict=True):
            label.set_color(_colour(made, one))
            label.set_fontweight("bold" if one.name == made.decision.chosen else "normal")
        axes.set_ylim(len(standings) - 0.5, -0.5)
        axes.set_xlabel(f"{made.measure}, {len(made.parts.held_out)} held-out queries, 95% interval")
        axes.grid(axis="x", color="#e4e8eb", linewidth=0.8)
        _legend(figure, made, dev=bool(made.parts.dev), inches=1.6 + 0.34 * len(standings))
        return _png(figure)


def latency_png(made: Study) -> bytes:
    """Held-out quality with its interval against the median latency, on a logarithmic axis.

    Each point has its place in the order of quality as a number, and a list beside the axes says whose it is. Raises
    MissingExtra.
    """
    standings = made.standings
    height = max(5.0, 1.4 + 0.25 * len(standings))
    with _figure(12, height) as (figure, axes):
        axes.set_xscale("log")
        points = [
            (max(1e3 * made.costs[one.name].median, _LEAST_MS), one.held_out.measures[made.measure])
            for one in standings
        ]
        for one, (milliseconds, estimate) in zip(standings, points, strict=True):
            _column(axes, milliseconds, estimate, _colour(made, one), _mark(made, one))
        _readable_ticks(axes, [milliseconds for milliseconds, _ in points])
        places = axes.transData.transform([(at, estimate.value) for at, estimate in points]).tolist()
        for place, (one, offset) in enumerate(zip(standings, number_offsets(places, _DPI / 72), strict=True), start=1):
            weight = "bold" if one.name == made.decision.chosen else "normal"
            style = {"color": _colour(made, one), "fontweight": weight, "fontsize": 8.5, "va": "center"}
            spot = (points[place - 1][0], points[place - 1][1].value)
            axes.annotate(str(place), spot, offset, textcoords="offset points", ha="center", **style)
            at = 1 - (place - 0.5) / len(standings)
            axes.text(1.06, at, str(place), transform=axes.transAxes, ha="right", **style)
            axes.text(1.07, at, _name(one.name), transform=axes.transAxes, parse_math=False, **style)
        axes.set_xlabel("median latency of a query, ms (logarithmic)")
        axes.set_ylabel(f"{made.measure}, held out, 95% interval")
        axes.grid(color="#e4e8eb", linewidth=0.8, which="major")
        _legend(figure, made, dev=False, inches=height)
        return _png(figure)


def by_kind_png(made: Study) -> bytes:
    """Held-out quality by kind of question, with intervals, of at most four configurations.

    These are the one that is shipped, the best, the best on dev and the simplest. Raises MissingExtra.
    """
    chosen = _few(made)
    groups = made.standings[0].by_kind
    kinds = sorted(groups, key=lambda kind: (-groups[kind].queries, kind))[:_MOST_KINDS]
    height = 1.9 + len(kinds) * (0.25 + 0.17 * len(chosen)) + 0.2 * len(chosen)
    with _figure(11, height) as (figure, axes):
        step = 0.7 / len(chosen)
        for number, (role, one) in enumerate(chosen):
            for place, kind in enumerate(kinds):
                estimate = one.by_kind[kind].measures[made.measure]
                at = place + (number - (len(chosen) - 1) / 2) * step
                _bar(axes, at, estimate, _COLOURS[number], _MARKS[number])
            label = f"{role}: {_name(one.name)}"
            axes.plot([], [], marker=_MARKS[number], linestyle="", color=_COLOURS[number], label=label)
        axes.set_yticks(range(len(kinds)))
        axes.set_yticklabels(
            [f"{_name(kind or '(none)')} [{groups[kind].queries}]" for kind in kinds], parse_math=False
        )
        axes.set_ylim(len(kinds) - 0.5, -0.5)
        axes.set_xlim(-0.02, 1.02)
        axes.set_xlabel(f"{made.measure}, held out, 95% interval; queries in brackets")
        axes.grid(axis="x", color="#e4e8eb", linewidth=0.8)
        _put_legend(figure, *axes.get_legend_handles_labels(), columns=1, inches=height)
        return _png(figure)


def _few(made: Study) -> list[tuple[str, Standing]]:
    """At most four configurations with what they are, each once."""
    roles: dict[str, list[str]] = {}
    if made.decision.chosen is not None:
        roles.setdefault(made.decision.chosen, []).append("ships")
    roles.setdefault(made.decision.best, []).append("best")
    if made.parts.dev:
        on_dev = max(made.standings, key=lambda one: one.dev.measures[made.measure].value)
        roles.setdefault(on_dev.name, []).append("best on dev")
    roles.setdefault(made.decision.verdicts[0].name, []).append("simplest")
    return [(", ".join(role), made.standing(name)) for name, role in roles.items()]


# --- what pictures are made of -------------------------------------------------------------------------------------


@contextmanager
def _figure(width: float, height: float) -> Iterator[tuple[Any, Any]]:
    """A figure and its axes in the library's own style, whatever the user's settings are."""
    style = require("matplotlib.style", extra=EXTRA)
    figures = require("matplotlib.figure", extra=EXTRA)
    agg = require("matplotlib.backends.backend_agg", extra=EXTRA)
    own = {"font.family": "DejaVu Sans", "font.size": 10, "axes.edgecolor": _PALE, "text.color": _INK}
    with style.context(["default", {**own, "axes.labelcolor": _INK, "xtick.color": _INK, "ytick.color": _INK}]):
        figure = figures.Figure(figsize=(width, height), dpi=_DPI)
        agg.FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        axes.spines[["top", "right"]].set_visible(False)
        yield figure, axes


def _png(figure: Any) -> bytes:
    written = BytesIO()
    with warnings.catch_warnings():
        # A name in a script that the font lacks is drawn as boxes; other fonts would differ between machines.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        # The library would write its version into the file.
        figure.savefig(written, format="png", bbox_inches="tight", metadata={"Software": None})
    return written.getvalue()


def _bar(axes: Any, place: float, estimate: Estimate, colour: str, mark: str) -> None:
    """A mean at a height, with its interval from left to right."""
    if estimate.interval is not None:
        axes.plot([estimate.interval.low, estimate.interval.high], [place, place], color=colour, linewidth=1.6)
    axes.plot(estimate.value, place, marker=mark, color=colour, markersize=6.5, linestyle="", zorder=3)


def _column(axes: Any, at: float, estimate: Estimate, colour: str, mark: str) -> None:
    """A mean over a place of the horizontal axis, with its interval upright."""
    if estimate.interval is not None:
        ends = [estimate.interval.low, estimate.interval.high]
        axes.plot([at, at], ends, color=colour, linewidth=1.1, alpha=0.3, zorder=2)
    axes.plot(at, estimate.value, marker=mark, color=colour, markersize=6.5, linestyle="", zorder=3)


def number_offsets(points: Sequence[Sequence[float]], scale: float) -> list[tuple[float, float]]:
    """Where to write a number beside each point, as an offset in points, so that it covers no point and no number.

    `points` are in pixels, `scale` is the pixels of a point. The nearest free spot is taken; where points are so dense
    that there is none, the last one tried.
    """
    taken: list[tuple[float, float]] = [(x, y) for x, y in points]
    found = []
    for x, y in points:
        for dx, dy in _SPOTS:
            spot = (x + dx * scale, y + dy * scale)
            if all(abs(spot[0] - u) > 11 * scale or abs(spot[1] - v) > 8.5 * scale for u, v in taken):
                break
        taken.append(spot)
        found.append((dx, dy))
    return found


def _readable_ticks(axes: Any, values: Sequence[float]) -> None:
    """Milliseconds as plain numbers, 1, 2 and 5 of each power of ten."""
    ticker = require("matplotlib.ticker", extra=EXTRA)
    low, high = min(values), max(values)
    axes.set_xlim(low / 1.35, high * 1.35)
    axes.xaxis.set_major_locator(ticker.LogLocator(base=10, subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_locator(ticker.NullLocator())


def _legend(figure: Any, made: Study, *, dev: bool, inches: float) -> None:
    lines = require("matplotlib.lines", extra=EXTRA)

    def entry(colour: str, mark: str) -> Any:
        return lines.Line2D([], [], color=colour, marker=mark, linestyle="", markersize=7, markeredgewidth=1.5)

    entries = []
    if made.decision.chosen is not None:
        also = ", and the best held out" if made.decision.chosen == made.decision.best else ""
        entries.append((entry(_CHOSEN, "D"), f"ships by the rule{also}"))
    if made.decision.chosen != made.decision.best:
        entries.append((entry(_BEST, "o"), "best held out"))
    if dev:
        entries.append((entry(_PALE, "|"), f"mean on {len(made.parts.dev)} dev queries"))
    handles, labels = zip(*entries, strict=True)
    _put_legend(figure, handles, labels, columns=len(entries), inches=inches)


def _put_legend(figure: Any, handles: Sequence[Any], labels: Sequence[str], *, columns: int, inches: float) -> None:
    """Above the axes, where it covers nothing."""
    top = figure.axes[0].get_position().y1
    spot = (figure.axes[0].get_position().x0, top + 0.08 / inches)
    drawn = figure.legend(
        handles, labels, loc="lower left", bbox_to_anchor=spot, ncols=columns, frameon=False, borderaxespad=0
    )
    for text in drawn.get_texts():
        text.set_parse_math(False)


def _colour(made: Study, one: Standing) -> str:
    if one.name == made.decision.chosen:
        return _CHOSEN
    return _BEST if one.name == made.decision.best else _INK


def _mark(made: Study, one: Standing) -> str:
    return "D" if one.name == made.decision.chosen else "o"


def _name(name: str) -> str:
    return shorten_middle(printable(name), _NAME_WIDTH)
