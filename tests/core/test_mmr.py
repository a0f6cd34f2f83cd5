"""MMR against brute force, its tie rule, and the vectors and scores that break careless versions of it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval_lab.errors import InputError
from retrieval_lab.mmr import mmr
from retrieval_lab.types import Ranked
from tests.core import reference

E1, E2, E3 = np.eye(3)
ZERO = np.zeros(3)


def candidates(*scores: float) -> list[Ranked]:
    """c0, c1, ... with these scores, as a reranker hands them over."""
    return [Ranked(f"c{i}", score, i + 1, (i + 1, None)) for i, score in enumerate(scores)]


def picked(query: object, scores: list[float], vectors: object, lam: float = 0.7, top_k: int = 999) -> list[int]:
    found = mmr(np.asarray(query), candidates(*scores), vectors, lam=lam, top_k=top_k)  # type: ignore[arg-type]
    return [int(row.chunk_id[1:]) for row in found]


# --- by hand -------------------------------------------------------------------------------------------------------


def test_a_near_duplicate_gives_way_to_something_new() -> None:
    # Relevance 10/10, 9/10, 5/10. After c0: c1 has .7 * .9 - .3 * 1 = .33, c2 has .7 * .5 - .3 * 0 = .35.
    assert 0.7 * 9 / 10 - 0.3 * 1 < 0.7 * 5 / 10 - 0.3 * 0
    assert picked(E1, [10, 9, 5], [E1, E1, E2]) == [0, 2, 1]


def test_a_near_duplicate_stays_when_it_is_relevant_enough() -> None:
    # After c0: c1 has .7 * 1 - .3 * 1 = .40, c2 has .7 * .5 = .35.
    assert picked(E1, [10, 10, 5], [E1, E1, E2]) == [0, 1, 2]


def test_redundancy_is_the_highest_cosine_to_any_pick_not_to_the_last() -> None:
    # Picks so far c0 (E1) and c1 (E2). c2 repeats c0: .7 * .7 - .3 * 1 = .19. c3 repeats neither: .7 * .3 = .21.
    assert 0.7 * 0.7 - 0.3 * 1 < 0.7 * 0.3
    assert picked(E1, [10, 9, 7, 3], [E1, E2, E1, E3]) == [0, 1, 3, 2]


def test_an_opposite_vector_has_negative_redundancy() -> None:
    # After c0: c1 has .7 * .5 = .35, c2 has .7 * .2 - .3 * -1 = .44.
    assert 0.7 * 0.2 - 0.3 * -1 > 0.7 * 0.5
    assert picked(E1, [10, 5, 2], [E1, E2, -E1]) == [0, 2, 1]


def test_the_default_lambda_is_07() -> None:
    found = mmr(E1, candidates(10, 9, 5), [E1, E1, E2], top_k=3)
    assert [row.chunk_id for row in found] == ["c0", "c2", "c1"]


def test_lambda_1_is_the_order_of_relevance_and_lambda_0_that_of_diversity() -> None:
    vectors = [E1, E1, E2]
    assert picked(E1, [10, 9, 5], vectors, lam=1) == [0, 1, 2]
    assert picked(E1, [9, 10, 5], vectors, lam=1) == [1, 0, 2]
    # Nothing is redundant before the first pick: a tie of all, so the earliest.
    assert picked(E1, [5, 9, 10], vectors, lam=0) == [0, 2, 1]


# --- relevance -----------------------------------------------------------------------------------------------------


def test_scores_without_a_negative_are_scaled_by_their_maximum() -> None:
    # 8/10 and 7/10, not min-max's 1/3 and 0: after c0, c1 has .7 * .8 - .3 = .26, c2 has .7 * .7 - 0 = .49.
    # With lambda .9: c1 has .9 * .8 - .1 = .62, c2 has .9 * .7 = .63. Min-max would say .9 / 3 - .1 = .2 against 0.
    assert 0.9 * 8 / 10 - 0.1 < 0.9 * 7 / 10
    assert 0.9 * (8 - 7) / (10 - 7) - 0.1 > 0
    assert picked(E1, [10, 8, 7], [E1, E1, E2], lam=0.9) == [0, 2, 1]


def test_scores_with_a_negative_one_are_scaled_from_minimum_to_maximum() -> None:
    # (4 - -2) / (4 - -2) = 1, (2 - -2) / 6 = 2/3, 0. After c0: c1 has .7 * 2/3 - .3 = .1667, c2 has 0.
    assert picked(E1, [4, 2, -2], [E1, E1, E2]) == [0, 1, 2]
    # (1 - -5) / 6 = 1, (0 - -5) / 6 = .8333, (-.5 - -5) / 6 = .75, 0. After c0: c1 has .2833, c2 has .525, c3 has 0.
    assert picked(E1, [1, 0, -0.5, -5], [E1, E1, E2, E3]) == [0, 2, 1, 3]


def test_all_negative_scores_are_scaled_too() -> None:
    # Logits: 1, .9, 0. After c0: c1 has .7 * .9 - .3 * 1 = .33, c2 has 0.
    assert picked(E1, [-1, -2, -11], [E1, E1, E2]) == [0, 1, 2]


@pytest.mark.parametrize("score", [0.0, 3.5, -2.0])
def test_when_all_scores_are_equal_relevance_is_the_cosine_to_the_query(score: float) -> None:
    query = np.array([1.0, 2.0, 3.0])
    assert picked(query, [score] * 3, [E1, E2, E3]) == [2, 1, 0]


def test_a_single_candidate_is_picked_whatever_its_score() -> None:
    assert picked(E1, [0.0], [ZERO]) == [0]
    assert picked(E1, [-7.0], [E2]) == [0]


# --- ties ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dims", [3, 256, 384])
@pytest.mark.parametrize("count", [2, 5, 13, 54, 59, 100])
def test_exact_duplicates_keep_their_order_wherever_they_stand(count: int, dims: int) -> None:
    # Rounding may not depend on the row: with a matrix product it does for some of these sizes.
    random = np.random.default_rng(count)
    vector, query = random.normal(size=dims).astype(np.float32), random.normal(size=dims)
    assert picked(query, [1.0] * count, [vector] * count) == list(range(count))
    assert picked(query, [1.0] * count, [vector] * count, lam=0) == list(range(count))


def test_a_tie_goes_to_the_earlier_candidate() -> None:
    # After c0, c1 and c2 have equal scores and are both orthogonal to it.
    assert picked(E1, [10, 5, 5], [E1, E2, E3]) == [0, 1, 2]
    assert picked(E1, [10, 5, 5], [E1, E3, E2]) == [0, 1, 2]


# --- vectors -------------------------------------------------------------------------------------------------------


def test_vectors_that_are_not_of_unit_length_count_by_their_direction() -> None:
    scores = [10.0, 9, 8, 5, 4]
    vectors = np.random.default_rng(1).normal(size=(5, 4))
    lengths = np.array([[0.01], [3], [1000], [1], [1e-5]])
    assert picked(vectors[0], scores, vectors * lengths) == picked(vectors[0], scores, vectors)
    assert picked(vectors[0] * 77, [1] * 5, vectors * lengths) == picked(vectors[0], [1] * 5, vectors)


def test_a_zero_vector_is_still_a_candidate_and_redundant_to_nothing() -> None:
    # After c0: c1 has .7 * .6 - .3 * 0 = .42, c2 has .7 * .9 - .3 = .33.
    assert picked(E1, [10, 6, 9], [E1, ZERO, E1]) == [0, 1, 2]
    assert sorted(picked(E1, [3, 2, 1], [ZERO, ZERO, ZERO])) == [0, 1, 2]


def test_a_zero_query_vector_leaves_equal_scores_in_their_order() -> None:
    assert picked(ZERO, [1, 1, 1], [E1, E2, E3]) == [0, 1, 2]


def test_huge_vectors_do_not_overflow() -> None:
    huge = np.full(3, 1e30, dtype=np.float32)
    assert picked(huge, [10, 9, 5], [huge, huge, np.array([1, -1, 0], dtype=np.float32)]) == [0, 2, 1]


# --- shape of the result -------------------------------------------------------------------------------------------


def test_each_pick_keeps_its_score_and_ranks_and_is_renumbered() -> None:
    found = mmr(E1, candidates(10, 9, 5), [E1, E1, E2], lam=0.7, top_k=3)
    assert found == [Ranked("c0", 10, 1, (1, None)), Ranked("c2", 5, 2, (3, None)), Ranked("c1", 9, 3, (2, None))]


@pytest.mark.parametrize("as_array", [True, False])
def test_embeddings_may_be_aligned_or_a_mapping_by_chunk_id(as_array: bool) -> None:
    aligned = np.array([E1, E1, E2]) if as_array else [E1, E1, E2]
    mapping = {"c2": E2, "other": E3, "c1": E1, "c0": E1}
    rows = candidates(10, 9, 5)
    assert mmr(E1, rows, aligned, top_k=3) == mmr(E1, rows, mapping, top_k=3)


def test_top_k_beyond_the_candidates_gives_all_and_zero_gives_none() -> None:
    assert picked(E1, [2, 1], [E1, E2], top_k=5) == [0, 1]
    assert picked(E1, [2, 1], [E1, E2], top_k=0) == []
    assert mmr(E1, [], [], top_k=3) == []
    assert mmr(E1, [], {}, top_k=3) == []


@pytest.mark.parametrize("lam", [-0.1, 1.1, math.nan])
def test_a_lambda_outside_0_to_1_is_refused(lam: float) -> None:
    with pytest.raises(InputError, match="lambda"):
        mmr(E1, candidates(1), [E1], lam=lam, top_k=1)


def test_a_candidate_without_embedding_is_refused_by_its_id() -> None:
    with pytest.raises(InputError, match="c1"):
        mmr(E1, candidates(2, 1), {"c0": E1}, top_k=1)
    with pytest.raises(InputError, match="1"):
        mmr(E1, candidates(2, 1), [E1], top_k=1)


# --- brute force ---------------------------------------------------------------------------------------------------

SCORES = st.one_of(
    st.lists(st.floats(0, 20), min_size=1, max_size=9),
    st.lists(st.floats(-10, 10), min_size=1, max_size=9),
    st.integers(1, 9).map(lambda n: [1.0] * n),
)


@settings(max_examples=150)
@given(SCORES, st.floats(0, 1), st.integers(0, 10), st.data())
def test_every_pick_has_the_highest_value_that_is_left(
    scores: list[float], lam: float, top_k: int, data: st.DataObject
) -> None:
    coordinates = st.lists(st.integers(-3, 3), min_size=3, max_size=3)
    vectors = data.draw(st.lists(coordinates, min_size=len(scores), max_size=len(scores)))
    query = data.draw(coordinates)
    order = picked(np.array(query, dtype=float), scores, np.array(vectors, dtype=float), lam=lam, top_k=top_k)
    assert len(order) == min(top_k, len(scores))
    relevance = reference.relevances(query, scores, vectors)
    for done, pick in enumerate(order):
        values = reference.mmr_values(relevance, vectors, order[:done], lam)
        assert values[pick] == pytest.approx(max(values.values()), abs=1e-9)
        twins = [i for i in values if vectors[i] == vectors[pick] and scores[i] == scores[pick]]
        assert pick == min(twins)


@pytest.mark.parametrize("seed", range(5))
def test_equals_brute_force_on_random_pools(seed: int) -> None:
    random = np.random.default_rng(seed)
    vectors, query = random.normal(size=(50, 16)), random.normal(size=16)
    scores = sorted(random.gamma(2, 3, size=50).tolist(), reverse=True)
    assert picked(query, scores, vectors, top_k=10) == reference.mmr(query, scores, list(vectors), 0.7, 10)
