"""Choosing a golden query: by words, and by two keys that keep one kind or the misses alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from textual.binding import BindingType
from textual.content import Content

from retrieval_lab.evals.records import QueryRecord
from retrieval_lab.types import GoldenQuery
from retrieval_lab_tui.actions import PICKER, Action, bindings
from retrieval_lab_tui.display import one_line
from retrieval_lab_tui.screens.chooser import Chooser


class Picker(Chooser):
    """Ends with the place of the chosen query in the golden set, or with None.

    `results` has what is known of each query by its id: whether it is a miss, and where its passage stands. `order`
    has the ids of the queries to choose from, by default all; with `measure` its value stands before each.
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings(PICKER)
    MORE: ClassVar[tuple[Action, ...]] = PICKER
    PLACEHOLDER: ClassVar[str] = "Type to narrow: id, kind, document, words of the question"

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
        self._asked = current
        self._kinds = sorted({query.kind for query in golden})
        self._kind: str | None = None
        self._misses_only = False

    @property
    def current(self) -> int | None:
        return self._asked

    def found(self, typed: Sequence[str]) -> list[int]:
        return [place for place in self._order if self._fits(self._golden[place], typed)]

    def _fits(self, query: GoldenQuery, typed: Sequence[str]) -> bool:
        if self._kind is not None and query.kind != self._kind:
            return False
        if self._misses_only and not _is_miss(self._result(query)):
            return False
        text = f"{query.query_id} {query.kind} {' '.join(query.doc_ids)} {query.query}".lower()
        return all(word in text for word in typed)

    def row(self, place: int) -> Content:
        query = self._golden[place]
        result = self._result(query)
        rank = "" if result is None else _rank(result)
        if self._measure is not None and result is not None and self._measure in result.measures:
            rank = f"{result.measures[self._measure]:.2f}"
        mark = ("✗ ", "bold $error") if _is_miss(result) else ("● ", "$success") if rank else "  "
        if query.level == "none":
            mark = ("∅ ", "bold $warning")
        return Content.assemble(
            mark,
            (f"{rank:>4} ", "bold"),
            f"{one_line(query.query_id):<6} ",
            (f"{one_line(query.kind):<11} ", "$foreground-muted"),
            one_line(query.query),
        )

    def heading(self, found: str) -> tuple[str, str]:
        by = f" · by {self._measure}" if self._measure else ""
        misses = "being measured" if self._results is None else "only" if self._misses_only else "among others"
        kind = one_line(self._kind) if self._kind is not None else "all"
        return f"Golden queries · {found} of {len(self._order)}{by}", f"kind: {kind} · misses: {misses}"

    def action_next_kind(self) -> None:
        kinds = [None, *self._kinds]
        self._kind = kinds[(kinds.index(self._kind) + 1) % len(kinds)]
        self.fill()

    def action_toggle_misses(self) -> None:
        self._misses_only = not self._misses_only and self._results is not None
        self.fill()

    def _result(self, query: GoldenQuery) -> QueryRecord | None:
        return None if self._results is None else self._results.get(query.query_id)


def _rank(result: QueryRecord) -> str:
    """The rank in the final list; of a miss that in the pool; nothing where no passage is labelled."""
    return str(result.ranks["final"] or result.ranks["reranked"] or "–") if result.relevant else ""


def _is_miss(result: QueryRecord | None) -> bool:
    return result is not None and result.is_miss
