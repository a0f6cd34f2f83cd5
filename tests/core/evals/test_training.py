"""Training the learned reranker: the fit is scikit-learn's, queries never straddle folds, the order comes of others."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from retrieval_lab.errors import InputError
from retrieval_lab.evals.training import (
    Pool,
    TrainingSet,
    fitted,
    folds_of,
    out_of_fold,
    require_trainable,
)
from retrieval_lab.learned_features import FEATURES
from retrieval_lab.types import GoldenQuery


def golden(number: int, split: str = "", kind: str = "known") -> GoldenQuery:
    return GoldenQuery(f"q{number:02}", f"query {number}", kind, "doc", "anchor", split=split)


def pools(queries: int, size: int = 6, seed: int = 1) -> TrainingSet:
    """Pools of random features whose second passage is relevant, which the first feature tells."""
    draw = np.random.Generator(np.random.PCG64(seed))
    made = []
    for number in range(queries):
        ids = tuple(f"d{number}#{row:03}" for row in range(size + number % 3))
        values = draw.normal(size=(len(ids), len(FEATURES)))
        values[1, 0] += 2.0
        made.append(Pool(golden(number), frozenset({ids[1]}), ids, values, ids[::-1]))
    return TrainingSet(tuple(made))


def by_scikit_learn(values: Any, relevant: Any, c: float) -> tuple[Any, Any]:
    scaler = StandardScaler().fit(values)
    made = LogisticRegression(C=c, class_weight="balanced", max_iter=1000)
    return scaler, made.fit(scaler.transform(values), relevant)


@pytest.mark.parametrize("c", [0.1, 1.0, 30.0])
def test_the_fit_is_the_one_of_scikit_learn(c: float) -> None:
    made = pools(12)
    scaler, expected = by_scikit_learn(made.values, made.relevant, c)
    found = fitted(made.values, made.relevant, c)
    assert found.mean == pytest.approx(scaler.mean_.tolist())
    assert found.scale == pytest.approx(scaler.scale_.tolist())
    assert found.coefficients == pytest.approx(expected.coef_[0].tolist())
    assert found.intercept == pytest.approx(float(expected.intercept_[0]))
    decisions = expected.decision_function(scaler.transform(made.values))
    assert found.decisions(made.values) == pytest.approx(decisions)


def test_a_feature_that_never_differs_counts_nothing() -> None:
    made = pools(6)
    made.values[:, 3] = 0.25
    found = fitted(made.values, made.relevant, 1.0)
    assert (found.scale[3], found.coefficients[3]) == (1.0, pytest.approx(0.0))


@pytest.mark.parametrize(("queries", "folds"), [(2, 2), (4, 4), (5, 5), (13, 5)])
def test_no_query_stands_in_two_folds_and_each_passage_is_judged_once(queries: int, folds: int) -> None:
    made = pools(queries)
    found = folds_of(made)
    assert len(found) == folds
    for learn, judge in found:
        assert not {*made.groups[learn].tolist()} & {*made.groups[judge].tolist()}
        assert len(learn) + len(judge) == len(made.relevant)
    assert sorted(np.concatenate([judge for _, judge in found]).tolist()) == list(range(len(made.relevant)))


def test_each_pool_is_ordered_by_a_model_of_the_other_folds() -> None:
    made = pools(7)
    orders, folds = out_of_fold(made, 1.0)
    assert folds == 5
    for learn, judge in folds_of(made):
        scaler, expected = by_scikit_learn(made.values[learn], made.relevant[learn], 1.0)
        for number in {*made.groups[judge].tolist()}:
            pool = made.pools[number]
            scores = expected.decision_function(scaler.transform(pool.values))
            assert orders[number] == tuple(pool.chunk_ids[row] for row in np.argsort(-scores, kind="stable"))


def test_the_labels_of_a_query_do_not_change_its_own_order() -> None:
    made = pools(7)
    first = made.pools[0]
    other = Pool(first.query, frozenset({first.chunk_ids[-1]}), first.chunk_ids, first.values, first.by_bm25)
    changed = TrainingSet((other, *made.pools[1:]))
    usual, found = out_of_fold(made, 1.0)[0], out_of_fold(changed, 1.0)[0]
    judged = next(judge for _, judge in folds_of(made) if 0 in made.groups[judge])
    together = {*made.groups[judged].tolist()}
    assert all(found[number] == usual[number] for number in together)
    assert fitted(made.values, changed.relevant, 1.0) != fitted(made.values, made.relevant, 1.0)


def test_without_anything_to_learn_from_the_fused_order_stays() -> None:
    made = pools(3)
    none = [Pool(one.query, frozenset({"elsewhere"}), one.chunk_ids, one.values, one.by_bm25) for one in made.pools]
    alone = TrainingSet((made.pools[0], *none[1:]))
    orders, _ = out_of_fold(alone, 1.0)
    assert orders[0] == made.pools[0].chunk_ids  # the others have no relevant passage
    assert orders[1] != made.pools[1].chunk_ids


def test_too_little_to_learn_from_is_refused() -> None:
    made = pools(4)
    require_trainable(made)
    nothing = [Pool(one.query, frozenset({"x"}), one.chunk_ids, one.values, one.by_bm25) for one in made.pools]
    with pytest.raises(InputError, match=r"0 dev queries have a relevant passage in their pools, of 4 .* at least 2"):
        require_trainable(TrainingSet(tuple(nothing)))
    with pytest.raises(InputError, match="1 dev queries have"):
        require_trainable(TrainingSet((made.pools[0], *nothing[1:])))
    whole = [Pool(one.query, frozenset(one.chunk_ids), one.chunk_ids, one.values, one.by_bm25) for one in made.pools]
    with pytest.raises(InputError, match="every passage of every pool is relevant"):
        require_trainable(TrainingSet(tuple(whole)))


def test_the_hash_is_of_ids_texts_candidates_and_labels() -> None:
    made = pools(2, size=2)
    rows = [
        ["q00", "query 0", [["d0#000", False], ["d0#001", True]]],
        ["q01", "query 1", [["d1#000", False], ["d1#001", True], ["d1#002", False]]],
    ]
    assert made.sha256 == hashlib.sha256(json.dumps(rows).encode()).hexdigest()
    assert pools(2, size=2, seed=2).sha256 == made.sha256  # features are no part of it
    assert pools(2, size=3).sha256 != made.sha256
