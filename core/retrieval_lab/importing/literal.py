"""Writing literal text as Markdown: what would open a heading or a fence gets a backslash and stays text.

That is CommonMark's own way to take such a character literally (section 2.4); the words of the text are not changed.
Of all Markdown only headings and fences matter to the chunker, so nothing else is escaped.
"""

from __future__ import annotations

from dataclasses import dataclass

from retrieval_lab.markdown import opens_structure


@dataclass(frozen=True, slots=True)
class Literal:
    """A text as it is written: `text`, and the offsets of the original before which a backslash was put."""

    text: str
    escaped: tuple[int, ...]

    def offset(self, original: int) -> int:
        """Where a character of the original stands in the text, a backslash before it included."""
        return original + sum(place < original for place in self.escaped)


def literal(text: str) -> Literal:
    """The text, which has `\\n` line ends, so that the chunker reads every line of it as text."""
    escaped: list[int] = []
    start = 0
    for line in text.split("\n"):
        if opens_structure(line):
            escaped.append(start + len(line) - len(line.lstrip()))
        start += len(line) + 1
    pieces = [text[begin:end] for begin, end in zip([0, *escaped], [*escaped, len(text)], strict=True)]
    return Literal("\\".join(pieces), tuple(escaped))


def heading(title: str) -> str:
    """The title as a level-1 heading, on one line; empty for a blank title."""
    line = " ".join(title.split())
    if line.endswith("#"):  # marks at the end of a heading close it and are no part of the title
        line = f"{line[:-1]}\\#"
    return f"# {line}" if line else ""
