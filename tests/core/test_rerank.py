"""Rerankers, fetching, and the pipeline that puts the stages together."""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval_lab.embed import HashEmbedder
from retrieval_lab.errors import EnvironmentMissing, InputError
from retrieval_lab.extras import MissingExtra
from retrieval_lab.hybrid import search, text_search, vector_search
from retrieval_lab.rerank import CrossEncoderReranker, LexicalReranker, default_pipeline, fetch, pipeline
from retrieval_lab.types import Chunk, Ranked
from tests.core import reference

Connection = psycopg.Connection[Any]

QUERIES = [
    "how many positions of one lexeme does a tsvector keep?",
    "who painted the inn sign?",
    '"reciprocal rank fusion" -vector',
    "ef_search",
    "the a of",
    "!!!",
    "",
    "zyzzyva qwertz",
]


def passages(*texts: str) -> list[Chunk]:
    return [Chunk(f"d#{i:03d}", "d", "", 0, len(text), text) for i, text in enumerate(texts)]


def ranking(query: str, *texts: str, top_k: int = 99, **settings: float) -> list[int]:
    found = LexicalReranker(**settings).rerank(query, passages(*texts), top_k)
    return [int(row.chunk_id[-3:]) for row in found]


def scores(query: str, *texts: str, **settings: float) -> list[float]:
    """The score of each text, in the order given."""
    found = LexicalReranker(**settings).rerank(query, passages(*texts), len(texts))
    by_id = {row.chunk_id: row.score for row in found}
    return [by_id[piece.chunk_id] for piece in passages(*texts)]


# --- BM25 ----------------------------------------------------------------------------------------------------------


def test_bm25_by_hand() -> None:
    # Three texts of 2, 4 and 3 words: average 3. "fox" is in two of them, "red" in one.
    fox = math.log(1 + (3 - 2 + 0.5) / (2 + 0.5))
    red = math.log(1 + (3 - 1 + 0.5) / (1 + 0.5))
    expected = [
        fox * 1 * 2.2 / (1 + 1.2 * (0.25 + 0.75 * 2 / 3)) + red * 1 * 2.2 / (1 + 1.2 * (0.25 + 0.75 * 2 / 3)),
        fox * 2 * 2.2 / (2 + 1.2 * (0.25 + 0.75 * 4 / 3)),
        0,
    ]
    assert scores("red fox", "red fox", "fox and fox again", "a blue dog") == pytest.approx(expected, abs=1e-9)


def test_bm25_parameters_by_hand() -> None:
    idf = math.log(1 + (2 - 1 + 0.5) / (1 + 0.5))
    assert scores("x", "x x", "y", k1=0.5, b=0) == pytest.approx([idf * 2 * 1.5 / (2 + 0.5), 0])
    assert scores("x", "x x", "y", k1=2, b=1) == pytest.approx([idf * 2 * 3 / (2 + 2 * 2 / 1.5), 0])


def test_bm25_idf_is_of_the_candidates_alone_and_never_negative() -> None:
    # A word of every candidate: ln(1 + .5 / (N + .5)) > 0.
    assert scores("x", "x", "x", "x") == pytest.approx([math.log(1 + 0.5 / 3.5)] * 3)
    assert scores("x", "x") == pytest.approx([math.log(1 + 0.5 / 1.5)])


def test_bm25_takes_each_word_of_the_query_once_and_folds_case() -> None:
    texts = ("Red fox", "red red", "FOX")
    assert scores("red fox", *texts) == scores("RED red fox! Fox, red", *texts)


TEXTS = st.lists(st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=8).map(" ".join), min_size=1, max_size=8)


@given(st.lists(st.sampled_from(["a", "b", "c", "x"]), max_size=5).map(" ".join), TEXTS)
def test_bm25_equals_a_plain_one(query: str, texts: list[str]) -> None:
    if not any(texts):
        texts = [*texts, "a"]
    assert scores(query, *texts) == pytest.approx(reference.bm25(query, texts), abs=1e-9)


def test_bm25_equals_a_plain_one_on_the_bundled_corpus(corpus_chunks: list[Chunk]) -> None:
    pool = corpus_chunks[::12]
    query = "how long must the valve hold before the index of a corpus is rebuilt"
    found = LexicalReranker().rerank(query, pool, len(pool))
    expected = dict(zip((c.chunk_id for c in pool), reference.bm25(query, [c.text for c in pool]), strict=True))
    assert {row.chunk_id: row.score for row in found} == pytest.approx(expected, abs=1e-6)
    assert [row.score for row in found] == sorted((row.score for row in found), reverse=True)


def test_bm25_ties_stay_in_the_order_given() -> None:
    assert ranking("x", "x", "y", "x", "y x y", "x") == [0, 2, 4, 3, 1]
    assert ranking("nothing shared", "x", "y", "z") == [0, 1, 2]
    assert ranking("", "x", "y", "z") == [0, 1, 2]


def test_bm25_ties_that_rounding_could_break_stay_in_the_order_given() -> None:
    # Every text holds the three words 1, 2 and 3 times in some order: equal terms of the sum, added in another order.
    counts = [(1, 2, 3), (1, 3, 2), (2, 1, 3), (2, 3, 1), (3, 1, 2), (3, 2, 1)]
    for other in range(1, 40):
        texts = [" ".join("a" * i + "b" * j + "c" * k) for i, j, k in counts] + ["y " * other]
        assert ranking("a b c", *texts)[:6] == [0, 1, 2, 3, 4, 5]


def test_trap_14_a_repeated_common_word_does_not_beat_all_the_words() -> None:
    flood, answer = "index the index index index of index", "configure hnsw index with ef_search"
    assert ranking("how do I configure the hnsw index", flood, answer) == [1, 0]


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("ef_search", "Set ef_search first"),
        ("node", "Use node.js"),
        ("node js", "Use node.js"),
        ("store", "edit store.py"),
        ("method", "call obj.method()"),
        ("thyroid", "thyroid/metabolic"),
        ("foo-bar", "foo bar"),
    ],
)
def test_trap_6_bm25_finds_what_the_parser_of_full_text_hides(query: str, text: str) -> None:
    assert ranking(query, "nothing of it", text)[0] == 1
    assert scores(query, "nothing of it", text)[1] > 0


def test_ranks_count_from_1_and_a_reranker_alone_leaves_ranks_empty() -> None:
    found = LexicalReranker().rerank("x", passages("y", "x", "x x"), 2)
    assert [(row.chunk_id, row.rank, row.ranks) for row in found] == [("d#002", 1, ()), ("d#001", 2, ())]


def test_nothing_to_rerank_gives_nothing() -> None:
    assert LexicalReranker().rerank("x", [], 5) == []
    assert LexicalReranker().rerank("x", passages("x"), 0) == []
    assert ranking("x", "", "") == [0, 1]


@pytest.mark.parametrize("settings", [{"k1": -1}, {"b": -0.1}, {"b": 1.1}])
def test_bm25_parameters_that_make_no_sense_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(InputError, match="BM25"):
        LexicalReranker(**settings)


# --- the cross-encoder ---------------------------------------------------------------------------------------------


class FakeCrossEncoder:
    """Takes the place of fastembed's class; scores a passage by its length."""

    made: ClassVar[list[dict[str, Any]]] = []
    calls: ClassVar[list[tuple[str, list[str]]]] = []

    def __init__(self, **arguments: Any) -> None:
        self.made.append(arguments)

    def rerank(self, query: str, documents: Sequence[str]) -> Any:
        self.calls.append((query, list(documents)))
        return (np.float32(len(document) - 3) for document in documents)


@pytest.fixture
def cross_encoder(monkeypatch: pytest.MonkeyPatch) -> type[FakeCrossEncoder]:
    for name in ("fastembed", "fastembed.rerank", "fastembed.rerank.cross_encoder"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    sys.modules["fastembed.rerank.cross_encoder"].TextCrossEncoder = FakeCrossEncoder  # type: ignore[attr-defined]
    monkeypatch.setattr(FakeCrossEncoder, "made", [])
    monkeypatch.setattr(FakeCrossEncoder, "calls", [])
    return FakeCrossEncoder


def test_cross_encoder_ranks_by_the_models_scores_ties_in_the_order_given(
    cross_encoder: type[FakeCrossEncoder], tmp_path: Path
) -> None:
    reranker = CrossEncoderReranker("some/model", tmp_path)
    found = reranker.rerank("a query", passages("a", "ccc", "bb", "xx"), 3)
    assert found == [
        Ranked("d#001", 0.0, 1, ()),
        Ranked("d#002", -1.0, 2, ()),
        Ranked("d#003", -1.0, 3, ()),
    ]
    assert all(type(row.score) is float for row in found)
    assert cross_encoder.calls == [("a query", ["a", "ccc", "bb", "xx"])]
    assert [{**call, "cache_dir": str(call["cache_dir"])} for call in cross_encoder.made] == [
        {"model_name": "some/model", "cache_dir": str(tmp_path)}
    ]


def test_cross_encoder_is_loaded_once_and_not_before_it_ranks(cross_encoder: type[FakeCrossEncoder]) -> None:
    reranker = CrossEncoderReranker()
    assert reranker.rerank("q", [], 5) == []
    assert cross_encoder.made == []
    reranker.rerank("q", passages("a"), 1)
    reranker.rerank("q", passages("b"), 1)
    assert [call["model_name"] for call in cross_encoder.made] == ["Xenova/ms-marco-MiniLM-L-6-v2"]


def test_cross_encoder_loads_from_the_cache_of_the_environment(
    cross_encoder: type[FakeCrossEncoder], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(tmp_path))
    CrossEncoderReranker().rerank("q", passages("a"), 1)
    assert str(cross_encoder.made[0]["cache_dir"]) == str(tmp_path)


def test_cross_encoder_without_fastembed_names_the_extra_and_only_when_it_ranks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "fastembed", None)
    monkeypatch.delitem(sys.modules, "fastembed.rerank.cross_encoder", raising=False)
    monkeypatch.delitem(sys.modules, "fastembed.rerank", raising=False)
    reranker = CrossEncoderReranker()
    assert reranker.rerank("q", [], 5) == []
    with pytest.raises(MissingExtra, match=r"retrieval-lab\[models\]"):
        reranker.rerank("q", passages("a"), 1)
    assert issubclass(MissingExtra, EnvironmentMissing)


# --- fetch ---------------------------------------------------------------------------------------------------------


def test_fetch_gives_chunk_and_embedding_by_id(stored: Connection, corpus_chunks: list[Chunk]) -> None:
    wanted = [corpus_chunks[i] for i in (7, 3, 100)]
    found = fetch(stored, [piece.chunk_id for piece in wanted])
    assert [piece for piece, _ in found.values()] == wanted
    assert list(found) == [piece.chunk_id for piece in wanted]
    for piece, vector in found.values():
        assert np.asarray(vector).dtype == np.float32
        np.testing.assert_array_equal(vector, HashEmbedder().embed([piece.text])[0])


def test_fetch_leaves_out_unknown_ids_and_takes_none(stored: Connection, corpus_chunks: list[Chunk]) -> None:
    known = corpus_chunks[0].chunk_id
    assert list(fetch(stored, ["no such#000", known, "'; DROP TABLE chunks; --"])) == [known]
    assert fetch(stored, []) == {}
    assert fetch(stored, ["no such#000"]) == {}


# --- the pipeline --------------------------------------------------------------------------------------------------


class Counting:
    """A reranker that remembers what it was given and turns the order round."""

    def __init__(self) -> None:
        self.pools: list[list[str]] = []

    def rerank(self, query: str, chunks: Sequence[Chunk], top_k: int) -> list[Ranked]:  # noqa: ARG002
        ids = [piece.chunk_id for piece in chunks]
        self.pools.append(ids)
        return [Ranked(c, float(-i), i + 1, ()) for i, c in enumerate(reversed(ids))][:top_k]


def own_pipeline(
    conn: Connection, query: str, n: int, top_k: int, lam: float
) -> list[tuple[str, float, tuple[int | None, ...]]]:
    """(id, score, ranks) by the rules, from the two lists on."""
    lists = [
        [hit.chunk_id for hit in vector_search(conn, HashEmbedder(), query, n)],
        [hit.chunk_id for hit in text_search(conn, query, n)],
    ]
    pool = [chunk_id for chunk_id, _ in reference.rrf(lists)][:n]
    if not pool:
        return []
    rows = {
        row[0]: (row[1], np.fromstring(row[2].strip("[]"), sep=","))
        for row in conn.execute("SELECT chunk_id, text, embedding::text FROM chunks WHERE chunk_id = ANY(%s)", (pool,))
    }
    bm25 = dict(zip(pool, reference.bm25(query, [rows[c][0] for c in pool]), strict=True))
    reranked = sorted(pool, key=lambda c: -round(bm25[c], 9))  # stable: ties in fused order
    query_vector = reference.hash_vector(query)
    vectors = [rows[c][1] for c in reranked]
    order = reference.mmr(query_vector, [bm25[c] for c in reranked], vectors, lam, top_k)
    return [
        (c, bm25[c], tuple(ids.index(c) + 1 if c in ids else None for ids in lists))
        for c in (reranked[i] for i in order)
    ]


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize(("n", "top_k", "lam"), [(50, 10, 0.7), (12, 12, 0.3)])
def test_the_pipeline_equals_the_rules_applied_one_by_one(
    stored: Connection, query: str, n: int, top_k: int, lam: float
) -> None:
    found = pipeline(stored, HashEmbedder(), LexicalReranker(), query, n=n, top_k=top_k, mmr_lambda=lam)
    expected = own_pipeline(stored, query, n, top_k, lam)
    assert [row.chunk_id for row in found] == [c for c, _, _ in expected]
    assert [row.score for row in found] == pytest.approx([score for _, score, _ in expected], abs=1e-6)
    assert [row.ranks for row in found] == [ranks for _, _, ranks in expected]
    assert [row.rank for row in found] == list(range(1, len(found) + 1))


def test_the_defaults_are_50_10_and_07(stored: Connection) -> None:
    for query in QUERIES[:4]:
        assert pipeline(stored, HashEmbedder(), LexicalReranker(), query) == pipeline(
            stored, HashEmbedder(), LexicalReranker(), query, n=50, top_k=10, mmr_lambda=0.7
        )


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("reranker", [LexicalReranker(), None])
def test_asking_for_fewer_gives_a_prefix(stored: Connection, query: str, reranker: LexicalReranker | None) -> None:
    whole = pipeline(stored, HashEmbedder(), reranker, query, top_k=50)
    for top_k in (0, 1, 7, 10, 30):
        assert pipeline(stored, HashEmbedder(), reranker, query, top_k=top_k) == whole[:top_k]


def test_the_whole_pool_is_reranked_in_fused_order_whatever_is_asked_for(stored: Connection) -> None:
    query = QUERIES[0]
    fused = [row.chunk_id for row in search(stored, HashEmbedder(), query, n=20, top_k=20)]
    reranker = Counting()
    for top_k in (1, 5, 20):
        pipeline(stored, HashEmbedder(), reranker, query, n=20, top_k=top_k)
    assert reranker.pools == [fused] * 3
    assert len(fused) == 20


def test_the_pool_is_the_first_n_of_the_fusion_not_the_union_of_the_lists(stored: Connection) -> None:
    query = "who painted the inn sign?"
    lists = [vector_search(stored, HashEmbedder(), query, 5), text_search(stored, query, 5)]
    union = reference.rrf([[hit.chunk_id for hit in hits] for hits in lists])
    assert len(union) > 5
    reranker = Counting()
    found = pipeline(stored, HashEmbedder(), reranker, query, n=5, top_k=99)
    assert reranker.pools == [[chunk_id for chunk_id, _ in union[:5]]]
    assert len(found) == 5


def test_ranks_stay_what_fusion_made_them(stored: Connection) -> None:
    query = QUERIES[0]
    fused = {row.chunk_id: row.ranks for row in search(stored, HashEmbedder(), query, n=50, top_k=50)}
    found = pipeline(stored, HashEmbedder(), Counting(), query, top_k=50)
    assert {row.chunk_id: row.ranks for row in found} == fused


@pytest.mark.parametrize("query", QUERIES)
def test_without_a_reranker_the_pipeline_is_hybrid_search_alone(stored: Connection, query: str) -> None:
    found = pipeline(stored, HashEmbedder(), None, query, n=30, top_k=12)
    assert found == search(stored, HashEmbedder(), query, n=30, top_k=12)


def test_a_query_that_nothing_answers_is_an_empty_list(stored: Connection) -> None:
    for query in ("", "!!!", "😀", "   ", "\x00", "\ud800"):
        assert pipeline(stored, HashEmbedder(), LexicalReranker(), query) == []


def test_a_query_of_operators_keeps_the_vector_side(stored: Connection) -> None:
    for query in ("& vector | index !", "-" * 40 + " vector index", "'vector' <-> (index):*"):
        found = pipeline(stored, HashEmbedder(), LexicalReranker(), query)
        assert len(found) == 10
        assert any(row.ranks[0] for row in found)


@pytest.mark.parametrize("settings", [{"n": -1}, {"top_k": -1}, {"mmr_lambda": 1.5}, {"mmr_lambda": -0.5}])
def test_settings_that_make_no_sense_are_refused(stored: Connection, settings: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        pipeline(stored, HashEmbedder(), LexicalReranker(), "vector index", **settings)


def test_stages_keep_what_the_pipeline_throws_away(stored: Connection) -> None:
    embedder, query = HashEmbedder(), QUERIES[0]
    made = default_pipeline(stored, embedder, LexicalReranker()).run(query)
    assert list(made.lists) == ["vector", "text"]
    assert list(made.lists["vector"]) == vector_search(stored, embedder, query)
    assert list(made.lists["text"]) == text_search(stored, query)
    assert list(made.fused[:50]) == search(stored, embedder, query, top_k=50)
    assert {row.chunk_id for row in made.reranked} == {row.chunk_id for row in made.fused[:50]}
    assert list(made.final) == pipeline(stored, embedder, LexicalReranker(), query)
    assert made.chunks.keys() >= {row.chunk_id for row in made.reranked}


def test_the_same_query_gives_the_same_list_on_every_connection_and_order_of_rows(
    stored: Connection, fresh: Connection, corpus_chunks: list[Chunk]
) -> None:
    from retrieval_lab.store import Schema, upsert

    shuffled = random.Random(1).sample(corpus_chunks, len(corpus_chunks))
    Schema.create(fresh, 256)
    upsert(fresh, shuffled, HashEmbedder(), batch=100)
    for query in QUERIES:
        here, there = (pipeline(c, HashEmbedder(), LexicalReranker(), query, scan="exact") for c in (stored, fresh))
        assert here == there
