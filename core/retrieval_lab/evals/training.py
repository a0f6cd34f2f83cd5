"""Training the learned reranker on the pools of dev queries, and what it is worth on queries that it has not seen.

Held-out queries have no part in anything here. The cross-validation keeps the passages of one query together (grouped
k-fold; Hastie, Tibshirani and Friedman, "The Elements of Statistical Learning", 2nd edition, section 7.10).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from retrieval_lab.assembly import Bench, assembled
from retrieval_lab.config import PipelineConfig
from retrieval_lab.corpus_index import table_stamp
from retrieval_lab.errors import Cancelled, InputError
from retrieval_lab.evals.comparison import Comparison, compare_measures
from retrieval_lab.evals.measures import measure_names
from retrieval_lab.evals.splits import SEED, dev_queries
from retrieval_lab.extras import require
from retrieval_lab.learned_features import Array, FeatureSettings, features
from retrieval_lab.learned_model import Gain, LearnedModel, Regression, TrainedOn, Validated, Validation
from retrieval_lab.metrics import labelled_grades, labels, scored_ids
from retrieval_lab.pipeline import Pipeline
from retrieval_lab.rerankers import LexicalReranker
from retrieval_lab.settings import NoReranker
from retrieval_lab.types import GoldenQuery

if TYPE_CHECKING:
    from retrieval_lab.corpus_index import CorpusIndex
    from retrieval_lab.lab import Lab

FOLDS = 5
LEAST_QUERIES = 2
"""How many dev queries must have a relevant passage in their pools, so that one can be left out."""
C = 1.0
MEASURES = ("mrr@10", "ndcg@10", "recall@10")

_EXTRA = "evals"
_STEPS = 1000


@dataclass(frozen=True, slots=True)
class Pool:
    """The pool of one query in fused order, with what a model is trained and judged by.

    `values` are the features of its passages, shape (passages, features), `relevant` says which of them are. `by_bm25`
    has the same ids in the order of the reranker of that kind.
    """

    query: GoldenQuery
    relevant_ids: frozenset[str]
    chunk_ids: tuple[str, ...]
    values: Array
    by_bm25: tuple[str, ...]

    @property
    def relevant(self) -> NDArray[np.bool_]:
        return np.array([chunk_id in self.relevant_ids for chunk_id in self.chunk_ids], dtype=np.bool_)


@dataclass(frozen=True)
class TrainingSet:
    """The pools of dev queries, by query id, so that the order of golden.yaml does not matter."""

    pools: tuple[Pool, ...]

    @cached_property
    def values(self) -> Array:
        """The features of all passages, pool after pool."""
        return np.concatenate([pool.values for pool in self.pools])

    @cached_property
    def relevant(self) -> NDArray[np.bool_]:
        """Which of all passages are relevant for their query."""
        return np.concatenate([pool.relevant for pool in self.pools])

    @cached_property
    def groups(self) -> NDArray[np.intp]:
        """The number of the query of each passage."""
        return np.repeat(np.arange(len(self.pools)), [len(pool.chunk_ids) for pool in self.pools])

    @property
    def sha256(self) -> str:
        """A hash of the queries' ids and texts, and of the candidates' ids and labels."""
        rows = [
            [pool.query.query_id, pool.query.query, list(zip(pool.chunk_ids, pool.relevant.tolist(), strict=True))]
            for pool in self.pools
        ]
        return sha256(json.dumps(rows).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Trained:
    """A model and what its training says besides: the comparisons of the cross-validation by measure.

    `without_label` are the ids of dev queries that had no part in it, since no passage is relevant for them.
    """

    model: LearnedModel
    over_fused: Mapping[str, Comparison]
    over_bm25: Mapping[str, Comparison]
    without_label: tuple[str, ...]


def train(
    lab: Lab,
    config: PipelineConfig | None = None,
    *,
    c: float = C,
    settings: FeatureSettings | None = None,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Trained:
    """A model trained on the pools that a pipeline makes of the dev queries, cross-validated with queries as groups.

    Of the pipeline its lists and their fusion count, not its reranker. `c` is the inverse strength of the penalty on
    the coefficients. `progress` hears of every query whose pool is made, `cancelled` is asked before each.

    Raises InputError when there are too few queries, or none has a relevant passage in its pool; MissingExtra without
    scikit-learn; Cancelled; and as `Lab.evaluate_queries` does.
    """
    if not c > 0:
        raise InputError(f"C is {c}; expected a number above 0")
    lab.require_golden()
    settings = settings or FeatureSettings()
    dev = dev_queries(lab.golden)
    queries = tuple(sorted(dev.queries, key=lambda query: query.query_id))
    config = replace(config or lab.config, reranker=NoReranker(), mmr_lambda=None)

    def work(bench: Bench) -> tuple[TrainingSet, str]:
        return _training_set(bench, queries, settings, progress, cancelled), table_stamp(bench.conn, bench.table) or ""

    made, stamp = lab.work(work, config)
    require_trainable(made)
    trained_on = TrainedOn(
        corpus=lab.corpus.name,
        index_stamp=stamp,
        dealt=SEED if dev.dealt else None,
        queries=len(made.pools),
        candidates=len(made.relevant),
        positives=int(made.relevant.sum()),
        training_set=made.sha256,
        c=c,
        pipeline=_pool_settings(config),
    )
    had_part = {pool.query.query_id for pool in made.pools}
    without = tuple(query.query_id for query in queries if query.query_id not in had_part)
    return _trained(made, trained_on, settings, without)


def _trained(
    made: TrainingSet, trained_on: TrainedOn, settings: FeatureSettings, without_label: tuple[str, ...]
) -> Trained:
    orders, folds = out_of_fold(made, trained_on.c)
    over_fused, over_bm25 = _compared(made, orders)
    measures = {name: _validated(over_fused[name], over_bm25[name]) for name in MEASURES}
    regression = fitted(made.values, made.relevant, trained_on.c)
    model = LearnedModel(regression, settings, trained_on, Validation(folds, measures))
    return Trained(model, over_fused, over_bm25, without_label)


def _training_set(
    bench: Bench,
    queries: Sequence[GoldenQuery],
    settings: FeatureSettings,
    progress: Callable[[int, int], None],
    cancelled: Callable[[], bool],
) -> TrainingSet:
    on = bench.surroundings()
    pipeline, corpus = assembled(bench.config, on, None), on.corpus_index()
    labelled = [pair for pair in labels(bench.conn, queries, table=bench.table) if pair[1]]
    pools = []
    for done, (query, relevant_ids) in enumerate(labelled):
        progress(done, len(labelled))
        if cancelled():
            raise Cancelled(f"stopped after {done} of {len(labelled)} queries")
        pools.append(_pool(pipeline, corpus, query, relevant_ids, settings))
    progress(len(labelled), len(labelled))
    return TrainingSet(tuple(pools))


def _pool(
    pipeline: Pipeline,
    corpus: CorpusIndex,
    query: GoldenQuery,
    relevant_ids: frozenset[str],
    settings: FeatureSettings,
) -> Pool:
    fused = [row.chunk_id for row in pipeline.fused(query.query)[: pipeline.n]]
    stored = pipeline.fetch(fused)
    chunks = [stored[chunk_id][0] for chunk_id in fused if chunk_id in stored]
    chunk_ids = tuple(chunk.chunk_id for chunk in chunks)
    by_bm25 = tuple(row.chunk_id for row in LexicalReranker().rerank(query.query, chunks, len(chunks)))
    return Pool(query, relevant_ids, chunk_ids, features(corpus, query.query, chunk_ids, settings), by_bm25)


def _pool_settings(config: PipelineConfig) -> dict[str, Any]:
    """What of a pipeline decides its pools."""
    settings = config.to_dict()
    return {key: value for key, value in settings.items() if key not in _AFTER_THE_POOL}


_AFTER_THE_POOL = ("reranker", "mmr_lambda", "top_k", "support_floor")


def require_trainable(made: TrainingSet) -> None:
    """Raises InputError when there is nothing to learn from: too few queries, no relevant passage, or no other."""
    with_positive = sum(bool(pool.relevant.any()) for pool in made.pools)
    if with_positive < LEAST_QUERIES:
        raise InputError(
            f"{with_positive} dev queries have a relevant passage in their pools, of {len(made.pools)} that have one in"
            f" the corpus; expected at least {LEAST_QUERIES} to learn from: label more, or make the pools deeper"
        )
    if made.relevant.all():
        raise InputError("every passage of every pool is relevant, so there is nothing to tell apart")


def fitted(values: Array, relevant: NDArray[np.bool_], c: float) -> Regression:
    """Logistic regression on standardised features, relevant and other passages weighing the same in sum.

    `values` has the shape (passages, features). Raises MissingExtra without scikit-learn.
    """
    linear_model = require("sklearn.linear_model", extra=_EXTRA)
    mean, scale = values.mean(axis=0), values.std(axis=0)
    scale = np.where(scale > np.finfo(np.float64).eps, scale, 1.0)  # a feature that never differs counts nothing
    made = linear_model.LogisticRegression(C=c, class_weight="balanced", max_iter=_STEPS)
    made.fit((values - mean) / scale, relevant)
    vectors = [tuple(map(float, column)) for column in (mean, scale, made.coef_[0])]
    return Regression(vectors[0], vectors[1], vectors[2], float(made.intercept_[0]))


def folds_of(made: TrainingSet) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """The rows to train on and those to judge, of FOLDS folds or as many as there are queries with a pool."""
    model_selection = require("sklearn.model_selection", extra=_EXTRA)
    count = min(FOLDS, len(np.unique(made.groups)))
    return list(model_selection.GroupKFold(count).split(made.values, made.relevant, made.groups))


def out_of_fold(made: TrainingSet, c: float) -> tuple[list[tuple[str, ...]], int]:
    """Each pool in the order of a model that was trained without its query, and the number of folds.

    Where the queries of the other folds have no relevant passage, or nothing else, there is no model: the fused order
    stays. Raises as `fitted` does.
    """
    decisions = np.zeros(len(made.relevant))
    folds = folds_of(made)
    for learn, judge in folds:
        if np.unique(made.relevant[learn]).size == 2:
            decisions[judge] = fitted(made.values[learn], made.relevant[learn], c).decisions(made.values[judge])
    orders = []
    for number, pool in enumerate(made.pools):
        order = np.argsort(-decisions[made.groups == number], kind="stable")
        orders.append(tuple(pool.chunk_ids[place] for place in order.tolist()))
    return orders, len(folds)


def _compared(
    made: TrainingSet, orders: Sequence[Sequence[str]]
) -> tuple[dict[str, Comparison], dict[str, Comparison]]:
    """The learned order against the fused one, and against that of BM25."""
    ids = [pool.query.query_id for pool in made.pools]
    learned = _measured(made, orders)
    fused = _measured(made, [pool.chunk_ids for pool in made.pools])
    by_bm25 = _measured(made, [pool.by_bm25 for pool in made.pools])
    return compare_measures(learned, fused, ids), compare_measures(learned, by_bm25, ids)


def _measured(made: TrainingSet, orders: Sequence[Sequence[str]]) -> dict[str, Array]:
    lists = [scored_ids(order, pool.query.level == "document") for order, pool in zip(orders, made.pools, strict=True)]
    grades = [labelled_grades(pool.query, pool.relevant_ids) for pool in made.pools]
    return measure_names(lists, grades, MEASURES).scored()


def _validated(over_fused: Comparison, over_bm25: Comparison) -> Validated:
    return Validated(
        learned=over_fused.system,
        fused=over_fused.baseline,
        bm25=over_bm25.baseline,
        over_fused=_gain(over_fused),
        over_bm25=_gain(over_bm25),
    )


def _gain(comparison: Comparison) -> Gain:
    interval = comparison.difference_interval
    ends = (None, None) if interval is None else (interval.low, interval.high)
    return Gain(comparison.difference, *ends)
