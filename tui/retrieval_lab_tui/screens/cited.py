"""The answer to a question, as it is given: every citation a link to its passage, the support of each source."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.screen import Screen
from textual.style import Style
from textual.widgets import Static

from retrieval_lab.answer_text import bar, doubts
from retrieval_lab.answering import Answerer, Claude, Grounds, Said, Source
from retrieval_lab.shorten import shorten_middle
from retrieval_lab.types import Chunk
from retrieval_lab_tui.actions import CITED, bindings
from retrieval_lab_tui.answered import answer_content
from retrieval_lab_tui.cited import Cited, Found, other
from retrieval_lab_tui.display import marked, one_line, safe
from retrieval_lab_tui.widgets.key_line import KeyLine
from retrieval_lab_tui.widgets.passage import Passage

_TICK_SECONDS = 0.1
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_ID_WIDTH = 37
_BESIDE_ID = 48
_ROOM_FOR_HEADINGS = 110
_ROOM_FOR_ALL = 100


class CitedScreen(Screen[None]):
    """Finds the sources, has the usual answerer speak, and shows the passage of the source under the cursor."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(CITED)
    AUTO_FOCUS = ""  # nothing: arrows go from source to source

    DEFAULT_CSS = """
    CitedScreen {
        & #title, & #state { height: 1; background: $panel; text-wrap: nowrap; text-overflow: ellipsis; }
        & #state { background: $background; }
        & #said { height: auto; max-height: 45%; padding: 0 1; margin: 1 0; scrollbar-size-vertical: 1; }
        & #sources { height: auto; max-height: 40%; }
        & #heads { height: 1; padding: 0 1; color: $foreground-muted; }
        & #rows { height: auto; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
        & #source { height: 1fr; }
    }
    CitedScreen.-short #said { margin: 0; }
    """

    class PassageWanted(Message):
        """The passage is to be read among the lists."""

        def __init__(self, chunk: Chunk) -> None:
            super().__init__()
            self.chunk = chunk

    def __init__(self, cited: Cited, clock: Callable[[], float]) -> None:
        super().__init__()
        self._cited = cited
        self._clock = clock
        self._grounds: Grounds | None = None
        self._answerer: Answerer | None = None
        self._text = ""
        self._said: Said | None = None
        self._before: tuple[Answerer | None, Said | None] = (None, None)
        self._trouble: str | None = None
        self._asked_at: float | None = None
        self._row = 0

    @property
    def source(self) -> Source | None:
        """The source under the cursor."""
        return self._grounds.sources[self._row] if self._grounds is not None and self._grounds.sources else None

    def compose(self) -> ComposeResult:
        yield Static(id="title")
        yield Static(id="state")
        with VerticalScroll(id="said", can_focus=False):
            yield Static(id="text")
        with Vertical(id="sources"):
            yield Static(Content("            support           rank   score   source"), id="heads")
            yield Static(id="rows")
        passage = Passage(id="source")
        passage.can_focus = False
        yield passage
        yield KeyLine(CITED)

    def on_mount(self) -> None:
        self._cited.find(self._found, self._failed)
        self.set_interval(_TICK_SECONDS, self._tick)
        self._draw()

    def on_resize(self) -> None:
        self._draw()

    def on_unmount(self) -> None:
        self._cited.stop()

    # What the jobs tell.

    def _found(self, found: Found) -> None:
        self._grounds = found.grounds
        self._speak(found.usual)
        self._read()

    def _speak(self, answerer: Answerer) -> None:
        if self._grounds is None:
            return
        if self._said is not None:
            self._before = self._answerer, self._said
        self._answerer, self._said, self._text, self._trouble = answerer, None, "", None
        self._asked_at = self._clock()
        self._cited.say(self._grounds, answerer, self._spoken, self._failed)
        self._draw()

    def heard(self, text: str) -> None:
        """The answer has come this far."""
        if self._asked_at is not None:
            self._text = text
            self._draw_text()

    def _spoken(self, said: Said) -> None:
        self._said, self._asked_at = said, None
        if said.report.numbers:
            self._row = said.report.numbers[0].number - 1
        self._read()
        self._draw()

    def _failed(self, error: Exception) -> None:
        self._give_up(str(error))

    def _give_up(self, why: str) -> None:
        """Say why there is no answer, and show the one before again."""
        self._trouble, self._asked_at = why, None
        if self._before[1] is not None:
            self._answerer, self._said = self._before
        self._draw()

    # What the user does.

    def on_click(self, event: events.Click) -> None:
        """A click on a source goes to it; the links of the answer are actions of their own."""
        rows = self.query_one("#rows", Static)
        place = event.get_content_offset(rows)
        if event.widget is rows and place is not None:
            self.action_source(place.y + 1)

    def action_move(self, rows: int) -> None:
        self.action_source(self._row + 1 + rows)

    def action_source(self, number: int) -> None:
        """Go to the source of this number, and show its passage."""
        if self._grounds is not None and 1 <= number <= len(self._grounds.sources):
            self._row = number - 1
            self._read()
            self._draw_sources()

    def action_scroll(self, pages: int) -> None:
        self.query_one("#source", Passage).action_scroll_pages(pages)

    def action_read(self) -> None:
        if self.source is not None:
            self.post_message(self.PassageWanted(self.source.chunk))

    def action_other(self) -> None:
        """Have the other answerer speak."""
        if self._answerer is not None:
            self._cited.stop()
            self._speak(other(self._answerer))

    def action_again(self) -> None:
        if self._answerer is not None:
            self._cited.stop()
            self._speak(self._answerer)

    def action_copy(self) -> None:
        if self._said is not None:
            self.app.copy_to_clipboard(self._said.text)
            self.notify("The answer was sent to the clipboard.", markup=False)

    def action_leave(self) -> None:
        """Stop who is speaking; with nobody speaking, go back."""
        if self._cited.stop():
            self._give_up("stopped")
        else:
            self.dismiss()

    # Drawing.

    def _tick(self) -> None:
        if self._asked_at is not None or self._grounds is None:
            self.query_one("#state", Static).update(self._state(), layout=False)

    def _draw(self) -> None:
        if not self.is_attached:
            return
        question = one_line(self._cited.answer.trace.query)
        self.query_one("#title", Static).update(
            Content.assemble((" answer ", "bold $accent"), f" {question}"), layout=False
        )
        self.query_one("#state", Static).update(self._state(), layout=False)
        self._draw_text()
        self._draw_sources()

    def _state(self) -> Content:
        """Support against the floor, and who speaks, spoke or could not."""
        made = self._grounds
        if made is None:
            return Content(" looking for sources…" if self._trouble is None else "")
        if made.draft.refused:
            verdict = (" refused ", "bold reverse $warning")
        else:
            verdict = (" supported ", "bold reverse $success")
        drawn = f" {bar(made.support)}" if self._is_roomy else ""
        support = f" support {made.support:.2f}{drawn} floor {made.floor:g} "
        return Content.assemble(support, verdict, "  ", *self._who(made))

    @property
    def _is_roomy(self) -> bool:
        return self.size.width >= _ROOM_FOR_ALL

    def _who(self, made: Grounds) -> Iterator[Content | tuple[str, str]]:
        name = one_line(self._answerer.name) if self._answerer is not None else ""
        name = name if self._is_roomy else name.partition(" (")[0]
        if made.draft.refused:
            yield "nobody was asked", "$foreground-muted"
        elif self._asked_at is not None:
            elapsed = self._clock() - self._asked_at
            yield f"{_SPINNER[int(elapsed / _TICK_SECONDS) % len(_SPINNER)]} {name} {elapsed:.1f} s", "bold"
            yield " · esc stops", "$foreground-muted"
        elif self._said is not None:
            claims = [claim for claim in self._said.report.claims if claim.needs_citation]
            cited = f"{sum(not claim.is_uncited for claim in claims)} of {len(claims)} cited · " if claims else ""
            yield f"{name} · {cited}${self._said.cost_usd:.4f}", "bold"
            if self._is_roomy and not isinstance(self._answerer, Claude):
                yield " · c asks Claude", "$foreground-muted"

    def _draw_text(self) -> None:
        parts: list[Content] = []
        if self._trouble is not None:
            parts.append(Content.styled(safe(self._trouble), "$error"))
        if self._said is not None:
            parts.append(answer_content(self._said.text, self._said.report, _link))
            parts += [Content.styled(safe(line), "$warning") for line in doubts(self._said.report)]
        elif self._text and self._trouble is None:
            parts.append(Content(safe(self._text)))
        elif self._asked_at is not None:
            parts.append(Content.styled("…", "$foreground-muted"))
        self.query_one("#text", Static).update(Content("\n").join(parts))

    def _draw_sources(self) -> None:
        made = self._grounds
        sources = made.sources if made is not None else ()
        lines = [self._line(source, place == self._row) for place, source in enumerate(sources)]
        if made is not None and not sources:
            lines = [Content("no passage was found")]
        self.query_one("#rows", Static).update(Content("\n").join(lines))

    def _line(self, source: Source, is_here: bool) -> Content:
        floor = self._grounds.floor if self._grounds is not None else 0.0
        cited = self._said is not None and source.number in self._said.report.cited
        wanted = source.chunk.chunk_id in self._cited.answer.trace.relevant
        support = source.support.share
        low = support < floor
        width = min(_ID_WIDTH, max(8, self.size.width - _BESIDE_ID))
        chunk_id = shorten_middle(one_line(source.chunk.chunk_id), width)
        heading = f"  {one_line(source.chunk.heading_path)}" if self.size.width >= _ROOM_FOR_HEADINGS else ""
        line = Content.assemble(
            "▸" if is_here else " ",
            (f" [{source.number}] ", "bold"),
            ("cited " if cited else "      ", "bold"),
            (f"{support:.2f} {bar(support)} {'<' if low else ' '}", "$foreground-muted" if low else ""),
            f" {source.rank:>2} {source.score:>7.3f} ",
            ("● ", "bold $success") if wanted else "  ",
            f"{chunk_id:<{width}}",
            (heading, "$foreground-muted"),
        )
        return line.stylize("reverse") if is_here else line

    def _read(self) -> None:
        source, answer = self.source, self._cited.answer
        if source is None or not self.is_attached:
            return
        chunk = source.chunk
        marks = answer.marks_of(chunk)
        terms = ", ".join(map(one_line, source.support.terms)) or "none"
        place = Content(f"[{source.number}] {one_line(chunk.chunk_id)} · {one_line(chunk.heading_path)}")
        text = marked(safe(chunk.text), marks.terms, marks.anchors)
        self.query_one("#source", Passage).show(place, Content(f"of the question it has: {terms}"), text, marks.first)


def _link(number: int) -> Style:
    return Style.from_meta({"@click": f"screen.source({int(number)})"})
