"""Why one passage was lost: its journey, how the words were read, and the changes that would rescue it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Static

from retrieval_lab.diagnosis.journey import Journey
from retrieval_lab.diagnosis.report import journey_report, parse_report
from retrieval_lab.diagnosis.rescue import Rescue, Rescues
from retrieval_lab.wording import interval_text, signed
from retrieval_lab_tui.actions import EXPLAIN, bindings
from retrieval_lab_tui.display import one_line, safe
from retrieval_lab_tui.explaining import Explaining, Words
from retrieval_lab_tui.widgets.key_line import KeyLine

PAGES = ("Journey", "Words", "Rescues")
_JOURNEY, _WORDS, _RESCUES = range(3)
_NAME_WIDTH = 10
_TITLE_WIDTH = 34
_HEAD_LINES = 3
_COLUMNS = (("<", _TITLE_WIDTH), (">", 4), ("<", 22), (">", 6), ("<", 11), (">", 6), ("<", 11))
_SHOWN_TRIED = 40
_ROOM_FOR_ESTIMATES = 112
_OF_THE_JOURNEY = ("passage", "query", "anchor", "lost at", "fused", "reranked", "mmr", "final")
_OF_THE_WORDS = ("terms", "phrases", "excluded", "dropped", "dash", "meant?")
_NAMES = frozenset((*_OF_THE_JOURNEY, *_OF_THE_WORDS))


class ExplainScreen(Screen[None]):
    """Three pages; what the last two show is found out when they are first opened."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(EXPLAIN)

    DEFAULT_CSS = """
    ExplainScreen {
        & #title, & #pages { height: 1; background: $panel; }
        & #pages { background: $background; }
        & VerticalScroll { padding: 1 1 0 1; scrollbar-size-vertical: 1; }
        & #page { height: auto; }
    }
    """

    class RescueWanted(Message):
        """The change is to be tried on the question."""

        def __init__(self, rescue: Rescue) -> None:
            super().__init__()
            self.rescue = rescue

    def __init__(self, explaining: Explaining) -> None:
        super().__init__()
        self._explaining = explaining
        self._page = _JOURNEY
        self._words: Words | None = None
        self._rescues: Rescues | None = None
        self._row = 0
        self._trouble: str | None = None
        self._progress = ""

    @property
    def journey(self) -> Journey:
        """What is explained."""
        return self._explaining.journey

    def compose(self) -> ComposeResult:
        yield Static(id="title")
        yield Static(id="pages")
        with VerticalScroll():
            yield Static(id="page")
        yield KeyLine(EXPLAIN)

    def on_mount(self) -> None:
        self._draw()

    def on_resize(self) -> None:
        self._draw()

    def on_unmount(self) -> None:
        self._explaining.stop()

    def progress(self, done: int, total: int, what: str) -> None:
        """So many of the changes are tried."""
        self._progress = f"trying {done} of {total or '?'}: {one_line(what)}"
        if self._page == _RESCUES:
            self._draw()

    def on_click(self, event: events.Click) -> None:
        """A click on a page's name opens it, on a rescue goes to it, and on the one under the cursor tries it."""
        pages, page = self.query_one("#pages", Static), self.query_one("#page", Static)
        place = event.get_content_offset(pages if event.widget is pages else page)
        if place is None or event.widget not in (pages, page):
            return
        if event.widget is pages:
            ends = [sum(len(name) + 5 for name in PAGES[: count + 1]) for count in range(len(PAGES))]
            self.action_page(next((number for number, end in enumerate(ends) if place.x < end), self._page))
        elif self._page == _RESCUES and self._rescues is not None:
            row = place.y - _HEAD_LINES
            if row == self._row:
                self.action_try()
            elif 0 <= row < len(self._rescues.rescues):
                self._row = row
                self._draw()

    def action_page(self, page: int) -> None:
        self._page = page % len(PAGES)
        self._trouble = None
        if self._page == _WORDS and self._words is None:
            self._explaining.words(self._read, self._failed)
        elif self._page == _RESCUES and self._rescues is None:
            self._search(reindex=False)
        self._draw()
        self.query_one(VerticalScroll).scroll_home(animate=False)

    def action_next_page(self, step: int) -> None:
        self.action_page(self._page + step)

    def action_move(self, rows: int) -> None:
        if self._page == _RESCUES and self._rescues is not None and self._rescues.rescues:
            self._row = max(0, min(len(self._rescues.rescues) - 1, self._row + rows))
            self._draw()
            self.query_one(VerticalScroll).scroll_to(y=max(0, self._row - 2), animate=False)
        else:
            self.query_one(VerticalScroll).scroll_relative(y=rows, animate=False)

    def action_reindex(self) -> None:
        if self._page == _RESCUES:
            self._rescues = None
            self._search(reindex=True)
            self._draw()

    def action_try(self) -> None:
        if self._page == _RESCUES and self._rescues is not None and self._rescues.rescues:
            self.post_message(self.RescueWanted(self._rescues.rescues[self._row]))

    def action_leave(self) -> None:
        """Stop a search that runs; with none running, go back."""
        if self._explaining.stop():
            self._trouble = "stopped"
            self._progress = ""
            self._draw()
        else:
            self.dismiss()

    def _search(self, *, reindex: bool) -> None:
        self._progress, self._trouble, self._row = "trying…", None, 0
        self._explaining.rescues(self._found, self._failed, reindex=reindex)

    def _read(self, words: Words) -> None:
        self._words = words
        self._draw()

    def _found(self, rescues: Rescues) -> None:
        self._rescues = rescues
        self._draw()

    def _failed(self, error: Exception) -> None:
        self._trouble = str(error)
        self._draw()

    # Drawing.

    def _draw(self) -> None:
        if not self.is_attached:
            return
        self.query_one("#title", Static).update(_title(self.journey), layout=False)
        names = [
            Content.styled(f" {number} {name} ", "bold reverse" if number - 1 == self._page else "")
            for number, name in enumerate(PAGES, start=1)
        ]
        self.query_one("#pages", Static).update(Content(" ") + Content(" ").join(names), layout=False)
        self.query_one("#page", Static).update(Content("\n").join(self._lines()))

    def _lines(self) -> Iterator[Content]:
        if self._trouble is not None:
            yield Content.styled(safe(self._trouble), "$error")
        elif self._page == _JOURNEY:
            yield from _report(journey_report(self.journey), _NAMES | self.journey.lists.keys())
        elif self._page == _WORDS:
            yield from self._word_lines()
        else:
            yield from self._rescue_lines()

    def _word_lines(self) -> Iterator[Content]:
        if self._words is None:
            yield Content("parsing…")
            return
        yield Content.styled("The question, as it is read", "bold $accent")
        yield from _report(parse_report(self._words.query))
        if self._words.passage is not None:
            yield Content("")
            yield Content.styled("The passage, as it was indexed", "bold $accent")
            yield from _report(parse_report(self._words.passage))

    def _rescue_lines(self) -> Iterator[Content]:
        found = self._rescues
        if found is None:
            yield Content.assemble(self._progress, (" · esc stops", "$foreground-muted"))
            return
        if not found.is_miss:
            yield Content(f"No miss: the passage stands at rank {found.before} of the final {found.config.top_k}.")
            return
        where = (
            f"In the final order, without its cut, it has rank {found.before}"
            if found.before
            else "It is not in the pool"
        )
        yield Content(f"{where}; the final list has {found.config.top_k}. One change at a time, the smallest first:")
        yield Content("")
        shown = 7 if self.size.width >= _ROOM_FOR_ESTIMATES else 3
        heads = ("change", "rank", "other queries", "recall", "", "MRR", "")
        yield Content.styled(_columns(heads[:shown]), "$foreground-muted")
        for row, rescue in enumerate(found.rescues):
            line = Content(_columns(_cells(rescue)[:shown]))
            yield line.stylize("reverse") if row == self._row else line
        if not found.rescues:
            yield Content.styled("  nothing that was tried rescues it", "bold")
        if any(rescue.edit is not None for rescue in found.rescues):
            yield Content.styled("  words: so many passages hold it; it changes no other query", "$foreground-muted")
        yield Content("")
        yield Content.styled("Tried in vain", "bold $accent")
        for one in found.tried[:_SHOWN_TRIED]:
            reason = f"  {one_line(one.reason)}" if one.reason else ""
            yield Content.assemble(
                (f"  {one_line(one.setting):<{_TITLE_WIDTH - 2}}", "$foreground-muted"), one_line(one.range), reason
            )


def _title(journey: Journey) -> Content:
    where = f"lost at {journey.lost_at}" if journey.lost_at else "not lost"
    style = "bold reverse $error" if journey.lost_at else "bold reverse $success"
    reason = f" {one_line(journey.reason)}" if journey.reason else ""
    passage = one_line(journey.chunk_id or "no passage")
    return Content.assemble((" why ", "bold $accent"), f" {passage} ", (f" {where} ", style), reason)


def _report(text: str, names: frozenset[str] = _NAMES) -> Iterator[Content]:
    """The lines of a report; where a line begins with one of the names, that is grey."""
    for line in text.split("\n"):
        is_name = line in names  # one that is too long for the column of names
        name, rest = (line, "") if is_name else (line[:_NAME_WIDTH], line[_NAME_WIDTH:])
        if name.strip() in names:
            yield Content.assemble((safe(name), "$foreground-muted"), safe(rest))
        else:
            yield Content(safe(line))


def _cells(rescue: Rescue) -> tuple[str, ...]:
    title = one_line(rescue.title)
    shown = title if len(title) <= _TITLE_WIDTH else f"{title[: _TITLE_WIDTH - 1]}…"
    effect = rescue.effect
    if effect is None:
        # Of an edit of this query there is nothing to say, which is said once below.
        reason = "" if rescue.edit is not None else one_line(rescue.no_effect or "")
        return shown, str(rescue.after), reason, "", "", "", ""
    recall, mrr = effect.recall, effect.mrr
    return (
        shown,
        str(rescue.after),
        one_line(effect.moved),
        signed(recall.value),
        interval_text(recall.interval),
        signed(mrr.value),
        interval_text(mrr.interval),
    )


def _columns(cells: Sequence[str]) -> str:
    parts = [f"{cell:{side}{width}}" for cell, (side, width) in zip(cells, _COLUMNS, strict=False)]
    return f"  {'  '.join(parts)}".rstrip()
