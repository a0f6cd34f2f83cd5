"""Dev and held-out queries, and those that count in neither."""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256

import pytest

from retrieval_lab.errors import InputError
from retrieval_lab.evals.splits import stratified
from retrieval_lab.report.parts import parts
from retrieval_lab.types import GoldenQuery
from tests.core.report.made import HYBRID, TEXT, cell, record, with_records


def test_the_labels_say_which_queries_are_held_out() -> None:
    found = parts([cell("text", TEXT, (1, 2, 3), dev=(1, 4))])
    assert (found.dev, found.held_out, found.dealt) == (("d1", "d2"), ("h1", "h2", "h3"), False)
    assert found.held_out_hash == sha256(json.dumps(["h1", "h2", "h3"]).encode()).hexdigest()
    assert [found.name_of(one) for one in ("d1", "h1", "x")] == ["dev", "held-out", ""]


def test_the_test_split_of_a_data_set_is_held_out_and_others_are_counted_apart() -> None:
    found = parts([cell("text", TEXT, (1, 2), dev=(1, 4), split=("train", "test"))])
    assert (found.dev, found.held_out, found.elsewhere) == ((), ("h1", "h2"), ("d1", "d2"))


def test_without_splits_the_queries_are_dealt_as_the_command_split_deals_them() -> None:
    found = parts([cell("text", TEXT, (1,) * 6, dev=(1,) * 4, split=("", ""), kinds=("a", "b"))])
    ids = [(f"d{number}", "ab"[number % 2]) for number in range(1, 5)]
    ids += [(f"h{number}", "ab"[number % 2]) for number in range(1, 7)]
    dealt = stratified([GoldenQuery(one, "?", kind, "doc", "anchor") for one, kind in ids]).by_query
    assert found.dealt
    assert found.dev == tuple(one for one, _ in ids if dealt[one] == "dev")
    assert found.held_out == tuple(one for one, _ in ids if dealt[one] == "held-out")
    assert len(found.dev) == 4  # 0.4 of 10


def test_a_query_that_is_undefined_in_one_configuration_counts_in_none() -> None:
    lost = replace(record("h3", 1, HYBRID, split="held-out"), relevant=(), measures={}, undefined="cut")
    cells = [
        with_records(cell("text", TEXT, (1, 2)), record("h3", 1, TEXT, split="held-out")),
        with_records(cell("hybrid", HYBRID, (1, 2)), lost),
    ]
    found = parts(cells)
    assert found.held_out == ("h1", "h2")
    assert found.held_out_list == ("h1", "h2", "h3")
    assert found.undefined == {"h3": ("hybrid",)}


def test_a_query_that_nothing_answers_is_counted_apart() -> None:
    none = replace(record("n", None, TEXT, split="held-out"), relevant=(), measures={}, level="none")
    found = parts([with_records(cell("text", TEXT, (1, 2)), none)])
    assert (found.held_out, found.unanswerable, found.undefined) == (("h1", "h2"), ("n",), {})


def test_what_cannot_be_reported_is_refused() -> None:
    with pytest.raises(InputError, match="no configuration is measured yet"):
        parts([])
    with pytest.raises(InputError, match=r"no query that counts is held out \(splits: dev\)"):
        parts([cell("text", TEXT, ())])
    with pytest.raises(InputError, match="of another golden set"):
        parts([cell("text", TEXT, (1, 2)), cell("hybrid", HYBRID, (1, 2), golden_hash="b" * 64)])
