"""Retrievers in memory on odd questions and odd corpora: never an error, a warning or a row too many."""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import snowballstemmer

from retrieval_lab import stems
from retrieval_lab.errors import EnvironmentMissing, InputError, SettingError
from retrieval_lab.extras import MissingExtra
from retrieval_lab.retrievers.base import RetrieverSettings
from retrieval_lab.retrievers.bm25 import Bm25Search, StemmedBm25Search
from retrieval_lab.retrievers.dense import FlatSearch, IvfSearch
from retrieval_lab.retrievers.tfidf import LsaSearch, TfIdfSearch
from retrieval_lab.types import Filter
from tests.core.memory import assert_places_are_the_list, chunk_id, ids_of, over

KINDS: list[RetrieverSettings] = [
    Bm25Search(),
    StemmedBm25Search(),
    TfIdfSearch(),
    TfIdfSearch(sublinear=False, bigrams=True),
    LsaSearch(),
    LsaSearch(dims=1, bigrams=True),
    FlatSearch(),
    IvfSearch(),
]
QUERIES = {
    "nothing": "",
    "space": " \t\n",
    "symbols": "!!! ??? --",
    "stop words": "the of and",
    "NUL": "tea\x00cup \x00",
    "lone surrogates": "\ud800tea \udfff cup\udc00",
    "only a lone surrogate": "\ud83d",
    "emoji": "🫖 tea",
    "very long": "tea cup harbour " * 20_000,
    "one long word": "tea" * 100_000,
    "quotes": '"tea" -cup \'; DROP TABLE',
    "unheard": "zebra zither",
}
CORPORA = {
    "no chunk": [],
    "one chunk without a word": ["!!!"],
    "no word anywhere": ["!!!", "???", "", "…"],
    "one chunk": ["a cup of tea"],
    "one word": ["tea"],
    "one word, twice": ["tea", "tea"],
    "nothing in common": ["tea", "cup"],
    "stop words": ["the of and", "of"],
    "one with words": ["tea cup harbour", "", "!!!"],
    "the word a": ["a", "b"],
    "equal chunks": ["tea cup"] * 7,
    "odd text": ["tea\ttea\u2028cup", "\U0001f1e6 tea", "İstanbul ΣΑΣ"],
}


@pytest.fixture(autouse=True)
def _no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def named(settings: RetrieverSettings) -> str:
    return f"{settings.kind}{'-bigrams' if getattr(settings, 'bigrams', False) else ''}"


@pytest.mark.parametrize("texts", CORPORA.values(), ids=CORPORA)
@pytest.mark.parametrize("settings", KINDS, ids=named)
def test_odd_questions_to_odd_corpora(settings: RetrieverSettings, texts: list[str]) -> None:
    retriever: Any = settings.build(over(texts))
    ids = [chunk_id(number) for number in range(len(texts))]
    for query in QUERIES.values():
        hits = retriever.search(query, 99)
        assert len(hits) <= len(texts)
        assert retriever.search(query, 0) == []
        assert retriever.search(query, 1) == hits[:1]
        found = retriever.find(query, 2, explain=True)
        assert list(found.hits) == hits[:2]
        assert found.matching >= len(hits)
        assert len(found.plan) == 1
        if not isinstance(settings, IvfSearch):
            assert_places_are_the_list(retriever, query, ids)
            assert found.matching == len(hits)
        assert retriever.find(query, 9, Filter(doc_ids=("nowhere",)), explain=True).matching == 0
        with pytest.raises(InputError):
            retriever.search(query, -1)


@pytest.mark.parametrize("settings", KINDS, ids=named)
def test_what_cannot_be_sent_separates_words(settings: RetrieverSettings) -> None:
    retriever: Any = settings.build(over(["tea cup", "tea", "harbour", "ship"]))
    for query in ("tea\x00cup \x00", "\ud800tea \udfff cup\udc00"):
        assert ids_of(retriever.search(query, 2)) == [chunk_id(0), chunk_id(1)]


@pytest.mark.parametrize("settings", KINDS[:6], ids=named)
def test_a_question_without_terms_says_so(settings: RetrieverSettings) -> None:
    retriever: Any = settings.build(over(["a cup of tea", "the harbour"]))
    found = retriever.find("!!!", 9)
    assert found.hits == ()
    assert len(found.notes) == 1
    assert found.notes[0].startswith(f"{retriever.name}: ")
    assert "term" in found.notes[0]
    assert retriever.find("tea", 9).notes == ()


def test_why_a_chunk_stands_nowhere() -> None:
    on = over(["tea cup", "harbour", "!!!"])
    reasons = {
        (settings.kind, query): settings.build(on).places(query, [chunk_id(1)])[chunk_id(1)].reason  # type: ignore[attr-defined]
        for settings in (Bm25Search(), StemmedBm25Search(), TfIdfSearch(), LsaSearch())
        for query in ("tea", "!!!", "zebra")
    }
    unknown = "the corpus has no term of the query"
    assert reasons == {
        ("bm25", "tea"): "no word in common",
        ("bm25", "!!!"): "no terms in the query",
        ("bm25", "zebra"): "no word in common",
        ("bm25-stemmed", "tea"): "no word in common",
        ("bm25-stemmed", "!!!"): "no terms in the query",
        ("bm25-stemmed", "zebra"): "no word in common",
        ("tfidf", "tea"): "no word in common",
        ("tfidf", "!!!"): unknown,
        ("tfidf", "zebra"): unknown,
        ("lsa", "tea"): None,
        ("lsa", "!!!"): unknown,
        ("lsa", "zebra"): unknown,
    }
    assert LsaSearch().build(on).places("tea", [chunk_id(2)])[chunk_id(2)].reason == "its vector is zero"


def test_lsa_has_no_more_dimensions_than_the_corpus() -> None:
    found = LsaSearch(dims=5000).build(over(["tea cup", "cup ship", "tea cup"])).find("tea", 5, explain=True)
    assert found.plan == ("In memory: LSA of 2 dimensions, TF-IDF, sublinear",)
    assert ids_of(found)[:2] == [chunk_id(0), chunk_id(2)]


def test_a_question_outside_the_dimensions_that_are_left_finds_nothing() -> None:
    """Of two texts that share no word, one dimension can hold only one."""
    lsa = LsaSearch(dims=1).build(over(["tea cup", "tea cup", "harbour"]))
    assert ids_of(lsa.search("cup", 9)) == [chunk_id(0), chunk_id(1)]
    found = lsa.find("harbour", 9, explain=True)
    assert (found.hits, found.matching) == ((), 0)
    assert found.notes == ("lsa: the query has nothing in common with the dimensions of LSA",)


def test_headers_that_are_indexed_are_found_and_others_are_not() -> None:
    texts, headings = ["a cup", "a ship"], ["Kitchen > Teatime", "Harbour > Teapots"]
    for settings in KINDS[:6]:
        with_them = settings.build(over(texts, headings=headings))
        assert ids_of(with_them.search("teatime", 9))[:1] == [chunk_id(0)], settings.kind
        assert ids_of(settings.build(over(texts)).search("teatime", 9)) == []
    flat = FlatSearch().build(over(texts, headings=headings))
    assert ids_of(flat.search("teatime", 1)) == [chunk_id(0)]


@pytest.mark.parametrize("settings", [TfIdfSearch(), LsaSearch()], ids=named)
def test_without_scikit_learn_one_line_names_the_extra(
    settings: RetrieverSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("sklearn", "sklearn.feature_extraction.text", "sklearn.decomposition"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=r"retrieval-lab\[evals\]") as raised:
        settings.build(over(["tea"])).search("tea", 5)
    assert isinstance(raised.value, EnvironmentMissing)
    assert "\n" not in str(raised.value)
    for others in (Bm25Search(), StemmedBm25Search(), FlatSearch(), IvfSearch()):
        assert ids_of(others.build(over(["tea"])).search("tea", 5)) == [chunk_id(0)]


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (Bm25Search, {"k1": -0.1}),
        (Bm25Search, {"k1": 1001}),
        (Bm25Search, {"k1": float("nan")}),
        (StemmedBm25Search, {"b": 1.1}),
        (StemmedBm25Search, {"b": -0.1}),
        (LsaSearch, {"dims": 0}),
    ],
)
def test_settings_out_of_range(kind: type[RetrieverSettings], settings: dict[str, float]) -> None:
    with pytest.raises(SettingError):
        kind(**settings)  # type: ignore[arg-type]


def test_stems_are_right_in_every_thread() -> None:
    """A stemmer keeps the word that it works on in itself, and all threads share one."""
    words = [f"{start}{end}" for start in ("harbour", "run", "relat", "gener") for end in ("s", "ing", "ations", "ly")]
    words = [f"{letter}{word}" for letter in "abcdefghijklmnopqrstuvwxyz" for word in words]
    stemmer = snowballstemmer.stemmer("english")
    expected = [stemmer.stemWord(word) for word in words]
    stems._stem.cache_clear()
    found: dict[int, list[str]] = {}
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [
            threading.Thread(target=lambda n=number: found.update({n: stems.stemmed(words)})) for number in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert list(found.values()) == [expected] * 4
