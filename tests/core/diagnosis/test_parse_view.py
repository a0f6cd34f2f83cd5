"""The parse view: what PostgreSQL made of each token, and dashes that were read as exclusions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from retrieval_lab import Lab, PipelineConfig
from retrieval_lab.database import Database
from retrieval_lab.diagnosis.parse_view import MAX_TOKENS, ParseView, PassageView, parse_query
from retrieval_lab.diagnosis.report import parse_report
from retrieval_lab.errors import InputError
from retrieval_lab.retrievers.text import TextSearch
from retrieval_lab.retrievers.vector import VectorSearch

Connection = psycopg.Connection[Any]
TEXT = "# Git\n\nRun git commit -m with the message. Server error: -32600. See http://a.b/c and foo-bar.\n"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, database: Database) -> Iterator[Lab]:
    assert database.embedded
    folder: Path = tmp_path_factory.mktemp("git")
    (folder / "docs").mkdir()
    (folder / "docs" / "git.md").write_text(TEXT, encoding="utf-8")
    with Lab.open(folder) as opened:
        yield opened


def roles(view: ParseView | PassageView) -> list[tuple[str, str]]:
    return [(one.token, one.role) for one in view.tokens if one.role != "blank"]


@pytest.mark.parametrize(
    ("query", "written", "excluded", "meant", "finds"),
    [
        ("git commit -m", ["-m"], ("m",), "git commit m", ("git", "commit", "m")),
        ("RAG - retrieval", ["- retrieval"], ("retriev",), "RAG retrieval", ("rag", "retriev")),
        ("docker run -v path", ["-v"], ("v",), "docker run v path", ("docker", "run", "v", "path")),
        # The number is another lexeme with its sign, and stands so in the corpus: quotes keep the sign.
        ("error: -32600", ["-32600"], ("32600",), 'error: "-32600"', ("error", "-32600")),
        ('x -"foo bar"', ['-"foo bar"'], ("'foo' <-> 'bar'",), 'x "foo bar"', ("x", "'foo' <-> 'bar'")),
        ("-m -m z", ["-m", "-m"], ("m",), "m m z", ("m", "z")),
        ("z ---q", ["---q"], ("q",), "z q", ("z", "q")),
        ("e|-b (-c) z-d", ["-b", "-c"], ("b", "c"), None, ("e", "b", "c", "'z-d' <-> 'z' <-> 'd'")),
        ('p"y"-z', ["-z"], ("z",), None, ("p", "y", "z")),
        ("a\x00b -q", ["-q"], ("q",), "a b q", ("b", "q")),
    ],
)
def test_a_dash_that_excludes_is_pointed_out_with_what_was_meant(
    lab: Lab, query: str, written: list[str], excluded: tuple[str, ...], meant: str | None, finds: tuple[str, ...]
) -> None:
    view = lab.parse_view(query)
    assert [dash.written for dash in view.dashes] == written
    assert [view.text[dash.start : dash.end] for dash in view.dashes] == written
    assert view.excluded == excluded
    assert tuple(dict.fromkeys(term for dash in view.dashes for term in dash.excluded)) == excluded
    assert meant in (None, view.meant)
    assert set(view.meant_terms) == set(finds)
    again = lab.parse_view(view.meant or "")
    assert (again.excluded, again.dashes, again.meant) == ((), (), None)
    assert {*again.terms, *again.phrases} == set(finds)


@pytest.mark.parametrize("query", ["--verbose", "foo-bar", '"a -b c"', "x - - y", "rank", "", "-", "-the", "- -x y"])
def test_a_dash_that_excludes_nothing_is_punctuation(lab: Lab, query: str) -> None:
    view = lab.parse_view(query)
    assert (view.excluded, view.dashes, view.meant, view.meant_terms) == ((), (), None, ())


def test_without_operators_a_dash_is_punctuation_and_quotes_make_no_phrase(lab: Lab) -> None:
    config = PipelineConfig(retrievers=(VectorSearch(), TextSearch(operators=False)))
    view = lab.parse_view('git "commit -m"  -x', config)
    assert not view.operators
    assert (view.terms, view.phrases, view.excluded, view.dashes) == (("git", "commit", "m", "x"), (), (), ())
    assert lab.parse_view('git "commit -m" -x').plain == view.terms
    assert lab.parse_view("-x", PipelineConfig(retrievers=(VectorSearch(),))).excluded == ("x",)


def test_the_list_named_text_says_whether_there_are_operators(lab: Lab) -> None:
    both = (TextSearch(name="plain", operators=False), TextSearch())
    assert lab.parse_view("-x", PipelineConfig(retrievers=both)).operators
    assert not lab.parse_view("-x", PipelineConfig(retrievers=both[:1])).operators


def test_each_token_is_told_with_its_type_dictionary_and_lexemes(lab: Lab) -> None:
    view = lab.parse_view('How does the "reciprocal rank" of node.js 42 foo-bar -fusions help?')
    rows = {one.token: (one.type, one.dictionary, one.lexemes, one.role) for one in view.tokens}
    assert rows["How"] == ("asciiword", "english_stem", (), "stop word")
    assert rows["reciprocal"] == ("asciiword", "english_stem", ("reciproc",), "phrase")
    assert rows["node.js"] == ("host", "simple", ("node.js",), "term")
    assert rows["42"] == ("uint", "simple", ("42",), "term")
    assert rows["foo-bar"] == ("asciihword", "english_stem", ("foo-bar",), "phrase")
    assert rows["bar"] == ("hword_asciipart", "english_stem", ("bar",), "phrase")
    assert rows["fusions"] == ("asciiword", "english_stem", ("fusion",), "excluded")
    assert rows["?"] == ("blank", None, (), "blank")
    assert view.stop_words == ("how", "does", "the", "of")
    assert view.phrases == ("'reciproc' <-> 'rank'", "'foo-bar' <-> 'foo' <-> 'bar'")
    assert view.text_config == "english"
    assert all(view.text[one.start :].startswith(one.token) for one in view.tokens if one.role != "blank")


def test_a_word_in_and_beside_a_phrase_is_both(lab: Lab) -> None:
    assert roles(lab.parse_view('"rank fusion" fusion rank:x')) == [
        ("rank", "phrase"),
        ("fusion", "phrase"),
        ("fusion", "term"),
        ("rank", "term"),
        ("x", "term"),
    ]


def test_what_a_limit_cuts_is_left_out(lab: Lab) -> None:
    view = lab.parse_view(" ".join(f"word{number}" for number in range(300)))
    found = [role for _, role in roles(view)]
    assert found == ["term"] * 256 + ["left out"] * 44
    assert any("first 256 of 300" in note for note in view.notes)


def test_a_passage_is_told_as_it_is_indexed(lab: Lab) -> None:
    view = lab.parse_passage("git#000")
    assert view.text == TEXT.strip()
    with connected(lab) as conn:
        expected = conn.execute(
            "SELECT token, alias, lexemes FROM chunks, ts_debug('english', text) WHERE chunk_id = 'git#000'"
        ).fetchall()
        indexed = conn.execute("SELECT tsvector_to_array(tsv) FROM chunks WHERE chunk_id = 'git#000'").fetchone()
    assert [(one.token, one.type, one.lexemes) for one in view.tokens] == [
        (token, alias, tuple(lexemes or ())) for token, alias, lexemes in expected
    ]
    assert {lexeme for one in view.tokens if one.role == "indexed" for lexeme in one.lexemes} == set(
        (indexed or [()])[0]
    )
    assert ("the", "stop word") in roles(view)
    assert ("-32600", "indexed") in roles(view)
    assert PassageView.from_dict(json.loads(json.dumps(view.to_dict()))) == view
    assert all(view.text[one.start :].startswith(one.token) for one in view.tokens if one.role != "blank")


def connected(lab: Lab) -> Connection:
    """A connection of the test's own."""
    return lab._database.connect(lab.schema)


def test_a_passage_with_contextual_headers_is_told_with_its_heading(lab: Lab) -> None:
    with Lab.open(lab.corpus, PipelineConfig(contextual_headers=True)) as headed:
        assert headed.parse_passage("git#000").text == f"Git\n\n{TEXT.strip()}"


def test_a_passage_that_is_not_there_is_bad_input(lab: Lab) -> None:
    with pytest.raises(InputError, match="no chunk 'git#009'"):
        lab.parse_passage("git#009")


@pytest.mark.parametrize(
    "query",
    [
        "",
        "!!!",
        "rank\x00 fusion",
        "-" * 40 + "rank -x",
        "( ' & | ! <-> :* ) -y",
        '"unclosed phrase -',
        "%s %(x)s {} \\ -'a''b'",
        "\x1b[31mred[/] -[@click=app.quit]go[/]",
        "rank -fusion " * 3_000,
        "x" * 5_000 + " -" + "y" * 5_000,
        "日本語のテスト 😀 -İstanbul",
        "!" * 3_000 + "(" * 3_000,
    ],
    ids=lambda query: repr(query[:20]),
)
def test_hostile_queries_are_read_like_any_other(lab: Lab, query: str) -> None:
    view = lab.parse_view(query)
    assert ParseView.from_dict(json.loads(json.dumps(view.to_dict()))) == view
    assert all(line.isprintable() for line in parse_report(view).splitlines())
    assert len(view.tokens) <= MAX_TOKENS
    made = lab.trace(query)
    assert (len(view.terms), len(view.phrases)) == (len(made.parsed.terms), len(made.parsed.phrases))
    assert len(view.excluded) == len(made.parsed.excluded)


def test_a_lone_surrogate_is_a_space(lab: Lab) -> None:
    view = lab.parse_view("rank \ud800 -x")
    assert (view.text, view.meant) == ("rank   -x", "rank   x")


def test_many_tokens_are_cut_with_a_note(lab: Lab) -> None:
    view = lab.parse_view("a b " * 2_000)
    assert len(view.tokens) == MAX_TOKENS
    assert f"the first {MAX_TOKENS:,} tokens are shown" in view.notes


def test_another_text_search_configuration_reads_other_words(lab: Lab) -> None:
    with connected(lab) as conn:
        simple = parse_query(conn, "the ranks -of", "simple")
    assert (simple.terms, simple.excluded, simple.stop_words) == (("the", "ranks"), ("of",), ())
    assert simple.tokens[0].dictionary == "simple"


def test_the_report_names_what_is_dropped_and_what_was_meant(lab: Lab) -> None:
    lines = [line.split() for line in parse_report(lab.parse_view("the git commit -m")).splitlines()]
    assert ["token", "type", "dictionary", "lexemes", "read", "as"] in lines
    assert ["m", "asciiword", "english_stem", "m", "excluded"] in lines
    assert ["dropped", "the"] in lines
    assert ["meant?", "the", "git", "commit", "m", "(finds", "git,", "commit,", "m)"] in lines
    assert "none, so full text finds nothing" in parse_report(lab.parse_view("the of"))


@pytest.mark.parametrize(
    ("change", "message"),
    [({"tokens": [{}]}, r"tokens\[0\]"), ({"dashes": 3}, "dashes is 3"), ({"operators": "x"}, "operators is 'x'")],
)
def test_a_broken_document_is_bad_input(lab: Lab, change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ParseView.from_dict({**lab.parse_view("a word").to_dict(), **change})
