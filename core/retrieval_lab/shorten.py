"""Fitting text into cells of a terminal."""

from __future__ import annotations

from rich.cells import cell_len


def shorten_middle(text: str, width: int) -> str:
    """The text in at most `width` cells, an ellipsis in its middle where it is cut; the end, an id's number, stays."""
    if cell_len(text) <= width:
        return text
    if width <= 1:
        return "…"[:width]
    tail = text[-((width - 1) // 2) :] if width > 2 else ""
    head = text[: width - 1 - len(tail)]
    while head and cell_len(head) + 1 + cell_len(tail) > width:
        head = head[:-1]
    return f"{head}…{tail}"
