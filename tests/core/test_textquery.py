"""Full-text search: what becomes of a query, compared with the tsquery's binary form and with SQL of the tests' own."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval_lab.database import Database
from retrieval_lab.embed import HashEmbedder
from retrieval_lab.errors import InputError
from retrieval_lab.hybrid import search, text_search, vector_search
from retrieval_lab.rerank import default_pipeline
from retrieval_lab.store import Schema, upsert
from retrieval_lab.textquery import parse, split
from retrieval_lab.types import Chunk

Connection = psycopg.Connection[Any]


def passages(*texts: str) -> list[Chunk]:
    return [Chunk(f"d#{i:03d}", "d", "", 0, len(text), text) for i, text in enumerate(texts)]


@pytest.fixture
def among(fresh: Connection) -> Callable[..., list[int]]:
    """`among(query, *texts)`: the positions of the texts that full-text search finds, best first."""
    Schema.create(fresh, 8)

    def found(query: str, *texts: str) -> list[int]:
        fresh.execute("TRUNCATE chunks")
        upsert(fresh, passages(*texts), HashEmbedder(8))
        return [int(hit.chunk_id[-3:]) for hit in text_search(fresh, query)]

    return found


# --- the rule once more, on the binary form of the tsquery ---------------------------------------------------------

NOT, AND, OR, PHRASE = 1, 2, 3, 4


@dataclass
class Node:
    """A lexeme (`operator` 0) or an operator with its operands."""

    operator: int
    operands: tuple[Node, ...] = ()
    lexeme: str = ""
    distance: int = 1

    def sql(self) -> str:
        if not self.operator:
            escaped = self.lexeme.replace("\\", "\\\\").replace("'", "''")
            return f"'{escaped}'"
        if self.operator == NOT:
            return f"!({self.operands[0].sql()})"
        symbol = {AND: "&", OR: "|", PHRASE: f"<{self.distance}>"}[self.operator]
        return f"({self.operands[0].sql()} {symbol} {self.operands[1].sql()})"


def tree(sent: bytes) -> Node | None:
    """The tree of tsquerysend's output: a count, then the items in prefix order, the right operand first."""
    count, rest = int.from_bytes(sent[:4], "big"), sent[4:]

    def read() -> Node:
        nonlocal rest
        kind, rest = rest[0], rest[1:]
        if kind == 1:
            assert rest[:2] == b"\0\0", "websearch_to_tsquery makes no weights and no prefixes"
            lexeme, _, rest = rest[2:].partition(b"\0")
            return Node(0, lexeme=lexeme.decode())
        operator, rest = rest[0], rest[1:]
        if operator == NOT:
            return Node(NOT, (read(),))
        distance = 1
        if operator == PHRASE:
            distance, rest = int.from_bytes(rest[:2], "big"), rest[2:]
        right = read()
        left = read()
        return Node(operator, (left, right), distance=distance)

    root = read() if count else None
    assert not rest
    return root


def terms(node: Node | None, negated: bool = False) -> list[tuple[Node, bool]]:
    """(term, negated) at the top level: AND and OR part terms, a phrase is one."""
    if node is None:
        return []
    if node.operator in (AND, OR):
        return [term for operand in node.operands for term in terms(operand, negated)]
    if node.operator == NOT:
        return terms(node.operands[0], not negated)
    return [(node, negated)]


def own_terms(conn: Connection, query: str) -> tuple[list[str], list[str]]:
    with conn.cursor(binary=True) as cursor:
        row = cursor.execute("SELECT tsquerysend(websearch_to_tsquery('english', %s))", (query,)).fetchone()
    assert row
    found = terms(tree(row[0]))
    return [term.sql() for term, negated in found if not negated], [term.sql() for term, negated in found if negated]


def own_search(conn: Connection, query: str, n: int = 50) -> list[tuple[str, float]]:
    positive, excluded = own_terms(conn, query)
    if not positive:
        return []
    statement = "SELECT chunk_id, ts_rank_cd(tsv, %(q)s::tsquery, 32) FROM chunks WHERE tsv @@ %(q)s::tsquery"
    parameters = {"q": " | ".join(positive)}
    if excluded:
        statement += " AND NOT tsv @@ %(x)s::tsquery"
        parameters["x"] = " | ".join(excluded)
    rows = conn.execute(statement, parameters).fetchall()
    return sorted(rows, key=lambda row: (-row[1], row[0]))[:n]


def check_against_own_search(conn: Connection, query: str, n: int = 50) -> None:
    hits, expected = text_search(conn, query, n), own_search(conn, query, n)
    assert [hit.chunk_id for hit in hits] == [chunk_id for chunk_id, _ in expected]
    assert [hit.score for hit in hits] == pytest.approx([score for _, score in expected], abs=1e-6)
    assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))


PLAIN_QUERIES = [
    "how do I configure ef_search for the nightly job",
    "reciprocal rank fusion",
    '"reciprocal rank fusion"',
    '"rank fusion" -vector index',
    '"rank fusion" -"vector index" -bm25',
    "recall OR precision -golden",
    "recall OR -precision golden",
    "-chunk",
    "--verbose ranking",
    "foo-bar near-duplicate re-rank",
    "-near-duplicate ranking",
    "Moosleitner's 1,500 tokens",
    "float16 | 0.77 GB | 1.54 GB",
    "ranking & ranking | ranking",
    "https://example.com/a?b=c",
    '"x.com/a&b" index',
    "C++ C# .NET",
    "the clock at Sankt Veit",
]


@pytest.mark.parametrize("query", PLAIN_QUERIES)
@pytest.mark.parametrize("n", [1, 50, 1000])
def test_condition_score_and_order_are_those_of_the_rule(stored: Connection, query: str, n: int) -> None:
    check_against_own_search(stored, query, n)


def test_a_whole_paragraph_is_searched_by_the_rule(stored: Connection, corpus_chunks: list[Chunk]) -> None:
    longest = max(corpus_chunks, key=lambda piece: len(set(piece.text.split()))).text
    assert len(set(longest.split())) > 100
    check_against_own_search(stored, longest)


WORDS = st.sampled_from(
    [
        "index",
        "rank",
        "vector",
        "chunk",
        "golden",
        "the",
        "of",
        "near-duplicate",
        "ef_search",
        "x.com/a&b",
        "it's",
        "42",
    ]
)
MARKS = st.sampled_from(
    ["-", '"', " OR ", " - ", "--", "&", "|", "!", "(", ")", ":*", "<->", "'", "\\", " ", "  ", "🙂"]
)
SOUP = st.lists(st.one_of(WORDS, MARKS, st.just(" ")), max_size=14).map("".join)


@settings(max_examples=150)
@given(query=SOUP)
def test_any_mixture_of_words_and_operators_is_searched_by_the_rule(stored: Connection, query: str) -> None:
    check_against_own_search(stored, query)


@settings(max_examples=150)
@given(query=st.one_of(st.text(max_size=40), st.text(alphabet="'&|!<>():*\"-\\ OR\x00\ud800é\t\n", max_size=60)))
def test_no_query_raises_and_the_connection_stays_usable(stored: Connection, query: str) -> None:
    text_search(stored, query)
    assert stored.execute("SELECT 1").fetchone() == (1,)
    assert stored.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


# --- taking a printed tsquery apart --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("printed", "positive", "excluded"),
    [
        ("", [], []),
        ("'a'", ["'a'"], []),
        ("'a' & 'b' | 'c'", ["'a'", "'b'", "'c'"], []),
        ("'git' & 'commit' & !'m'", ["'git'", "'commit'"], ["'m'"]),
        ("!!'verbos'", ["'verbos'"], []),
        ("!!!'x'", [], ["'x'"]),
        ("'it''s' & 'a\\\\b'", ["'it''s'", "'a\\\\b'"], []),
        ("'a&b' & '!x' | '(y)'", ["'a&b'", "'!x'", "'(y)'"], []),
        ("'a'' & !''b'", ["'a'' & !''b'"], []),
        ("'a' & 'b' & 'a'", ["'a'", "'b'"], []),
    ],
)
def test_words_are_taken_apart_at_the_top_level(printed: str, positive: list[str], excluded: list[str]) -> None:
    assert split(printed) == (tuple(positive), tuple(excluded))


def same_query(conn: Connection, one: str, other: str) -> bool:
    row = conn.execute("SELECT %s::tsquery::text = %s::tsquery::text", (one, other)).fetchone()
    assert row
    return bool(row[0])


@pytest.mark.parametrize(
    ("printed", "positive", "excluded"),
    [
        ("'foo' <-> 'bar'", ["'foo' <-> 'bar'"], []),
        ("!( 'foo' <-> 'bar' )", [], ["'foo' <-> 'bar'"]),
        ("!!( 'foo' <2> 'bar' )", ["'foo' <2> 'bar'"], []),
        ("'x' & 'foo-bar' <2> 'foo' <-> 'bar' | !'y'", ["'x'", "'foo-bar' <2> 'foo' <-> 'bar'"], ["'y'"]),
        ("'x.com/a&b' <-> 'x.com' <-> '/a&b'", ["'x.com/a&b' <-> 'x.com' <-> '/a&b'"], []),
    ],
)
def test_a_phrase_is_one_term(conn: Connection, printed: str, positive: list[str], excluded: list[str]) -> None:
    found = split(printed)
    assert [len(part) for part in found] == [len(positive), len(excluded)]
    for term, expected in zip(found[0] + found[1], positive + excluded, strict=True):
        assert same_query(conn, term, expected)


# --- named cases ---------------------------------------------------------------------------------------------------

GIT, RAG, ERROR = "Run git commit -m with a message.", "RAG retrieval basics.", "Server error: -32600 invalid request."


@pytest.mark.parametrize(
    ("query", "excluded"),
    [
        ("git commit -m", ["'m'"]),
        ("RAG - retrieval", ["'retriev'"]),
        ("error: -32600", ["'32600'"]),
        ("docker run -v path", ["'v'"]),
        ("well-known state-of-the-art", []),
        ("--verbose", []),
    ],
)
def test_trap_1_a_dash_excludes_only_where_websearch_says_so_and_the_trace_shows_it(
    stored: Connection, query: str, excluded: list[str]
) -> None:
    assert list(parse(stored, query).excluded) == excluded
    notes = " ".join(default_pipeline(stored, HashEmbedder(), None).run(query).notes)
    assert all(term.strip("'") in notes for term in excluded)
    assert ("exclu" in notes) == bool(excluded)


def test_trap_1_an_excluded_term_removes_the_passages_that_hold_it(among: Callable[..., list[int]]) -> None:
    assert among("git commit", GIT, RAG, ERROR) == [0]
    assert among("git commit -message", GIT, "git commit", ERROR) == [1]
    assert among('basics -"retrieval basics"', RAG, "basics of retrieval", ERROR) == [1]


def test_trap_1_a_flag_is_found(among: Callable[..., list[int]]) -> None:
    assert among("--verbose", "Use --verbose to see more.", "Be quiet.") == [0]
    assert among("--dry-run", "The flag --dry-run does nothing.", "Run.") == [0]


def test_trap_2_a_question_finds_passages_that_hold_one_of_its_words(among: Callable[..., list[int]]) -> None:
    question = "how do I configure ef_search for the nightly job"
    assert among(question, "Set ef_search before the query.", "Something else.") == [0]


def test_trap_2_a_quoted_phrase_stays_a_phrase(among: Callable[..., list[int]]) -> None:
    assert among('"rank fusion"', "rank fusion", "fusion of rank", "rank the fusion") == [0]
    assert among('"rank fusion" query', "rank fusion", "fusion of rank", "a query") == [0, 2]


def test_plain_replacement_of_and_by_or_would_find_everything_but_the_excluded(
    among: Callable[..., list[int]],
) -> None:
    assert among("rank -fusion", "rank", "fusion", "rank fusion", "neither") == [0]


def test_no_positive_term_finds_nothing(among: Callable[..., list[int]]) -> None:
    for query in ("-rank", '-"rank fusion"', "-rank -fusion", "- rank"):
        assert among(query, "rank", "fusion", "other") == []


def test_an_ampersand_inside_a_quoted_lexeme_is_no_operator(among: Callable[..., list[int]]) -> None:
    # Split at the ampersand, the lexeme 'x.com/a&b' would fall into pieces that are no tsquery or match 'x.com' alone.
    assert among('"x.com/a&b"', "see x.com/a&b", "see x.com", "a b") == [0]
    assert among('-"x.com/a&b" see', "see x.com/a&b", "see x.com", "see a b") == [1, 2]


def test_an_apostrophe_and_a_backslash_inside_a_lexeme_are_kept(among: Callable[..., list[int]]) -> None:
    assert among('"x.com/a\'b&c"', "see x.com/a'b&c", "see x.com") == [0]


def test_lexemes_are_not_stemmed_twice(among: Callable[..., list[int]], conn: Connection) -> None:
    # "generational" has the stem 'generat', "universities" 'univers'; some stems have a stem of their own.
    twice = [
        word
        for word in ("internationally", "possibly", "easily", "agreed", "ponies", "sensibilities", "nicely", "bored")
        if conn.execute(
            "SELECT to_tsvector('english', %(w)s) <> to_tsvector('english', "
            "coalesce((tsvector_to_array(to_tsvector('english', %(w)s)))[1], ''))",
            {"w": word},
        ).fetchone()
        == (True,)
    ]
    assert twice, "no word here has a stem that is stemmed further"
    for word in twice:
        assert among(word, f"a {word} b", "c") == [0]


@pytest.mark.parametrize(
    "query", ["the who", "to be or not to be", "don't", "a OR", "OR", "!!!", "-only", '"the"', "", " "]
)
def test_trap_12_stop_words_and_symbols_alone_find_nothing_and_the_trace_says_why(
    stored: Connection, query: str
) -> None:
    assert text_search(stored, query) == []
    assert any("stop words" in note for note in default_pipeline(stored, HashEmbedder(), None).run(query).notes)


def test_trap_12_the_vector_side_goes_on_without_full_text(stored: Connection) -> None:
    found = search(stored, HashEmbedder(), "to be or not to be")
    assert len(found) == 10
    assert all(row.ranks[1] is None for row in found)


def test_scores_are_cover_densities_scaled_below_one(among: Callable[..., list[int]], fresh: Connection) -> None:
    # One occurrence of weight D has cover density .1, and normalisation 32 makes it .1 / 1.1.
    assert among("fox", "a fox", "a dog", "fox fox") == [2, 0]
    assert [hit.score for hit in text_search(fresh, "fox")] == pytest.approx([0.2 / 1.2, 0.1 / 1.1], abs=1e-6)


def test_ties_are_in_code_point_order_of_the_chunk_id(fresh: Connection) -> None:
    Schema.create(fresh, 8)
    ids = ["b#000", "a#001", "B#000", "a#000", "é#000", "a-b#000", "_#000", "a#0000"]
    upsert(fresh, [Chunk(chunk_id, "d", "", 0, 3, "fox") for chunk_id in ids], HashEmbedder(8))
    assert [hit.chunk_id for hit in text_search(fresh, "fox")] == sorted(ids)
    assert [hit.chunk_id for hit in text_search(fresh, "fox", 3)] == sorted(ids)[:3]


@pytest.mark.parametrize("word", ["TVAROŽEK", "ÉCLAIR", "ÅNGSTRÖM", "ЁЛКА"])
def test_case_is_folded_outside_ascii_whatever_the_users_locale(among: Callable[..., list[int]], word: str) -> None:
    assert among(word, f"one {word.lower()} here", "other") == [0]
    assert among(word.lower(), f"one {word} here", "other") == [0]


@pytest.mark.parametrize("n", [0, 1, 2])
def test_at_most_n_come_back(among: Callable[..., list[int]], fresh: Connection, n: int) -> None:
    among("fox", "fox", "fox fox", "fox fox fox")
    assert len(text_search(fresh, "fox", n)) == n


def test_a_negative_n_is_refused(stored: Connection) -> None:
    with pytest.raises(InputError, match="-1"):
        text_search(stored, "index", -1)


# --- what PostgreSQL refuses ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("hyphens", [33, 40, 5000])
def test_hyphens_that_postgres_refuses_degrade_to_the_words_and_are_told(
    stored: Connection, hyphens: int, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(psycopg.errors.InternalError_):
        stored.execute("SELECT websearch_to_tsquery('english', %s)", ("-" * hyphens,))
    assert text_search(stored, "-" * hyphens) == []
    query = "-" * hyphens + " ranking"
    with caplog.at_level(logging.WARNING):
        assert text_search(stored, query) == text_search(stored, "ranking") != []
    assert caplog.records
    assert default_pipeline(stored, HashEmbedder(), None).run(query).notes
    assert vector_search(stored, HashEmbedder(), query) == vector_search(stored, HashEmbedder(), "ranking")


def test_thirty_three_dashed_words_degrade_too(stored: Connection) -> None:
    assert text_search(stored, "- " * 33 + "ranking") == text_search(stored, "ranking")


@pytest.mark.parametrize(
    "query",
    [
        pytest.param(" ".join(f"w{i}" for i in range(100_000)), id="100,000 distinct words"),
        pytest.param("ranking " * 100_000, id="100,000 times one word"),
        pytest.param("the " * 100_000, id="100,000 stop words"),
        pytest.param("x" * 3_000_000, id="one word of 3,000,000 characters"),
        pytest.param("-" * 1_000_000, id="1,000,000 hyphens"),
        pytest.param('"' + "rank " * 50_000, id="a phrase of 50,000 words"),
        pytest.param("rank\n" + "😀" * 500_000, id="500,000 emoji"),
    ],
)
def test_a_very_long_query_never_raises_takes_seconds_at_most_and_is_told(
    stored: Connection, query: str, caplog: pytest.LogCaptureFixture
) -> None:
    began = time.monotonic()
    with caplog.at_level(logging.WARNING):
        text_search(stored, query)
    assert time.monotonic() - began < 5
    assert stored.execute("SELECT 1").fetchone() == (1,)


def test_what_a_very_long_query_lost_is_told(stored: Connection, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert text_search(stored, "ranking " * 100_000) == text_search(stored, "ranking")
    assert caplog.records
    assert all(len(record.getMessage()) < 300 for record in caplog.records)


def test_a_paragraph_of_thousands_of_distinct_words_is_answered_in_time(
    stored: Connection, corpus_chunks: list[Chunk]
) -> None:
    query = " ".join(sorted({word for piece in corpus_chunks for word in piece.text.split()}))
    assert len(query.split()) > 5000
    began = time.monotonic()
    assert text_search(stored, query)
    assert time.monotonic() - began < 5
    assert default_pipeline(stored, HashEmbedder(), None).run(query).notes


@pytest.mark.parametrize("noise", ["\x00", "\ud800", "\x00\ud800\x00"])
def test_nul_and_lone_surrogates_are_treated_as_spaces_and_told(stored: Connection, noise: str) -> None:
    query = f"recip{noise} ranking{noise}fusion"
    assert text_search(stored, query) == text_search(stored, "recip ranking fusion") != []
    assert default_pipeline(stored, HashEmbedder(), None).run(query).notes


@pytest.mark.parametrize(
    "noise", ["\x01\x1b[31m", "\x7f\x85\u2028", "\u200b\u202e", "😀", "\ufeff", "\U0010ffff", "%s %(q)s {}"]
)
def test_control_characters_and_placeholders_are_only_text(stored: Connection, noise: str) -> None:
    check_against_own_search(stored, f"ranking {noise} fusion")


@pytest.mark.parametrize(
    "query", ["日本語のテスト", "café", "cafe\u0301", "ﬁne", "İstanbul", "soft\u00adhyphen", "a\u200bb"]
)
def test_trap_17_other_scripts_and_unicode_forms_are_searched_by_the_rule(
    among: Callable[..., list[int]], fresh: Connection, query: str
) -> None:
    assert among(query, f"before {query} after", "other") == [0]
    check_against_own_search(fresh, query)


# --- transactions --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("query", ["-" * 40 + " ranking", "\x00", "ranking", "'&|!", "the"])
def test_an_open_transaction_is_kept_on_an_autocommit_connection(stored: Connection, query: str) -> None:
    with stored.transaction(force_rollback=True):
        stored.execute("CREATE TEMP TABLE kept (x int)")
        stored.execute("INSERT INTO kept VALUES (1)")
        text_search(stored, query)
        search(stored, HashEmbedder(), query)
        assert stored.execute("SELECT x FROM kept").fetchall() == [(1,)]


@pytest.mark.parametrize("query", ["-" * 40 + " ranking", "\x00", "ranking", "'&|!", "the"])
def test_an_open_transaction_is_kept_without_autocommit(
    database: Database, stored_schema: str, stored: Connection, query: str
) -> None:
    expected = text_search(stored, query)
    with database.connect(stored_schema) as other:
        other.autocommit = False
        other.execute("CREATE TEMP TABLE kept (x int)")
        other.execute("INSERT INTO kept VALUES (1)")
        assert text_search(other, query) == expected
        assert search(other, HashEmbedder(), query) == search(stored, HashEmbedder(), query)
        assert other.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS
        assert other.execute("SELECT x FROM kept").fetchall() == [(1,)]
        other.rollback()
        assert other.execute("SELECT to_regclass('pg_temp.kept')").fetchone() == (None,)


def test_exclusions_and_phrases_survive_a_row_of_hyphens(stored: Connection) -> None:
    parsed = parse(stored, f'cat -dog "big bird" {"-" * 40}')
    assert parsed.positive == ("'cat'", "( 'big' <-> 'bird' )")
    assert parsed.excluded == ("'dog'",)
    assert parsed.notes == ("full text took a row of hyphens for a space",)


def test_a_word_that_is_too_long_is_told(stored: Connection) -> None:
    parsed = parse(stored, f"{'a' * 3000} cat")
    assert parsed.positive == ("'cat'",)
    assert parsed.notes == ("words left out because they are longer than 2,046 bytes: 1",)


def test_a_phrase_of_a_thousand_words_is_searched_as_its_words(stored: Connection) -> None:
    parsed = parse(stored, f'"{" ".join(f"word{n}" for n in range(1000))}" cat')
    assert parsed.positive[:2] == ("'word0'", "'word1'")
    assert parsed.notes == (
        "a phrase of 1000 words was searched as its words",
        "full text searched the first 256 of 1001 distinct terms",
    )


def test_a_pasted_page_with_stray_quotes_costs_little_more_than_without(
    stored: Connection, corpus_chunks: list[Chunk]
) -> None:
    """Without a bound on the words in phrases this query took a hundred times as long as the one without quotes."""
    words = " ".join(chunk.text for chunk in corpus_chunks[:12]).replace('"', "").split()[:900]
    quoted = " ".join(
        f'"{" ".join(words[i : i + 25])}"' if i % 50 == 0 else " ".join(words[i : i + 25])
        for i in range(0, len(words), 25)
    )
    seconds = []
    for query in (" ".join(words), quoted):
        began = time.perf_counter()
        assert len(text_search(stored, query)) == 50
        seconds.append(time.perf_counter() - began)
    assert seconds[1] < 10 * seconds[0] + 1
