"""What is shown until the corpus is open: the progress of indexing, or why it could not be opened."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import ProgressBar, Static

from retrieval_lab.index import Progress
from retrieval_lab_tui.display import one_line, safe


class Opening(Vertical):
    """One line of text over a progress bar."""

    DEFAULT_CSS = """
    Opening {
        align: center middle;
        & > Static { width: auto; max-width: 90%; margin-bottom: 1; }
        & > ProgressBar { width: auto; }
        &.failed > ProgressBar { display: none; }
    }
    """

    def compose(self) -> ComposeResult:
        yield Static()
        yield ProgressBar(show_eta=False)

    def on_mount(self) -> None:
        self.starting()

    def starting(self) -> None:
        """The server is on its way up."""
        self.remove_class("failed")
        self.query_one(Static).update(Content("Starting the database…"))
        self.query_one(ProgressBar).update(total=None, progress=0)

    def progress(self, progress: Progress) -> None:
        """So many documents of so many are indexed."""
        if progress.waiting:
            text = "Another process is indexing this corpus; waiting for it…"
        else:
            name = f" · {one_line(progress.doc_id)}" if progress.doc_id else ""
            text = f"Indexing {progress.done} of {progress.total} documents{name}"
        keys = (("esc", "bold"), (" stops · what is done is kept", "$foreground-muted"))
        self.query_one(Static).update(Content.assemble(text, "\n", *keys))
        self.query_one(ProgressBar).update(total=progress.total or None, progress=progress.done)

    def failed(self, reason: str, *, interrupted: bool) -> None:
        """Say what is wrong, or that indexing was interrupted, and which keys help."""
        self.add_class("failed")
        if interrupted:
            title = ("Indexing was interrupted\n\n", "bold $warning")
            keys = (("r", "bold"), " go on   ", ("q", "bold"), " quit")
        else:
            title = ("The corpus could not be opened\n\n", "bold $error")
            keys = (("r", "bold"), " try again   ", ("q", "bold"), " quit")
        self.query_one(Static).update(Content.assemble(title, safe(reason), "\n\n", *keys))
