"""Choosing another of the ablations that are kept."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from textual.content import Content

from retrieval_lab_tui.display import one_line
from retrieval_lab_tui.screens.chooser import Chooser


class AblationChooser(Chooser):
    """Ends with the place of the chosen folder; `shown` is the one on the screen."""

    PLACEHOLDER: ClassVar[str] = "Type to narrow: name"

    def __init__(self, folders: Sequence[Path], shown: Path | None) -> None:
        super().__init__()
        self._folders = folders
        self._shown = shown

    @property
    def current(self) -> int | None:
        return None if self._shown not in self._folders else self._folders.index(self._shown)

    def found(self, typed: Sequence[str]) -> list[int]:
        names = [folder.name.lower() for folder in self._folders]
        return [place for place, name in enumerate(names) if all(word in name for word in typed)]

    def row(self, place: int) -> Content:
        mark = ("▸ ", "bold") if place == self.current else "  "
        return Content.assemble(mark, (one_line(self._folders[place].name), "bold"))

    def heading(self, found: str) -> tuple[str, str]:
        return f"Ablations · {found}", "the one that was begun last first"
