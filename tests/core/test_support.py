"""How well passages support a question, against a plain computation over the texts."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from retrieval_lab import textquery
from retrieval_lab.embed import HashEmbedder
from retrieval_lab.store import CHUNKS, Schema, upsert
from retrieval_lab.support import LEAST_MASS, SUPPORT_FLOOR, Support, Terms, question_terms, supports
from retrieval_lab.types import Chunk

Connection = psycopg.Connection[Any]

TEXTS = {
    "a#000": "the lamplighter climbed a ladder",
    "a#001": "a ladder of nine rungs",
    "b#000": "the clock of the tower struck nine",
    "b#001": "it's a C:\\path and 'quotes'",
}


@pytest.fixture
def four(fresh: Connection) -> Connection:
    Schema.create(fresh, 8)
    chunks = [Chunk(chunk_id, chunk_id[0], "", 0, len(text), text) for chunk_id, text in TEXTS.items()]
    upsert(fresh, chunks, HashEmbedder(8))
    return fresh


def idf(df: int, passages: int = len(TEXTS)) -> float:
    return math.log(1 + (passages - df + 0.5) / (df + 0.5))


def test_a_term_weighs_its_idf_over_the_whole_corpus_and_stop_words_nothing(four: Connection) -> None:
    found = question_terms(four, "How many rungs did the ladders have, and how many wheels?")
    assert dict(found.weights) == pytest.approx({"ladder": idf(2), "mani": idf(0), "rung": idf(1), "wheel": idf(0)})
    assert found.passages == 4


def test_the_share_is_what_a_passage_holds_of_the_mass(four: Connection) -> None:
    terms = question_terms(four, "How many rungs did the ladders have, and how many wheels?")
    mass = max(idf(2) + 2 * idf(0) + idf(1), LEAST_MASS * math.log(4))
    found = supports(four, terms, ["b#000", "a#001", "a#000"])
    assert list(found) == ["b#000", "a#001", "a#000"]
    assert found["a#001"].share == pytest.approx((idf(2) + idf(1)) / mass * 2 / 3)
    assert found["a#001"].terms == ("rung", "ladder")
    assert found["a#000"] == Support(pytest.approx(idf(2) / mass / 3), ("ladder",))
    assert found["b#000"] == Support(0.0)


def test_a_short_question_counts_as_one_of_some_rare_terms() -> None:
    terms = Terms({"credit": 3.0, "improve": 2.0, "score": 2.5, "loan": 4.0}, 687)
    assert terms.mass == pytest.approx(LEAST_MASS * math.log(687))
    assert terms.support({"improve", "score", "credit"}).share == pytest.approx(7.5 / (LEAST_MASS * math.log(687)))


def test_fewer_than_three_terms_count_in_part() -> None:
    terms = Terms({f"word{number}": 6.0 for number in range(8)}, 687)
    shares = [terms.support({f"word{number}" for number in range(held)}).share for held in range(5)]
    assert shares == pytest.approx([0, 6 / 48 / 3, 12 / 48 * 2 / 3, 18 / 48, 24 / 48])


def test_a_long_question_counts_as_what_it_is() -> None:
    terms = Terms({f"word{number}": 5.0 for number in range(20)}, 687)
    assert terms.mass == pytest.approx(100.0)
    assert terms.support({"word3", "word7", "word9", "word11"}).share == pytest.approx(0.2)


def test_a_passage_with_every_term_supports_the_question_whole() -> None:
    assert Terms({"marchetti": 5.3}, 687).support({"isold", "marchetti"}).share == 1.0
    assert Terms({"marchetti": 5.3, "isold": 6.1}, 687).support({"marchetti"}).share < SUPPORT_FLOOR


@pytest.mark.parametrize("question", ["", "to be or not to be", "!!!"])
def test_a_question_without_terms_has_no_support(four: Connection, question: str) -> None:
    terms = question_terms(four, question)
    assert not terms.weights
    assert supports(four, terms, ["a#000"]) == {"a#000": Support(0.0)}


def test_what_an_operator_excludes_is_no_term(four: Connection) -> None:
    query = "ladder -rungs"
    assert set(question_terms(four, query).weights) == {"ladder", "rung"}
    assert set(question_terms(four, query, textquery.parse(four, query)).weights) == {"ladder"}


def test_quotes_and_backslashes_in_a_lexeme_are_counted_as_they_are(four: Connection) -> None:
    four.execute("UPDATE chunks SET text = 'see /tmp/o''brien' WHERE chunk_id = 'a#000'")
    for question in (r"C:\path", "/tmp/o'brien", "quotes'"):
        terms = question_terms(four, question)
        assert terms.weights
        for lexeme, weight in terms.weights.items():
            holding = four.execute("SELECT count(*) FROM chunks WHERE %s = ANY(tsvector_to_array(tsv))", (lexeme,))
            (df,) = holding.fetchone() or (0,)
            assert weight == pytest.approx(idf(df)), lexeme


def test_nothing_in_a_query_raises(four: Connection) -> None:
    for question in ("\x00\ud800 ladder", "-" * 5000 + " ladder", "ladder " * 20_000, "x" * 100_000 + " ladder"):
        assert "ladder" in question_terms(four, question).weights


def test_unknown_passages_give_no_support(four: Connection) -> None:
    terms = question_terms(four, "ladder")
    assert supports(four, terms, ["gone#000", "nul\x00"]) == {"gone#000": Support(0.0), "nul\x00": Support(0.0)}
    assert supports(four, terms, []) == {}


def test_the_heading_counts_where_it_is_indexed(fresh: Connection) -> None:
    table = replace(CHUNKS, contextual_headers=True)
    Schema.create(fresh, 8, table=table)
    upsert(fresh, [Chunk("a#000", "a", "Ladders", 0, 10, "nine rungs")], HashEmbedder(8), table=table)
    assert supports(fresh, question_terms(fresh, "ladder", table=table), ["a#000"], table=table)["a#000"].share == 1.0
