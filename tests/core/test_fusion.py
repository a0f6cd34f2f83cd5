"""Fusion by scores: the min-max weighted sum by hand and against brute force, and what each list adds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval_lab import Lab, PipelineConfig
from retrieval_lab import fusion as fusing
from retrieval_lab.diagnosis.rescue_grid import dials
from retrieval_lab.errors import InputError
from retrieval_lab.fusion import minmax
from retrieval_lab.retrievers.text import TextSearch
from retrieval_lab.retrievers.vector import VectorSearch
from retrieval_lab.settings import MinMaxFusion, NoReranker, RrfFusion
from retrieval_lab.types import Hit, Ranked


def scored(**scores: float) -> list[Hit]:
    """A list with these scores, in this order."""
    return [Hit(chunk_id, score, rank) for rank, (chunk_id, score) in enumerate(scores.items(), start=1)]


def test_by_hand() -> None:
    found = minmax([scored(a=9, b=5, c=1), scored(c=0.4, a=0.3, d=0.2)], [1, 2])
    # a: 1 * 1 + 2 * (0.3 - 0.2) / (0.4 - 0.2) = 2; c: 1 * 0 + 2 * 1 = 2; b: (5 - 1) / (9 - 1) = 0.5; d: 2 * 0 = 0.
    assert [(row.chunk_id, row.rank, row.ranks) for row in found] == [
        ("c", 1, (3, 1)),
        ("a", 2, (1, 2)),
        ("b", 3, (2, None)),
        ("d", 4, (None, 3)),
    ]
    assert [row.score for row in found] == pytest.approx([2, 2, 0.5, 0], abs=1e-12)
    assert found[0].score == 2


def test_a_list_whose_scores_are_all_equal_counts_1_for_each_of_its_chunks() -> None:
    found = minmax([scored(b=7, a=7), scored(c=-3)])
    assert [(row.chunk_id, row.score) for row in found] == [("a", 1), ("b", 1), ("c", 1)]


def test_a_chunk_repeated_in_one_list_counts_once_at_its_best() -> None:
    hits = [Hit("a", 3, 1), Hit("b", 2, 2), Hit("a", 1, 3), Hit("c", 1, 4)]
    assert minmax([hits]) == [Ranked("a", 1, 1, (1,)), Ranked("b", 0.5, 2, (2,)), Ranked("c", 0, 3, (4,))]
    worse_first = [Hit("a", 1, 3), Hit("b", 2, 2), Hit("a", 3, 1)]
    # What is left is a with 3 and b with 2: the score that does not count is not the lowest either.
    assert minmax([worse_first]) == [Ranked("a", 1, 1, (1,)), Ranked("b", 0, 2, (2,))]


def test_a_list_of_weight_0_contributes_nothing_not_even_candidates() -> None:
    found = minmax([scored(a=2, b=1), scored(c=9, b=8)], [1, 0])
    assert found == [Ranked("a", 1, 1, (1, None)), Ranked("b", 0, 2, (2, 2))]
    assert minmax([scored(a=1)], [0]) == minmax([]) == minmax([[], []]) == []


def test_an_honest_tie_of_three_lists_is_broken_by_the_chunk_id_whatever_their_order() -> None:
    """0.1, 0.2 and 0.3 added in another order give another last bit."""
    for weights in itertools.permutations([0.1, 0.2, 0.3]):
        found = minmax([scored(b=1, a=1)] * 3, weights)
        assert [(row.chunk_id, row.score) for row in found] == [("a", 0.6), ("b", 0.6)]


@pytest.mark.parametrize("scores", [(1.7e308, -1.7e308, 0.0), (5e-324, 0.0, -5e-324)])
def test_scores_whose_distance_is_no_usual_number_are_scaled_all_the_same(scores: tuple[float, ...]) -> None:
    high, low, middle = scores
    high, middle, low = sorted(scores, reverse=True)
    assert [row.score for row in minmax([scored(a=high, b=middle, c=low)])] == [1, 0.5, 0]


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf])
def test_a_score_that_is_no_finite_number_is_refused_with_its_chunk(score: float) -> None:
    with pytest.raises(InputError, match=f"'b' is {score}"):
        minmax([scored(a=1, b=score)])


@pytest.mark.parametrize("weights", [[], [1], [1, -1], [1, math.nan]])
def test_weights_that_do_not_fit_are_refused(weights: list[float]) -> None:
    with pytest.raises(InputError, match="expected"):
        minmax([scored(a=1), scored(b=1)], weights)


LISTS = st.lists(
    st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(-20, 20)), max_size=7), min_size=1, max_size=4
)
WEIGHTS = st.one_of(st.just(0), st.integers(1, 9))


def brute(lists: Sequence[Sequence[tuple[str, int]]], weights: Sequence[int]) -> list[tuple[str, Fraction]]:
    """The rule in exact fractions, a chunk at a time."""
    total: dict[str, Fraction] = {}
    for rows, weight in zip(lists, weights, strict=True):
        best = {name: max(score for other, score in rows if other == name) for name, _ in rows}
        for name, score in best.items():
            low, high = min(best.values()), max(best.values())
            part = Fraction(1) if low == high else Fraction(score - low, high - low)
            if weight:
                total[name] = total.get(name, Fraction(0)) + weight * part
    return sorted(total.items(), key=lambda one: (-one[1], one[0]))


@given(st.data(), LISTS)
def test_against_brute_force_in_fractions(data: st.DataObject, lists: list[list[tuple[str, int]]]) -> None:
    weights = data.draw(st.lists(WEIGHTS, min_size=len(lists), max_size=len(lists)))
    given_lists = [[Hit(name, score, rank) for rank, (name, score) in enumerate(rows, 1)] for rows in lists]
    found = minmax(given_lists, weights)
    expected = dict(brute(lists, weights))
    assert {row.chunk_id: row.score for row in found} == pytest.approx(
        {name: float(score) for name, score in expected.items()}, abs=1e-12
    )
    assert [row.rank for row in found] == list(range(1, len(expected) + 1))
    for above, below in itertools.pairwise(found):
        assert (-above.score, above.chunk_id) < (-below.score, below.chunk_id)
    for row in found:
        assert row.ranks == tuple(
            min((hit.rank for hit in hits if hit.chunk_id == row.chunk_id), default=None) for hits in given_lists
        )
    order = data.draw(st.permutations(range(len(lists))))
    turned = minmax([given_lists[i] for i in order], [weights[i] for i in order])
    assert [(row.chunk_id, row.score) for row in turned] == [(row.chunk_id, row.score) for row in found]


@given(st.data(), LISTS, st.sampled_from([MinMaxFusion(), RrfFusion(k=0), RrfFusion()]))
def test_the_parts_of_every_chunk_sum_to_its_score(
    data: st.DataObject, rows: list[list[tuple[str, int]]], fusion: MinMaxFusion | RrfFusion
) -> None:
    weights = data.draw(st.lists(WEIGHTS, min_size=len(rows), max_size=len(rows)))
    lists = [[Hit(name, score, rank) for rank, (name, score) in enumerate(one, 1)] for one in rows]
    for row in fusion.fuse(lists, weights):
        parts = fusion.parts(row.chunk_id, lists, weights)
        assert math.fsum(parts) == row.score
        held = [row.chunk_id in {hit.chunk_id for hit in hits} for hits in lists]
        assert all(part == 0 for part, here, weight in zip(parts, held, weights, strict=True) if not (here and weight))


def test_the_pinned_name_is_the_same_function() -> None:
    from retrieval_lab import hybrid

    assert (hybrid.rrf, hybrid.RRF_K) == (fusing.rrf, 60)


# --- in a pipeline -------------------------------------------------------------------------------------------------


def test_a_pipeline_fuses_and_explains_by_scores() -> None:
    config = PipelineConfig(
        retrievers=(VectorSearch(weight=0.5), TextSearch(weight=2)),
        fusion=MinMaxFusion(n=30),
        reranker=NoReranker(),
        mmr_lambda=None,
    )
    with Lab.open() as lab:
        made = lab.trace("how is reciprocal rank fusion computed", config)
        lists = [[(hit.chunk_id, hit.score) for hit in hits] for hits in made.lists.values()]
        total: dict[str, float] = {}
        for rows, weight in zip(lists, (0.5, 2), strict=True):
            low, high = rows[-1][1], rows[0][1]
            for chunk_id, score in rows:
                total[chunk_id] = total.get(chunk_id, 0) + weight * (score - low) / (high - low)
        assert {row.chunk_id: row.score for row in made.fused} == pytest.approx(total)
        assert len(made.pool) == 30
        assert made.final == made.fused[:10]
        both = next(row.chunk_id for row in made.fused if None not in row.ranks)
        journey = lab.explain(made, both)
        assert journey.fused is not None
        assert math.fsum(journey.fused.parts.values()) == journey.fused.score
        assert all(part > 0 for part in journey.fused.parts.values())


def test_the_rescue_search_turns_k_only_where_there_is_one() -> None:
    turned = {dial.setting for dial in dials(PipelineConfig(), 100)}
    assert {dial.setting for dial in dials(PipelineConfig(fusion=MinMaxFusion()), 100)} == turned - {"fusion.k"}
