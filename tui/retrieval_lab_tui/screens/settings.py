"""Changing the pipeline while its lists stand beside: each change asks the question again."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Footer, Static

from retrieval_lab.config import PipelineConfig
from retrieval_lab.errors import InputError
from retrieval_lab_tui.actions import SETTINGS, bindings
from retrieval_lab_tui.live_settings import Setting, live_settings, stepped

_VALUE_COLUMN = 20


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

    def __init__(self, config: PipelineConfig, file: PipelineConfig) -> None:
        super().__init__()
        self._config = config
        self._file = file
        self._row = 0
        self._trouble = ""

    def compose(self) -> ComposeResult:
        with VerticalScroll(can_focus=False) as panel:
            panel.border_title = Content("Settings")
            yield Static()
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        self._draw()

    def saved(self) -> None:
        """What is shown is what the file has now."""
        self._file = self._config
        self._draw()

    def on_click(self, event: events.Click) -> None:
        """A click on a row goes to it; there, one on the value's left arrow is less and beyond the value is more."""
        panel = self.query_one(Static)
        place = event.get_content_offset(panel)
        if event.widget is not panel or place is None or place.y >= len(self._settings):
            return
        if self._row != place.y:
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
            self._change(stepped(self._config, key, direction))
        except InputError as error:
            self._trouble = str(error)
            self._draw()

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
        if self._trouble:
            rows += [Content(""), Content.styled(self._trouble, "$error")]
        self.query_one(Static).update(Content("\n").join(rows))
        self.query_one(VerticalScroll).scroll_to(y=max(0, self._row - 2), animate=False)

    def _line(self, setting: Setting, is_here: bool) -> Content:
        pointer = "▸ " if is_here else "  "
        value = f"‹ {_shown(setting.value)} ›" if is_here else f"  {_shown(setting.value)}"
        file = f"  was {_shown(setting.in_file)}" if setting.changed else ""
        key = setting.key.removeprefix("retrievers.")
        line = Content.assemble(f"{pointer}{key:<{_VALUE_COLUMN - 2}}", (value, "bold"), (file, "$warning"))
        return line.stylize("reverse") if is_here else line


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if value is None:
        return "–"
    return f"{value:g}" if isinstance(value, float) else str(value)
