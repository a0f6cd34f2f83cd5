"""Checking labels: every kind of finding by the smallest corpus that has it, and none where all is well."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml

from retrieval_lab.chunker import chunk
from retrieval_lab.corpus import read_corpus
from retrieval_lab.embed import HashEmbedder
from retrieval_lab.errors import InputError
from retrieval_lab.evals.findings import Finding, Kind, Severity, quoted
from retrieval_lab.evals.labels import check_labels, counts, excluded
from retrieval_lab.golden import GoldenFile, read_golden
from retrieval_lab.metrics import relevant
from retrieval_lab.types import Chunk, Document, GoldenQuery

FILLER = "Twenty plain words keep this document from being called short, so that each test sees only what it is about."
QUERY = "how are lists of ranks joined"


def corpus(folder: Path, docs: dict[str, str], *queries: tuple[str, str] | dict[str, str]) -> Path:
    """Writes Markdown files and a golden.yaml; a pair is (doc_id, anchor) of a query with a harmless text."""
    (folder / "docs").mkdir(exist_ok=True)
    for name, text in docs.items():
        (folder / "docs" / f"{name}.md").write_text(text, encoding="utf-8")
    entries = []
    for number, given_ in enumerate(queries, start=1):
        known = dict(zip(("doc_id", "anchor"), given_, strict=True)) if isinstance(given_, tuple) else given_
        entry = {"query_id": f"q{number}", "query": f"{QUERY} {number}", "kind": "k", "doc_id": "d", "anchor": "plain"}
        entries.append(entry | known)
    golden = yaml.safe_dump(entries, allow_unicode=True, sort_keys=False, width=10_000)
    (folder / "golden.yaml").write_text(golden, encoding="utf-8")
    return folder


def chunks_in(folder: Path, max_chars: int = 1200, overlap: int = 1) -> list[Chunk]:
    return [one for doc in read_corpus(folder).documents for one in chunk(doc, max_chars=max_chars, overlap=overlap)]


def findings(folder: Path, *, max_chars: int = 1200, overlap: int = 1, allow_missing: bool = False) -> list[Finding]:
    files = read_corpus(folder)
    chunks = chunks_in(folder, max_chars, overlap)
    return check_labels(
        read_golden(folder / "golden.yaml"),
        files.documents,
        chunks,
        embeddings=HashEmbedder().embed([one.text for one in chunks]),
        paths=files.paths,
        max_chars=max_chars,
        allow_missing=allow_missing,
    )


def only(folder: Path, kind: Kind, *, max_chars: int = 1200, overlap: int = 1) -> Finding:
    found = findings(folder, max_chars=max_chars, overlap=overlap)
    assert [one.kind for one in found] == [kind], found
    assert "\n" not in found[0].message
    return found[0]


def anchored(folder: Path, text: str, anchor: str) -> Path:
    return corpus(folder, {"d": f"# Title\n\n{text}\n\n{FILLER}\n"}, ("d", anchor))


def test_a_good_golden_set_gives_nothing(tmp_path: Path) -> None:
    assert findings(anchored(tmp_path, "Reciprocal rank fusion adds up.", "rank fusion")) == []


def test_the_bundled_corpus_has_no_errors(corpus_dir: Path) -> None:
    found = findings(corpus_dir)
    assert counts(found)[0] == 0
    assert {one.kind for one in found} == {Kind.ANCHOR_SHARED, Kind.CHUNK_LONG}


# --- documents that are not there ----------------------------------------------------------------------------------


def test_trap_8_a_document_that_is_gone_is_an_error_with_file_line_and_query(tmp_path: Path) -> None:
    found = only(corpus(tmp_path, {"d": FILLER}, ("d", "plain words"), ("gone", "never")), Kind.UNKNOWN_DOCUMENT)
    assert (found.severity, found.file, found.line, found.query_id) == ("error", tmp_path / "golden.yaml", 9, "q2")
    assert 'no document "gone"' in found.message
    assert excluded([found]) == ["q2"]


@pytest.mark.parametrize(
    ("doc_id", "hint"),
    [
        ("fusion.md", 'no folder and no file ending: write "fusion"'),
        ("docs/fusion.md", 'write "fusion"'),
        ("fusions", 'did you mean "fusion"?'),
        ("FUSION", 'did you mean "fusion"?'),
        ("zebra", "without its folder and ending"),
    ],
)
def test_an_unknown_document_comes_with_a_suggestion(tmp_path: Path, doc_id: str, hint: str) -> None:
    found = only(corpus(tmp_path, {"fusion": FILLER}, (doc_id, "plain words")), Kind.UNKNOWN_DOCUMENT)
    assert hint in found.message
    assert "The anchor stands in fusion" in found.message


def test_trap_8_missing_documents_can_be_allowed_and_stay_counted(tmp_path: Path) -> None:
    folder = corpus(tmp_path, {"d": FILLER}, ("gone", "never"), ("d", "not there"))
    found = findings(folder, allow_missing=True)
    assert [(one.kind, one.severity) for one in found] == [
        (Kind.UNKNOWN_DOCUMENT, Severity.WARNING),
        (Kind.ANCHOR_ABSENT, Severity.ERROR),
    ]
    assert excluded(found) == ["q1", "q2"]


# --- anchors in no chunk -------------------------------------------------------------------------------------------

TRAP_7 = "Use **reciprocal rank\nfusion** (RRF), don’t sum. See `k = 60`."


@pytest.mark.parametrize(
    ("text", "anchor", "kind", "form", "stands"),
    [
        (TRAP_7, "rank fusion (RRF)", Kind.ANCHOR_MARKDOWN, "Markdown", "rank\nfusion** (RRF)"),
        (TRAP_7, "don't sum", Kind.ANCHOR_QUOTES, "quotes", "don’t sum"),
        (TRAP_7, "k = 60.", Kind.ANCHOR_MARKDOWN, "Markdown", "k = 60`."),
        (TRAP_7, "fusion (RRF), don't sum", Kind.ANCHOR_MARKDOWN, "quotes", "fusion** (RRF), don’t sum"),
        ("A ﬁne ﬂow of words.", "fine flow", Kind.ANCHOR_UNICODE, "NFKC", "ﬁne ﬂow"),
        ("The cafe\u0301 opens.", "the café opens", Kind.ANCHOR_UNICODE, "NFC", "The cafe\u0301 opens"),
        ("The café opens.", "the cafe\u0301 opens", Kind.ANCHOR_UNICODE, "NFC", "The café opens"),
        ("\u1112\u1161\u11ab\u1100\u1173\u11af here.", "한글 here", Kind.ANCHOR_UNICODE, "NFC", None),
        ("A soft\u00adhyphen here.", "softhyphen", Kind.ANCHOR_UNICODE, "invisible", "soft\u00adhyphen"),
        ("A zero\u200bwidth space.", "zerowidth", Kind.ANCHOR_UNICODE, "invisible", "zero\u200bwidth"),
        ("A plain word.", "pl\u200bain word", Kind.ANCHOR_UNICODE, "invisible", "plain word"),
        ("From 1–3 pages — or “four”.", 'from 1-3 pages - or "four"', Kind.ANCHOR_QUOTES, "dashes", None),
        ("A pause — a stop.", "pause -- a stop", Kind.ANCHOR_QUOTES, "dashes", "pause — a stop"),
        ("And so on… it goes.", "so on... it", Kind.ANCHOR_UNICODE, "NFKC", "so on… it"),
        ("See [the manual](https://x.org/a) first.", "see the manual first", Kind.ANCHOR_MARKDOWN, "Markdown", None),
        ("| float16 | 0.77 GB |", "float16 0.77 GB", Kind.ANCHOR_MARKDOWN, "Markdown", "float16 | 0.77 GB"),
        ("- one\n- two", "one two", Kind.ANCHOR_MARKDOWN, "Markdown", "one\n- two"),
        ("> one\n> two", "one two", Kind.ANCHOR_MARKDOWN, "Markdown", "one\n> two"),
        ("It is snake\\_case.", "is snake_case", Kind.ANCHOR_MARKDOWN, "Markdown", "is snake\\_case"),
        ("It is _very_ long.", "is very long", Kind.ANCHOR_MARKDOWN, "Markdown", "is _very_ long"),
        ("Written plainly.", "**Written** plainly", Kind.ANCHOR_MARKDOWN, "Markdown", "Written plainly"),
        ("A word.", "\n A word. ", Kind.ANCHOR_WHITE_SPACE, "white space", "A word."),
    ],
)
def test_trap_7_another_spelling_is_named_and_its_text_can_be_pasted(
    tmp_path: Path, text: str, anchor: str, kind: Kind, form: str, stands: str | None
) -> None:
    folder = tmp_path
    corpus(folder, {"d": f"{text}\n\n{FILLER}\n"}, ("d", anchor))
    found = only(folder, kind)
    assert (found.severity, found.line, found.chunk_ids) == ("error", 5, ("d#000",))
    assert form in found.message
    assert found.text is not None
    if stands is not None:
        assert found.text == stands
    pasted = yaml.safe_load(quoted(found.text))
    assert quoted(found.text) in found.message
    assert relevant(chunks_in(folder), GoldenQuery("q", "", "", "d", pasted)) == {"d#000"}


@pytest.mark.parametrize("anchor", ["Use **reciprocal rank fusion**", "reciprocal RANK\tfusion", "see `k = 60`"])
def test_trap_7_what_is_found_as_it_is_gives_nothing(tmp_path: Path, anchor: str) -> None:
    assert findings(anchored(tmp_path, TRAP_7, anchor)) == []


def test_trap_7_a_no_break_space_is_white_space(tmp_path: Path) -> None:
    assert findings(anchored(tmp_path, "It takes 5\u00a0GB here.", "takes 5 GB")) == []


def test_ef_search_keeps_its_underscore(tmp_path: Path) -> None:
    found = only(anchored(tmp_path, "Set ef_search first.", "efsearch first"), Kind.ANCHOR_ABSENT)
    assert found.text is None


def test_trap_7_an_anchor_across_a_blank_line_is_cut_where_the_chunks_are(tmp_path: Path) -> None:
    text = "# T\n\nThe first block ends here.\n\nAnd goes on in the second block, which is long enough.\n" + FILLER
    folder = corpus(tmp_path, {"d": text}, ("d", "ends here.\n\nAnd goes"))
    assert findings(folder) == []  # one chunk holds both blocks
    found = [one for one in findings(folder, max_chars=60) if one.query_id]
    assert [one.kind for one in found] == [Kind.ANCHOR_CUT]
    assert found[0].chunk_ids == ("d#000", "d#001")
    assert "d#000, d#001 cuts the anchor (line 3 of" in found[0].message
    assert found[0].text == "ends here."
    assert relevant(chunks_in(folder, 60), GoldenQuery("q", "", "", "d", "ends here.")) == {"d#000"}


def test_an_anchor_that_is_cut_and_spelt_otherwise_says_both(tmp_path: Path) -> None:
    folder = corpus(tmp_path, {"d": f"# T\n\n**one** end\n\n# U\n\n{FILLER}"}, ("d", "one end # U"))
    found = only(folder, Kind.ANCHOR_CUT)
    assert "Markdown marks are left out" in found.message
    assert found.chunk_ids == ("d#000", "d#001")


def test_an_anchor_in_another_document_names_it(tmp_path: Path) -> None:
    folder = corpus(tmp_path, {"d": FILLER, "e": f"Bread is baked at dawn. {FILLER[:90]}"}, ("d", "baked at dawn"))
    found = [one for one in findings(folder) if one.severity is Severity.ERROR]
    assert [one.kind for one in found] == [Kind.ANCHOR_ELSEWHERE]
    assert 'not in "d" but in e' in found[0].message


def test_an_absent_anchor_names_the_closest_chunk(tmp_path: Path) -> None:
    found = only(anchored(tmp_path, "The loaf is baked at dawn.", "the loaf was baked at noon"), Kind.ANCHOR_ABSENT)
    assert "d#000 comes closest with 4 of its 6 words" in found.message
    assert found.line == 5


@pytest.mark.parametrize("anchor", ["**", "\u200b", "`", "!", "zebra\u0301"])
def test_an_anchor_of_marks_alone_is_absent(tmp_path: Path, anchor: str) -> None:
    assert only(anchored(tmp_path, "A word.", anchor), Kind.ANCHOR_ABSENT).query_id == "q1"


def test_a_document_without_chunks_has_no_anchor(tmp_path: Path) -> None:
    found = findings(corpus(tmp_path, {"d": "\n"}, ("d", "never")))
    assert [one.kind for one in found] == [Kind.ANCHOR_ABSENT, Kind.DOCUMENT_SHORT]


# --- anchors in several chunks -------------------------------------------------------------------------------------


def test_an_anchor_that_two_chunks_share_by_overlap_is_told_from_one_that_is_repeated(tmp_path: Path) -> None:
    text = f"{FILLER}\n\nIt is shared here, in the block that is carried over.\n\n{FILLER.replace('plain', 'simple')}"
    shared = only(corpus(tmp_path, {"d": text}, ("d", "is shared here")), Kind.ANCHOR_SHARED, max_chars=200)
    assert (shared.severity, shared.chunk_ids) == ("warning", ("d#000", "d#001"))
    text = f"# One\n\nIt is here.\n\n# Two\n\nAnd it is here.\n\n{FILLER}"
    repeated = only(corpus(tmp_path, {"d": text}, ("d", "it is here")), Kind.ANCHOR_REPEATED)
    assert (repeated.severity, repeated.chunk_ids) == ("warning", ("d#000", "d#001"))
    assert "2 chunks" in repeated.message
    assert "2 times" in repeated.message
    assert excluded([shared, repeated]) == []


def test_an_anchor_in_very_many_chunks_shows_some_ids_and_keeps_all(tmp_path: Path) -> None:
    text = "\n\n".join(f"# Part {number}\n\nWord {number} then the anchor." for number in range(20))
    found = only(corpus(tmp_path, {"d": text}, ("d", "the anchor")), Kind.ANCHOR_REPEATED)
    assert len(found.chunk_ids) == 20
    assert "and 12 more" in found.message


# --- queries -------------------------------------------------------------------------------------------------------


def test_a_query_like_the_title_is_a_warning_over_one_half(tmp_path: Path) -> None:
    text = f"# How lists are joined\n\n{FILLER}"
    folder = corpus(tmp_path, {"d": text}, {"query": "how lists join"}, {"query": "How are the lists joined?"})
    found = only(folder, Kind.QUERY_LIKE_TITLE)  # 2 of 5 words, then 4 of 5
    assert (found.query_id, found.line, found.severity) == ("q2", 7, "warning")
    assert "80%" in found.message


def test_exactly_one_half_is_no_overlap(tmp_path: Path) -> None:
    folder = corpus(tmp_path, {"d": f"# one two three\n\n{FILLER}"}, {"query": "two three four"})
    assert findings(folder) == []


@pytest.mark.parametrize("document", ["{}", "# Another title\n\n{}\n\n" + FILLER, "# Another title\n\n**{}**\n"])
def test_trap_8_a_query_that_is_a_passage_of_the_corpus(tmp_path: Path, document: str) -> None:
    query = "Who, then, painted the sign of the inn?"
    folder = corpus(
        tmp_path, {"d": FILLER, "e": document.format(query)}, {"query": "who then painted the sign of the inn"}
    )
    found = [one for one in findings(folder) if one.query_id]
    assert [one.kind for one in found] == [Kind.QUERY_IS_PASSAGE]
    assert found[0].chunk_ids == ("e#000",)


def test_a_repeated_query_names_the_first_and_whether_the_answer_is_the_same(tmp_path: Path) -> None:
    queries = [{"query": "Who sings?"}, {"query": "who  sings?"}, {"query": "who sings?", "anchor": "short"}]
    found = findings(corpus(tmp_path, {"d": FILLER}, *queries))
    assert [(one.kind, one.query_id) for one in found] == [(Kind.QUERY_REPEATED, "q2"), (Kind.QUERY_REPEATED, "q3")]
    assert 'that of "q1" with the same answer' in found[0].message
    assert "another answer" in found[1].message


def test_a_query_without_words_is_a_warning(tmp_path: Path) -> None:
    assert only(corpus(tmp_path, {"d": FILLER}, {"query": "!!! 😀"}), Kind.QUERY_WITHOUT_WORDS).line == 2


# --- the corpus ----------------------------------------------------------------------------------------------------


def test_a_short_document_is_a_warning_with_its_file(tmp_path: Path) -> None:
    found = only(corpus(tmp_path, {"d": FILLER, "e": "Nineteen" + " words" * 18}), Kind.DOCUMENT_SHORT)
    assert (found.file, found.line, found.query_id) == (tmp_path / "docs" / "e.md", None, None)
    assert "19 words" in found.message
    assert findings(corpus(tmp_path, {"e": "Twenty" + " words" * 19})) == []


def test_near_duplicate_documents_are_named_once_and_their_passages_not_again(tmp_path: Path) -> None:
    twice = f"{FILLER} {FILLER}"
    folder = corpus(tmp_path, {"a": twice, "b": twice.replace("Twenty", "Thirty", 1), "c": FILLER})
    found = only(folder, Kind.DOCUMENTS_ALIKE)
    assert "a, b, c are nearly the same" in found.message
    assert found.file == tmp_path / "docs" / "a.md"


def test_near_duplicate_passages_name_both_chunks_and_the_line(tmp_path: Path) -> None:
    one = "The same passage stands in two documents that are otherwise about different things."
    first = f"# Boats\n\n{'Boats sail along rivers towards harbours every morning. ' * 3}\n\n# Same\n\n{one}"
    second = f"# Hills\n\n{'Hills rise behind villages under heavy clouds each autumn. ' * 3}\n\n# Same\n\n{one}"
    found = only(corpus(tmp_path, {"a": first, "b": second}), Kind.PASSAGES_ALIKE)
    assert (found.chunk_ids, found.line) == (("a#001", "b#001"), 5)
    assert "cosine 1.00" in found.message


def test_passages_that_overlap_and_headings_alone_are_not_called_alike(tmp_path: Path) -> None:
    carried = "Many words that are carried over make both chunks nearly the same, " * 4
    text = f"Tiny start.\n\n{carried}\n\nTiny end."
    found = findings(corpus(tmp_path, {"d": text}), max_chars=len(carried) + 15)
    assert [one.kind for one in found] == []
    heading = "# What a very strong answer contains\n\n"
    docs = {name: heading + " ".join([word] * 150) for name, word in (("a", "boat"), ("b", "hill"))}
    assert findings(corpus(tmp_path, docs), max_chars=1_000) == []


@pytest.mark.parametrize(
    "text", ["日本語のテスト", "这是一个没有空格的句子。", "ภาษาไทยไม่มีช่องว่างระหว่างคำ", "コンピューターの本を読む"]
)
def test_trap_17_text_without_spaces_is_a_warning(tmp_path: Path, text: str) -> None:
    found = only(corpus(tmp_path, {"d": f"{FILLER}\n\n{text}\n"}), Kind.TEXT_WITHOUT_SPACES)
    assert found.line == 3
    assert text[:5] in found.message


@pytest.mark.parametrize(
    "text", ["東京 is a city", "コンピューター", "한국어는 띄어쓰기를 합니다", "Donaudampfschifffahrt", "café"]
)
def test_trap_17_single_words_are_not(tmp_path: Path, text: str) -> None:
    assert findings(corpus(tmp_path, {"d": f"{FILLER}\n\n{text}\n"})) == []


def test_trap_9_a_long_block_says_whose_answer_lies_behind_its_end(tmp_path: Path) -> None:
    fence = "```\n" + "word " * 2000 + "\nthe answer is 42\n```"
    folder = corpus(tmp_path, {"d": f"# T\n\n{fence}\n"}, ("d", "the answer is 42"), ("d", "word word\nthe answer"))
    found = only(folder, Kind.CHUNK_LONG)
    assert (found.chunk_ids, found.line) == (("d#001",), 3)
    assert "answer to q1, q2" in found.message


def test_long_blocks_without_an_answer_behind_are_one_finding(tmp_path: Path) -> None:
    text = "# T\n\n" + "\n\n".join(f"{word} " * 300 for word in ("first", "second", "longestword"))
    found = only(corpus(tmp_path, {"d": text}, ("d", "first first")), Kind.CHUNK_LONG)
    assert found.chunk_ids == ("d#003", "d#001", "d#002")
    assert "3 of 4 chunks" in found.message


def test_trap_16_a_chunk_with_a_zero_vector_is_not_reachable(tmp_path: Path) -> None:
    found = only(corpus(tmp_path, {"d": f"{FILLER}\n\n# 😀\n\n🎉🎉\n"}), Kind.VECTOR_ZERO)
    assert (found.chunk_ids, found.line, found.severity) == (("d#001",), 3, "warning")
    assert "no words" in found.message


def test_trap_16_a_vector_that_is_not_finite_is_an_error(tmp_path: Path) -> None:
    document = Document("d", "d", FILLER)
    golden = GoldenFile(tmp_path / "golden.yaml", (), {}, ())
    for bad in (np.nan, np.inf):
        vectors = np.array([[bad, 1.0]], dtype=np.float32)
        found = check_labels(golden, [document], chunk(document), embeddings=vectors)
        assert [(one.kind, one.severity, one.file, one.line) for one in found] == [
            (Kind.VECTOR_NOT_FINITE, Severity.ERROR, None, 1)
        ]
    with pytest.raises(InputError, match="one row for each of 1"):
        check_labels(golden, [document], chunk(document), embeddings=np.ones((2, 3), dtype=np.float32))


def test_nothing_at_all_is_no_finding() -> None:
    assert check_labels(GoldenFile(Path("g"), (), {}, ()), [], []) == []


def test_all_findings_come_at_once_with_the_lines_of_what_is_wrong(tmp_path: Path) -> None:
    queries: list[tuple[str, str] | dict[str, str]] = [
        ("gone", "x"),
        ("d", "not there"),
        {"query": "!!!", "anchor": "nor there"},
        ("e", "Nineteen"),
    ]
    folder = corpus(tmp_path, {"d": FILLER, "e": "Nineteen nineteen"}, *queries)
    found = [(one.kind, one.line) for one in findings(folder)]
    assert found == [
        (Kind.UNKNOWN_DOCUMENT, 4),
        (Kind.ANCHOR_ABSENT, 10),
        (Kind.ANCHOR_ABSENT, 15),
        (Kind.QUERY_WITHOUT_WORDS, 12),
        (Kind.DOCUMENT_SHORT, None),
    ]
