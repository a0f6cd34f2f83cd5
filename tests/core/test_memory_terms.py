"""BM25, BM25 of stems, TF-IDF and LSA over the index in memory against plain computations and scikit-learn itself."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import snowballstemmer
from hypothesis import assume, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer

from retrieval_lab.metrics import load_golden
from retrieval_lab.retrievers.base import RetrieverSettings, TakesTerms
from retrieval_lab.retrievers.bm25 import Bm25Search, StemmedBm25Search
from retrieval_lab.retrievers.tfidf import LsaSearch, TfIdfSearch
from retrieval_lab.stopwords import STOP_WORDS
from retrieval_lab.types import Chunk, Filter
from tests.core.conftest import CORPUS
from tests.core.memory import assert_is_the_list, assert_places_are_the_list, chunk_id, ids_of, over
from tests.core.ragindex import plain

GOLDEN = [query.query for query in load_golden(CORPUS / "golden.yaml")]
KINDS: list[RetrieverSettings] = [Bm25Search(), StemmedBm25Search(), TfIdfSearch(), LsaSearch(dims=5)]
WORDS = ["tea", "cups", "cup", "harbour", "harbours", "running", "ran", "the", "of", "Ünder", "x1", "İ", "ΣΑΣ"]

Texts = st.lists(st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join), min_size=1, max_size=12)
Queries = st.lists(st.sampled_from([*WORDS, "unheard"]), max_size=6).map(" ".join)


@pytest.fixture(scope="module")
def texts(corpus_chunks: list[Chunk]) -> list[str]:
    """150 passages of the bundled corpus, and two of them once more."""
    found = [chunk.text for chunk in corpus_chunks]
    return [*found[::5], found[0], found[10]]


def stems(text: str) -> str:
    stemmer = snowballstemmer.stemmer("english")
    return " ".join(stemmer.stemWord(word) for word in plain.terms(text) if word not in STOP_WORDS)


def by_id(scores: Sequence[float]) -> dict[str, float]:
    return {chunk_id(number): float(score) for number, score in enumerate(scores)}


def tokens(bigrams: bool) -> Callable[[str], list[str]]:
    def found(text: str) -> list[str]:
        words = list(plain.terms(text))
        return words + [" ".join(pair) for pair in pairwise(words)] if bigrams else words

    return found


# --- against plain computations ------------------------------------------------------------------------------------


@given(Texts, Queries, st.integers(0, 15), st.sampled_from([(1.2, 0.75), (0, 0.5), (1.5, 0), (2.5, 1)]))
def test_bm25_is_the_formula(texts: list[str], query: str, n: int, parameters: tuple[float, float]) -> None:
    k1, b = parameters
    hits = Bm25Search(k1=k1, b=b).build(over(texts)).search(query, n)
    assert_is_the_list(hits, by_id(plain.scores(texts, query, k1, b)), n)


@given(Texts, Queries, st.integers(0, 15))
def test_bm25_of_stems_is_the_formula_over_stems(texts: list[str], query: str, n: int) -> None:
    hits = StemmedBm25Search().build(over(texts)).search(query, n)
    expected = plain.scores([stems(text) for text in texts], stems(query), k1=1.5, b=0.75)
    assert_is_the_list(hits, by_id(expected), n)


def test_stems_bring_the_forms_of_a_word_together_and_stop_words_bring_nothing() -> None:
    on = over(["she runs to the harbours", "the end of the tale", "a harbour", "running tides"])
    stemmed = StemmedBm25Search().build(on)
    assert sorted(ids_of(stemmed.search("run", 9))) == [chunk_id(0), chunk_id(3)]
    assert ids_of(stemmed.search("the harbour", 9)) == [chunk_id(2), chunk_id(0)]
    assert stemmed.find("of the", 9).notes == ("bm25-stemmed: no terms to find",)
    assert ids_of(Bm25Search().build(on).search("run", 9)) == []


def test_bm25_of_the_bundled_corpus_is_the_formula(texts: list[str]) -> None:
    on = over(texts)
    for query in GOLDEN[::6]:
        assert_is_the_list(Bm25Search().build(on).search(query, 50), by_id(plain.scores(texts, query)), 50)


# --- against scikit-learn ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sublinear", [True, False])
@pytest.mark.parametrize("bigrams", [True, False])
def test_tfidf_and_lsa_are_those_of_scikit_learn(texts: list[str], sublinear: bool, bigrams: bool) -> None:
    on, dims = over(texts), 20
    tfidf = TfIdfSearch(sublinear=sublinear, bigrams=bigrams).build(on)
    lsa = LsaSearch(dims=dims, sublinear=sublinear, bigrams=bigrams).build(on)
    # The rows stand in the order of their ids, which a decomposition by random numbers depends on.
    order = sorted(range(len(texts)), key=chunk_id)
    theirs = TfidfVectorizer(analyzer=tokens(bigrams), sublinear_tf=sublinear)
    matrix = theirs.fit_transform([texts[number] for number in order])
    svd = TruncatedSVD(dims, random_state=13)
    latent = svd.fit_transform(matrix)
    latent /= np.linalg.norm(latent, axis=1, keepdims=True)
    known = 0
    for query in [*GOLDEN[::8], "rank rank rank fusion"]:
        row = theirs.transform([query])
        ids = [chunk_id(number) for number in order]
        expected = dict(zip(ids, (matrix @ row.T).toarray()[:, 0].tolist(), strict=True))
        assert_is_the_list(tfidf.search(query, 50), expected, 50)
        if not row.nnz:  # of these passages none has a word of it
            assert lsa.search(query, 50) == []
            continue
        known += 1
        direction = svd.transform(row)[0]
        cosines = latent @ direction / np.linalg.norm(direction)
        expected = dict(zip(ids, cosines.tolist(), strict=True))
        assert_is_the_list(lsa.search(query, 50), expected, 50, above=-2)
    assert known > 4


def test_tfidf_by_hand() -> None:
    """Two terms of equal rarity in one text, one of them in another: cosines 1/sqrt(2) apart from idf."""
    found = TfIdfSearch().build(over(["tea cup", "tea", "cup", "ship"])).search("tea", 9)
    assert [(hit.chunk_id, pytest.approx(hit.score)) for hit in found] == [(chunk_id(1), 1.0), (chunk_id(0), 0.5**0.5)]


@given(Texts, Queries)
@hypothesis_settings(max_examples=20)
def test_chunks_of_equal_text_stand_in_the_order_of_their_ids(texts: list[str], query: str) -> None:
    on = over(texts * 3)
    numbers = {chunk_id(number): number % len(texts) for number in range(3 * len(texts))}
    for settings in KINDS:
        scores: dict[int, set[float]] = {}
        hits = settings.build(on).search(query, 99)
        assert [(-hit.score, hit.chunk_id) for hit in hits] == sorted((-hit.score, hit.chunk_id) for hit in hits)
        for hit in hits:
            scores.setdefault(numbers[hit.chunk_id], set()).add(hit.score)
        assert all(len(equal) == 1 for equal in scores.values()), settings.kind


def test_equal_texts_of_a_large_corpus_tie_in_lsa_too(texts: list[str]) -> None:
    doubled = [text for text in texts for _ in range(2)]
    lsa = LsaSearch(dims=50).build(over(doubled))
    for query in GOLDEN[::12]:
        hits = lsa.search(query, len(doubled))
        scores = {hit.chunk_id: hit.score for hit in hits}
        assert len(scores) == len(doubled)
        assert all(scores[chunk_id(2 * one)] == scores[chunk_id(2 * one + 1)] for one in range(len(texts)))


def test_lsa_knows_words_that_stand_together() -> None:
    """`kettle` and `teapot` share no text, but the company that they keep."""
    together = ["kettle tea leaf", "teapot tea leaf", "anchor ship sail", "mast ship sail"]
    lsa = LsaSearch(dims=2).build(over(together))
    scores = {hit.chunk_id: hit.score for hit in lsa.search("kettle", 9)}
    assert scores[chunk_id(1)] == pytest.approx(1.0)
    assert abs(scores[chunk_id(2)]) < 1e-9
    assert ids_of(TfIdfSearch().build(over(together)).search("kettle", 9)) == [chunk_id(0)]


# --- the words with weights ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", KINDS, ids=lambda one: one.kind)
@given(texts=Texts, words=st.lists(st.sampled_from([*WORDS, "unheard"]), max_size=6, unique=True))
def test_counts_as_weights_give_what_the_text_gives(
    settings: RetrieverSettings, texts: list[str], words: list[str]
) -> None:
    retriever: Any = settings.build(over(texts))
    assert isinstance(retriever, TakesTerms)
    weights = Counter(plain.terms(" ".join(words)))
    # TF-IDF dampens the counts of a text, and of weights not.
    assume(isinstance(settings, Bm25Search | StemmedBm25Search) or set(weights.values()) <= {1})
    found, hits = retriever.find_terms(weights, 50), retriever.search(" ".join(words), 50)
    scores = {hit.chunk_id: hit.score for hit in hits}
    assert {hit.chunk_id: hit.score for hit in found.hits} == pytest.approx(scores, abs=1e-12)
    places = retriever.places_of_terms(weights, sorted(scores))
    assert {one: place.rank for one, place in places.items()} == {hit.chunk_id: hit.rank for hit in found.hits}


def test_repeated_words_count_as_often_where_nothing_is_dampened(texts: list[str]) -> None:
    on, query = over(texts), "rank rank rank fusion"
    for settings in (Bm25Search(), StemmedBm25Search(), TfIdfSearch(sublinear=False)):
        retriever: Any = settings.build(on)
        found = retriever.find_terms({"rank": 3, "fusion": 1}, 30).hits
        hits = retriever.search(query, 30)
        assert ids_of(found) == ids_of(hits)
        assert [hit.score for hit in found] == pytest.approx([hit.score for hit in hits])
        assert ids_of(hits) != ids_of(retriever.search("rank fusion", 30)) or isinstance(settings, StemmedBm25Search)


@pytest.mark.parametrize("settings", KINDS, ids=lambda one: one.kind)
@pytest.mark.parametrize("factor", [0.01, 7.0, 1e-160])
def test_weights_that_are_all_scaled_give_the_same_order(
    texts: list[str], settings: RetrieverSettings, factor: float
) -> None:
    retriever: Any = settings.build(over(texts))
    weights = {"rank": 0.7, "fusion": 0.2, "vectors": 0.05, "unheard": 0.05}
    plainly = retriever.find_terms(weights, 30).hits
    scaled = retriever.find_terms({word: factor * weight for word, weight in weights.items()}, 30).hits
    assert len(plainly) > 5
    assert ids_of(scaled) == ids_of(plainly)


def test_weights_of_one_stem_are_added(texts: list[str]) -> None:
    retriever: Any = StemmedBm25Search().build(over(texts))
    apart = retriever.find_terms({"ranks": 0.25, "ranking": 0.5, "the": 9.0}, 20).hits
    assert ids_of(apart) == ids_of(retriever.find_terms({"rank": 0.75}, 20).hits)
    assert len(apart) > 5


@pytest.mark.parametrize("settings", KINDS, ids=lambda one: one.kind)
def test_no_words_and_words_of_no_weight_find_nothing(texts: list[str], settings: RetrieverSettings) -> None:
    retriever: Any = settings.build(over(texts))
    assert retriever.find_terms({}, 10).hits == ()
    assert retriever.find_terms({"rank": 0.0}, 10).hits == ()


# --- places and filters --------------------------------------------------------------------------------------------


FILTERS = [
    Filter(doc_ids=("doc0", "doc3", "doc-none")),
    Filter(sources=("web",)),
    Filter(paths=("docs/*",)),
    Filter(sources=("file",), paths=("**/doc2.md", "web/**")),
]


@pytest.mark.parametrize("settings", KINDS, ids=lambda one: one.kind)
@given(texts=Texts, query=Queries)
def test_places_agree_with_a_list_as_long_as_the_corpus(
    settings: RetrieverSettings, texts: list[str], query: str
) -> None:
    retriever: Any = settings.build(over(texts))
    ids = [chunk_id(number) for number in range(len(texts))]
    assert_places_are_the_list(retriever, query, ids)
    assert retriever.places(query, ["nowhere#000"])["nowhere#000"].reason == "not in the index"
    whole = retriever.search(query, 99)
    for filter in FILTERS:
        assert_places_are_the_list(retriever, query, ids, filter=filter)
        kept = [hit for hit in whole if passes(hit.chunk_id, filter)]
        found = retriever.find(query, 3, filter, explain=True)
        assert [(hit.chunk_id, hit.score) for hit in found.hits] == [(hit.chunk_id, hit.score) for hit in kept[:3]]
        assert found.matching == len(kept)
        places = retriever.places(query, ids, filter)
        assert all(places[one].reason == "left out by the filter" for one in ids if not passes(one, filter))


def passes(one: str, filter: Filter) -> bool:
    number = int(one[3:-4])
    even = number % 2 == 0
    by_part = [
        not filter.doc_ids or f"doc{number}" in filter.doc_ids,
        not filter.sources or ("file" if even else "web") in filter.sources,
        not filter.paths or ((even or number == 2) if filter.paths == ("docs/*",) else number == 2 or not even),
    ]
    return all(by_part)


# --- leakage -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", KINDS, ids=lambda one: one.kind)
def test_what_was_asked_before_changes_nothing(texts: list[str], settings: RetrieverSettings) -> None:
    fresh: Any = settings.build(over(texts))
    wanted = fresh.find(GOLDEN[7], 40, explain=True)
    asked: Any = settings.build(over(texts))
    others = [*GOLDEN, "zebra zither", "", "!!!"]
    random.Random(3).shuffle(others)
    for query in others:
        asked.find(query, 40, explain=True)
        asked.find_terms({"zebra": 2.0, "rank": 0.5}, 40)
        asked.places(query, [chunk_id(3)])
    assert asked.find(GOLDEN[7], 40, explain=True) == wanted


@pytest.mark.parametrize("settings", KINDS, ids=lambda one: one.kind)
def test_words_that_only_the_query_has_do_not_matter(texts: list[str], settings: RetrieverSettings) -> None:
    retriever: Any = settings.build(over(texts))
    known = GOLDEN[3]
    assert not any("zebra" in text.lower() or "zither" in text.lower() for text in texts)
    assert retriever.search(f"zebra {known} zither", 40) == retriever.search(known, 40)
    assert retriever.search("zebra zither", 40) == []


def test_the_vocabulary_is_that_of_the_corpus(texts: list[str]) -> None:
    from retrieval_lab.retrievers.tfidf import tf_idf

    corpus = over(texts).corpus_index()
    for bigrams in (False, True):
        fitted = tf_idf(corpus, sublinear=True, bigrams=bigrams)
        fitted.query("zebra zither rank")
        wanted = {token for text in texts for token in tokens(bigrams)(text)}
        assert set(fitted.vectorizer.vocabulary_) == wanted
    assert set(corpus.index.bm25.postings) == {term for text in texts for term in plain.terms(text)}
