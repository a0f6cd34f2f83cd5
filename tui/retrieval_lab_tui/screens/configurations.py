"""Choosing a pipeline that has a name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.content import Content
from textual.widgets import Input

from retrieval_lab.config import PipelineConfig
from retrieval_lab.configurations import Configuration
from retrieval_lab.shorten import shorten_middle
from retrieval_lab_tui.display import one_line
from retrieval_lab_tui.screens.chooser import Chooser

_NAME_WIDTH = 22


class ConfigurationChooser(Chooser):
    """Ends with the place of the chosen configuration; a file with faults says the first, and cannot be chosen.

    Those that are found by their names come before those that are found by their descriptions.

    `now` is the pipeline of the moment, and `name` that by which it was chosen.
    """

    PLACEHOLDER: ClassVar[str] = "Type to narrow: name, words of the description"

    def __init__(self, configurations: Sequence[Configuration], now: PipelineConfig, name: str | None) -> None:
        super().__init__()
        self._configurations = configurations
        same = [place for place, one in enumerate(configurations) if one.config == now]
        named = [place for place in same if configurations[place].name == name]
        self._name_width = min(_NAME_WIDTH, max((len(one.name) for one in configurations), default=0))
        self._current = next(iter((*named, *same)), None)

    @property
    def current(self) -> int | None:
        is_narrowed = bool(self.query_one(Input).value.strip())
        return None if is_narrowed else self._current  # what was typed finds another one better

    def found(self, typed: Sequence[str]) -> list[int]:
        names = [one.name.lower() for one in self._configurations]
        texts = [f"{one.name} {one.description}".lower() for one in self._configurations]
        found = [place for place, text in enumerate(texts) if all(word in text for word in typed)]
        return sorted(found, key=lambda place: not all(word in names[place] for word in typed))

    def row(self, place: int) -> Content:
        one = self._configurations[place]
        mark = ("▸ ", "bold") if place == self._current else "  "
        name = shorten_middle(one_line(one.name), _NAME_WIDTH).ljust(self._name_width)
        if one.config is None:
            return Content.assemble(("✗ ", "bold $error"), (name, "$foreground-muted"), (f" {_fault(one)}", "$error"))
        return Content.assemble(mark, (name, "bold"), (f" {one_line(one.description)}", "$foreground-muted"))

    def heading(self, found: str) -> tuple[str, str]:
        return f"Configurations · {found}", "shipped, and in configs/ of the corpus"

    def why_not(self, place: int) -> str | None:
        one = self._configurations[place]
        return "\n".join(one.faults) if one.config is None else None


def _fault(one: Configuration) -> str:
    """The first fault, with the file's name for its path."""
    return one_line(one.faults[0].replace(f"{one.path.parent}/", "", 1))
