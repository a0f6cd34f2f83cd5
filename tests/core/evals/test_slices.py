"""The queries of a run by their label fields, and what its lists are made of, counted by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from retrieval_lab.errors import InputError
from retrieval_lab.evals.records import QueryRecord
from retrieval_lab.evals.slices import (
    NO_COVERAGE,
    NO_VALUE,
    coverage,
    require_field,
    require_field_of,
    slice_fields,
    slices,
)
from retrieval_lab.evals.summary import sliced, summarise
from retrieval_lab.types import GoldenQuery, Hit
from tests.core.evals.made import made, record, undefined


def listed(one: QueryRecord, *chunk_ids: str) -> QueryRecord:
    return replace(one, final=tuple(Hit(chunk_id, 1.0, rank) for rank, chunk_id in enumerate(chunk_ids, start=1)))


QUERIES = [
    replace(record("q1", 1, kind="b"), fields={"topic": "tea"}, split="dev"),
    replace(record("q2", None, kind="a"), fields={"topic": "tea"}),
    replace(record("q3", 2, kind="a"), fields={"day": "monday"}, split="held-out"),
    undefined("q4", kind="a"),
]


def test_queries_are_parted_by_kind_split_and_every_label_field() -> None:
    run = made("r", QUERIES)
    assert slice_fields(run) == ("kind", "split", "day", "topic")
    assert {value: [one.query_id for one in found] for value, found in slices(run, "topic").items()} == {
        "tea": ["q1", "q2"],
        NO_VALUE: ["q3", "q4"],
    }
    assert list(slices(run, "split")) == ["dev", "held-out", NO_VALUE]
    assert list(slices(run, "kind")) == ["a", "b"]
    assert slice_fields(made("r", QUERIES[3:])) == ("kind",)


def test_the_means_of_a_slice_are_over_its_queries_with_a_measure() -> None:
    run = made("r", QUERIES)
    found = sliced(run, summarise(run), "topic")
    assert found["tea"].queries == 2
    assert found["tea"].measures["recall@2"].value == 0.5
    assert found[NO_VALUE].queries == 1
    by_kind = sliced(run, summarise(run), "kind")
    assert {kind: group.queries for kind, group in by_kind.items()} == {"a": 2, "b": 1}
    assert by_kind["a"].measures["recall@2"].value == 0.5


def test_an_unknown_field_is_told_before_anything_is_evaluated() -> None:
    golden = [GoldenQuery("q1", "who?", "k", "d", "a", fields=(("topic", "tea"),))]
    require_field(golden, "topic")
    require_field(golden, "kind")
    require_field(golden, "document")
    with pytest.raises(InputError, match=r"field 'day'; there is document, kind, split, topic$"):
        require_field(golden, "day")
    with pytest.raises(InputError, match="no query has the label field 'topic:year'"):
        require_field(golden, "topic:year")


def test_the_folder_of_the_relevant_documents_parts_the_queries_too() -> None:
    folders = {"q1": "docs", "q2": "stories", "q3": "mixed", "q4": ""}
    run = made("r", [replace(record(name, 1), document=folder) for name, folder in folders.items()])
    assert slice_fields(run) == ("kind", "document")
    assert {value: [one.query_id for one in found] for value, found in slices(run, "document").items()} == {
        "docs": ["q1"],
        "mixed": ["q3"],
        "stories": ["q2"],
        NO_VALUE: ["q4"],
    }


def dated(*days: str) -> list[QueryRecord]:
    """A query for each date, and one without."""
    return [
        *(replace(record(f"q{number}", 1), fields={"asked": day}) for number, day in enumerate(days, start=1)),
        record("none", 1),
    ]


# 1 May 2024 was a Wednesday, 5 May a Sunday, 2 June 2025 a Monday.
DAYS = ("2024-05-05", "2024-05-01T23:30:00+02:00", "2025-06-02 08:00", "2024-05-01")


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("asked:year", {"2024": ["q1", "q2", "q4"], "2025": ["q3"]}),
        ("asked:month", {"2024-05": ["q1", "q2", "q4"], "2025-06": ["q3"]}),
        ("asked:weekday", {"Monday": ["q3"], "Wednesday": ["q2", "q4"], "Sunday": ["q1"]}),
    ],
)
def test_a_field_of_dates_parts_by_its_parts(field: str, expected: dict[str, list[str]]) -> None:
    run = made("r", dated(*DAYS))
    found = slices(run, field)
    assert {value: [one.query_id for one in found[value]] for value in found} == {**expected, NO_VALUE: ["none"]}
    assert list(found) == [*expected, NO_VALUE]
    assert slice_fields(run) == ("kind", "asked", "asked:year", "asked:month", "asked:weekday")
    golden = [GoldenQuery(f"q{n}", "who?", "k", "d", "a", fields=(("asked", day),)) for n, day in enumerate(DAYS)]
    require_field([*golden, GoldenQuery("none", "who?", "k", "d", "a")], field)
    with pytest.raises(InputError, match="there is asked, asked:month, asked:weekday, asked:year, document, kind"):
        require_field(golden, "asked:hour")


@pytest.mark.parametrize("other", ["monday", "20240501", "2024-13-01", "2024-05-01-x", "1 May 2024", "2024-W18-3"])
def test_one_value_that_is_no_date_makes_it_a_field_like_others(other: str) -> None:
    run = made("r", dated("2024-05-05", other))
    assert slice_fields(run) == ("kind", "asked")
    with pytest.raises(InputError, match="no query has the label field 'asked:year'; there is asked, document, kind"):
        require_field_of(run, "asked:year")
    require_field_of(run, "asked")


def test_a_field_whose_name_looks_like_a_part_is_itself() -> None:
    run = made("r", [replace(record("q1", 1), fields={"asked": "2024-05-05", "asked:year": "long ago"})])
    assert list(slices(run, "asked:year")) == ["long ago"]


def test_coverage_counts_judged_and_distinct_documents() -> None:
    graded = replace(record("q1", 1), level="document", grades={"a": 2, "b": 0})
    records = [
        listed(graded, "a#000", "c#001"),  # a is judged, c is not
        listed(graded, "b#003"),
        listed(graded),
        listed(record("q2", 1), "x#000", "x#001", "y#000", "x#002", "y#001", "z#000"),
    ]
    found = coverage(records)
    assert found.judged == pytest.approx((0.5 + 1 + 0) / 3)
    assert found.documents == pytest.approx((2 + 1 + 0 + 2) / 4)
    assert found.to_dict() == {"judged": found.judged, "distinct_documents@5": found.documents}
    assert coverage([]) == NO_COVERAGE
    assert coverage(records[3:]).judged is None
