"""Choosing a golden query: typing narrows the list, two keys keep one kind or the misses alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Footer, Input, OptionList
from textual.widgets.option_list import Option

from retrieval_lab.evals.runs import QueryRecord
from retrieval_lab.types import GoldenQuery
from retrieval_lab_tui.actions import PICKER, bindings
from retrieval_lab_tui.display import one_line

_SHOWN = 500
"""More rows than this take longer to lay out than anybody reads; typing narrows them."""


class Picker(ModalScreen[int | None]):
    """Ends with the place of the chosen query in the golden set, or with None.

    `results` has what is known of each query by its id: whether it is a miss, and where its passage stands. `order`
    has the ids of the queries to choose from, by default all; with `measure` its value stands before each.
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings(PICKER)

    DEFAULT_CSS = """
    Picker {
        align: center middle;
        & > Vertical {
            width: 100; max-width: 100%; height: 80%; max-height: 40; min-height: 10;
            border: round $accent; border-title-style: bold; padding: 0 1; background: $surface;
        }
        & Input, & Input:focus { border: none; height: 1; padding: 0; background: $foreground 8%; }
        & OptionList { border: none; height: 1fr; padding: 0; background: $surface; text-wrap: nowrap;
            text-overflow: ellipsis; scrollbar-size-vertical: 1; }
    }
    """

    def __init__(
        self,
        golden: Sequence[GoldenQuery],
        results: Mapping[str, QueryRecord] | None,
        current: int | None,
        *,
        order: Sequence[str] | None = None,
        measure: str | None = None,
    ) -> None:
        super().__init__()
        self._golden = golden
        places = {query.query_id: place for place, query in enumerate(golden)}
        self._order = range(len(golden)) if order is None else [places[one] for one in order if one in places]
        self._measure = measure
        self._results = results
        self._current = current
        self._kinds = sorted({query.kind for query in golden})
        self._kind: str | None = None
        self._misses_only = False

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Input(placeholder="Type to narrow: id, kind, document, words of the question")
            yield OptionList(markup=False)
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        self._fill()

    @on(Input.Changed)
    def _narrow(self) -> None:
        self._fill()

    @on(Input.Submitted)
    def action_choose(self) -> None:
        options = self.query_one(OptionList)
        if options.highlighted is not None:
            self._choose(options.get_option_at_index(options.highlighted))

    @on(OptionList.OptionSelected)
    def _clicked(self, event: OptionList.OptionSelected) -> None:
        self._choose(event.option)

    def _choose(self, option: Option) -> None:
        self.dismiss(int(option.id or 0))

    def action_move(self, rows: int) -> None:
        options = self.query_one(OptionList)
        if options.option_count:
            options.highlighted = max(0, min(options.option_count - 1, (options.highlighted or 0) + rows))

    def action_next_kind(self) -> None:
        kinds = [None, *self._kinds]
        self._kind = kinds[(kinds.index(self._kind) + 1) % len(kinds)]
        self._fill()

    def action_toggle_misses(self) -> None:
        self._misses_only = not self._misses_only and self._results is not None
        self._fill()

    def _fill(self) -> None:
        found = [index for index in self._order if self._matches(self._golden[index])]
        options = self.query_one(OptionList)
        options.clear_options()
        options.add_options(Option(self._row(self._golden[index]), id=str(index)) for index in found[:_SHOWN])
        if found:
            options.highlighted = found.index(self._current) if self._current in found[:_SHOWN] else 0
        panel = self.query_one(Vertical)
        count = f"{len(found)} of {len(self._order)}"
        more = f", the first {_SHOWN} shown" if len(found) > _SHOWN else ""
        by = f" · by {self._measure}" if self._measure else ""
        panel.border_title = Content(f"Golden queries · {count}{more}{by}")
        misses = "being measured" if self._results is None else "only" if self._misses_only else "among others"
        kind = one_line(self._kind) if self._kind is not None else "all"
        panel.border_subtitle = Content(f"kind: {kind} · misses: {misses}")

    def _matches(self, query: GoldenQuery) -> bool:
        if self._kind is not None and query.kind != self._kind:
            return False
        if self._misses_only and not _is_miss(self._result(query)):
            return False
        text = f"{query.query_id} {query.kind} {query.doc_id} {query.query}".lower()
        return all(word in text for word in self.query_one(Input).value.lower().split())

    def _row(self, query: GoldenQuery) -> Content:
        result = self._result(query)
        rank = "" if result is None else _rank(result)
        if self._measure is not None and result is not None and self._measure in result.measures:
            rank = f"{result.measures[self._measure]:.2f}"
        mark = ("✗ ", "bold $error") if _is_miss(result) else ("● ", "$success") if rank else "  "
        return Content.assemble(
            mark,
            (f"{rank:>4} ", "bold"),
            f"{one_line(query.query_id):<6} ",
            (f"{one_line(query.kind):<11} ", "$foreground-muted"),
            one_line(query.query),
        )

    def _result(self, query: GoldenQuery) -> QueryRecord | None:
        return None if self._results is None else self._results.get(query.query_id)


def _rank(result: QueryRecord) -> str:
    """The rank in the final list; of a miss that in the pool; nothing where no passage is labelled."""
    return str(result.ranks["final"] or result.ranks["reranked"] or "–") if result.relevant else ""


def _is_miss(result: QueryRecord | None) -> bool:
    return result is not None and result.is_miss
