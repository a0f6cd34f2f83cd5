"""One row of a Markdown table as GitHub reads it: cells between pipes, `\\|` for a pipe within a cell.

GitHub Flavored Markdown 0.29, section 4.10; a pipe behind a backslash never parts cells. Lines come without their line
end. A cell that is replaced leaves the others as they are, to the byte.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_BAR = re.compile(r"(?<!\\)\|")
_DASHES = re.compile(r":?-+:?")


@dataclass(slots=True)
class _Parts:
    """A line cut at its pipes; `before` and `after` stand outside the outer pipes, None where there is no such pipe."""

    before: str | None
    cells: list[str]
    after: str | None


def is_row(line: str) -> bool:
    """Whether the line has a pipe that parts cells."""
    return "|" in line and _BAR.search(line) is not None


def cells(line: str) -> list[str]:
    """The texts of the cells, without the blanks around them and with pipes as they are meant."""
    return [cell.strip().replace("\\|", "|") for cell in _parts(line).cells]


def is_delimiter(line: str) -> bool:
    """Whether the line is the one of dashes and colons below a table's header."""
    found = cells(line)
    return bool(found) and all(_DASHES.fullmatch(cell) for cell in found)


def row(texts: Iterable[str]) -> str:
    """A row of these cells."""
    return f"| {' | '.join(map(_escaped, texts))} |"


def with_cells(line: str, texts: Mapping[int, str]) -> str:
    """The row with the cells at these places, counted from 0, replaced; those that it lacks are put at its end.

    A text that is no longer than the one before takes the same width, so that columns stay aligned.
    """
    parts = _parts(line)
    while len(parts.cells) <= max(texts, default=-1):
        if parts.after is None and parts.cells and not parts.cells[-1].endswith(" "):
            parts.cells[-1] += " "
        parts.cells.append("  ")
    for place, text in texts.items():
        parts.cells[place] = _fitted(parts.cells[place], text)
    if parts.after is None:
        parts.cells[-1] = parts.cells[-1].rstrip() or " "
    return "|".join(part for part in (parts.before, *parts.cells, parts.after) if part is not None)


def _parts(line: str) -> _Parts:
    found = _BAR.split(line)
    if len(found) == 1:
        return _Parts(None, [], None)
    before = found.pop(0) if not found[0].strip() else None
    after = found.pop() if found and not found[-1].strip() else None
    return _Parts(before, found, after)


def _fitted(old: str, text: str) -> str:
    indent = old[: len(old) - len(old.lstrip())] if old.strip() else ""
    return f"{indent or ' '}{_escaped(text)} ".ljust(len(old))


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")
