"""How the commands print a passage that was found: a line about it, then the part of it that matched."""

from __future__ import annotations

from collections.abc import Sequence

import typer
from rich.text import Text

from retrieval_lab.cli_text import stdout
from retrieval_lab.text import printable

_SNIPPET_LEAD = 16
_INDENT = 4


def print_passage(head: str, chunk_id: str, heading_path: str, text: str, matched: frozenset[str]) -> None:
    """Both lines on stdout, cut to the terminal; `head` is its rank and score, `matched` words are underlined."""
    console = stdout()
    line = Text(head, no_wrap=True, overflow="ellipsis")
    line.append(printable(chunk_id), "bold").append(f"  {printable(heading_path)}", "dim")
    console.print(line)
    console.print(_snippet(text, matched, console.width - _INDENT - 1))


def _snippet(passage: str, matched: frozenset[str], width: int) -> Text:
    """The part of the passage with the most matched words."""
    from retrieval_lab.highlight import snippet, word_spans

    spans = word_spans(passage, matched)
    left, right = snippet(passage, spans, width, _SNIPPET_LEAD)
    # One character for one, so that the places of the words stay true.
    line = "".join(char if char.isprintable() else " " for char in passage[left:right])
    text = Text(line, no_wrap=True, overflow="ellipsis")
    for start, end in spans:
        if left <= start and end <= right:
            text.stylize("bold underline", start - left, end - left)
    return Text((" " * _INDENT)[: -1 if left else None] + ("…" if left else ""), no_wrap=True).append_text(text)


def print_notes(notes: Sequence[str]) -> None:
    """Each note on stderr."""
    for note in notes:
        typer.echo(f"note: {printable(note)}", err=True)
