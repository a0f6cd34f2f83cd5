"""Flat search, k-means and IVF against brute force and against cases worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from retrieval_lab.errors import InputError
from retrieval_lab.ragindex import IVF, PCG32, flat_search, kmeans_pp, recall
from retrieval_lab.ragindex.kmeans import assign, lloyd

Vectors = NDArray[np.float32]


def plain_dot(row: Any, query: Any) -> float:
    total = 0.0
    for x, y in zip(row.tolist(), query.tolist(), strict=True):
        total += x * y
    return total


def plain_flat(vecs: Vectors, query: Any, k: int, rows: list[int] | None = None) -> list[tuple[int, float]]:
    found = [(row, plain_dot(vecs[row], query)) for row in (range(len(vecs)) if rows is None else rows)]
    return sorted(found, key=lambda one: (-one[1], one[0]))[:k]


def plain_seeds(vecs: Vectors, k: int, rng: PCG32) -> list[int]:
    rows = [rng.below(len(vecs))]
    while len(rows) < k:
        nearest = [min(math.fsum((v - vecs[r]).astype(float) ** 2) for r in rows) for v in vecs.astype(float)]
        target, total = rng.random() * sum(nearest), 0.0
        for row, distance in enumerate(nearest):
            total += distance
            if total > target:
                rows.append(row)
                break
        else:
            rows.append(next(row for row in range(len(vecs)) if row not in rows))
    return rows


def clustered(n: int, dims: int, seed: int = 0, clusters: int = 20, spread: float = 0.6) -> Vectors:
    rng = np.random.default_rng(seed)
    vecs = rng.normal(size=(clusters, dims))[rng.integers(0, clusters, n)] + spread * rng.normal(size=(n, dims))
    return (vecs / np.linalg.norm(vecs, axis=1, keepdims=True)).astype(np.float32)


# --- flat ----------------------------------------------------------------------------------------------------------


@given(
    st.integers(0, 40), st.integers(1, 5), st.integers(0, 12), st.integers(0, 10**6), st.sampled_from([1, 1e-6, 1e6])
)
def test_flat_search_is_brute_force_to_the_last_bit(n: int, dims: int, k: int, seed: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    vecs = (scale * rng.integers(-2, 3, size=(n, dims))).astype(np.float32)  # few values, so many ties
    query = rng.integers(-2, 3, size=dims) / 3
    assert flat_search(vecs, query, k) == plain_flat(vecs, query, k)


def test_vectors_that_differ_in_the_last_bit_are_told_apart() -> None:
    vecs = np.repeat(clustered(1, 300), 2000, axis=0)
    vecs[1234, 17] = np.nextafter(vecs[1234, 17], np.float32(9))
    query = np.abs(clustered(1, 300, seed=1)[0])
    assert flat_search(vecs, query, 3) == plain_flat(vecs, query, 3)
    assert [row for row, _ in flat_search(vecs, query, 3)] == [1234, 0, 1]


def test_equal_vectors_tie_to_the_lower_row_wherever_they_stand() -> None:
    vecs = clustered(3000, 64)
    vecs[[5, 900, 901, 2999]] = vecs[77]
    found = flat_search(vecs, vecs[77], 5)
    assert [row for row, _ in found] == [5, 77, 900, 901, 2999]
    assert len({score for _, score in found}) == 1


@pytest.mark.parametrize("form", [lambda rows, _: rows.__contains__, lambda rows, n: np.isin(np.arange(n), list(rows))])
def test_a_filter_is_applied_before_the_cut(form: Callable[[set[int], int], Any]) -> None:
    vecs, query = clustered(800, 32), clustered(1, 32, seed=5)[0]
    ivf = IVF.build(vecs, 6, 3, PCG32(1))
    for share in (0.0, 0.02, 0.5):
        rng = np.random.default_rng(1)
        rows = {row for row in range(800) if rng.random() < share}
        for k in (1, 10, 900):
            expected = plain_flat(vecs, query, k, sorted(rows))
            assert flat_search(vecs, query, k, form(rows, 800)) == expected
            assert ivf.search(query, k, 6, form(rows, 800)) == expected


@pytest.mark.parametrize(
    ("query", "k", "message"),
    [
        (np.zeros(3), 1, r"shape \(3,\); expected \(2,\)"),
        (np.zeros((1, 2)), 1, r"shape \(1, 2\)"),
        (np.array([np.nan, 0]), 1, "NaN"),
        (np.array([np.inf, 0]), 1, "infinity"),
        (np.zeros(2), -1, "-1 results"),
    ],
)
def test_a_query_that_cannot_be_searched_for_is_an_error(query: Any, k: int, message: str) -> None:
    vecs = np.eye(2, dtype=np.float32)
    with pytest.raises(ValueError, match=message):
        flat_search(vecs, query, k)
    with pytest.raises(ValueError, match=message):
        IVF.build(vecs, 1, 1, PCG32(0)).search(query, k, 1)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e30])
def test_vectors_that_are_not_finite_are_named(bad: float) -> None:
    vecs = clustered(50, 4)
    vecs[33, 2] = bad
    with pytest.raises(InputError, match="vector 33"):
        flat_search(vecs, vecs[0], 3)
    with pytest.raises(InputError, match="vector 33"):
        IVF.build(vecs, 2, 2, PCG32(0))


def test_recall_is_the_share_that_was_found() -> None:
    assert recall([(1, 0.9), (2, 0.8)], [(2, 0.8), (3, 0.7), (1, 0.9), (9, 0.1)]) == 0.5
    assert recall([1, 2, 3], [3, 1]) == 1
    assert (recall([], [1]), recall([1], [])) == (0, 1)


# --- k-means -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_seeds_are_those_of_a_plain_computation(seed: int) -> None:
    vecs = clustered(60, 5, seed=seed)
    vecs[10:20] = vecs[3]
    assert kmeans_pp(vecs, 9, PCG32(seed)) == plain_seeds(vecs, 9, PCG32(seed))


def test_seeds_on_a_line_by_hand() -> None:
    class Fixed(PCG32):
        def below(self, n: int) -> int:
            assert n == 4
            return 0

        def random(self) -> float:
            return fractions.pop(0)

    vecs = np.array([[0.0], [1.0], [1.0], [3.0]], dtype=np.float32)
    # Squared distances to row 0 are 0, 1, 1, 9, running sums 0, 1, 2, 11; with row 3 taken too they are 0, 1, 1, 0.
    for first, second, expected in [
        (0.0, 0.0, [0, 1, 3]),
        (1 / 11, 0, [0, 2, 3]),
        (0.2, 0.5, [0, 3, 2]),
        (0.99, 0, [0, 3, 1]),
    ]:
        fractions = [first, second]
        assert kmeans_pp(vecs, 3, Fixed(0)) == expected


def test_seeds_of_equal_vectors_are_different_rows() -> None:
    vecs = np.ones((6, 3), dtype=np.float32)
    rows = kmeans_pp(vecs, 6, PCG32(3))
    assert sorted(rows) == list(range(6))
    assert rows[1:] == [row for row in range(6) if row != rows[0]]


def test_the_number_of_seeds_is_bounded_by_the_rows() -> None:
    vecs = clustered(5, 3)
    assert kmeans_pp(vecs, 0, PCG32(0)) == []
    assert sorted(kmeans_pp(vecs, 5, PCG32(0))) == list(range(5))
    for k in (6, -1):
        with pytest.raises(ValueError, match=f"{k} clusters of 5 vectors"):
            kmeans_pp(vecs, k, PCG32(0))


def test_rounds_of_k_means_by_hand() -> None:
    vecs = np.array([[0], [1], [4], [5], [9]], dtype=np.float32)
    assert assign(vecs, np.array([[0.0], [1.0]])).tolist() == [0, 1, 1, 1, 1]
    assert lloyd(vecs, np.array([[0.0], [1.0]]), 0).tolist() == [[0], [1]]
    assert lloyd(vecs, np.array([[0.0], [1.0]]), 1).tolist() == [[0], [4.75]]
    assert lloyd(vecs, np.array([[0.0], [1.0]]), 2).tolist() == [[0.5], [6]]
    assert lloyd(vecs, np.array([[0.0], [1.0], [70.0]]), 1).tolist() == [[0], [4.75], [70]]  # none is nearest to 70


def test_a_vector_between_two_centroids_belongs_to_the_lower_one() -> None:
    vecs = np.array([[1, 0], [0, 1], [1, 1]], dtype=np.float32)
    assert assign(vecs, np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])).tolist() == [1, 0, 0]


@given(st.integers(0, 10**6), st.integers(1, 6))
def test_every_vector_belongs_to_its_nearest_centroid(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    vecs = rng.integers(-3, 4, size=(30, 3)).astype(np.float32)
    centroids = rng.integers(-3, 4, size=(k, 3)) / 2
    plain = [min(range(k), key=lambda c: (math.fsum((row.astype(float) - centroids[c]) ** 2), c)) for row in vecs]
    assert assign(vecs, centroids).tolist() == plain


# --- IVF -----------------------------------------------------------------------------------------------------------


@given(st.integers(1, 40), st.integers(0, 10**6), st.integers(0, 45))
def test_all_lists_together_are_flat_search(nlist: int, seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    vecs = rng.integers(-2, 3, size=(40, 3)).astype(np.float32)
    ivf = IVF.build(vecs, nlist, 2, PCG32(seed))
    query = rng.normal(size=3)
    assert ivf.search(query, k, nlist) == flat_search(vecs, query, k)
    assert ivf.search(query, k, nlist + 5) == flat_search(vecs, query, k)


def test_the_lists_hold_every_row_once_with_its_nearest_centroid() -> None:
    vecs = clustered(500, 16)
    ivf = IVF.build(vecs, 12, 5, PCG32(4))
    assert ivf.centroids.shape == (12, 16)
    assert sorted(row for rows in ivf.lists for row in rows.tolist()) == list(range(500))
    distances = ((vecs[:, None, :].astype(float) - ivf.centroids) ** 2).sum(axis=2)
    for number, rows in enumerate(ivf.lists):
        assert rows.tolist() == sorted(rows.tolist())
        assert (distances[rows].argmin(axis=1) == number).all()


def test_fewer_lists_are_those_nearest_to_the_query() -> None:
    vecs = clustered(500, 16)
    ivf = IVF.build(vecs, 12, 5, PCG32(4))
    query = clustered(1, 16, seed=9)[0]
    nearest = np.argsort(((ivf.centroids - query) ** 2).sum(axis=1))[:3]
    rows = sorted(row for number in nearest for row in ivf.lists[number].tolist())
    assert ivf.search(query, 10, 3) == plain_flat(vecs, query, 10, rows)


def test_clusters_are_found_in_a_quarter_of_the_lists() -> None:
    vecs = clustered(4000, 32, clusters=100)
    ivf = IVF.build(vecs, 32, 8, PCG32(1))
    queries = clustered(4040, 32, clusters=100)[4000:]
    found = [recall(ivf.search(query, 10, 8), flat_search(vecs, query, 10)) for query in queries]
    assert np.mean(found) >= 0.95


def test_the_same_seed_gives_the_same_lists() -> None:
    vecs = clustered(300, 8)
    once, again = (IVF.build(vecs, 7, 4, PCG32(11)) for _ in range(2))
    np.testing.assert_array_equal(once.centroids, again.centroids)
    assert [rows.tolist() for rows in once.lists] == [rows.tolist() for rows in again.lists]


@pytest.mark.parametrize(("nlist", "iters"), [(0, 1), (6, 1), (2, -1)])
def test_an_inverted_file_needs_lists_and_vectors_for_them(nlist: int, iters: int) -> None:
    with pytest.raises(InputError):
        IVF.build(clustered(5, 3), nlist, iters, PCG32(0))
    with pytest.raises(InputError, match="0 lists were to be read"):
        IVF.build(clustered(5, 3), 2, 1, PCG32(0)).search(np.zeros(3), 1, 0)
