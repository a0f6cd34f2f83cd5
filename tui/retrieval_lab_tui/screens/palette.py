"""Everything that the explorer can do, found by its name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual.content import Content

from retrieval_lab_tui.screens.chooser import Chooser

_LABEL_WIDTH = 20
_TEXT_WIDTH = 52


@dataclass(frozen=True, slots=True)
class Command:
    """One thing to do; `keys` are those that do it without the palette."""

    label: str
    description: str
    keys: str
    run: Callable[[], object]


class Palette(Chooser):
    """Ends with the place of the command that is to be run."""

    PLACEHOLDER: ClassVar[str] = "Type what you want to do"

    def __init__(self, commands: Sequence[Command]) -> None:
        super().__init__()
        self.commands = tuple(commands)

    def found(self, typed: Sequence[str]) -> list[int]:
        texts = [f"{command.label} {command.description}".lower() for command in self.commands]
        return [place for place, text in enumerate(texts) if all(word in text for word in typed)]

    def row(self, place: int) -> Content:
        command = self.commands[place]
        return Content.assemble(
            (command.label.ljust(_LABEL_WIDTH), "bold"),
            command.description.ljust(_TEXT_WIDTH),
            (command.keys, "$foreground-muted"),
        )

    def heading(self, found: str) -> tuple[str, str]:
        return f"Commands · {found}", ""
