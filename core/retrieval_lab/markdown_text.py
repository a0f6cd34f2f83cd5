"""Text and tables in Markdown that we write: nothing in a text is read as more than text."""

from __future__ import annotations

from collections.abc import Iterator

from retrieval_lab.text import printable


def inline(text: str) -> str:
    """On one line, with everything that Markdown would read as more than text escaped."""
    line = printable(" ".join(text.split()))
    return "".join(f"\\{char}" if char in "\\`*_[]<" else char for char in line)


def cell(text: str) -> str:
    """`inline`, for a cell of a table."""
    return inline(text).replace("|", "\\|")


def row(*cells: str) -> str:
    """A row of a table, its cells as text."""
    return f"| {' | '.join(cell(one) for one in cells)} |"


def table_head(*titles: str, numbers: int = 0) -> Iterator[str]:
    """The two lines that a table begins with; the last `numbers` columns are set to the right."""
    texts = len(titles) - numbers
    yield f"| {' | '.join(titles)} |"
    yield f"|{' --- |' * texts}{' ---: |' * numbers}"
