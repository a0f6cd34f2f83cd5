"""Working through the misses: where each was lost, what it looked like, and the judgment, which is kept in a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Input, Static

from retrieval_lab.diagnosis.analysis_file import TODO, Document, Row
from retrieval_lab.diagnosis.kinds import Failure, Fix
from retrieval_lab.errors import LabError
from retrieval_lab.highlight import anchor_spans
from retrieval_lab_tui.actions import ANALYSIS, bindings
from retrieval_lab_tui.display import marked, one_line, safe
from retrieval_lab_tui.judging import Detail, Judging, Looked, Miss
from retrieval_lab_tui.screens.paragraph import ParagraphScreen
from retrieval_lab_tui.widgets.key_line import KeyLine

_KINDS: tuple[Failure | Fix, ...] = (*Failure, *Fix)
_KEYS = "1234567890"
_ROOM_FOR_TWO = 120


class AnalysisScreen(Screen[None]):
    """Shows the misses of one configuration, and writes each judgment at once."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(ANALYSIS)

    DEFAULT_CSS = """
    AnalysisScreen {
        & #title { height: 1; background: $panel; }
        & #misses { height: auto; max-height: 45%; scrollbar-size-vertical: 1; padding: 0 1; }
        & #trouble { height: auto; padding: 0 1; color: $text-error; display: none; }
        & #kinds { height: auto; padding: 0 1; background: $panel; }
        & #below { height: 1fr; }
        & #below > VerticalScroll { width: 1fr; padding: 0 1; scrollbar-size-vertical: 1; }
        & #notes { display: none; border: none; height: 1; padding: 0 1; background: $accent 25%; }
        & #notes.open { display: block; }
    }
    """

    class QueryWanted(Message):
        """The golden query at this place is to be asked, and explained where `explained` is set."""

        def __init__(self, place: int, *, explained: bool) -> None:
            super().__init__()
            self.place = place
            self.explained = explained

    def __init__(self, judging: Judging) -> None:
        super().__init__()
        self._judging = judging
        self._looked: Looked | None = None
        self._document: Document | None = None
        self._detail: Detail | None = None
        self._row = 0
        self._trouble: str | None = None
        self._places: list[tuple[int, int, int]] = []
        """Of each kind's key and name: the line, and where it begins and ends."""

    @property
    def miss(self) -> Miss | None:
        """The miss under the cursor."""
        return self._looked.misses[self._row] if self._looked is not None and self._looked.misses else None

    def compose(self) -> ComposeResult:
        yield Static(id="title")
        yield Static(id="trouble")
        with VerticalScroll(id="misses", can_focus=False):
            yield Static(id="rows")
        yield Static(id="kinds")
        with Horizontal(id="below"):
            with VerticalScroll():
                yield Static(id="passage")
            with VerticalScroll(id="beside"):
                yield Static(id="final")
        yield Input(
            id="notes",
            placeholder="Notes on this miss; enter keeps them, escape does not",
            select_on_focus=False,  # what is typed goes on from the notes that are there
        )
        yield KeyLine(ANALYSIS)

    def on_mount(self) -> None:
        try:
            self._document = self._judging.document()
        except LabError as error:
            self._trouble = str(error)
        self._judging.look(self._seen, self._failed)
        self._draw()

    def on_resize(self) -> None:
        self._draw()

    # What the user does.

    def action_move(self, rows: int) -> None:
        if self._looked is not None and self._looked.misses:
            self._row = max(0, min(len(self._looked.misses) - 1, self._row + rows))
            self._read()

    def on_click(self, event: events.Click) -> None:
        """A click on a miss goes to it; on a kind, judges it so."""
        rows, kinds = self.query_one("#rows", Static), self.query_one("#kinds", Static)
        place = event.get_content_offset(rows if event.widget is rows else kinds)
        if place is None or self._looked is None or event.widget not in (rows, kinds):
            return
        if event.widget is rows and place.y < len(self._looked.misses):
            self._row = place.y
            self._read()
        elif event.widget is kinds:
            for number, (line, start, end) in enumerate(self._places):
                if line == place.y and start <= place.x < end:
                    self.action_judge(number)

    def action_judge(self, number: int) -> None:
        kind, miss = _KINDS[number], self.miss
        if miss is not None:
            failure, fix = (kind, None) if isinstance(kind, Failure) else (None, kind)
            self._judging.judge(miss, self._judged, self._failed, failure=failure, fix=fix)

    def action_notes(self) -> None:
        if self.miss is not None:
            line = self.query_one("#notes", Input)
            row = self._judgment(self.miss)
            line.value = one_line(row.notes) if row is not None else ""
            line.cursor_position = len(line.value)
            line.add_class("open")
            line.focus()

    @on(Input.Submitted, "#notes")
    def _noted(self, event: Input.Submitted) -> None:
        if self.miss is not None:
            self._judging.judge(self.miss, self._judged, self._failed, notes=event.value)
        self._close_notes()

    def action_paragraph(self) -> None:
        row = self._judgment(self.miss) if self.miss is not None else None
        if row is None or row.failure not in tuple(Failure):
            self.notify("Choose its failure first: 1 to 5.", title="No kind yet", markup=False)
            return
        kind = Failure(row.failure)

        def written(text: str | None) -> None:
            if text is not None:
                self._judging.explain(kind, text, self._judged, self._failed)

        known = self._document.paragraph(kind) if self._document is not None else ""
        self.app.push_screen(ParagraphScreen(kind, known), written)

    def action_ask(self, explained: bool) -> None:
        if self.miss is not None:
            self.post_message(self.QueryWanted(self.miss.place, explained=explained))

    def action_leave(self) -> None:
        if self.query_one("#notes", Input).has_class("open"):
            self._close_notes()
        else:
            self.dismiss()

    def _close_notes(self) -> None:
        self.query_one("#notes", Input).remove_class("open")
        self.set_focus(None)

    # What comes back.

    def _seen(self, looked: Looked) -> None:
        self._looked = looked
        self._row = min(self._row, max(0, len(looked.misses) - 1))
        self._read()

    def _read(self) -> None:
        self._detail = None
        if self.miss is not None:
            self._judging.detail(self.miss, self._asked, self._failed)
        self._draw()

    def _asked(self, detail: Detail) -> None:
        self._detail = detail
        self._draw()

    def _judged(self, document: Document) -> None:
        self._document = document
        self._trouble = None
        self._draw()

    def _failed(self, error: Exception) -> None:
        self._trouble = str(error)
        self._draw()

    def _judgment(self, miss: Miss) -> Row | None:
        return None if self._document is None else self._document.row(miss.fate.query_id)

    # Drawing.

    def _draw(self) -> None:
        if not self.is_attached:
            return
        self.query_one("#title", Static).update(self._title(), layout=False)
        trouble = self.query_one("#trouble", Static)
        trouble.display = self._trouble is not None
        trouble.update(Content(safe(self._trouble or "")))
        self.query_one("#rows", Static).update(Content("\n").join(self._rows()))
        self.query_one("#kinds", Static).update(Content("\n").join(self._legend()))
        beside = self.size.width >= _ROOM_FOR_TWO
        passage, final = list(self._passage()), list(self._final())
        self.query_one("#passage", Static).update(
            Content("\n").join(passage if beside else [*passage, Content(""), *final])
        )
        self.query_one("#beside").display = beside
        self.query_one("#final", Static).update(Content("\n").join(final))
        self.query_one("#misses", VerticalScroll).scroll_to(y=max(0, self._row - 3), animate=False)

    def _title(self) -> Content:
        title = Content.styled(" analysis ", "bold $accent")
        if self._looked is None:
            return Content.assemble(title, " finding the misses, and where each was lost…")
        misses = self._looked.misses
        judged = sum((row := self._judgment(miss)) is not None and row.is_judged for miss in misses)
        lost = Counter(miss.fate.lost_at for miss in misses)
        where = " · ".join(f"{stage} {count}" for stage, count in lost.most_common()) or "nothing"
        return Content.assemble(
            title, f" {len(misses)} misses, {judged} judged", (f"   lost at: {where}", "$foreground-muted")
        )

    def _rows(self) -> Iterator[Content]:
        if self._looked is not None and not self._looked.misses:
            yield Content("Every golden query finds its passage.")
        for number, miss in enumerate(self._looked.misses if self._looked is not None else ()):
            line = self._miss_line(miss)
            yield line.stylize("reverse") if number == self._row else line

    def _miss_line(self, miss: Miss) -> Content:
        fate, row = miss.fate, self._judgment(miss)
        mark = _mark(row)
        reason = one_line(fate.reason or "")
        judged = "" if row is None else f"{one_line(row.failure):<17}  {one_line(row.fix):<24}"
        # Where there is room for one of both, the reason: the judgment stands below for the miss under the cursor.
        text = f"{judged:<43}  {reason}" if self.size.width >= _ROOM_FOR_TWO else reason
        return Content.assemble(
            f"{mark} {one_line(fate.query_id):<5} ", (f"{fate.lost_at:<9}", "bold $error"), f" {text}"
        ).truncate(max(10, self.size.width - 3), ellipsis=True)

    def _legend(self) -> Iterator[Content]:
        """The kinds with their keys, as many on a line as fit, the failures apart from the fixes."""
        row = self._judgment(self.miss) if self.miss is not None else None
        chosen = {row.failure, row.fix} if row is not None else set()
        self._places = []
        line, number = Content(""), 0
        for key, kind in zip(_KEYS, _KINDS, strict=True):
            item = Content.assemble(
                (f"{key} ", "bold $accent"), (f"{kind}", "bold reverse" if kind in chosen else ""), "  "
            )
            if line and (kind is Fix.HYBRID_WEIGHTS or line.cell_length + item.cell_length > self.size.width - 2):
                yield line
                line, number = Content(""), number + 1
            self._places.append((number, line.cell_length, line.cell_length + item.cell_length))
            line += item
        yield line

    def _passage(self) -> Iterator[Content]:
        miss = self.miss
        if miss is None:
            return
        fate, row = miss.fate, self._judgment(miss)
        yield Content.styled(safe(fate.query), "bold")
        yield Content.assemble((f"lost at {fate.lost_at}: ", "$error"), one_line(fate.reason or ""))
        if miss.proposal is not None:
            one = miss.proposal
            yield Content.assemble(
                ("proposed ", "$foreground-muted"), f"{one.failure}, {one.fix}: {one_line(one.evidence)}"
            )
        if row is not None and row.notes:
            yield Content.assemble(("notes ", "$foreground-muted"), safe(row.notes))
        yield Content("")
        golden = None if self._detail is None else self._detail.trace.golden
        wanted = None if self._detail is None else self._detail.passage
        if wanted is not None and golden is not None:
            yield Content.assemble(
                ("● ", "bold $success"), (one_line(wanted.chunk_id), "bold"), f"  {one_line(wanted.heading_path)}"
            )
            yield marked(safe(wanted.text), (), tuple(anchor_spans(wanted.text, golden.anchor)))

    def _final(self) -> Iterator[Content]:
        if self._detail is None:
            return
        trace = self._detail.trace
        yield Content.styled(f"The final {len(trace.final)}", "bold $accent")
        for ranked in trace.final:
            chunk = trace.chunks[ranked.chunk_id]
            head = f"{ranked.rank:>3} "
            yield Content.assemble(
                head, (one_line(chunk.chunk_id), "bold"), (f"  {one_line(chunk.heading_path)}", "$foreground-muted")
            )
            yield Content.assemble("    ", one_line(" ".join(chunk.text.split()))).truncate(240, ellipsis=True)


def _mark(row: Row | None) -> str:
    """Judged, judged by half, or with a kind that there is not."""
    if row is None or (row.failure, row.fix) == (TODO, TODO):
        return " "
    unknown = row.failure not in (*Failure, TODO) or row.fix not in (*Fix, TODO)
    return "✓" if row.is_judged else "!" if unknown else "½"
