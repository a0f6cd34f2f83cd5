"""Tuning against measuring each value by itself, ties, splits, and that no held-out label is ever looked at."""

from __future__ import annotations

import itertools
import math
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from retrieval_lab import Lab, PipelineConfig
from retrieval_lab.errors import Cancelled, InputError
from retrieval_lab.evals.curve import best_of, points_of
from retrieval_lab.evals.resampling import bootstrap_interval, paired_bootstrap_interval
from retrieval_lab.evals.splits import DEV, HELD_OUT, dev_queries, stratified
from retrieval_lab.evals.tune import require_measure, tune_setting, tune_weights
from retrieval_lab.evals.weight_grid import distance, neighbours, on_grid, pairs, shares
from retrieval_lab.golden import load_golden
from retrieval_lab.metrics import relevant
from retrieval_lab.retrievers.text import TextRetriever, TextSearch
from retrieval_lab.retrievers.tfidf import LsaSearch
from retrieval_lab.retrievers.vector import VectorSearch
from retrieval_lab.settings import MarkdownChunker, MinMaxFusion, NoReranker, RrfFusion
from retrieval_lab.store import chunks_of
from retrieval_lab.types import GoldenQuery
from tests.core.conftest import CORPUS

Golden = list[dict[str, Any]]

MORE: Golden = [
    {"query_id": "none", "query": "how deep is the sea", "kind": "x", "relevant": {}, "split": DEV},
    {"query_id": "lost", "query": "the inn", "kind": "x", "doc_id": "embeddings", "anchor": "no such", "split": DEV},
    {
        "query_id": "graded",
        "query": "how are ranked lists fused",
        "kind": "x",
        "relevant": {"hybrid-search": 3, "vector-indexes": 1, "full-text-search-in-postgres": 2},
        "split": DEV,
    },
]


def bundled() -> Golden:
    golden: Golden = yaml.safe_load((CORPUS / "golden.yaml").read_text(encoding="utf-8"))
    return golden


def split_golden() -> Golden:
    """Every second query of the bundled set is of dev, and some odd ones more."""
    return [{**one, "split": (DEV, HELD_OUT)[place % 2]} for place, one in enumerate(bundled())] + MORE


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the bundled corpus whose golden set has splits."""
    made = tmp_path_factory.mktemp("tune") / "corpus"
    shutil.copytree(CORPUS, made)
    write(made, split_golden())
    return made


def write(folder: Path, golden: Golden) -> None:
    (folder / "golden.yaml").write_text(yaml.safe_dump(golden, allow_unicode=True), encoding="utf-8")


@pytest.fixture(scope="module")
def lab(folder: Path) -> Iterator[Lab]:
    with Lab.open(folder) as opened:
        yield opened


def ndcg(ids: Sequence[str], gains: dict[str, int], k: int) -> float:
    """By the definition: gains over log2(rank + 1), over those of the best order."""
    gained = sum(gains.get(one, 0) / math.log2(rank + 1) for rank, one in enumerate(ids[:k], start=1))
    best = sorted((gain for gain in gains.values() if gain > 0), reverse=True)[:k]
    return gained / sum(gain / math.log2(rank + 1) for rank, gain in enumerate(best, start=1))


def expected_ndcg(lab: Lab, query: GoldenQuery, chunk_ids: Sequence[str], k: int = 10) -> float:
    """Of a list of chunks; of a graded query that of their documents."""
    if query.level == "document":
        documents = list(dict.fromkeys(one.split("#")[0] for one in chunk_ids))
        return ndcg(documents, dict(query.relevant), k)
    chunks = lab.work(lambda bench: chunks_of(bench.conn, query.doc_ids, table=bench.table))
    return ndcg(chunk_ids, dict.fromkeys(relevant(chunks, query), 1), k)


def dev_of(lab: Lab) -> list[GoldenQuery]:
    return [query for query in lab.golden if query.split == DEV and query.query_id not in ("none", "lost")]


def fused_by_one(lab: Lab, config: PipelineConfig, weights: Sequence[float]) -> list[float]:
    """nDCG@10 of the fused list of each dev query, one trace at a time."""
    retrievers = tuple(replace(one, weight=weight) for one, weight in zip(config.retrievers, weights, strict=True))
    plain = replace(config, retrievers=retrievers, reranker=NoReranker(), mmr_lambda=None)
    pools = [[row.chunk_id for row in lab.trace(query.query, plain).pool] for query in dev_of(lab)]
    return [expected_ndcg(lab, query, pool) for query, pool in zip(dev_of(lab), pools, strict=True)]


# --- the weights of two lists --------------------------------------------------------------------------------------


def test_the_curve_is_what_each_pair_of_weights_gives_by_itself(lab: Lab) -> None:
    curve = tune_weights(lab)
    assert (curve.setting, curve.measure, curve.stage) == ("weights", "ndcg@10", "fused")
    assert curve.lists == ("vector", "text")
    assert curve.query_ids == tuple(query.query_id for query in dev_of(lab))
    assert (len(curve.query_ids), curve.excluded, curve.dealt) == (25, ("none", "lost"), False)
    assert [point.value for point in curve.points] == [(step / 20, (20 - step) / 20) for step in range(21)]
    for place in (0, 3, 9, 10, 11, 16, 20):
        point = curve.points[place]
        alone = fused_by_one(lab, lab.config, point.value)
        assert point.values == pytest.approx(alone, abs=1e-12)
        assert point.mean == pytest.approx(sum(alone) / len(alone), abs=1e-12)
        assert point.interval == bootstrap_interval(point.values)
    means = [point.mean for point in curve.points]
    assert curve.chosen.mean == max(means) > min(means)
    assert curve.points[curve.present].value == (0.5, 0.5)
    assert curve.difference == pytest.approx(max(means) - means[10], abs=1e-12)
    assert curve.interval == paired_bootstrap_interval(curve.chosen.values, curve.points[10].values)
    assert dict(curve.points[3].settings) == {"retrievers.vector.weight": 0.15, "retrievers.text.weight": 0.85}
    assert dict(curve.points[10].settings) == {"retrievers.vector.weight": 1, "retrievers.text.weight": 1}


def test_present_weights_between_the_steps_are_a_point_of_their_own(lab: Lab) -> None:
    config = PipelineConfig(retrievers=(VectorSearch(weight=1), TextSearch(weight=2)), fusion=MinMaxFusion())
    with Lab.open(lab.corpus, config) as other:
        curve = tune_weights(other)
        assert len(curve.points) == 22
        assert curve.present == 7
        assert curve.points[7].value == pytest.approx((1 / 3, 2 / 3))
        assert list(curve.points[7].settings.values()) == [1, 2]
        assert curve.points[7].values == pytest.approx(fused_by_one(lab, config, (1, 2)), abs=1e-12)
        assert curve.points[10].values == pytest.approx(fused_by_one(lab, config, (0.45, 0.55)), abs=1e-12)


def test_each_list_is_made_once_for_each_query(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: Counter[str] = Counter()
    search = TextRetriever.search

    def counted(self: TextRetriever, query: str, *rest: Any) -> Any:
        asked[query] += 1
        return search(self, query, *rest)

    monkeypatch.setattr(TextRetriever, "search", counted)
    heard: list[tuple[int, int]] = []
    tune_weights(lab, progress=lambda done, total: heard.append((done, total)))
    assert asked == dict.fromkeys((query.query for query in dev_of(lab)), 1)
    assert heard == [(done, 25) for done in range(26)]


def test_another_measure_is_taken_of_the_same_lists(lab: Lab) -> None:
    curve = tune_weights(lab, measure="recall@3")
    plain = replace(lab.config, reranker=NoReranker(), mmr_lambda=None, top_k=3)
    by_id = {one.query.query_id: one.recall for one in lab.evaluate_queries(plain, split=DEV)}
    assert curve.points[10].values == pytest.approx([by_id[query_id] for query_id in curve.query_ids])


@pytest.mark.parametrize(
    ("measure", "message"), [("bleu", "unknown"), ("ndcg@x", "cut of 'ndcg@x'"), ("num_ret", "is a count")]
)
def test_a_measure_that_rates_no_list_is_refused(lab: Lab, measure: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        require_measure(measure)
    with pytest.raises(InputError, match=message):
        tune_weights(lab, measure=measure)


def test_it_stops_when_it_is_told_to(lab: Lab) -> None:
    with pytest.raises(Cancelled):
        tune_weights(lab, cancelled=lambda: True)
    with pytest.raises(Cancelled):
        tune_setting(lab, "fusion.k", [], cancelled=lambda: True)


# --- the weights of more -------------------------------------------------------------------------------------------


def test_three_lists_end_where_no_move_between_two_of_them_is_better(lab: Lab) -> None:
    lists = (VectorSearch(), TextSearch(weight=2), TextSearch(name="plain", operators=False, n=5))
    config = PipelineConfig(retrievers=lists)
    with Lab.open(lab.corpus, config) as other:
        curve = tune_weights(other)
        assert tune_weights(other).to_dict() == curve.to_dict()
    by_value = {point.value: point for point in curve.points}
    assert curve.points[curve.present].value == (0.25, 0.5, 0.25)
    assert (0.3, 0.5, 0.2) in by_value  # the steps begin at the nearest of tenths
    assert all(math.isclose(sum(value), 1) for value in by_value)
    best = curve.chosen
    for moved in neighbours(on_grid(best.value)):
        assert by_value[moved].mean <= best.mean + 1e-12
    for value in ((0.3, 0.5, 0.2), best.value):
        assert by_value[value].values == pytest.approx(fused_by_one(lab, config, value), abs=1e-12)
    assert best.mean > by_value[0.3, 0.5, 0.2].mean


@given(st.lists(st.floats(0, 9), min_size=2, max_size=5).filter(lambda some: sum(some) > 0.1))
def test_shares_and_their_grid(weights: list[float]) -> None:
    exact = shares(weights)
    near = on_grid(exact)
    assert sum(exact) == pytest.approx(1)
    assert sum(near) == pytest.approx(1)
    assert all(abs(share - step) < 0.1 + 1e-9 for share, step in zip(exact, near, strict=True))
    assert on_grid(near) == near
    around = neighbours(near)
    assert len(around) == len(set(around)) == (len(near) - 1) * 10
    tenths = itertools.product(range(11), repeat=len(near)) if len(near) < 4 else ()
    expected = {
        tuple(one / 10 for one in some)
        for some in tenths
        if sum(some) == 10 and sum(a / 10 != b for a, b in zip(some, near, strict=True)) == 2
    }
    assert not expected or set(around) == expected
    assert distance(exact, exact) == 0
    assert distance((0.5, 0.5, 0), (0, 0.75, 0.25)) == 0.5


def test_pairs_go_from_the_second_list_alone_to_the_first() -> None:
    assert (pairs()[0], pairs()[7], pairs()[20], len(pairs())) == ((0, 1), (0.35, 0.65), (1, 0), 21)


# --- ties ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("means", "apart", "best"),
    [
        ([0.1, 0.5, 0.3], [0, 9, 9], 1),
        ([0.5, 0.2, 0.5, 0.5], [3, 0, 1, 2], 2),
        ([0.5, 0.2, 0.5], [1, 0, 1], 0),
        ([0.5, 0.5 + 1e-14], [0, 1], 0),
        ([0.5, 0.5 + 1e-9], [0, 1], 1),
    ],
)
def test_of_equal_means_the_value_nearest_to_the_present_is_best(
    means: list[float], apart: list[float], best: int
) -> None:
    points = points_of(range(len(means)), [{}] * len(means), [(mean, mean) for mean in means])
    assert best_of(points, apart) == best


# --- any other setting ---------------------------------------------------------------------------------------------


def test_a_setting_is_measured_through_the_whole_pipeline(lab: Lab) -> None:
    ks = [200, 0, 10.5]
    curve = tune_setting(lab, "fusion.k", [replace(lab.config, fusion=RrfFusion(k=k, n=12)) for k in ks])
    assert (curve.setting, curve.stage, curve.lists) == ("fusion.k", "final", ())
    # The present pool is deeper, so that the present configuration is none of these.
    assert [point.value for point in curve.points] == [0, 10.5, 60, 200]
    assert curve.present == 2
    for point in curve.points:
        fusion = lab.config.fusion if point.value == 60 else RrfFusion(k=point.value, n=12)
        config = replace(lab.config, fusion=fusion)
        by_id = {one.query.query_id: one.ndcg for one in lab.evaluate_queries(config, split=DEV)}
        assert point.values == pytest.approx([by_id[one] for one in curve.query_ids], abs=1e-12)
        assert dict(point.settings) == {"fusion.k": point.value}
    graded = curve.query_ids.index("graded")
    assert 0 < curve.points[2].values[graded] < 1


def test_the_dimensions_of_lsa_are_chosen_on_dev(lab: Lab) -> None:
    def of(dims: int) -> PipelineConfig:
        return replace(lab.config, retrievers=(LsaSearch(dims=dims),), reranker=NoReranker(), mmr_lambda=None)

    with Lab.open(lab.corpus, of(50)) as other:
        curve = tune_setting(other, "retrievers.lsa.dims", [of(dims) for dims in (5, 200)])
        assert [point.value for point in curve.points] == [5, 50, 200]
        for point in curve.points:
            by_id = {one.query.query_id: one.ndcg for one in other.evaluate_queries(of(point.value), split=DEV)}
            assert point.values == pytest.approx([by_id[one] for one in curve.query_ids], abs=1e-12)
        assert curve.points[0].mean < curve.points[1].mean


def test_values_that_are_no_numbers_stay_in_their_order(lab: Lab) -> None:
    none = replace(lab.config, reranker=NoReranker(), mmr_lambda=None)
    curve = tune_setting(lab, "reranker.kind", [none, lab.config, none])
    assert [point.value for point in curve.points] == ["none", "lexical"]
    assert curve.present == 1


def test_a_value_that_needs_another_index_is_measured_there(lab: Lab, folder: Path) -> None:
    small = replace(lab.config, chunker=MarkdownChunker(400))
    with pytest.raises(InputError, match="needs another index"):
        tune_setting(lab, "chunker.max_chars", [small])
    curve = tune_setting(lab, "chunker.max_chars", [small], reopen=lambda config: Lab.open(folder, config))
    assert [point.value for point in curve.points] == [400, 1200]
    with Lab.open(folder, small) as other:
        by_id = {one.query.query_id: one.ndcg for one in other.evaluate_queries(small, split=DEV)}
    assert curve.points[0].values == pytest.approx([by_id[one] for one in curve.query_ids], abs=1e-12)
    assert curve.points[0].values != curve.points[1].values


def test_a_setting_that_is_not_there_is_refused(lab: Lab) -> None:
    with pytest.raises(InputError, match=r"no setting 'fusion\.q'"):
        tune_setting(lab, "fusion.q", [])


# --- dev and held-out ----------------------------------------------------------------------------------------------


def curves(folder: Path) -> list[dict[str, Any]]:
    with Lab.open(folder) as lab:
        k = [replace(lab.config, fusion=RrfFusion(k=k)) for k in (1, 20)]
        return [tune_weights(lab).to_dict(), tune_setting(lab, "fusion.k", k).to_dict()]


def changed(golden: Golden, which: Callable[[dict[str, Any]], bool]) -> Golden:
    """The same queries with the labels of some turned by one place, so that they are of other documents."""
    some = [one for one in golden if which(one) and "anchor" in one]
    labels = {one["query_id"]: other for one, other in zip(some, [*some[1:], some[0]], strict=True)}
    return [
        {**one, **{key: labels[one["query_id"]][key] for key in ("doc_id", "anchor")}}
        if one["query_id"] in labels
        else one
        for one in golden
    ]


@pytest.mark.parametrize("splits", [True, False])
def test_other_labels_of_held_out_queries_change_nothing(tmp_path: Path, splits: bool) -> None:
    golden = split_golden() if splits else bundled()
    copy = tmp_path / "corpus"
    shutil.copytree(CORPUS, copy)
    write(copy, golden)
    loaded = load_golden(copy / "golden.yaml")
    dev = {query.query_id for query in dev_queries(loaded).queries}
    assert 0 < len(dev) < len(loaded)
    before = curves(copy)
    assert before[0]["split"] == {"name": DEV, "dealt": not splits}
    write(copy, changed(golden, lambda one: one["query_id"] not in dev))
    assert curves(copy) == before
    write(copy, changed(golden, lambda one: one["query_id"] in dev))
    assert curves(copy) != before


def query(query_id: str, split: str = "") -> GoldenQuery:
    return GoldenQuery(query_id, "q", "k", "d", "a", split=split)


def test_without_splits_the_queries_are_dealt_as_split_deals_them() -> None:
    golden = load_golden(CORPUS / "golden.yaml")
    found = dev_queries(golden)
    by_query = stratified(golden).by_query
    assert found.dealt
    assert [one.query_id for one in found.queries] == [one for one in by_query if by_query[one] == DEV]
    assert len(found.queries) == 19


def test_splits_without_dev_are_an_error_that_says_what_to_do() -> None:
    with pytest.raises(InputError, match=r"no golden query is of the split 'dev'.*there is held-out, test.*--force"):
        dev_queries([query("a", "test"), query("b", "held-out"), query("c")])
    assert [one.query_id for one in dev_queries([query("a", "dev"), query("b")]).queries] == ["a"]


def test_nothing_to_measure_by_and_nothing_to_turn_are_errors(tmp_path: Path, folder: Path) -> None:
    copy = tmp_path / "corpus"
    shutil.copytree(folder, copy)
    write(copy, [MORE[0], MORE[1]])
    with Lab.open(copy) as lab:
        for tune in (tune_weights, lambda lab: tune_setting(lab, "fusion.k", [])):
            with pytest.raises(InputError, match="no dev query has a relevant chunk"):
                tune(lab)
    with (
        Lab.open(folder, PipelineConfig(retrievers=(TextSearch(),))) as lab,
        pytest.raises(InputError, match="one list"),
    ):
        tune_weights(lab)
