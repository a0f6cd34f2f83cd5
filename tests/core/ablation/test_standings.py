"""Where configurations stand: means and paired differences by hand, the queries that count, the splits, the front."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from retrieval_lab.ablation.cell import Cell, Failure
from retrieval_lab.ablation.folder import AblationFolder, Manifest
from retrieval_lab.ablation.rule import Rule
from retrieval_lab.ablation.standings import Entry, entry, measures_of, pareto_front, standings
from retrieval_lab.errors import InputError
from retrieval_lab.evals.records import QueryRecord
from retrieval_lab.evals.resampling import bootstrap_interval
from retrieval_lab.evals.runs import Run
from tests.core.evals.made import CONFIG, made, ranked, record, undefined


def cell(run: Run) -> Cell:
    return Cell(name=run.name, run=run, index_seconds=None, memory=0)


def entries(*found: Run) -> list[Entry]:
    return [entry(one.name, cell(one)) for one in found]


def test_a_standing_is_the_mean_and_the_paired_difference_to_the_best() -> None:
    found = standings(entries(ranked("a", 1, 2, None, 1), ranked("b", 1, 1, 1, None)), "mrr@2", "all")
    ours, best = [1, 0.5, 0, 1], [1, 1, 1, 0]
    assert (found.queries, found.best) == (4, "b")
    assert found.by_key["a"].estimate.value == 2.5 / 4
    assert found.by_key["a"].estimate.interval == bootstrap_interval(ours)
    assert found.by_key["a"].difference == pytest.approx(-0.125)
    paired = [mine - theirs for mine, theirs in zip(ours, best, strict=True)]
    assert found.by_key["a"].difference_interval == bootstrap_interval(paired)
    assert found.by_key["b"].estimate.value == 0.75
    assert found.by_key["b"].difference == 0


def test_of_equal_ones_the_first_is_the_best() -> None:
    found = standings(entries(ranked("a", 2, 1), ranked("b", 1, 2), ranked("c", None, 1)), "mrr@2", "all")
    assert found.best == "a"
    assert found.by_key["b"].difference == 0


def test_only_queries_with_a_relevant_chunk_in_all_that_have_the_measure_count() -> None:
    some = made("some", [record("q1", 1), undefined("q2"), record("q3", None)])
    other = made("cut", [replace(one, measures={"ndcg@5": 1.0}) for one in ranked("", 1, 1, 1).queries])
    found = standings(entries(ranked("all", None, 1, 1), some, other), "mrr@2", "all")
    assert found.queries == 2
    assert {key: one.estimate.value for key, one in found.by_key.items()} == {"all": 0.5, "some": 0.5}
    assert measures_of(entries(ranked("a", 1), other))[-1] == "ndcg@5"


def test_one_query_has_no_interval_and_none_no_standing() -> None:
    one = standings(entries(ranked("a", 2)), "mrr@2", "all").by_key["a"]
    assert (one.estimate.value, one.estimate.interval, one.difference_interval) == (0.5, None, None)
    nothing = standings(entries(made("a", [undefined("q1")])), "mrr@2", "all")
    assert (nothing.queries, nothing.by_key, nothing.best) == (0, {}, None)
    assert standings([], "mrr@2", "all").best is None


def splitted(*splits: str) -> list[QueryRecord]:
    """Queries at rank 1, 2, 1 and so on, each with the split of its label."""
    return [replace(record(f"q{number}", 1 + number % 2), split=split) for number, split in enumerate(splits)]


@pytest.mark.parametrize(("split", "mean", "queries"), [("all", 0.75, 4), ("dev", 1, 1), ("held-out", 0.5, 2)])
def test_a_split_is_that_of_the_labels_and_test_is_held_out(split: str, mean: float, queries: int) -> None:
    run = made("a", splitted("dev", "test", "elsewhere", "held-out"))
    found = standings(entries(run), "mrr@2", split)
    assert found.queries == queries
    assert found.by_key["a"].estimate.value == mean


def test_without_splits_in_the_labels_they_are_dealt_alike_in_every_cell() -> None:
    queries = [record(f"{kind}{number}", rank, kind=kind) for kind, rank in (("a", 1), ("b", 2)) for number in range(5)]
    first, second = (entry(name, cell(made(name, some))) for name, some in (("x", queries), ("y", queries[::-1])))
    assert first.splits == second.splits
    assert first.dealt
    assert not entry("z", cell(made("z", splitted("dev", "test")))).dealt
    for kind in "ab":
        assert sum(one == "dev" for query_id, one in first.splits.items() if query_id[0] == kind) == 2
    assert standings([first, second], "mrr@2", "dev").queries == 4
    assert standings([first, second], "mrr@2", "held-out").by_key["y"].estimate.value == 0.75


def by_hand(points: Sequence[tuple[float, float]]) -> list[int]:
    return [
        place
        for place, (ms, quality) in enumerate(points)
        if all(
            not (other_ms <= ms and other >= quality and (other_ms, other) != (ms, quality))
            for other_ms, other in points
        )
    ]


def test_the_front_has_what_nothing_beats() -> None:
    assert pareto_front([(1, 0.5), (2, 0.5), (2, 0.7), (3, 0.6), (1, 0.5), (9, 0.9)]) == (0, 2, 4, 5)
    assert pareto_front([(1, 0.3), (2, 0.1 + 0.2)]) == (0,)  # equal but for rounding
    assert pareto_front([]) == ()
    choose = random.Random(7)
    for _ in range(50):
        points = [(float(choose.randint(1, 6)), choose.randint(0, 6) / 6) for _ in range(choose.randint(1, 12))]
        assert list(pareto_front(points)) == by_hand(points)


def test_cells_are_read_one_by_one_and_a_broken_one_leaves_the_others(tmp_path: Path) -> None:
    folder = AblationFolder(tmp_path)
    assert (folder.begun(), folder.written("k1")) == (0, 0)
    folder.begin(Manifest(name="grid", corpus="c", keys=("k1", "k2", "k3"), rule=Rule()))
    kept, failure = cell(ranked("a", 1)), Failure("b", CONFIG, "no model")
    folder.keep("k1", kept)
    folder.keep("k2", failure)
    assert (folder.made("k1"), folder.made("k2"), folder.made("k3")) == (kept, failure, None)
    assert folder.begun() > 0
    assert folder.written("k1") > 0
    (tmp_path / "cells" / "k3.json").write_text('{"format": 1, "na', encoding="utf-8")
    with pytest.raises(InputError, match=r"k3\.json:1: not JSON"):
        folder.made("k3")
    assert folder.made("k1") == kept
    assert folder.manifest().keys == ("k1", "k2", "k3")
