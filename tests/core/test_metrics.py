"""Measures by hand, `evaluate` against a loop of the tests' own, and the report."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval_lab.embed import HashEmbedder
from retrieval_lab.errors import InputError
from retrieval_lab.golden import load_golden
from retrieval_lab.hybrid import search, text_search, vector_search
from retrieval_lab.metrics import (
    evaluate,
    evaluate_queries,
    labels,
    mrr,
    ndcg_at_k,
    precision_at_k,
    recall_at_k,
    relevant,
    report,
)
from retrieval_lab.rerank import LexicalReranker, Reranker, default_pipeline, pipeline
from retrieval_lab.types import Chunk, GoldenQuery, Ranked
from tests.core import reference

Connection = psycopg.Connection[Any]

LN2 = math.log2


@pytest.fixture(scope="module")
def golden(corpus_dir: Path) -> list[GoldenQuery]:
    return load_golden(corpus_dir / "golden.yaml")


# --- relevant ------------------------------------------------------------------------------------------------------


def passage(text: str, doc_id: str = "d", number: int = 0) -> Chunk:
    return Chunk(f"{doc_id}#{number:03d}", doc_id, "", 0, len(text), text)


def query(anchor: str, doc_id: str = "d", query_id: str = "q", text: str = "x") -> GoldenQuery:
    return GoldenQuery(query_id, text, "factual", doc_id, anchor)


@pytest.mark.parametrize(
    ("text", "anchor", "holds"),
    [
        ("the Foot Valve must", "foot valve", True),
        ("the foot valve", "FOOT   VALVE", True),
        ("the foot\n  valve", "foot valve", True),
        ("the foot valve", "foot\n\tvalve", True),
        ("the foot\n\nvalve", "foot valve", True),
        ("foot\u00a0valve", "foot valve", True),
        ("footvalve", "foot valve", False),
        ("foot-valve", "foot valve", False),
        ("a foot", "foot valve", False),
        ("STRASSE", "straße", False),
        ("ÉCLAIR", "éclair", True),
    ],
)
def test_a_chunk_is_relevant_when_its_text_holds_the_anchor(text: str, anchor: str, holds: bool) -> None:
    assert relevant([passage(text)], query(anchor)) == ({"d#000"} if holds else set())


def test_only_chunks_of_the_document_count_and_all_of_them(corpus_chunks: list[Chunk]) -> None:
    chunks = [passage("fox", "d", 0), passage("a fox", "d", 1), passage("dog", "d", 2), passage("fox", "other", 0)]
    assert relevant(chunks, query("fox")) == {"d#000", "d#001"}
    assert relevant(chunks, query("fox", "gone")) == set()
    assert relevant([], query("fox")) == set()
    assert relevant(iter(chunks), query("cat")) == set()
    assert len(corpus_chunks) > 100


@pytest.mark.parametrize("anchor", ["rank fusion (RRF)", "don't sum", "k = 60."])
def test_trap_7_no_markup_quote_or_form_is_looked_through(anchor: str) -> None:
    text = "Use **reciprocal rank\nfusion** (RRF), don\u2019t sum. See `k = 60`."
    assert relevant([passage(text)], query(anchor)) == set()
    assert relevant([passage(text)], query("reciprocal rank fusion")) == {"d#000"}


def test_every_anchor_of_the_bundled_corpus_is_in_some_chunk(
    corpus_chunks: list[Chunk], golden: list[GoldenQuery]
) -> None:
    for q in golden:
        found = relevant(corpus_chunks, q)
        assert found, q.query_id
        assert found == reference.chunks_with(corpus_chunks, q.doc_id, q.anchor)


# --- measures ------------------------------------------------------------------------------------------------------

RANKED = ["a", "b", "c", "d", "e"]


def test_recall_by_hand() -> None:
    assert recall_at_k(RANKED, {"b", "d", "x"}, 3) == pytest.approx(1 / 3)
    assert recall_at_k(RANKED, {"b", "d", "x"}, 5) == pytest.approx(2 / 3)
    assert recall_at_k(RANKED, {"a"}, 1) == 1
    assert recall_at_k(RANKED, {"x"}, 5) == 0


def test_precision_by_hand_is_over_k_however_short_the_list() -> None:
    assert precision_at_k(RANKED, {"b", "d"}, 4) == pytest.approx(2 / 4)
    assert precision_at_k(RANKED, {"b", "d"}, 10) == pytest.approx(2 / 10)
    assert precision_at_k([], {"b"}, 10) == 0


def test_mrr_by_hand() -> None:
    assert mrr(RANKED, {"a", "c"}) == 1
    assert mrr(RANKED, {"c", "e"}) == pytest.approx(1 / 3)
    assert mrr(RANKED, {"x"}) == 0
    assert mrr([], {"x"}) == 0


def test_ndcg_by_hand() -> None:
    gain = 1 / LN2(1 + 1) + 1 / LN2(3 + 1)
    assert ndcg_at_k(RANKED, {"a", "c"}, 5) == pytest.approx(gain / (1 / LN2(2) + 1 / LN2(3)))
    assert ndcg_at_k(RANKED, {"c"}, 5) == pytest.approx(1 / LN2(4))
    assert ndcg_at_k(RANKED, {"c"}, 2) == 0


def test_trap_11_ndcg_is_over_the_ideal_for_min_of_k_and_relevant() -> None:
    ids = [f"r{i}" for i in range(11)]
    assert ndcg_at_k(ids[:10], set(ids), 10) == pytest.approx(1.0)
    assert ndcg_at_k(["r0", "x", "y"], {"r0", "r1", "r2"}, 10) == pytest.approx(
        1 / (1 + 1 / LN2(3) + 1 / LN2(4)), abs=1e-12
    )
    assert ndcg_at_k(["r0", "x", "y"], {"r0", "r1", "r2"}, 10) == pytest.approx(0.469, abs=5e-4)
    assert ndcg_at_k(["r0", "x", "y"], {"r0", "r1", "r2"}, 1) == 1


def test_trap_11_k_of_zero_and_k_beyond_the_list() -> None:
    for measure in (recall_at_k, precision_at_k, ndcg_at_k):
        assert measure(RANKED, {"a"}, 0) == 0
    assert recall_at_k(RANKED, {"a", "e"}, 99) == 1
    assert precision_at_k(RANKED, {"a", "e"}, 99) == pytest.approx(2 / 99)
    assert ndcg_at_k(RANKED, {"a", "b"}, 99) == pytest.approx(1.0)


def test_a_chunk_that_stands_twice_counts_once() -> None:
    assert recall_at_k(["a", "a"], {"a", "b"}, 2) == pytest.approx(1 / 2)
    assert precision_at_k(["a", "a"], {"a"}, 2) == pytest.approx(1 / 2)
    assert ndcg_at_k(["a", "a"], {"a", "b"}, 2) == pytest.approx(1 / (1 + 1 / LN2(3)))


def test_measures_of_nothing_relevant_are_zero_and_no_error() -> None:
    assert recall_at_k(RANKED, set(), 3) == precision_at_k(RANKED, set(), 3) == 0
    assert ndcg_at_k(RANKED, set(), 3) == mrr(RANKED, set()) == 0


def test_a_negative_k_is_refused() -> None:
    for measure in (recall_at_k, precision_at_k, ndcg_at_k):
        with pytest.raises(InputError, match="-1"):
            measure(RANKED, {"a"}, -1)


IDS = st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=8)


@given(IDS, st.sets(st.sampled_from("abcdefgh"), min_size=1), st.integers(1, 10))
def test_measures_equal_plain_ones(ranked: list[str], wanted: set[str], k: int) -> None:
    gains = [int(chunk_id in wanted) for chunk_id in ranked[:k]]
    ideal = sum(1 / LN2(i + 2) for i in range(min(k, len(wanted))))
    assert recall_at_k(ranked, wanted, k) == pytest.approx(sum(gains) / len(wanted))
    assert precision_at_k(ranked, wanted, k) == pytest.approx(sum(gains) / k)
    assert ndcg_at_k(ranked, wanted, k) == pytest.approx(sum(g / LN2(i + 2) for i, g in enumerate(gains)) / ideal)
    first = next((i for i, chunk_id in enumerate(ranked, start=1) if chunk_id in wanted), None)
    assert mrr(ranked, wanted) == pytest.approx(1 / first if first else 0)
    assert ndcg_at_k(ranked, wanted, k) <= 1 + 1e-12


# --- evaluate ------------------------------------------------------------------------------------------------------


def own_measures(ids: Sequence[str], wanted: set[str], k: int) -> tuple[float, float, float, float]:
    gains = [int(chunk_id in wanted) for chunk_id in ids[:k]]
    ideal = sum(1 / LN2(i + 2) for i in range(min(k, len(wanted))))
    dcg = sum(g / LN2(i + 2) for i, g in enumerate(gains))
    return (
        sum(gains) / len(wanted),
        sum(gains) / k,
        1 / (gains.index(1) + 1) if any(gains) else 0.0,
        dcg / ideal,
    )


def check_means(found: Any, values: Sequence[tuple[float, float, float, float]]) -> None:
    assert found.queries == len(values)
    measured = (found.recall, found.precision, found.mrr, found.ndcg)
    assert measured == pytest.approx([fmean(column) for column in zip(*values, strict=True)], abs=1e-9)


@pytest.mark.parametrize(
    ("reranker", "settings"),
    [
        (LexicalReranker(), {}),
        (LexicalReranker(), {"k": 3, "n": 20, "mmr_lambda": 0.4}),
        (None, {"k": 10}),
        (None, {"k": 1, "n": 5}),
    ],
    ids=["defaults", "other settings", "hybrid alone", "hybrid alone, small"],
)
def test_evaluate_equals_a_loop_over_the_queries(
    stored: Connection,
    corpus_chunks: list[Chunk],
    golden: list[GoldenQuery],
    reranker: Reranker | None,
    settings: dict[str, Any],
) -> None:
    k, n, lam = settings.get("k", 10), settings.get("n", 50), settings.get("mmr_lambda", 0.7)
    values: dict[str, tuple[float, float, float, float]] = {}
    for q in golden:
        if reranker is None:
            ids = [row.chunk_id for row in search(stored, HashEmbedder(), q.query, n, k)]
        else:
            rows = pipeline(stored, HashEmbedder(), reranker, q.query, n=n, top_k=k, mmr_lambda=lam)
            ids = [row.chunk_id for row in rows]
        values[q.query_id] = own_measures(ids, reference.chunks_with(corpus_chunks, q.doc_id, q.anchor), k)

    found = evaluate(stored, HashEmbedder(), reranker, golden, **settings)
    assert found.k == k
    check_means(found, list(values.values()))
    assert 0 < found.mrr < 1
    assert set(found.by_kind) == {q.kind for q in golden}
    for kind, part in found.by_kind.items():
        assert part.k == k
        check_means(part, [values[q.query_id] for q in golden if q.kind == kind])
    assert sum(part.queries for part in found.by_kind.values()) == found.queries == len(golden)
    assert found.undefined == ()


def test_mrr_is_over_the_top_k_only(stored: Connection, golden: list[GoldenQuery]) -> None:
    class Last:
        """Puts the best candidate last."""

        def rerank(self, query: str, chunks: Sequence[Chunk], top_k: int) -> list[Ranked]:
            found = LexicalReranker().rerank(query, chunks, len(chunks))[::-1]
            return [replace(row, score=float(-i), rank=i + 1) for i, row in enumerate(found)][:top_k]

    assert evaluate(stored, HashEmbedder(), Last(), golden[:12], k=1, mmr_lambda=1).mrr == 0
    whole = evaluate(stored, HashEmbedder(), Last(), golden[:12], k=50, mmr_lambda=1)
    assert 0 < whole.mrr < 0.1


def test_recall_of_the_pool_is_before_the_cut(
    stored: Connection, corpus_chunks: list[Chunk], golden: list[GoldenQuery]
) -> None:
    n = 20
    expected: dict[str, list[float]] = {"fused": [], "vector": [], "text": []}
    for q in golden:
        wanted = reference.chunks_with(corpus_chunks, q.doc_id, q.anchor)
        sides = {
            "vector": [hit.chunk_id for hit in vector_search(stored, HashEmbedder(), q.query, n)],
            "text": [hit.chunk_id for hit in text_search(stored, q.query, n)],
        }
        sides["fused"] = [chunk_id for chunk_id, _ in reference.rrf(list(sides.values()))][:n]
        for name, ids in sides.items():
            expected[name].append(len(wanted.intersection(ids)) / len(wanted))
    found = evaluate(stored, HashEmbedder(), LexicalReranker(), golden, k=3, n=n)
    assert found.n == n
    assert found.pool == pytest.approx({name: fmean(values) for name, values in expected.items()}, abs=1e-9)


def test_trap_7_and_8_queries_without_a_relevant_chunk_are_in_no_mean_and_named(
    stored: Connection, golden: list[GoldenQuery]
) -> None:
    bad = [
        replace(golden[0], query_id="x1", doc_id="gone"),
        replace(golden[1], query_id="x2", anchor="words that stand nowhere"),
        replace(golden[2], query_id="x3", kind="lonely", anchor="nor do these"),
    ]
    mixed = [bad[0], *golden[:5], bad[1], *golden[5:10], bad[2]]
    found = evaluate(stored, HashEmbedder(), LexicalReranker(), mixed)
    clean = evaluate(stored, HashEmbedder(), LexicalReranker(), golden[:10])
    assert found.undefined == ("x1", "x2", "x3")
    assert (found.queries, found.recall, found.precision, found.mrr, found.ndcg) == (
        clean.queries,
        clean.recall,
        clean.precision,
        clean.mrr,
        clean.ndcg,
    )
    assert found.by_kind["lonely"].queries == 0
    assert found.by_kind["lonely"].undefined == ("x3",)
    assert math.isnan(found.by_kind["lonely"].recall)


def test_no_queries_give_no_means_and_no_error(stored: Connection) -> None:
    found = evaluate(stored, HashEmbedder(), LexicalReranker(), [])
    assert (found.queries, found.by_kind, found.undefined) == (0, {}, ())
    assert math.isnan(found.recall)
    assert "0" in report(found)


@pytest.mark.parametrize("settings", [{"k": 0}, {"k": -1}, {"n": 0}])
def test_settings_that_make_no_sense_are_refused(
    stored: Connection, golden: list[GoldenQuery], settings: dict[str, Any]
) -> None:
    with pytest.raises(InputError):
        evaluate(stored, HashEmbedder(), LexicalReranker(), golden[:1], **settings)


def test_each_query_is_embedded_once(stored: Connection, golden: list[GoldenQuery]) -> None:
    class Recorder(HashEmbedder):
        calls: ClassVar[Counter[str]] = Counter()

        def embed(self, texts: Sequence[str]) -> Any:
            self.calls.update(texts)
            return super().embed(texts)

    evaluate(stored, Recorder(), LexicalReranker(), golden[:8])
    assert Recorder.calls == Counter(q.query for q in golden[:8])


def test_a_miss_knows_its_rank_in_the_whole_reranked_pool(
    stored: Connection, corpus_chunks: list[Chunk], golden: list[GoldenQuery]
) -> None:
    some = golden[::3]
    pipeline = default_pipeline(stored, HashEmbedder(), LexicalReranker(), top_k=3)
    results = list(evaluate_queries(pipeline, labels(stored, some)))
    assert [result.query for result in results] == some
    assert any(result.ranks["final"] is None and result.ranks["reranked"] is not None for result in results)
    for result in results:
        wanted = reference.chunks_with(corpus_chunks, result.query.doc_id, result.query.anchor)
        pool = [row.chunk_id for row in search(stored, HashEmbedder(), result.query.query, 50, 50)]
        texts = {c.chunk_id: c.text for c in corpus_chunks}
        scores = reference.bm25(result.query.query, [texts[chunk_id] for chunk_id in pool])
        order = sorted(range(len(pool)), key=lambda i, scores=scores: -round(scores[i], 9))  # type: ignore[misc]
        ranks = [rank for rank, i in enumerate(order, start=1) if pool[i] in wanted]
        assert result.relevant_ids == wanted
        assert result.ranks["reranked"] == min(ranks, default=None)


# --- report --------------------------------------------------------------------------------------------------------


def test_report_has_a_row_for_all_and_one_for_each_kind(stored: Connection, golden: list[GoldenQuery]) -> None:
    found = evaluate(stored, HashEmbedder(), LexicalReranker(), golden)
    header, *rows = [line.split() for line in report(found).splitlines()]
    assert [name for name in header if name.endswith("@10")] == ["recall@10", "precision@10", "mrr@10", "ndcg@10"]
    assert [row[0] for row in rows] == ["all", *sorted(found.by_kind)]
    for row, part in zip(rows, [found, *(found.by_kind[kind] for kind in sorted(found.by_kind))], strict=True):
        assert row[1] == str(part.queries)
        assert row[2:6] == [f"{value:.3f}" for value in (part.recall, part.precision, part.mrr, part.ndcg)]


def test_report_names_the_queries_that_were_not_counted(stored: Connection, golden: list[GoldenQuery]) -> None:
    found = evaluate(stored, HashEmbedder(), None, [*golden[:2], replace(golden[0], query_id="x9", doc_id="gone")])
    assert "x9" in report(found).splitlines()[-1]
    assert "x9" not in report(evaluate(stored, HashEmbedder(), None, golden[:2]))


def test_report_is_equal_every_time(stored: Connection, golden: list[GoldenQuery]) -> None:
    first, second = (evaluate(stored, HashEmbedder(), LexicalReranker(), golden[:10]) for _ in range(2))
    assert first == second
    assert report(first) == report(second)
    shuffled = evaluate(stored, HashEmbedder(), LexicalReranker(), golden[:10][::-1])
    assert report(shuffled) == report(first)
