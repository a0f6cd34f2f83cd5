"""What leaves the explorer: copies for the clipboard, pictures, and a passage's file in an editor."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from textual.app import App, SuspendNotSupported

from retrieval_lab.errors import EnvironmentMissing, LabError
from retrieval_lab.trace_markdown import trace_markdown
from retrieval_lab_tui.display import safe
from retrieval_lab_tui.editor import Editor, editor_for
from retrieval_lab_tui.screens.explore import ExploreScreen


class Exporting(App[None]):
    """An app whose screen `explore` has something to take along."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__()
        self.explore = ExploreScreen(clock)

    @property
    def ending(self) -> bool:
        """Whether the app is about to be gone: messages still come when there is nothing left to show them on."""
        return self._exit or not self.explore.query("#header")

    def to_lists(self) -> None:
        """Close whatever lies over the lists; a message that comes twice, or late, finds nothing more to close."""
        while self.explore in self.screen_stack and self.screen is not self.explore:
            self.pop_screen()

    def source(self) -> tuple[Path, int] | None:
        """The file of the passage on the screen and its line; None without a passage. Raises LabError."""
        raise NotImplementedError

    def say(self, title: str, text: str, *, error: bool = False) -> None:
        """Tell the user something beside what the screen shows."""
        self.notify(safe(text), title=title, severity="error" if error else "information", markup=False)

    def action_copy_id(self) -> None:
        self._copy("chunk id", self.explore.chunk.chunk_id if self.explore.chunk else None)

    def action_copy_passage(self) -> None:
        self._copy("passage", self.explore.chunk.text if self.explore.chunk else None)

    def action_copy_trace(self) -> None:
        answer = self.explore.answer
        self._copy("trace as JSON", json.dumps(answer.trace.to_dict(), indent=1) if answer else None)

    def action_copy_markdown(self) -> None:
        answer = self.explore.answer
        self._copy("trace as Markdown", trace_markdown(answer.trace) if answer else None)

    def _copy(self, what: str, text: str | None) -> None:
        if text is None:
            self.say("Nothing to copy", "No passage is under the cursor.")
        else:
            self.copy_to_clipboard(text)
            self.say("Sent to the clipboard", f"{what}, {len(text):,} characters")

    def action_picture(self) -> None:
        name = f"retrieval-lab-{datetime.now():%Y%m%d-%H%M%S-%f}.svg"
        try:
            path = self.save_screenshot(name, path=str(Path.cwd()))
        except OSError as error:
            self.say("No picture", f"{Path.cwd()} cannot be written: {error.strerror}", error=True)
        else:
            self.say("Picture saved", path)

    def action_edit(self) -> None:
        try:
            place = self.source()
            if place is None:
                self.say("Nothing to open", "No passage is under the cursor.")
            else:
                self._run(editor_for(*place))
        except LabError as error:
            self.say("Not opened", str(error), error=True)
        except OSError as error:
            self.say("Not opened", f"{error.filename}: {error.strerror}", error=True)
        except SuspendNotSupported:
            self.say("Not opened", "This terminal cannot be lent to an editor.", error=True)

    def _run(self, editor: Editor) -> None:
        if shutil.which(editor.command[0]) is None:
            raise EnvironmentMissing(f"there is no command {editor.command[0]!r}: set EDITOR to one that is installed")
        if editor.own_window:
            quiet = subprocess.DEVNULL
            subprocess.Popen(  # noqa: S603 - the user's own editor
                editor.command, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True
            )
            return
        ended = ""
        with self.suspend():  # whatever happens, the terminal must come back
            try:
                code = subprocess.run(editor.command, check=False).returncode  # noqa: S603 - the same
                ended = f"ended with {code}" if code else ""
            except OSError as error:
                ended = f"cannot be run: {error.strerror}"
        if ended:
            self.say("The editor failed", f"{editor.command[0]} {ended}", error=True)
