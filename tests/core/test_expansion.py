"""RM3 by hand and against exact fractions, the retriever around it, and what a trace keeps of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg import Connection

from retrieval_lab import Lab, PipelineConfig, cli, textquery
from retrieval_lab.diagnosis.journey import OnTextList, OnVectorList
from retrieval_lab.diagnosis.rescue_kept import Candidates
from retrieval_lab.errors import InputError, SettingError
from retrieval_lab.expansion import rm3, with_words
from retrieval_lab.retrievers.base import Found, Retriever, RetrieverSettings, TakesTerms, Terms, Traceable
from retrieval_lab.retrievers.bm25 import Bm25Search, StemmedBm25Search
from retrieval_lab.retrievers.expanded import ExpandedRetriever
from retrieval_lab.retrievers.text import TextSearch
from retrieval_lab.retrievers.tfidf import LsaSearch, TfIdfSearch
from retrieval_lab.retrievers.vector import VectorSearch
from retrieval_lab.settings import NoReranker, Rm3Expansion
from retrieval_lab.stopwords import STOP_WORDS
from retrieval_lab.trace import Trace
from retrieval_lab.trace_markdown import trace_markdown
from retrieval_lab.types import EVERYTHING, Expansion, Filter, Hit, Place
from tests.core.conftest import CORPUS

MARSH = ["the inn sign shows a marsh heron", "heron marsh heron 1887", "the old inn"]
"""Of 7, 4 and 3 words. The stop words `the` and `a` and the number are no candidates."""


def shares(query: str, texts: Sequence[str], scores: Sequence[float], terms: int, weight: float) -> dict[str, float]:
    model = rm3(query, texts, scores, terms=terms, original_weight=weight)
    return {} if model is None else dict(model.shares)


# --- the formula ---------------------------------------------------------------------------------------------------


def test_by_hand_on_three_documents() -> None:
    # Scores 2, 1, 1: p(q|d) = 1/2, 1/4, 1/4. The sums of p(w|d) * p(q|d), over 336:
    #   heron 1/7 * 1/2 + 2/4 * 1/4 = 66     inn 1/7 * 1/2 + 1/3 * 1/4 = 52     marsh 1/7 * 1/2 + 1/4 * 1/4 = 45
    #   old 1/3 * 1/4 = 28                   sign, shows 1/7 * 1/2 = 24
    # The best four sum to 66 + 52 + 45 + 28 = 191.
    found = shares("inn sign", MARSH, [2, 1, 1], 4, 0.5)
    assert list(found) == ["inn", "sign", "heron", "marsh", "old"]
    assert found == pytest.approx(
        {
            "inn": 0.5 * 1 / 2 + 0.5 * 52 / 191,
            "sign": 0.5 * 1 / 2,
            "heron": 0.5 * 66 / 191,
            "marsh": 0.5 * 45 / 191,
            "old": 0.5 * 28 / 191,
        },
        abs=1e-15,
    )


def test_by_hand_where_no_score_is_above_0_every_document_counts_the_same() -> None:
    # p(q|d) = 1/3 each; over 252: heron 12 + 42 = 54, inn 12 + 28 = 40, marsh 12 + 21 = 33, old 28.
    for scores in ([0, 0, 0], [-1, -5, 0], [-2, -2, -2]):
        found = shares("pub", MARSH, scores, 3, 0.25)
        assert found == pytest.approx(
            {"pub": 0.25, "heron": 0.75 * 54 / 127, "inn": 0.75 * 40 / 127, "marsh": 0.75 * 33 / 127}, abs=1e-15
        )


def test_a_score_below_0_counts_as_0() -> None:
    assert shares("pub", MARSH, [-9, 4, -0.5], 10, 0.5) == shares("pub", [MARSH[1]], [1], 10, 0.5)


def test_stop_words_numbers_and_single_characters_are_kept_where_the_query_has_them() -> None:
    texts = ["the c of 1887 was not x 42 marsh"]
    assert list(shares("marsh pub", texts, [1], 10, 0.5)) == ["marsh", "pub"]
    assert list(shares("the 1887 c", texts, [1], 10, 0.5)) == ["the", "1887", "c", "marsh"]


def test_ties_are_broken_by_code_point() -> None:
    assert list(shares("zz", ["éa b1 _x aa"], [1], 3, 0.5)) == ["zz", "_x", "aa", "b1"]


def test_words_are_those_of_the_index() -> None:
    # A dotted capital I and a final sigma are lowered as RAGINDEX.md says, not as str.lower does.
    assert list(shares("Fig", ["İNN ΟΔΟΣ ef_search"], [1], 9, 0.5)) == ["fig", "ef_search", "inn", "οδοσ"]


def test_the_ends_of_the_original_weight() -> None:
    assert shares("inn the inn", MARSH, [2, 1, 1], 4, 1) == {"inn": 2 / 3, "the": 1 / 3}
    only_feedback = shares("pub sign", MARSH, [2, 1, 1], 2, 0)
    assert only_feedback == pytest.approx({"heron": 66 / 118, "inn": 52 / 118})


def test_without_words_there_is_nothing_to_expand_or_to_expand_with() -> None:
    assert rm3("?!", MARSH, [2, 1, 1]) is None
    assert rm3("", [], []) is None
    for texts in ([], [""], ["the 42 x"]):
        assert shares("inn sign", texts, [1] * len(texts), 5, 0) == {"inn": 0.5, "sign": 0.5}


def test_scores_of_any_size_are_normalised() -> None:
    assert shares("pub", MARSH, [1.6e308, 0.8e308, 0.8e308], 4, 0.5) == shares("pub", MARSH, [2, 1, 1], 4, 0.5)


WORDS = st.sampled_from(["inn", "sign", "marsh", "the", "of", "7", "c", "heron", "old"])
TEXTS = st.lists(st.tuples(st.lists(WORDS, max_size=8).map(" ".join), st.integers(-3, 9)), min_size=1, max_size=5)


def exact(query: str, texts: Sequence[tuple[str, int]], terms: int, weight: Fraction) -> dict[str, Fraction]:
    """The formula word by word, in fractions."""
    asked = query.split()
    scores = [max(score, 0) for _, score in texts]
    total = sum(scores)
    likelihood = [Fraction(score, total) if total else Fraction(1, len(texts)) for score in scores]
    relevance = {}
    for word in {word for text, _ in texts for word in text.split()}:
        if word in asked or not (word in STOP_WORDS or word.isdigit() or len(word) == 1):
            relevance[word] = sum(
                Fraction(text.split().count(word), len(text.split())) * likely
                for (text, _), likely in zip(texts, likelihood, strict=True)
                if text
            )
    best = sorted((word for word in relevance if relevance[word]), key=lambda word: (-relevance[word], word))[:terms]
    mass = sum(relevance[word] for word in best)
    original = {word: Fraction(asked.count(word), len(asked)) for word in asked}
    if not best:
        return original
    return {
        word: share
        for word in {*asked, *best}
        if (share := weight * original.get(word, 0) + (1 - weight) * (relevance[word] / mass if word in best else 0))
    }


@given(st.lists(WORDS, min_size=1, max_size=6).map(" ".join), TEXTS, st.integers(1, 6), st.integers(0, 4))
def test_against_exact_fractions(query: str, texts: list[tuple[str, int]], terms: int, quarters: int) -> None:
    expected = exact(query, texts, terms, Fraction(quarters, 4))
    found = shares(query, [text for text, _ in texts], [score for _, score in texts], terms, quarters / 4)
    # Rounding may choose another one of words that tie, so that the shares of these change places.
    assert sorted(found.values()) == pytest.approx(sorted(float(share) for share in expected.values()), abs=1e-12)
    assert sum(found.values()) == pytest.approx(1)
    for word in set(found) & set(expected):
        assert found[word] == pytest.approx(float(expected[word]), abs=1e-12)


# --- words behind a query with operators ---------------------------------------------------------------------------

PIECES = st.sampled_from(
    ["a", "bread", "loaf", " ", " ", "-", '"', "!", "&", "|", "(", ")", ":", "'", "\\", " or ", "or", "*", "c++", "the"]
)


@given(st.lists(PIECES, max_size=9).map("".join))
def test_operators_stay_as_they_are_and_reach_no_new_word(stored: Connection[tuple[object, ...]], query: str) -> None:
    before = textquery.parse(stored, query)
    after = textquery.parse(stored, with_words(query, ["zebra", "yak"]))
    assert after.excluded == before.excluded
    assert set(after.positive) == {*before.positive, "'zebra'", "'yak'"}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("bread", "bread zebra"),
        ('"rank fusion', '"rank fusion" zebra'),
        ("git commit -", 'git commit - "" zebra'),
    ],
)
def test_words_behind_a_query_by_hand(query: str, expected: str) -> None:
    assert with_words(query, ["zebra"]) == expected
    assert with_words(query, []) == query


# --- around a retriever --------------------------------------------------------------------------------------------

TEXT_OF = {f"d#{number:03d}": text for number, text in enumerate([*MARSH, "marsh heron nest", "the sea"])}


class Counting:
    """Scores a chunk by how often it has the words of the query; in a name and `search`, no more."""

    name = "counting"

    def __init__(self) -> None:
        self.asked: list[tuple[str | dict[str, float], int, Filter]] = []

    def search(self, query: str, n: int, filter: Filter = EVERYTHING) -> list[Hit]:
        self.asked.append((query, n, filter))
        return self.ranked(Counter(query.split()))[:n]

    def ranked(self, words: Terms) -> list[Hit]:
        scored = [
            (-sum(weight * text.split().count(word) for word, weight in words.items()), chunk_id)
            for chunk_id, text in TEXT_OF.items()
        ]
        found = sorted(one for one in scored if one[0] < 0)
        return [Hit(chunk_id, -score, rank) for rank, (score, chunk_id) in enumerate(found, start=1)]


class Weighing(Counting):
    """The same with weights for words."""

    def find(self, query: str, n: int, filter: Filter = EVERYTHING, *, explain: bool = False) -> Found:
        return Found(tuple(self.search(query, n, filter)), plan=("counted",) if explain else ())

    def places(self, query: str, chunk_ids: Sequence[str], filter: Filter = EVERYTHING) -> dict[str, Place]:
        return self.places_of_terms(Counter(query.split()), chunk_ids, filter)

    def find_terms(self, terms: Terms, n: int, filter: Filter = EVERYTHING, *, explain: bool = False) -> Found:
        self.asked.append((dict(terms), n, filter))
        return Found(tuple(self.ranked(terms)[:n]), plan=("weighed",) if explain else ())

    def places_of_terms(
        self,
        terms: Terms,
        chunk_ids: Sequence[str],
        filter: Filter = EVERYTHING,  # noqa: ARG002
    ) -> dict[str, Place]:
        ranked = {hit.chunk_id: Place(hit.rank, hit.score) for hit in self.ranked(terms)}
        return {chunk_id: ranked.get(chunk_id, Place(None, reason="no word")) for chunk_id in chunk_ids}


class Doubling(Weighing):
    """Reads weights otherwise than a text, as one does that counts repeated words less."""

    def ranked(self, words: Terms) -> list[Hit]:
        return super().ranked(words if isinstance(words, Counter) else {word: 2 * words[word] for word in words})


def texts_of(chunk_ids: Sequence[str]) -> Mapping[str, str]:
    return {chunk_id: TEXT_OF[chunk_id] for chunk_id in chunk_ids}


def around(inner: Retriever, *, feedback: int = 3, terms: int = 4, weight: float = 0.5) -> ExpandedRetriever:
    return ExpandedRetriever(inner, texts_of, feedback=feedback, terms=terms, original_weight=weight)


def test_a_retriever_that_weighs_words_is_given_their_weights() -> None:
    inner = Weighing()
    assert isinstance(inner, TakesTerms)
    found = around(inner).find("inn sign", 5, Filter(("d",)), explain=True)
    # First the inn sign with both words, then the old inn with one: 2 and 1 of 3, so p(q|d) = 2/3 and 1/3. Over 63:
    # inn 2/3 * 1/7 + 1/3 * 1/3 = 13, old 7, sign, heron, marsh, shows 6; the best four are inn, old, heron, marsh.
    expected = {
        "inn": 1 / 4 + 13 / 64,
        "sign": 1 / 4,
        "old": 7 / 64,
        "heron": 6 / 64,
        "marsh": 6 / 64,
    }
    assert found.expansion is not None
    assert dict(found.expansion.terms) == pytest.approx(expected)
    assert (found.expansion.feedback, found.expansion.weighted) == (("d#000", "d#002"), True)
    first, second = inner.asked
    assert first == ("inn sign", 3, Filter(("d",)))
    # On the scale of the query, which has two words.
    assert second[0] == pytest.approx({word: 2 * share for word, share in expected.items()})
    assert second[1:] == (5, Filter(("d",)))
    assert found.plan == ("weighed",)
    assert [hit.chunk_id for hit in found.hits] == ["d#000", "d#002", "d#001", "d#003"]


def test_any_other_is_asked_again_with_the_new_words() -> None:
    inner = Counting()
    assert not isinstance(inner, Traceable)
    found = around(inner).find("inn sign", 5)
    assert [query for query, _, _ in inner.asked] == ["inn sign", "inn sign old heron marsh"]
    assert found.expansion is not None
    assert not found.expansion.weighted
    assert list(found.hits) == inner.ranked(Counter(["inn", "sign", "old", "heron", "marsh"]))
    assert around(Counting()).search("inn sign", 2) == list(found.hits)[:2]


@pytest.mark.parametrize("query", ["inn sign", "the the inn heron the", "marsh " * 49 + "inn"])
def test_an_original_weight_of_1_gives_the_first_list_again(query: str) -> None:
    for inner in (Counting(), Weighing(), Doubling()):
        found = around(inner, weight=1).find(query, 5)
        assert list(found.hits) == inner.search(query, 5) != []
        assert found.expansion is not None
        assert (found.expansion.new, sum(share for _, share in found.expansion.terms)) == ((), pytest.approx(1))


@pytest.mark.parametrize("inner", [Counting(), Weighing()])
@pytest.mark.parametrize("query", ["submarine", "", "?!"])
def test_without_feedback_the_list_stays_empty(inner: Counting, query: str) -> None:
    found = around(inner).find(query, 5)
    assert (found.hits, found.expansion) == ((), None)


def test_chunks_that_are_gone_after_the_first_search_give_no_feedback() -> None:
    inner = Counting()
    gone = ExpandedRetriever(inner, lambda _: {}, feedback=3, terms=4, original_weight=0.5)
    assert gone.find("inn sign", 5) == Found(tuple(inner.search("inn sign", 5)))


def test_places_are_those_of_the_second_search() -> None:
    retriever = around(Weighing())
    ranks = {hit.chunk_id: Place(hit.rank, hit.score) for hit in retriever.search("inn sign", 9)}
    assert set(TEXT_OF) - set(ranks) == {"d#004"}
    assert retriever.places("inn sign", list(TEXT_OF)) == {**ranks, "d#004": Place(None, reason="no word")}
    assert Weighing().places("inn sign", ["d#001"]) == {"d#001": Place(None, reason="no word")} != ranks
    assert around(Counting()).places("inn", ["d#001"])["d#001"].rank is None


# --- in a pipeline -------------------------------------------------------------------------------------------------

QUESTION = "who painted the inn sign?"
PLAIN = PipelineConfig(reranker=NoReranker(), mmr_lambda=None)
BOTH = replace(PLAIN, expansion=Rm3Expansion())


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab.open(CORPUS, PipelineConfig()) as opened:
        yield opened


def test_both_lists_are_those_of_the_expanded_query(lab: Lab) -> None:
    first, made = lab.trace(QUESTION, PLAIN), lab.trace(QUESTION, BOTH)
    assert list(made.expansions) == ["vector", "text"]
    for name, expansion in made.expansions.items():
        hits = first.lists[name][:10]
        assert expansion.feedback == tuple(hit.chunk_id for hit in hits)
        chunks = lab.chunks(expansion.feedback)
        texts = [(chunks[hit.chunk_id].text, hit.score) for hit in hits]
        model = rm3(QUESTION, [text for text, _ in texts], [score for _, score in texts])
        assert model is not None
        assert (expansion.terms, expansion.new) == (model.shares, tuple(model.new))
        assert not expansion.weighted
        assert len(model.new) >= 5
        again = lab.trace(f"{QUESTION} {' '.join(model.new)}", PLAIN)
        assert made.lists[name] == again.lists[name] != first.lists[name]
    assert list(made.timings) == list(first.timings)
    assert made.query == QUESTION


def test_of_names_the_one_list_that_is_expanded(lab: Lab) -> None:
    first = lab.trace(QUESTION, PLAIN)
    made = lab.trace(QUESTION, replace(PLAIN, expansion=Rm3Expansion(of="text")))
    assert list(made.expansions) == ["text"]
    assert made.vector == first.vector
    assert made.text == lab.trace(QUESTION, BOTH).text != first.text


def test_a_trace_keeps_the_expansion_and_one_of_an_older_version_has_none(lab: Lab) -> None:
    made = lab.trace(QUESTION, BOTH)
    plain = json.loads(json.dumps(made.to_dict()))
    assert Trace.from_dict(plain) == made
    kept = plain["searches"]["text"]["expansion"]
    assert kept.keys() == {"terms", "new", "feedback", "weighted"}
    assert sum(kept["terms"].values()) == pytest.approx(1)
    for search in plain["searches"].values():
        del search["expansion"]
    del plain["config"]["expansion"]
    older = Trace.from_dict(plain)
    assert (older.expansions, older.config) == ({}, PLAIN)
    plain["searches"]["text"]["expansion"] = kept
    for broken, message in (
        ({"terms": {"inn": "much"}}, r"searches\.text\.expansion\.terms\.inn is 'much'"),
        ({"new": ["marsh", "other"]}, r"searches\.text\.expansion\.new has words"),
        ({"weighted": 1}, r"searches\.text\.expansion\.weighted is 1"),
    ):
        plain["searches"]["text"]["expansion"] = {**kept, **broken}
        with pytest.raises(InputError, match=message):
            Trace.from_dict(plain)


def test_a_passage_beyond_a_list_is_ranked_by_the_second_search(lab: Lab) -> None:
    deep = lab.trace(QUESTION, replace(BOTH, retrievers=(VectorSearch(n=200), TextSearch(n=200))))
    shallow = lab.trace(QUESTION, replace(BOTH, retrievers=(VectorSearch(n=5), TextSearch(n=5))))
    for name, hits in deep.lists.items():
        assert shallow.lists[name] == hits[:5]
        for hit in hits[5:100:30]:
            assert shallow.ranks_of(hit.chunk_id)[name].rank == hit.rank


def test_the_journey_knows_the_retriever_within(lab: Lab) -> None:
    made = lab.trace(QUESTION, BOTH)
    journey = lab.explain(made, made.text[3].chunk_id)
    text = journey.lists["text"]
    assert isinstance(text, OnTextList)
    assert text.listed == text.rank == 4
    parsed = lab.parse_view(QUESTION, PLAIN)
    # What the passage has and lacks of the terms that were searched, of which the question has a few.
    searched = {*text.matched, *text.absent}
    assert searched > set(parsed.terms)
    assert len(searched) == len(made.parsed.positive)
    vector = lab.explain(made, made.vector[0].chunk_id).lists["vector"]
    assert isinstance(vector, OnVectorList)
    assert (vector.listed, vector.rank, vector.index_rank) == (1, 1, 1)
    first = lab.explain(lab.trace(QUESTION, PLAIN), made.vector[0].chunk_id).lists["vector"]
    assert isinstance(first, OnVectorList)
    assert first.score != vector.score


def test_kept_candidates_are_those_of_the_pipeline(lab: Lab) -> None:
    configs = [PLAIN, BOTH, replace(BOTH, expansion=Rm3Expansion(of="text")), replace(BOTH, expansion=Rm3Expansion(3))]

    def compared(candidates: Candidates) -> Iterator[bool]:
        for config in configs:
            for n in (20, 50, 7):
                sized = replace(config, retrievers=tuple(replace(one, n=n) for one in config.retrievers))
                yield candidates.pipeline(sized).run(QUESTION).fused == lab.trace(QUESTION, sized).fused

    assert all(lab.work(lambda bench: list(compared(Candidates(bench))), PLAIN))


@pytest.mark.parametrize("settings", [Bm25Search(), StemmedBm25Search(), TfIdfSearch(bigrams=True), LsaSearch()])
def test_a_list_in_memory_is_made_with_the_weights(lab: Lab, settings: RetrieverSettings) -> None:
    plain = replace(PLAIN, retrievers=(settings,))
    first = lab.trace(QUESTION, plain)
    made = lab.trace(QUESTION, replace(plain, expansion=Rm3Expansion()))
    expansion = made.expansions[settings.name]
    assert expansion.weighted
    assert len(expansion.new) > 3
    assert made.lists != first.lists
    same = replace(plain, expansion=Rm3Expansion(original_weight=1))
    for query in (QUESTION, "the inn the sign of the inn"):
        assert lab.trace(query, same).lists == lab.trace(query, plain).lists
    beyond = made.lists[settings.name][30]
    short = replace(plain, retrievers=(replace(settings, n=5),), expansion=Rm3Expansion())
    assert lab.trace(QUESTION, short).ranks_of(beyond.chunk_id)[settings.name].rank == 31


def test_the_weights_are_those_that_bm25_scores_with(lab: Lab) -> None:
    config = replace(PLAIN, retrievers=(Bm25Search(),), expansion=Rm3Expansion())
    made = lab.trace(QUESTION, config)
    weights = {word: 5 * share for word, share in made.expansions["bm25"].terms}  # the question has five words
    alone = {
        word: {
            hit.chunk_id: hit.score
            for hit in lab.trace(word, replace(PLAIN, retrievers=(Bm25Search(n=687),))).lists["bm25"]
        }
        for word in weights
    }
    for hit in made.lists["bm25"]:
        assert hit.score == pytest.approx(sum(weights[word] * alone[word].get(hit.chunk_id, 0) for word in weights))


def test_it_is_told_in_text_and_markdown(capsys: pytest.CaptureFixture[str], lab: Lab) -> None:
    assert cli.main(["trace", QUESTION, "--set", "expansion.kind=rm3", "--set", "expansion.of=text"]) == 0
    told = [line for line in capsys.readouterr().out.splitlines() if line.startswith("text expanded")]
    expansion = lab.trace(QUESTION, replace(PLAIN, expansion=Rm3Expansion(of="text"))).expansions["text"]
    word = expansion.new[0]
    assert len(told) == 1
    assert f" with {word} {dict(expansion.terms)[word]:.3f}, " in told[0]
    lines = trace_markdown(lab.trace(QUESTION, BOTH)).splitlines()
    assert [line.partition(" exp")[0] for line in lines if " expanded with " in line] == ["- vector", "- text"]


def test_in_words() -> None:
    made = Expansion((("inn", 0.25), ("sign", 0.25), ("marsh", 0.5)), ("marsh",), ("a", "b"), weighted=True)
    assert str(made) == "with marsh 0.500; from 2 passages"
    assert str(replace(made, weighted=False)) == "with marsh 0.500; from 2 passages, without the weights"
    assert str(replace(made, new=())) == "with no word; from 2 passages"
    assert str(replace(made, feedback=("a",))) == "with marsh 0.500; from 1 passage"
    terms = tuple((letter, 0.125) for letter in "abcdefgh")
    assert str(replace(made, terms=terms, new=tuple("bcdefgh"))).startswith("with b 0.125, c 0.125, d 0.125, e 0.125, ")
    assert "f 0.125 and 2 more; from" in str(replace(made, terms=terms, new=tuple("bcdefgh")))


# --- settings ------------------------------------------------------------------------------------------------------


def test_a_list_that_is_not_there_is_refused() -> None:
    with pytest.raises(SettingError, match=r"expansion\.of is 'bm25'; expected the name of a list \(vector, text\)"):
        PipelineConfig(expansion=Rm3Expansion(of="bm25"))
    with pytest.raises(InputError, match=r"^expansion\.of is 'txt'"):
        PipelineConfig.from_dict({"expansion": {"kind": "rm3", "of": "txt"}})


def test_the_index_does_not_depend_on_it() -> None:
    assert BOTH.indexing == PLAIN.indexing
