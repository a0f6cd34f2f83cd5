"""Two pipelines on one question: their final lists side by side, and what became of the wanted passage in each."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.content import Content
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Static

from retrieval_lab.config import PipelineConfig
from retrieval_lab.index import Progress
from retrieval_lab.types import Chunk
from retrieval_lab_tui.actions import COMPARE, bindings
from retrieval_lab_tui.answer import Answer, Question
from retrieval_lab_tui.comparing import compared, counterpart, differences, wanted_line
from retrieval_lab_tui.display import one_line
from retrieval_lab_tui.widgets.indexing_line import IndexingLine
from retrieval_lab_tui.widgets.key_line import KeyLine
from retrieval_lab_tui.widgets.ranked_list import RankedList

_SIDES = ("left", "right")
_WANTED_LINES = 3
_BROKEN = 14
"""Columns of a line that may stay empty where it breaks, and the verdicts' share."""


class CompareScreen(Screen[None]):
    """Shows what it is given: `config` is the left pipeline, `other` the right one."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(COMPARE)
    HORIZONTAL_BREAKPOINTS = [(0, "-stacked"), (100, "-beside")]  # noqa: RUF012 - Textual declares it without ClassVar

    DEFAULT_CSS = """
    CompareScreen {
        & #title { height: 1; background: $panel; }
        & #question { height: 1; padding: 0 1; text-style: bold; text-wrap: nowrap; text-overflow: ellipsis; }
        & #indexing { height: 1; background: $panel; display: none; }
        & #wanted { height: auto; max-height: 3; }
        & #sides { height: 1fr; layout: vertical; }
        &.-beside #sides { layout: horizontal; }
        & #sides > RankedList { width: 1fr; height: 1fr; }
        & #sides.stale { opacity: 50%; }
    }
    """

    class ReadWanted(Message):
        """A passage is to be read among the lists."""

        def __init__(self, chunk: Chunk) -> None:
            super().__init__()
            self.chunk = chunk

    class ExplainWanted(Message):
        """The way of a passage through the pipeline of an answer is to be shown."""

        def __init__(self, answer: Answer, chunk_id: str) -> None:
            super().__init__()
            self.answer = answer
            self.chunk_id = chunk_id

    def __init__(self, config: PipelineConfig, other: PipelineConfig) -> None:
        super().__init__()
        self.config = config
        self.other = other
        self.place = Content("")
        """Where the question stands in the golden set."""
        self._question: Question | None = None
        self._answers: dict[str, Answer] = {}
        self._active = "left"
        self._trouble: str | None = None
        self._titles = dict(zip(_SIDES, differences(config, other), strict=True))

    def compose(self) -> ComposeResult:
        yield Static(id="title")
        yield Static(id="question")
        yield IndexingLine(id="indexing")
        yield Static(id="wanted")
        with Container(id="sides"):
            yield RankedList("left", self._titles["left"], "its move to the other list")
            yield RankedList("right", self._titles["right"], "its move from the other list")
        yield KeyLine(COMPARE)

    def on_mount(self) -> None:
        self._list("left").focus()
        self._show()

    def on_resize(self) -> None:
        self.call_after_refresh(self._fit)  # breakpoint classes are set after this event

    def _fit(self) -> None:
        tall, stacked = self.has_class("-tall"), self.has_class("-stacked")
        for side in _SIDES:
            self._list(side).row_lines = 1 + tall if stacked else 2 + tall

    def sides_of(self, config: PipelineConfig) -> tuple[str, ...]:
        """The sides that have this pipeline."""
        return tuple(side for side, one in zip(_SIDES, (self.config, self.other), strict=True) if one == config)

    # What the app tells the screen.

    def asking(self, question: Question, place: Content) -> None:
        """A question is on its way to both; `place` is where it stands in the golden set."""
        self._question, self.place, self._trouble = question, place, None
        self._show()

    def indexing(self, name: str | None) -> None:
        """The index of one side is being made, of what `name` says; with None, no more."""
        self.query_one(IndexingLine).show(name)

    def progress(self, progress: Progress) -> None:
        """Indexing for one side came this far."""
        self.query_one(IndexingLine).progress(progress)

    def answered(self, side: str, answer: Answer) -> None:
        """One side has answered; an answer to a question of before is of no use."""
        if answer.question == self._question:
            self._answers[side] = answer
            self._show()

    def failed(self, side: str, reason: str) -> None:
        """One side did not answer."""
        self._trouble = f"{side}: {reason}"
        self.indexing(None)
        self._show()

    # What the user does.

    def action_other_side(self) -> None:
        self._list("right" if self._active == "left" else "left").focus()

    def action_read(self) -> None:
        answer, chunk_id = self._answers.get(self._active), self._list(self._active).chunk_id
        if answer is not None and chunk_id is not None:
            self.post_message(self.ReadWanted(answer.chunks[chunk_id]))

    def action_explain(self) -> None:
        answer, chunk_id = self._answers.get(self._active), self._list(self._active).chunk_id
        if answer is not None and chunk_id is not None:
            self.post_message(self.ExplainWanted(answer, chunk_id))

    @on(RankedList.Moved)
    def _moved(self, event: RankedList.Moved) -> None:
        if event.ranked_list.has_focus:
            self._active = event.ranked_list.stage
        if event.ranked_list.stage == self._active:
            self._follow()

    # Drawing.

    def _list(self, side: str) -> RankedList:
        return self.query_one(f"#list-{side}", RankedList)

    def _follow(self) -> None:
        """Mark the passage under the cursor on the other side, too."""
        here, there = self._active, "right" if self._active == "left" else "left"
        chunk_id = self._list(here).chunk_id
        self._list(here).linked = chunk_id
        if here in self._answers and there in self._answers:
            self._list(there).linked = counterpart(chunk_id, self._answers[here], self._answers[there])

    def _show(self) -> None:
        if not self.is_mounted:
            return
        current = {side: one for side, one in self._answers.items() if one.question == self._question}
        both = ""
        if len(current) == len(_SIDES):
            both = self._show_lists(current["left"], current["right"])
        elif len(current) == len(self._answers) == 1:
            [(side, answer)] = current.items()
            self._list(side).show(answer.lists["final"], len(answer.lists["final"]), "no hits")
        title = Content.assemble((" compare ", "bold $accent"), " ", self.place, (both, "bold"))
        self.query_one("#title", Static).update(title, layout=False)
        self.query_one("#question", Static).update(Content(self._question.shown if self._question else ""))
        self.query_one("#wanted", Static).update(self._wanted(current))
        self.query_one("#sides").set_class(len(current) < len(_SIDES), "stale")

    def _show_lists(self, left: Answer, right: Answer) -> str:
        """Fill both lists; how many passages they share, in words."""
        found = compared(left, right)
        for side, rows in (("left", found.left), ("right", found.right)):
            self._list(side).show(rows, len(rows), "no hits")
        self._follow()
        for side in _SIDES:
            self._list(side).reveal_wanted()
        return f"· {found.both} of {max(len(found.left), len(found.right))} in both "

    def _wanted(self, current: dict[str, Answer]) -> Content:
        if self._trouble is not None:
            return Content.assemble((" NOT ANSWERED ", "bold reverse $error"), f" {one_line(self._trouble)}")
        if len(current) < len(_SIDES):
            return Content.styled(" asking…", "bold $warning")
        return wanted_line(current["left"], current["right"], _WANTED_LINES * (self.size.width - _BROKEN))
