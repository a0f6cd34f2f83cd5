"""Text for the terminal: what files and queries hold cannot steer it, and tables fit into it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from typing import Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from retrieval_lab.text import printable

_LEAST_WIDTH = 20
_BETWEEN = 2  # spaces
_WIDTH_OF_A_PIPE = 200


def counted(number: int, noun: str) -> str:
    """`1 query`, `2 queries`."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number} {noun if number == 1 else plural}"


def print_table(columns: Sequence[tuple[str, bool]], rows: Iterable[Sequence[str | Text]]) -> None:
    """A table on stdout, cut to the terminal's width; of each column the title, and whether it is numbers."""
    table = Table(box=None, pad_edge=False, header_style="bold", show_header=any(title for title, _ in columns))
    cells = [[Text(printable(cell)) if isinstance(cell, str) else cell for cell in row] for row in rows]
    wanted = [max([len(title), *(row[place].cell_len for row in cells)]) for place, (title, _) in enumerate(columns)]
    widths = _fitting(wanted, [is_number for _, is_number in columns], stdout().width - _BETWEEN * (len(columns) - 1))
    for (title, is_number), width in zip(columns, widths, strict=True):
        justify: Literal["right", "left"] = "right" if is_number else "left"
        table.add_column(Text(title), justify=justify, no_wrap=True, overflow="ellipsis", width=width)
    for row in cells:
        table.add_row(*row)
    stdout().print(table)


def _fitting(wanted: Sequence[int], fixed: Sequence[bool], room: int) -> list[int]:
    """The widths of columns that would like to be this wide: what there is no room for the widest text gives first.

    Half a number is none, so numbers keep their width.
    """
    widths = list(wanted)
    while sum(widths) > room:
        widest = max((width for width, is_fixed in zip(widths, fixed, strict=True) if not is_fixed), default=0)
        if widest <= 1:
            break
        widths[max(place for place, width in enumerate(widths) if width == widest and not fixed[place])] -= 1
    return widths


def stdout() -> Console:
    """A console on standard output as it is now; nothing in a text is markup, and colours only on a terminal."""
    return Console(file=sys.stdout, markup=False, highlight=False, emoji=False, width=_width())


def _width() -> int | None:
    """None for the terminal's own width. A pipe has none: there nothing is cut for a screen that is not there."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdigit() and int(columns) >= _LEAST_WIDTH:
        return int(columns)
    return None if sys.stdout.isatty() else _WIDTH_OF_A_PIPE
