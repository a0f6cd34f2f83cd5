"""The one screen: a question, what became of the wanted passage, four lists, the passage under the cursor."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import Screen
from textual.widgets import ContentSwitcher, Footer, Input, Static

from retrieval_lab.index import Progress
from retrieval_lab.lab import Lab
from retrieval_lab.types import GoldenQuery
from retrieval_lab_tui.actions import EXPLORE, bindings
from retrieval_lab_tui.answer import STAGES, Answer
from retrieval_lab_tui.display import one_line
from retrieval_lab_tui.status import fate_line, header_line, tabs_line
from retrieval_lab_tui.widgets.opening import Opening
from retrieval_lab_tui.widgets.passage import Passage
from retrieval_lab_tui.widgets.ranked_list import RankedList

_LISTS = (
    ("vector", "Vector", "cosine"),
    ("text", "Full text", "ts_rank_cd"),
    ("fused", "Fused", "RRF · vector·text ranks"),
    ("final", "Final", "BM25, then MMR · moves"),
)


class ExploreScreen(Screen[None]):
    """Shows what it is given and turns keys into requests; the app does the asking."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(EXPLORE)
    CSS_PATH = "explore.tcss"
    AUTO_FOCUS = ""  # nothing: while the corpus opens, keys are commands

    def __init__(self) -> None:
        super().__init__()
        self.active = "final"
        self.answer: Answer | None = None
        self._asking = False
        self._lab: Lab | None = None
        self._position: tuple[int, GoldenQuery] | None = None

    def compose(self) -> ComposeResult:
        yield Static(id="header")
        yield Input(id="query", placeholder="Write a question, then press enter", select_on_focus=False)
        yield Static(id="fate")
        yield Static(id="notes")
        with ContentSwitcher(initial="opening", id="body"):
            yield Opening(id="opening")
            with Vertical(id="results"):
                yield Static(id="tabs")
                with Horizontal(id="lists"):
                    for stage, title, subtitle in _LISTS:
                        yield RankedList(stage, title, subtitle)
                yield Passage(id="passage")
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        self._set_active(self.active)
        self._show_header()

    # What the app tells the screen.

    def opening(self) -> None:
        """The corpus is being opened."""
        self.query_one("#body", ContentSwitcher).current = "opening"
        self.query_one(Opening).starting()

    def indexing(self, progress: Progress) -> None:
        """Indexing came this far."""
        self.query_one(Opening).progress(progress)

    def failed(self, reason: str) -> None:
        """The corpus could not be opened."""
        self.query_one(Opening).failed(reason)

    def opened(self, lab: Lab) -> None:
        """The corpus is ready for questions."""
        self._lab = lab
        self.query_one("#body", ContentSwitcher).current = "results"
        self.focus_lists()
        self._show_header()

    def asking(self, query: str, position: tuple[int, GoldenQuery] | None) -> None:
        """A question is on its way; `position` is the golden query's place, from 1."""
        self._asking = True
        self._position = position
        self.query_one("#query", Input).value = one_line(query)
        self._show_header()

    def idle(self) -> None:
        """Nothing is on its way: the query was stopped or failed, and the last answer stands."""
        self._asking = False
        self._show_header()

    def answered(self, answer: Answer) -> None:
        """Show an answer."""
        self.answer = answer
        self._asking = False
        for stage in STAGES:
            self._list(stage).show(answer.lists[stage], answer.total(stage), "no hits")
        notes = self.query_one("#notes", Static)
        notes.update(Content(" " + " · ".join(one_line(note) for note in answer.stages.notes)))
        notes.display = bool(answer.stages.notes)
        self._show_header()
        self._follow()

    def focus_lists(self) -> None:
        """Bring the keyboard back to the active list."""
        self._list(self.active).focus()

    # What the user does.

    @on(Input.Submitted, "#query")
    def _submit(self, event: Input.Submitted) -> None:
        if event.value.strip():
            self.focus_lists()

    @on(RankedList.Moved)
    def _moved(self, event: RankedList.Moved) -> None:
        if event.ranked_list.has_focus and event.ranked_list.stage != self.active:
            self._set_active(event.ranked_list.stage)
        if event.ranked_list.stage == self.active:
            self._follow()

    def action_focus_query(self) -> None:
        query = self.query_one("#query", Input)
        query.focus()
        query.action_select_all()

    def action_show_list(self, stage: str) -> None:
        self._set_active(stage)
        self._list(stage).focus()
        self._follow()

    def action_step_list(self, step: int) -> None:
        self.action_show_list(STAGES[(STAGES.index(self.active) + step) % len(STAGES)])

    def action_read(self) -> None:
        self.query_one(Passage).focus()

    def on_resize(self) -> None:
        # Breakpoint classes are set after this event.
        self.call_after_refresh(self._fit)

    def _fit(self) -> None:
        tall = self.has_class("-tall")
        for stage in STAGES:
            self._list(stage).row_lines = 1 if self.has_class("-narrow") else 3 if tall else 2
        self._show_header()

    # Drawing.

    def _list(self, stage: str) -> RankedList:
        return self.query_one(f"#{stage}", RankedList)

    def _set_active(self, stage: str) -> None:
        self.active = stage
        for name in STAGES:
            self._list(name).set_class(name == stage, "active")
        self._show_tabs()

    def _follow(self) -> None:
        """Mark the chunk under the cursor in every list, and show its passage."""
        if self.answer is None:
            return
        chunk_id = self._list(self.active).chunk_id
        for stage in STAGES:
            self._list(stage).linked = chunk_id
        passage = self.query_one(Passage)
        if chunk_id is None:
            passage.show(Content("no passage"), Content(""), Content(""))
            return
        chunk = self.answer.chunks[chunk_id]
        place = f"{one_line(chunk_id)} · {one_line(chunk.heading_path)} · {chunk.start_char}–{chunk.end_char}"
        text, first_mark = self.answer.passage(chunk_id), self.answer.marks[chunk_id].first
        passage.show(Content(place), self.answer.ranks(chunk_id), text, first_mark)

    def _show_header(self) -> None:
        width = self.size.width
        header = header_line(self._lab, self._position, self._asking, width)
        self.query_one("#header", Static).update(header)
        self.query_one("#fate", Static).update(fate_line(self.answer, width))
        self._show_tabs()

    def _show_tabs(self) -> None:
        ranks = {stage: self._list(stage).wanted_rank for stage in STAGES}
        wanted = self.answer is not None and bool(self.answer.wanted)
        self.query_one("#tabs", Static).update(tabs_line(_LISTS, ranks if wanted else {}, self.active))
