"""Choosing the pipeline to compare with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.content import Content

from retrieval_lab_tui.comparing import Side
from retrieval_lab_tui.screens.chooser import Chooser

_NAME_WIDTH = 34


class SideChooser(Chooser):
    """Ends with the place of the chosen side."""

    PLACEHOLDER: ClassVar[str] = "Type to narrow: reranker, embedder, file"

    def __init__(self, sides: Sequence[Side]) -> None:
        super().__init__()
        self._sides = sides

    def found(self, typed: Sequence[str]) -> list[int]:
        texts = [f"{side.name} {side.note}".lower() for side in self._sides]
        return [place for place, text in enumerate(texts) if all(word in text for word in typed)]

    def row(self, place: int) -> Content:
        side = self._sides[place]
        return Content.assemble((side.name.ljust(_NAME_WIDTH), "bold"), (f" {side.note}", "$foreground-muted"))

    def heading(self, found: str) -> tuple[str, str]:
        return f"Compare what is shown with · {found}", ""
