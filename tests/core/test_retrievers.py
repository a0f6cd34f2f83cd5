"""Retrievers behind one protocol: the two of the default pipeline, one of a test's own, filters, weighted fusion."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval_lab import Lab, PipelineConfig
from retrieval_lab.database import Database
from retrieval_lab.embed import HashEmbedder, QueryVectors
from retrieval_lab.errors import InputError
from retrieval_lab.hybrid import rrf, text_search, vector_search
from retrieval_lab.metrics import load_golden
from retrieval_lab.pipeline import Leg, Pipeline
from retrieval_lab.retrievers.base import RetrieverSettings, Surroundings, Traceable
from retrieval_lab.retrievers.registry import RETRIEVERS
from retrieval_lab.retrievers.text import TextSearch
from retrieval_lab.retrievers.vector import VectorSearch
from retrieval_lab.settings import NoReranker
from retrieval_lab.store import Schema, fetch, upsert
from retrieval_lab.types import EVERYTHING, Chunk, Filter, Hit, Ranked
from tests.core import reference
from tests.core.conftest import CORPUS

Connection = psycopg.Connection[Any]

GOLDEN = [query.query for query in load_golden(CORPUS / "golden.yaml")]
QUESTION = "how are vectors and full text fused by rank"


def around(conn: Connection, dims: int = 256) -> Surroundings:
    return Surroundings(conn, QueryVectors(HashEmbedder(dims)))


@pytest.fixture
def documents(fresh: Connection) -> Connection:
    """A table with 60 chunks: 20 of each of the documents a, b and c; those of a are nearest to `loaf`, c farthest."""
    Schema.create(fresh, 64)
    words = {"a": "loaf loaf", "b": "loaf of bread", "c": "loaf among many other words about fishing and boats"}
    chunks = [
        Chunk(f"{doc_id}#{i:03d}", doc_id, "", 0, 0, f"{text} number{i}")
        for doc_id, text in words.items()
        for i in range(20)
    ]
    upsert(fresh, chunks, HashEmbedder(64))
    fresh.execute("ANALYZE chunks")
    return fresh


# --- the registry --------------------------------------------------------------------------------------------------


def test_every_kind_of_the_registry_builds_a_retriever_with_the_name_it_was_given(stored: Connection) -> None:
    assert list(RETRIEVERS) == ["vector", "text", "bm25", "bm25-stemmed", "tfidf", "lsa", "flat", "ivf"]
    for kind, settings in RETRIEVERS.items():
        assert issubclass(settings, RetrieverSettings)
        assert settings.kind == kind
        retriever = settings(name="mine").build(around(stored))
        assert retriever.name == "mine"
        hits = retriever.search(QUESTION, 7)
        assert [hit.rank for hit in hits] == [1, 2, 3, 4, 5, 6, 7]
        assert all(isinstance(hit, Hit) for hit in hits)


@pytest.mark.parametrize("n", [1, 50])
def test_the_lists_are_those_of_the_pinned_functions(stored: Connection, n: int) -> None:
    exact = VectorSearch().build(around(stored))
    index = VectorSearch(scan="hnsw").build(around(stored))
    text = TextSearch().build(around(stored))
    embedder = HashEmbedder()
    for query in GOLDEN[::4]:
        assert exact.search(query, n) == vector_search(stored, embedder, query, n, scan="exact")
        assert index.search(query, n) == vector_search(stored, embedder, query, n, scan="hnsw")
        assert text.search(query, n) == text_search(stored, query, n)
        assert len(exact.search(query, n)) == n


def test_what_is_found_with_an_explanation_is_what_is_found_without(stored: Connection) -> None:
    for settings in (VectorSearch(), VectorSearch(scan="hnsw"), TextSearch(), TextSearch(operators=False)):
        retriever = settings.build(around(stored))
        assert isinstance(retriever, Traceable)
        for query in (QUESTION, "!!!", '"rank fusion" -vector'):
            plain, explained = retriever.find(query, 20), retriever.find(query, 20, explain=True)
            assert list(plain.hits) == list(explained.hits) == retriever.search(query, 20)
            assert plain.notes == explained.notes
            assert plain.plan == ()


def test_one_retriever_answers_one_query_after_another(stored: Connection) -> None:
    vector, text = VectorSearch().build(around(stored)), TextSearch().build(around(stored))
    for query in ("ranking", "bread", "ranking", "", "bread"):
        assert vector.search(query, 5) == vector_search(stored, HashEmbedder(), query, 5)
        assert text.search(query, 5) == text_search(stored, query, 5)


def test_more_than_1000_rows_are_read_exactly(fresh: Connection) -> None:
    Schema.create(fresh, 16)
    chunks = [Chunk(f"d#{i:04d}", "d", "", 0, 0, f"word{i} bread") for i in range(1100)]
    upsert(fresh, chunks, HashEmbedder(16), batch=500)
    found = VectorSearch(n=5000).build(around(fresh, 16)).find("bread", 5000)
    assert len(found.hits) == 1100
    assert found.notes == ()
    assert len(TextSearch(n=5000).build(around(fresh, 16)).search("bread", 5000)) == 1100


# --- a retriever of somebody else's --------------------------------------------------------------------------------


class Alphabet:
    """The chunks of the table in the order of their ids: a name and `search`, no more."""

    name = "alphabet"

    def __init__(self, chunk_ids: Sequence[str]) -> None:
        self._chunk_ids = sorted(chunk_ids)
        self.asked: list[tuple[str, int, Filter]] = []

    def search(self, query: str, n: int, filter: Filter = EVERYTHING) -> list[Hit]:
        self.asked.append((query, n, filter))
        wanted = [one for one in self._chunk_ids if not filter.doc_ids or one.split("#")[0] in filter.doc_ids]
        return [Hit(chunk_id, 1 / rank, rank) for rank, chunk_id in enumerate(wanted[:n], start=1)]


def pipeline(conn: Connection, *legs: Leg, filter: Filter = EVERYTHING) -> Pipeline:
    return Pipeline(
        legs=legs,
        fetch=partial(fetch, conn),
        vectors=QueryVectors(HashEmbedder(64)),
        reranker=None,
        n=50,
        top_k=10,
        mmr_lambda=None,
        filter=filter,
    )


def test_a_retriever_with_a_name_and_search_alone_works_in_a_pipeline(documents: Connection) -> None:
    mine = Alphabet([f"{doc_id}#{i:03d}" for doc_id in "abc" for i in range(20)])
    assert not isinstance(mine, Traceable)
    text = TextSearch().build(around(documents, 64))
    made = pipeline(documents, Leg(mine, 3), Leg(text, 5)).run("bread", explain=True)
    assert mine.asked == [("bread", 3, EVERYTHING)]
    assert list(made.lists) == ["alphabet", "text"]
    assert [hit.chunk_id for hit in made.lists["alphabet"]] == ["a#000", "a#001", "a#002"]
    assert list(made.lists["text"]) == text_search(documents, "bread", 5)
    assert [(row.chunk_id, row.ranks) for row in made.final[:2]] == [("a#000", (1, None)), ("b#000", (None, 1))]
    assert (made.searches["alphabet"].asked, made.searches["alphabet"].plan) == (3, ())
    assert made.timings["alphabet"] >= 0


def test_a_pipeline_of_one_retriever_gives_its_list(documents: Connection) -> None:
    mine = Alphabet(["c#003", "a#001", "b#002"])
    made = pipeline(documents, Leg(mine, 10)).run("anything")
    assert [row.chunk_id for row in made.final] == ["a#001", "b#002", "c#003"]
    assert [row.ranks for row in made.final] == [(1,), (2,), (3,)]


def test_a_retriever_is_handed_the_filter(documents: Connection) -> None:
    mine = Alphabet(["c#003", "a#001", "b#002"])
    made = pipeline(documents, Leg(mine, 10), filter=Filter(("b",))).run("anything")
    assert [row.chunk_id for row in made.final] == ["b#002"]


# --- filters -------------------------------------------------------------------------------------------------------


def test_a_filter_is_applied_before_the_cut(documents: Connection) -> None:
    """The chunks of c come after 40 others, so that a filter after the cut would leave nothing."""
    vectors = {
        row[0]: reference.hash_vector(row[1], 64) for row in documents.execute("SELECT chunk_id, text FROM chunks")
    }
    ranked = reference.nearest(reference.hash_vector("loaf", 64), vectors, 60)
    assert not any(chunk_id.startswith("c") for chunk_id, _ in ranked[:20])
    cosines = [cosine for chunk_id, cosine in ranked if chunk_id.startswith("c")]
    for settings in (VectorSearch(), TextSearch(), TextSearch(operators=False)):
        retriever = settings.build(around(documents, 64))
        hits = retriever.search("loaf", 10, Filter(("c",)))
        assert len(hits) == 10
        assert {hit.chunk_id[0] for hit in hits} == {"c"}
        assert [hit.rank for hit in hits] == list(range(1, 11))
        if isinstance(settings, VectorSearch):
            assert [hit.score for hit in hits] == pytest.approx(cosines[:10], abs=1e-6)


@pytest.mark.parametrize("doc_ids", [("a",), ("c",), ("a", "c"), ("a", "b", "c"), ("nothing",), ("a", "nothing")])
def test_a_filtered_list_is_the_whole_list_without_the_others(documents: Connection, doc_ids: tuple[str, ...]) -> None:
    for settings in (VectorSearch(), TextSearch()):
        retriever = settings.build(around(documents, 64))
        whole = retriever.search("loaf number3 bread", 100)
        found = retriever.search("loaf number3 bread", 100, Filter(doc_ids))
        wanted = [(hit.chunk_id, hit.score) for hit in whole if hit.chunk_id[0] in doc_ids]
        assert [(hit.chunk_id, hit.score) for hit in found] == wanted
        assert len(found) == 20 * len(set(doc_ids) & set("abc"))


@pytest.mark.parametrize("doc_ids", [("c",), ("b", "c")])
@pytest.mark.parametrize("n", [5, 20, 50])
def test_a_filtered_index_scan_gives_allowed_chunks_and_tells_how_many_are_missing(
    documents: Connection, doc_ids: tuple[str, ...], n: int
) -> None:
    found = VectorSearch(scan="hnsw").build(around(documents, 64)).find("loaf", n, Filter(doc_ids))
    assert {hit.chunk_id[0] for hit in found.hits} <= set(doc_ids)
    expected = min(n, 20 * len(doc_ids))
    if len(found.hits) < expected:
        (note,) = found.notes
        assert f"{len(found.hits)} of {expected}" in note
    else:
        assert found.notes == ()


def test_a_filter_reaches_every_list_of_a_configuration(database: Database) -> None:
    assert database.embedded
    with Lab.open() as lab:
        config = PipelineConfig(
            retrievers=(VectorSearch(), VectorSearch(name="index", scan="hnsw"), TextSearch()),
            filter=Filter(("hybrid-search", "vector-indexes")),
        )
        trace = lab.trace(QUESTION, config)
        assert min(len(trace.vector), len(trace.text)) > 20
        listed = {chunk.doc_id for chunk in trace.chunks.values()}
        assert listed == {"hybrid-search", "vector-indexes"}
        assert {hit.chunk_id.split("#")[0] for hits in trace.lists.values() for hit in hits} == listed


@pytest.mark.parametrize("doc_id", ["'; DROP TABLE chunks; --", "%s", "{a}", "\x00", "\ud800", "a,b", '"'])
def test_a_document_of_any_name_may_be_asked_for(documents: Connection, doc_id: str) -> None:
    for settings in (VectorSearch(), VectorSearch(scan="hnsw"), TextSearch()):
        assert settings.build(around(documents, 64)).search("loaf", 10, Filter((doc_id,))) == []


# --- a short list of the index -------------------------------------------------------------------------------------


def deleted_without_vacuum(conn: Connection) -> int:
    """Delete the 50 nearest of 60 chunks; the index keeps their places until a vacuum. How many chunks are left."""
    hits = vector_search(conn, HashEmbedder(64), "loaf", 50, scan="exact")
    conn.execute("ALTER TABLE chunks SET (autovacuum_enabled = off)")
    conn.execute("DELETE FROM chunks WHERE chunk_id = ANY(%s)", ([hit.chunk_id for hit in hits],))
    return 10


def test_trap_3_a_short_list_of_the_index_is_told_with_numbers(documents: Connection) -> None:
    left = deleted_without_vacuum(documents)
    found = VectorSearch(scan="hnsw").build(around(documents, 64)).find("loaf", 30)
    assert len(found.hits) < left
    (note,) = found.notes
    assert note.startswith("vector: ")
    assert f"{len(found.hits)} of {left}" in note


def test_trap_3_the_note_has_the_name_of_the_list(documents: Connection) -> None:
    deleted_without_vacuum(documents)
    (note,) = VectorSearch(name="near", scan="hnsw").build(around(documents, 64)).find("loaf", 30).notes
    assert note.startswith("near: ")


def test_trap_3_an_exact_list_and_a_full_one_have_no_note(documents: Connection) -> None:
    on = around(documents, 64)
    assert VectorSearch(scan="hnsw").build(on).find("loaf", 60).notes == ()
    assert len(VectorSearch(scan="hnsw").build(on).search("loaf", 60)) == 60
    left = deleted_without_vacuum(documents)
    found = VectorSearch().build(on).find("loaf", 30)
    assert (len(found.hits), found.notes) == (left, ())
    assert VectorSearch().build(on).find("loaf", 30, Filter(("c",))).notes == ()


def test_trap_3_chunks_without_a_vector_are_not_missed(fresh: Connection) -> None:
    Schema.create(fresh, 64)
    texts = ["loaf", "😀", "bread", "!!!"]
    upsert(fresh, [Chunk(f"d#{i}", "d", "", 0, 0, text) for i, text in enumerate(texts)], HashEmbedder(64))
    found = VectorSearch(scan="hnsw").build(around(fresh, 64)).find("loaf", 10)
    assert [hit.chunk_id for hit in found.hits] == ["d#0", "d#2"]
    assert found.notes == ()


# --- operators off -------------------------------------------------------------------------------------------------

PASSAGE = "Run git commit -m with a message. RAG retrieval basics. Server error: -32600 invalid request."
OTHERS = ["Call docker run -v path to mount it.", "The --verbose flag says more.", "A message about nothing."]


@pytest.fixture
def plain_text(fresh: Connection) -> Callable[[str], list[int]]:
    """The positions of the passages that full text without operators finds, best first."""
    Schema.create(fresh, 8)
    passages = [PASSAGE, *OTHERS]
    upsert(fresh, [Chunk(f"d#{i}", "d", "", 0, 0, text) for i, text in enumerate(passages)], HashEmbedder(8))
    retriever = TextSearch(operators=False).build(around(fresh, 8))
    return lambda query: [int(hit.chunk_id[-1]) for hit in retriever.search(query, 10)]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("git commit -m", [0]),
        ("RAG - retrieval", [0]),
        ("error: -32600", [0]),
        ("docker run -v path", [0, 1]),
        ("--verbose", [2]),
        ("-verbose", [2]),
        ("- verbose", [2]),
        ('"message git"', [0, 3]),
        ('-"git commit"', [0]),
        ("verbose -flag", [2]),
        ("verbose or docker", [1, 2]),
    ],
)
def test_trap_1_without_operators_dashes_and_quotes_are_punctuation(
    plain_text: Callable[[str], list[int]], query: str, expected: list[int]
) -> None:
    assert sorted(plain_text(query)) == expected


def test_trap_1_with_operators_an_exclusion_is_named_in_a_note(stored: Connection) -> None:
    found = TextSearch().build(around(stored)).find("rank fusion -vector", 10)
    assert found.notes == ("text excluded: 'vector'",)
    assert found.parsed
    assert found.parsed.excluded == ("'vector'",)
    plain = TextSearch(operators=False).build(around(stored)).find("rank fusion -vector", 10)
    assert plain.notes == ()
    assert plain.parsed
    assert (plain.parsed.excluded, plain.parsed.phrases) == ((), ())
    assert plain.parsed.positive == ("'rank'", "'fusion'", "'vector'")


@given(st.text(st.sampled_from("ab git commit or \"'-!&|()<>:*\\\n"), max_size=60))
def test_without_operators_no_query_excludes_anything_or_raises(stored: Connection, query: str) -> None:
    parsed = TextSearch(operators=False).build(around(stored)).find(query, 5).parsed
    assert parsed
    assert parsed.excluded == ()
    assert "!" not in parsed.alternatives


@pytest.mark.parametrize("query", ["the who", "!!!", "", "to be or not to be", "- - -"])
def test_a_query_without_terms_is_told_in_a_note(stored: Connection, query: str) -> None:
    for settings in (TextSearch(name="words"), TextSearch(name="words", operators=False)):
        found = settings.build(around(stored)).find(query, 5)
        assert found.hits == ()
        assert any(note.startswith("words: no terms") for note in found.notes)


def test_a_query_without_words_is_told_by_the_vector_side(stored: Connection) -> None:
    found = VectorSearch(name="near").build(around(stored)).find("!!!", 5)
    assert (found.hits, found.notes) == ((), ("near: nothing to embed in this query",))


# --- weights -------------------------------------------------------------------------------------------------------


def hits(*ids: str) -> list[Hit]:
    return [Hit(chunk_id, 0.0, rank) for rank, chunk_id in enumerate(ids, start=1)]


def weighted(lists: Sequence[Sequence[str]], k: float, weights: Sequence[float]) -> dict[str, float]:
    """The score of each chunk, by the rule."""
    scores: dict[str, float] = {}
    for ids, weight in zip(lists, weights, strict=True):
        for rank, chunk_id in enumerate(ids, start=1):
            if weight > 0:
                scores[chunk_id] = scores.get(chunk_id, 0.0) + weight / (k + rank)
    return scores


def test_weights_by_hand() -> None:
    found = rrf([hits("a", "b"), hits("b", "c")], 1, [3, 1])
    assert [(row.chunk_id, row.rank, row.ranks) for row in found] == [
        ("a", 1, (1, None)),  # 3/2
        ("b", 2, (2, 1)),  # 3/3 + 1/2, as much: the id decides
        ("c", 3, (None, 2)),  # 1/3
    ]
    assert [row.score for row in found] == pytest.approx([1.5, 1.5, 1 / 3])


def test_trap_10_a_list_of_weight_0_contributes_nothing_not_even_candidates() -> None:
    found = rrf([hits("Y", "p", "q", "X"), hits("r", "s", "t", "X")], 60, [1, 0])
    assert [(row.chunk_id, row.score, row.ranks) for row in found] == [
        ("Y", 1 / 61, (1, None)),
        ("p", 1 / 62, (2, None)),
        ("q", 1 / 63, (3, None)),
        ("X", 1 / 64, (4, 4)),
    ]
    assert rrf([hits("a"), hits("b")], 60, [0, 0]) == []


def test_all_weights_scaled_alike_scale_the_scores_and_keep_the_order() -> None:
    lists = [hits("a", "b", "c"), hits("c", "d"), hits("b")]
    usual, double = rrf(lists, 60, [1, 2, 0.5]), rrf(lists, 60, [2, 4, 1])
    assert double == [replace(row, score=row.score * 2) for row in usual]
    assert rrf(lists, 60, [1, 1, 1]) == rrf(lists)


LISTS = st.lists(st.lists(st.sampled_from("abcdefg"), max_size=6, unique=True), min_size=1, max_size=4)
WEIGHTS = st.one_of(st.just(0.0), st.floats(0.01, 100), st.integers(1, 5))


@given(st.data(), LISTS, st.sampled_from([0, 1, 60, 2.5]))
def test_weighted_fusion_equals_a_plain_one(data: st.DataObject, lists: list[list[str]], k: float) -> None:
    weights = data.draw(st.lists(WEIGHTS, min_size=len(lists), max_size=len(lists)))
    found = rrf([hits(*ids) for ids in lists], k, weights)
    assert {row.chunk_id: row.score for row in found} == pytest.approx(weighted(lists, k, weights), rel=1e-9)
    for above, below in itertools.pairwise(found):
        assert (-above.score, above.chunk_id) < (-below.score, below.chunk_id)
    assert [row.rank for row in found] == list(range(1, len(found) + 1))
    for row in found:
        assert row.ranks == tuple(ids.index(row.chunk_id) + 1 if row.chunk_id in ids else None for ids in lists)


@given(st.data(), LISTS)
def test_the_order_of_weighted_lists_cannot_break_a_tie(data: st.DataObject, lists: list[list[str]]) -> None:
    weights = data.draw(st.lists(WEIGHTS, min_size=len(lists), max_size=len(lists)))
    order = data.draw(st.permutations(range(len(lists))))
    straight = rrf([hits(*ids) for ids in lists], 60, weights)
    turned = rrf([hits(*lists[i]) for i in order], 60, [weights[i] for i in order])
    assert [(row.chunk_id, row.score) for row in turned] == [(row.chunk_id, row.score) for row in straight]


def test_an_honest_tie_of_three_weighted_lists_is_broken_by_the_chunk_id() -> None:
    """0.1, 0.2 and 0.3 added in another order give another last bit."""
    assert (0.1 + 0.2) + 0.3 != 0.1 + (0.2 + 0.3)
    lists = [[Hit("b", 0, 1), Hit("a", 0, 1)], [Hit("b", 0, 1), Hit("a", 0, 1)], [Hit("b", 0, 1), Hit("a", 0, 1)]]
    for weights in itertools.permutations([0.1, 0.2, 0.3]):
        found = rrf(lists, 0, weights)
        assert [(row.chunk_id, row.score) for row in found] == [("a", 0.6), ("b", 0.6)]


@pytest.mark.parametrize("weight", [-1, -0.0001, math.nan, math.inf, -math.inf])
def test_a_weight_that_is_negative_or_no_number_is_refused(weight: float) -> None:
    with pytest.raises(InputError, match=f"{weight}.*expected"):
        rrf([hits("a"), hits("b")], 60, [1, weight])


@pytest.mark.parametrize("weights", [[], [1], [1, 1, 1]])
def test_another_number_of_weights_than_lists_is_refused(weights: list[float]) -> None:
    with pytest.raises(InputError, match=f"{len(weights)} weights for 2 lists"):
        rrf([hits("a"), hits("b")], 60, weights)


def test_a_list_of_weight_0_is_searched_and_shown_but_not_fused(database: Database) -> None:
    assert database.embedded
    with Lab.open() as lab:
        both = PipelineConfig(retrievers=(VectorSearch(), TextSearch(weight=0)), reranker=NoReranker(), mmr_lambda=None)
        trace = lab.trace(QUESTION, both)
        alone = lab.trace(QUESTION, replace(both, retrievers=(VectorSearch(),)))
        assert len(trace.text) == 50
        assert [(row.chunk_id, row.score) for row in trace.final] == [(row.chunk_id, row.score) for row in alone.final]
        assert {row.chunk_id for row in trace.fused} == {hit.chunk_id for hit in trace.vector}
        only_text = next(hit.chunk_id for hit in trace.text if hit.chunk_id not in {h.chunk_id for h in trace.vector})
        places = trace.ranks_of(only_text)
        assert places["text"].listed
        assert places["fused"].rank is None
        assert places["fused"].reason


def test_weights_of_a_configuration_decide_the_fused_order(database: Database) -> None:
    assert database.embedded
    with Lab.open() as lab:
        for weights in ((1.0, 1.0), (3.0, 1.0), (0.25, 2.0)):
            config = PipelineConfig(retrievers=(VectorSearch(weight=weights[0]), TextSearch(weight=weights[1])))
            trace = lab.trace(QUESTION, config)
            scores = weighted([[hit.chunk_id for hit in hits] for hits in trace.lists.values()], 60, weights)
            expected = sorted(scores, key=lambda chunk_id: (-round(scores[chunk_id], 12), chunk_id))
            assert [row.chunk_id for row in trace.fused] == expected
            assert isinstance(trace.fused[0], Ranked)
