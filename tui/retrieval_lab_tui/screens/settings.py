"""Changing the pipeline while its lists stand beside: each change asks the question again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Static

from retrieval_lab.config import PipelineConfig
from retrieval_lab.errors import InputError
from retrieval_lab.index import Progress
from retrieval_lab.settings import EmbedderSettings
from retrieval_lab.shorten import shorten_middle
from retrieval_lab_tui.actions import SETTINGS, bindings
from retrieval_lab_tui.display import one_line, safe
from retrieval_lab_tui.embedders import embedder_name, lacking
from retrieval_lab_tui.live_settings import EMBEDDER, Setting, live_settings, rerankers, stepped
from retrieval_lab_tui.widgets.key_line import KeyLine

_VALUE_COLUMN = 20
_ROOM = 41
"""Characters in a line of the panel, beside its scroll bar."""
_NAME_WIDTH = 22
_BAR_WIDTH = 10
_CHOICES_HEAD = 2
"""Lines between the last setting and the first embedder."""


class SettingsScreen(ModalScreen[None]):
    """Shows the settings of `config` against those of the file, and says what the user makes of them."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(SETTINGS)

    DEFAULT_CSS = """
    SettingsScreen {
        align: right bottom;
        background: transparent;
        & > VerticalScroll {
            width: 46; max-width: 100%; height: auto; max-height: 100%; margin: 0 1 1 0;
            border: round $accent; border-title-style: bold; padding: 0 1; background: $surface;
            scrollbar-size-vertical: 1;
        }
    }
    """

    class Changed(Message):
        """The question is to be asked with another configuration."""

        def __init__(self, config: PipelineConfig) -> None:
            super().__init__()
            self.config = config

    class SaveWanted(Message):
        """The configuration is to be written to the corpus's lab.yaml."""

    class StopWanted(Message):
        """The index of the moment is to stay, and the other not to be made."""

    def __init__(self, config: PipelineConfig, file: PipelineConfig, offered: Sequence[EmbedderSettings]) -> None:
        super().__init__()
        self.switching = False
        """Whether another index is being made for what is shown."""
        self._progress: Progress | None = None
        self._config = config
        self._file = file
        self._offered = offered
        self._row = 0
        self._trouble = ""

    def compose(self) -> ComposeResult:
        with VerticalScroll(can_focus=False) as panel:
            panel.border_title = Content("Settings")
            yield Static()
        yield KeyLine(SETTINGS)

    def on_mount(self) -> None:
        self._draw()

    def wait(self) -> None:
        """Another index is being made for what is shown."""
        self.switching, self._progress = True, None
        self._draw()

    def progress(self, progress: Progress) -> None:
        """The index of the settings that are shown came this far."""
        self._progress = progress
        self._draw()

    def settled(self, config: PipelineConfig, file: PipelineConfig, trouble: str) -> None:
        """These are the settings of the moment and the file's; `trouble` is why it is not those that were wanted."""
        self.switching, self._progress = False, None
        self._config, self._file, self._trouble = config, file, trouble
        self._row = min(self._row, len(self._settings) - 1)
        self._draw()
        if trouble:
            self._show_trouble()

    def on_click(self, event: events.Click) -> None:
        """A click on a row goes to it; there, one on the value's left arrow is less and beyond the value is more.

        A click on an embedder below takes it.
        """
        panel = self.query_one(Static)
        place = event.get_content_offset(panel)
        if event.widget is not panel or place is None:
            return
        choice = place.y - len(self._settings) - _CHOICES_HEAD
        if place.y >= len(self._settings):
            if 0 <= choice < len(self._offered):
                self._change(replace(self._config, embedder=self._offered[choice]))
        elif self._row != place.y:
            self._row = place.y
            self._draw()
        elif place.x >= _VALUE_COLUMN:
            self.action_step(-1 if place.x < _VALUE_COLUMN + 2 else 1)

    @property
    def _settings(self) -> tuple[Setting, ...]:
        return live_settings(self._config, self._file)

    def action_move(self, rows: int) -> None:
        self._row = (self._row + rows) % len(self._settings)
        self._draw()

    def action_step(self, direction: int) -> None:
        key = self._settings[self._row].key
        try:
            self._change(stepped(self._config, key, direction, self._offered, rerankers(self._file)))
        except InputError as error:
            self._trouble = str(error)
            self._draw()
            self._show_trouble()

    def action_leave(self) -> None:
        """Stop making another index; with none being made, close the settings."""
        if self.switching:
            self.post_message(self.StopWanted())
        else:
            self.dismiss()

    def action_reset(self) -> None:
        self._change(self._file)

    def action_save(self) -> None:
        self.post_message(self.SaveWanted())

    def _change(self, config: PipelineConfig) -> None:
        self._trouble = ""
        if config != self._config:
            key = self._settings[self._row].key
            self._config = config
            # Another reranker has other settings: the cursor stays on the one that it was on.
            keys = [setting.key for setting in self._settings]
            self._row = keys.index(key) if key in keys else 0
            self.post_message(self.Changed(config))
        self._draw()

    def _draw(self) -> None:
        rows = [self._line(setting, row == self._row) for row, setting in enumerate(self._settings)]
        if self._offered:
            rows += [Content(""), *self._choices()]
        if self._trouble:
            rows += [Content(""), Content.styled(safe(self._trouble), "$error")]
        self.query_one(Static).update(Content("\n").join(rows))
        self.query_one(VerticalScroll).scroll_to(y=max(0, self._row - 2), animate=False)

    def _show_trouble(self) -> None:
        """It stands below everything else, which on a small screen is out of sight of the first rows."""
        self.call_after_refresh(self.query_one(VerticalScroll).scroll_end, animate=False)

    def _choices(self) -> Iterator[Content]:
        """The embedders, with what is missing here for some of them; above, how far an index is that is being made."""
        yield self._indexing()
        for embedder in self._offered:
            mark = "▸ " if embedder == self._config.embedder else "  "
            missing = lacking(embedder) or ("the file's" if embedder == self._file.embedder else "")
            note = (f"  {missing}", "$warning" if lacking(embedder) else "$foreground-muted")
            yield Content.assemble(mark, shorten_middle(one_line(embedder_name(embedder)), _NAME_WIDTH), note)

    def _indexing(self) -> Content:
        step = self._progress
        if not self.switching:
            return Content.styled("embedders; each has an index of its own", "$foreground-muted")
        if step is None or step.waiting:
            return Content.styled("opening its index · esc stops", "bold $warning")
        filled = step.done * _BAR_WIDTH // max(1, step.total)
        bar = (("█" * filled, "$accent"), ("░" * (_BAR_WIDTH - filled), "$foreground-muted"))
        return Content.assemble("indexing ", *bar, (f" {step.done} of {step.total}", "bold"), " · esc stops")

    def _line(self, setting: Setting, is_here: bool) -> Content:
        pointer = "▸ " if is_here else "  "
        shown = shorten_middle(_shown(setting.value), _NAME_WIDTH - 4)
        value = f"‹ {shown} ›" if is_here else f"  {shown}"
        # The list of the embedders marks the file's.
        file = "" if setting.key == EMBEDDER else f"  was {_shown(setting.in_file)}" if setting.changed else ""
        key = setting.key.removeprefix("retrievers.")
        line = Content.assemble(f"{pointer}{key:<{_VALUE_COLUMN - 2}}", (value, "bold"), (file, "$warning"))
        line = line.truncate(_ROOM, ellipsis=True)  # a second line would not be where a click looks for it
        return line.stylize("reverse") if is_here else line


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if value is None:
        return "–"
    return f"{value:g}" if isinstance(value, float) else one_line(str(value))
