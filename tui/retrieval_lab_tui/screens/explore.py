"""The one screen: a question, what became of the wanted passage, its lists, the passage under the cursor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.screen import Screen
from textual.widgets import ContentSwitcher, Input, Static

from retrieval_lab.config import PipelineConfig
from retrieval_lab.index import Progress
from retrieval_lab.lab import Lab
from retrieval_lab.types import Chunk
from retrieval_lab_tui.actions import EXPLORE, bindings
from retrieval_lab_tui.answer import Answer, Question
from retrieval_lab_tui.columns import columns
from retrieval_lab_tui.display import marked, one_line, safe
from retrieval_lab_tui.labs import Labs
from retrieval_lab_tui.moved import moved
from retrieval_lab_tui.status import against_chip, asking_place, header_line, notes_line, question_place, verdict_line
from retrieval_lab_tui.widgets.indexing_line import IndexingLine
from retrieval_lab_tui.widgets.key_line import KeyLine
from retrieval_lab_tui.widgets.lists import Lists
from retrieval_lab_tui.widgets.opening import Opening
from retrieval_lab_tui.widgets.passage import Passage
from retrieval_lab_tui.widgets.query_line import QueryLine
from retrieval_lab_tui.widgets.ranked_list import RankedList
from retrieval_lab_tui.widgets.tabs import Tabs

_LEAST_WIDTH = 40
_LEAST_HEIGHT = 10
_TICK_SECONDS = 0.1
_FRAME = 6
"""Columns of a line that are not for the text in a frame."""


class ExploreScreen(Screen[None]):
    """Shows what it is given and turns keys into requests; the app does the asking."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(EXPLORE)
    CSS_PATH = "explore.tcss"
    AUTO_FOCUS = ""  # nothing: while the corpus opens, keys are commands

    class NeighbourWanted(Message):
        """The chunk before (-1) or after (1) the one that is shown is to be read."""

        def __init__(self, chunk_id: str, step: int) -> None:
            super().__init__()
            self.chunk_id = chunk_id
            self.step = step

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__()
        self.clock = clock
        self._asked_at = 0.0
        self.active = "final"
        self.answer: Answer | None = None
        self.golden_index: int | None = None
        self._problems: tuple[str, ...] = ()
        self._problems_elsewhere: tuple[str, ...] = ()
        self._changed_files: tuple[Path, ...] = ()
        self._question: Question | None = None
        self._trouble: str | None = None
        self._misses: tuple[int, ...] | None = None
        self._unlabelled = 0
        self.chunk: Chunk | None = None
        """The chunk whose passage is shown."""
        self._labs: Labs | None = None

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages that have a list on the screen, left to right."""
        return self._lists.stages

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong with the files of the corpus, and with those of the user."""
        return (*self._problems, *self._problems_elsewhere)

    def compose(self) -> ComposeResult:
        yield Static(Content(f"Too small: {_LEAST_WIDTH} by {_LEAST_HEIGHT} characters at least. q quits."), id="small")
        yield Static(id="header")
        yield QueryLine(id="query")
        yield IndexingLine(id="switching")
        yield Static(id="fate")
        yield Static(id="moved")
        yield Static(id="notes")
        with ContentSwitcher(initial="opening", id="body"):
            yield Opening(id="opening")
            with Vertical(id="results"):
                yield Tabs(id="tabs")
                yield Lists(id="lists")
                yield Passage(id="passage")
        yield KeyLine(EXPLORE)

    def on_mount(self) -> None:
        self._show_state()
        self.set_interval(_TICK_SECONDS, self._tick)

    # What the app tells the screen.

    def opening(self) -> None:
        """The corpus is being opened; until it is, there is nobody to ask."""
        self.query_one("#query", QueryLine).disabled = True
        self.query_one("#body", ContentSwitcher).current = "opening"
        self.query_one(Opening).starting()

    def indexing(self, progress: Progress) -> None:
        """Indexing came this far."""
        self.query_one(Opening).progress(progress)

    def failed(self, reason: str, *, interrupted: bool) -> None:
        """The corpus could not be opened, or indexing it was interrupted."""
        self.query_one(Opening).failed(reason, interrupted=interrupted)

    def add_problems(self, problems: Iterable[str]) -> None:
        """Something is wrong with files that are not the corpus's."""
        self._problems_elsewhere += tuple(problems)

    def files_changed(self, paths: tuple[Path, ...]) -> None:
        """These files of the corpus are not what they were when it was opened."""
        if paths != self._changed_files:
            self._changed_files = paths
            self._show_state()

    @property
    def _lab(self) -> Lab | None:
        return None if self._labs is None or self._labs.now is None else self._labs.now.lab

    async def opened(self, labs: Labs) -> None:
        """The corpus is ready for questions."""
        self._labs, lab = labs, labs.file.lab if labs.file is not None else None
        if lab is None:
            return
        await self._arrange(lab.config)
        self.answer = self._question = self._trouble = self.golden_index = self._misses = self.chunk = None
        self._changed_files = ()
        self._problems = tuple(str(fault) for fault in (*lab.index.faults, *lab.golden_faults))
        self.query_one("#query", QueryLine).disabled = False
        self.query_one("#query", QueryLine).value = ""
        for stage in self.stages:
            self._list(stage).show((), 0, "")
        self.query_one("#body", ContentSwitcher).current = "results"
        self.focus_lists()
        self._show_state()

    async def _arrange(self, config: PipelineConfig) -> None:
        """Show the lists of this pipeline; the keyboard stays on its list, or goes to the final one."""
        wanted = columns(config)
        if wanted == self._lists.columns:
            return
        was_focused = isinstance(self.focused, RankedList)
        stages = [column.stage for column in wanted]
        if self.active not in stages:
            self.active = "final"
            if was_focused:  # before its list is gone: the focus would go to any other
                self.focus_lists()
        await self._lists.set_columns(wanted)
        self._fit()
        self._set_active(self.active)

    def remember(self, questions: Sequence[str]) -> None:
        """These questions were asked before."""
        self.query_one("#query", QueryLine).remember([one_line(question) for question in questions])

    def switching(self, name: str | None) -> None:
        """Another index is being made, of what `name` says; with None, no more."""
        self.query_one(IndexingLine).show(name)
        self._show_state()

    def switch_progressed(self, progress: Progress) -> None:
        """Indexing for the switch came this far."""
        self.query_one(IndexingLine).progress(progress)

    def asking(self, question: Question) -> None:
        """A question is on its way, with the settings of the moment."""
        self._question = question
        self._trouble = None
        self._asked_at = self.clock()
        if question.index is not None:
            self.golden_index = question.index
        self.write(question)
        self._show_state()

    def measured(self, misses: tuple[int, ...] | None, unlabelled: int = 0) -> None:
        """Which golden queries are misses is known, or with None not known any more; so many have no passage."""
        self._misses = misses
        self._unlabelled = unlabelled
        self._show_state()

    def not_answered(self, reason: str) -> None:
        """The question failed or was stopped; the lists of the last answer stay, dimmed."""
        self._trouble = reason
        self._show_state()

    async def answered(self, answer: Answer) -> None:
        """Show an answer; one to the same question as before leaves the cursor on its chunk."""
        before = self.answer
        is_same = before is not None and before.question is answer.question
        keep = self._list(self.active).chunk_id if is_same else None
        await self._arrange(answer.trace.config)
        self.answer = answer
        for stage in self.stages:
            self._list(stage).show(answer.lists[stage], answer.total(stage), "no hits", answer.seconds(stage), keep)
        self._lists.fit()
        self._show_state()
        self._follow()
        for stage in self.stages:
            self._list(stage).reveal_wanted()
        if keep is not None:
            self._list(self.active).reveal_cursor()

    @property
    def _is_answered(self) -> bool:
        """Whether what stands on the screen answers the last question."""
        return self._trouble is None and self.answer is not None and self.answer.question is self._question

    def write(self, question: Question) -> None:
        """Put the question into the query line, with its beginning in view."""
        query = self.query_one("#query", QueryLine)
        query.value = question.shown
        query.cursor_position = 0

    def focus_lists(self) -> None:
        """Bring the keyboard back to the active list."""
        if self.active in self.stages:
            self._list(self.active).focus()

    # What the user does.

    @on(Input.Submitted, "#query")
    def _submit(self) -> None:
        if self._question is not None or self.query_one("#query", QueryLine).value.strip():
            self.focus_lists()

    @on(RankedList.Moved)
    def _moved(self, event: RankedList.Moved) -> None:
        if event.ranked_list.stage not in self.stages:
            return  # it is gone
        if event.ranked_list.has_focus and event.ranked_list.stage != self.active:
            self._set_active(event.ranked_list.stage)
        if event.ranked_list.stage == self.active:
            self._follow()

    @on(RankedList.BeyondWanted)
    def _beyond_wanted(self, event: RankedList.BeyondWanted) -> None:
        self.action_show_list(self.stages.index(event.ranked_list.stage) + event.step)

    @on(Tabs.Clicked)
    def _tab_clicked(self, event: Tabs.Clicked) -> None:
        self.action_show_list(event.place)

    @on(events.Click, "#fate")
    def _fate_clicked(self) -> None:
        if self.answer is not None and self.answer.trace.relevant:
            self.action_read_wanted()

    @on(events.Click, "#header")
    async def _header_clicked(self) -> None:
        if self.problems:
            await self.run_action("app.problems")

    def action_focus_query(self) -> None:
        query = self.query_one("#query", QueryLine)
        query.focus()
        query.action_select_all()

    def action_show_list(self, place: int) -> None:
        if place >= len(self.stages):
            return
        self._set_active(self.stages[place])
        self._list(self.active).focus()
        self._follow()

    def action_step_list(self, step: int) -> None:
        if self.stages:
            self.action_show_list((self.stages.index(self.active) + step) % len(self.stages))

    def action_read(self) -> None:
        self.query_one(Passage).focus()

    def neighbour(self, chunk: Chunk) -> None:
        """Show the passage of a chunk beside the one that was shown."""
        if self.answer is not None:
            self._read(self.answer, chunk)

    def action_read_wanted(self) -> None:
        answer = self.answer
        wanted = next((one for one in answer.trace.relevant if one in answer.chunks), None) if answer else None
        if answer is None or wanted is None:
            self.notify("No passage is marked for this question.", title="Nothing wanted", markup=False)
        else:
            self._read(answer, answer.chunks[wanted])

    def action_neighbour(self, step: int) -> None:
        if self.chunk is not None:
            self.post_message(self.NeighbourWanted(self.chunk.chunk_id, step))

    def on_resize(self) -> None:
        # Breakpoint classes are set after this event.
        self.call_after_refresh(self._fit)

    def _fit(self) -> None:
        self._lists.fit()
        self.set_class(self.size.width < _LEAST_WIDTH or self.size.height < _LEAST_HEIGHT, "too-small")
        tall, narrow = self.has_class("-tall"), self.has_class("-narrow")
        for stage in self.stages:
            self._list(stage).row_lines = 1 + tall if narrow else 2 + tall
        self._show_state()

    # Drawing.

    @property
    def _lists(self) -> Lists:
        return self.query_one(Lists)

    def _list(self, stage: str) -> RankedList:
        return self._lists.of(stage)

    def _set_active(self, stage: str) -> None:
        self.active = stage
        for name in self.stages:
            self._list(name).set_class(name == stage, "active")
        self._lists.reveal(stage)
        self._show_tabs()

    def _follow(self) -> None:
        """Mark the chunk under the cursor in every list, and show its passage."""
        if self.answer is None:
            return
        chunk_id = self._list(self.active).chunk_id
        for stage in self.stages:
            self._list(stage).linked = chunk_id
        if chunk_id is None:
            self.chunk = None
            self.query_one(Passage).show(Content("no passage"), Content(""), Content(""))
        else:
            self._read(self.answer, self.answer.chunks[chunk_id])

    def _read(self, answer: Answer, chunk: Chunk) -> None:
        self.chunk = chunk
        place = f"{one_line(chunk.chunk_id)} · {one_line(chunk.heading_path)} · {chunk.start_char}–{chunk.end_char}"
        marks = answer.marks_of(chunk)
        text = marked(safe(chunk.text), marks.terms, marks.anchors)
        self.query_one(Passage).show(
            Content(place), answer.ranks(chunk.chunk_id, self.size.width - _FRAME), text, marks.first
        )

    @property
    def _is_asking(self) -> bool:
        return self._question is not None and not self._is_answered and self._trouble is None

    def _tick(self) -> None:
        if self._is_asking:
            self._show_header()

    def _show_header(self) -> None:
        place = (
            asking_place(self.clock() - self._asked_at)
            if self._is_asking
            else question_place(self._lab, self._question, self._misses)
        )
        line = header_line(self._labs, place, list(self._alerts()), self.size.width)
        self.query_one("#header", Static).update(line, layout=False)

    def _alerts(self) -> Iterator[str]:
        count = len(self.problems)
        if count:
            yield f"! {count} problem{'s' if count > 1 else ''}"
        count = len(self._changed_files)
        if count:
            yield f"{count} file{'s' if count > 1 else ''} changed: r"
        if self._unlabelled:
            yield f"{self._unlabelled} without a passage"

    def _show_state(self) -> None:
        """Everything around the lists: header, verdict, notes, tabs. Lists that answer another question are dimmed."""
        self._show_header()
        self.query_one("#fate", Static).update(verdict_line(self._lab, self.answer, self._trouble, self.size.width))
        current = self.answer if self._is_answered else None
        moves = self.query_one("#moved", Static)
        moves.display = current is not None and current.before is not None
        if current is not None and current.before is not None:
            against = against_chip(self._labs, self._question)
            room = self.size.width - against.cell_length
            moves.update(Content.assemble(against, moved(current.before, current.trace, room)))
        notes = self.query_one("#notes", Static)
        notes.display = current is not None and bool(current.trace.notes or current.trace.expansions)
        if current is not None:
            notes.update(notes_line(current.trace))
        self.query_one("#results").set_class(self._trouble is not None or self.query_one(IndexingLine).display, "stale")
        self.query_one("#fate").set_class(self._trouble is not None, "troubled")
        self._show_tabs()

    def _show_tabs(self) -> None:
        ranks = {stage: self._list(stage).wanted_rank for stage in self.stages}
        wanted = self.answer is not None and bool(self.answer.trace.relevant) and self._trouble is None
        self.query_one(Tabs).show(self._lists.columns, ranks if wanted else {}, self.active)
