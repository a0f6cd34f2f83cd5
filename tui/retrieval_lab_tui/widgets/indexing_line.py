"""One line that says how far another index is, while the lists of the one before stand below."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static

from retrieval_lab.index import Progress
from retrieval_lab_tui.display import one_line

_MOST_BAR = 40


class IndexingLine(Static):
    """Shown while an index is made: what of, a bar, the count, and the key that stops it."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's name for it
        super().__init__(id=id)
        self._what = ""
        self._progress: Progress | None = None

    def show(self, name: str | None) -> None:
        """Begin anew with an index of `name`; with None there is none to wait for."""
        self.display = name is not None
        self._what, self._progress = name or "", None
        self._draw()

    def progress(self, progress: Progress) -> None:
        """So many documents of so many are indexed."""
        self._progress = progress
        self._draw()

    def on_resize(self) -> None:
        self._draw()

    def _draw(self) -> None:
        stop = Content.assemble((" · ", "$foreground-muted"), ("esc", "bold"), (" stops ", "$foreground-muted"))
        name = Content.assemble((f" {one_line(self._what)} ", "reverse"), " ")
        step = self._progress
        if step is None:
            self.update(Content.assemble(name, "opening the index…", stop))
        elif step.waiting:
            self.update(Content.assemble(name, "another process is indexing; waiting for it…", stop))
        else:
            count = f" {step.done} of {step.total} documents"
            room = max(0, min(_MOST_BAR, self.size.width - name.cell_length - len(count) - stop.cell_length - 10))
            filled = step.done * room // max(1, step.total)
            bar = (("█" * filled, "$accent"), ("░" * (room - filled), "$foreground-muted"))
            self.update(Content.assemble(name, "indexing ", *bar, count, stop))
