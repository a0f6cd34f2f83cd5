"""Flat and IVF search over the index in memory: against pgvector's exact scan, brute force, and each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval_lab.embed import HashEmbedder, QueryVectors
from retrieval_lab.errors import SettingError
from retrieval_lab.metrics import load_golden
from retrieval_lab.retrievers.base import Surroundings
from retrieval_lab.retrievers.dense import FlatSearch, IvfSearch
from retrieval_lab.retrievers.vector import VectorSearch
from retrieval_lab.types import Chunk, Filter
from tests.core import reference
from tests.core.conftest import CORPUS
from tests.core.memory import DIMS, assert_is_the_list, assert_places_are_the_list, chunk_id, ids_of, over

Connection = psycopg.Connection[Any]

GOLDEN = [query.query for query in load_golden(CORPUS / "golden.yaml")]
QUERIES = st.sampled_from([*GOLDEN, "", "!!!", "zebra"])


@pytest.fixture(scope="module")
def on(stored: Connection) -> Surroundings:
    """The bundled corpus in a table that has no table of documents beside it."""
    return Surroundings(stored, QueryVectors(HashEmbedder()))


@pytest.fixture(scope="module")
def texts(corpus_chunks: list[Chunk]) -> list[str]:
    return [chunk.text for chunk in corpus_chunks][::3]


def cosines(texts: Sequence[str], query: str) -> dict[str, float]:
    asked = np.asarray(reference.hash_vector(query, DIMS), dtype=float)
    vectors = np.array([reference.hash_vector(text, DIMS) for text in texts], dtype=float)
    found = vectors @ asked / np.linalg.norm(vectors, axis=1) / np.linalg.norm(asked)
    return {chunk_id(number): float(score) for number, score in enumerate(found)}


@pytest.mark.parametrize("filter", [Filter(), Filter(doc_ids=("agent-loops", "evaluation-harnesses"))])
def test_flat_is_the_exact_scan_of_pgvector(on: Surroundings, filter: Filter) -> None:
    flat, exact = FlatSearch().build(on), VectorSearch().build(on)
    for query in GOLDEN[::4]:
        ours, theirs = flat.search(query, 50, filter), exact.search(query, 50, filter)
        scores = {hit.chunk_id: hit.score for hit in theirs}
        assert {hit.chunk_id for hit in ours} == set(scores)
        assert len(ours) > 5
        assert [hit.score for hit in ours] == pytest.approx([scores[hit.chunk_id] for hit in ours], abs=1e-6)
        assert [hit.score for hit in ours] == pytest.approx([hit.score for hit in theirs], abs=1e-6)


def test_flat_is_brute_force(texts: list[str]) -> None:
    flat = FlatSearch().build(over(texts))
    for query in GOLDEN[::8]:
        assert_is_the_list(flat.search(query, 20), cosines(texts, query), 20, within=1e-6, above=-2)


def test_all_lists_of_an_inverted_file_are_flat_search(texts: list[str]) -> None:
    on = over(texts)
    flat, ivf = FlatSearch().build(on), IvfSearch(nlist=16, nprobe=16).build(on)
    for query in GOLDEN[::3]:
        for n in (1, 10, 500):
            assert ivf.search(query, n) == flat.search(query, n)
        for filter in (Filter(sources=("web",)), Filter(paths=("docs/doc1*.md",))):
            assert ivf.search(query, 30, filter) == flat.search(query, 30, filter)


def test_a_few_lists_hold_some_of_the_rows_with_the_same_scores(texts: list[str]) -> None:
    on = over(texts)
    flat = FlatSearch().build(on)
    sizes = []
    for query in GOLDEN[::6]:
        whole = {hit.chunk_id: hit.score for hit in flat.search(query, 999)}
        before: set[str] = set()
        for nprobe in (1, 3, 9, 16):
            hits = IvfSearch(nlist=16, nprobe=nprobe).build(on).search(query, 999)
            assert {hit.chunk_id: hit.score for hit in hits}.items() <= whole.items()
            assert [(-hit.score, hit.chunk_id) for hit in hits] == sorted((-hit.score, hit.chunk_id) for hit in hits)
            assert before <= set(ids_of(hits))
            before = set(ids_of(hits))
            sizes.append(len(hits))
        assert before == set(whole)
    assert min(sizes) < len(texts) / 4


def test_the_best_of_what_is_alike_lies_in_a_few_lists() -> None:
    """Eight far corners, and texts around each: one list is enough."""
    rng = np.random.default_rng(5)
    corners = np.repeat(np.eye(DIMS)[:8], 20, axis=0)
    vectors = (corners + 0.02 * rng.normal(size=corners.shape)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    on = over([f"text {number}" for number in range(160)], vectors)
    on.vectors._known["near the third corner"] = np.eye(DIMS, dtype=np.float32)[2]
    found = IvfSearch(nlist=8, nprobe=1).build(on).search("near the third corner", 20)
    assert found == FlatSearch().build(on).search("near the third corner", 20)
    assert sorted(ids_of(found)) == sorted(chunk_id(number) for number in range(40, 60))


def test_a_list_that_the_lists_read_cannot_fill_says_so(texts: list[str]) -> None:
    on = over(texts)
    found = IvfSearch(nlist=16, nprobe=1).build(on).find(GOLDEN[0], 200, explain=True)
    assert 0 < len(found.hits) < 200
    assert found.matching == len(texts)
    wanted = f"ivf: the lists that were read hold {len(found.hits)} of 200 rows; nprobe: 16 returns them all"
    assert found.notes == (wanted,)
    assert found.plan == ("In memory: 1 of 16 lists of an inverted file",)
    assert IvfSearch(nlist=16, nprobe=16).build(on).find(GOLDEN[0], 9999).notes == ()


def test_the_inverted_file_is_the_same_every_time(texts: list[str]) -> None:
    once, again = (IvfSearch(nlist=16, nprobe=2).build(over(texts)) for _ in range(2))
    for query in GOLDEN[::6]:
        assert once.search(query, 50) == again.search(query, 50)


@given(st.lists(st.sampled_from(["tea", "cup of tea", "ship", "!!!", ""]), min_size=1, max_size=9), QUERIES)
def test_places_agree_with_a_list_as_long_as_the_corpus(texts: list[str], query: str) -> None:
    on = over(texts)
    ids = [chunk_id(number) for number in range(len(texts))]
    flat = FlatSearch().build(on)
    assert_places_are_the_list(flat, query, ids)
    assert_places_are_the_list(flat, query, ids, filter=Filter(sources=("web",)))
    # The place in an inverted file is that of exact search, whichever lists are read.
    ivf = IvfSearch(nlist=2, nprobe=1).build(on)
    assert ivf.places(query, ids) == flat.places(query, ids)


def test_filters_act_before_the_cut(texts: list[str]) -> None:
    on = over(texts)
    flat, ivf = FlatSearch().build(on), IvfSearch(nlist=8, nprobe=8).build(on)
    filter = Filter(doc_ids=("doc3", "doc50", "doc77"))
    for retriever in (flat, ivf):
        found = retriever.find(GOLDEN[1], 50, filter, explain=True)
        assert sorted(ids_of(found)) == sorted(f"{doc}#{half}" for doc in filter.doc_ids for half in ("000", "001"))
        assert (found.matching, [hit.rank for hit in found.hits]) == (6, [1, 2, 3, 4, 5, 6])
    whole = cosines(texts, GOLDEN[1])
    assert_is_the_list(
        flat.search(GOLDEN[1], 50, filter),
        {one: score for one, score in whole.items() if one.split("#")[0] in filter.doc_ids},
        50,
        within=1e-6,
        above=-2,
    )


def test_texts_without_a_vector_are_on_no_list() -> None:
    on = over(["tea", "!!!", "cup"])
    for settings in (FlatSearch(), IvfSearch()):
        retriever = settings.build(on)
        found = retriever.find("tea", 9, explain=True)
        assert (sorted(ids_of(found)), found.matching) == ([chunk_id(0), chunk_id(2)], 2)
        assert retriever.places("tea", [chunk_id(1)])[chunk_id(1)].reason == "its vector is zero"
        nothing = retriever.find("!!!", 9, explain=True)
        assert (nothing.hits, nothing.matching) == ((), 0)
        assert nothing.notes == (f"{retriever.name}: nothing to embed in this query",)
        assert retriever.places("?", [chunk_id(0)])[chunk_id(0)].reason == "nothing to embed in the query"


def test_an_inverted_file_has_no_more_lists_than_rows() -> None:
    found = IvfSearch(nlist=32, nprobe=8).build(over(["tea", "cup"])).find("tea", 5, explain=True)
    assert found.plan == ("In memory: 2 of 2 lists of an inverted file",)
    assert ids_of(found) == [chunk_id(0), chunk_id(1)]


@pytest.mark.parametrize(("nlist", "nprobe"), [(0, 1), (4, 0), (4, 5)])
def test_numbers_of_lists_that_cannot_be(nlist: int, nprobe: int) -> None:
    with pytest.raises(SettingError):
        IvfSearch(nlist=nlist, nprobe=nprobe)
