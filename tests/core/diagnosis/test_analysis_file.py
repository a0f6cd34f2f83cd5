"""RETRIEVAL_ANALYSIS.md as text: what is read from hostile documents, and that a change touches nothing else."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval_lab.diagnosis.analysis_edits import add_rows, can_hold, remove_row, set_paragraph, set_row
from retrieval_lab.diagnosis.analysis_file import TODO, Row, parse, render
from retrieval_lab.diagnosis.kinds import MEANINGS, Failure, Fix
from retrieval_lab.diagnosis.table_row import cells, row, with_cells
from retrieval_lab.errors import InputError

TABLE = """\
| query_id | failure | fix |
| --- | --- | --- |
| q1 | ranking | hybrid-weights |
| q2 | vocabulary-gap | query-rewrite |
"""
ROWS = (Row("q1", "ranking", "hybrid-weights"), Row("q2", "vocabulary-gap", "query-rewrite"))

FRAGMENTS = [
    TABLE,
    "",
    "\n",
    "\r\n",
    "\ufeff",
    "# A title\n",
    "## vocabulary-gap\n",
    "## Ranking\n",
    "words of a person, with a | pipe\n",
    "query_id | failure | fix\nq7 | ranking | todo\n",
    "| query_id | failure | fix | notes |\r\n|:-|-:|:-:|-|\r\n| q\\|8 | a | b | c \\| d |\r\n",
    "| other | table |\n| --- | --- |\n| x | y |\n",
    "```\n",
    "~~~~ md\n",
    "<!--\n",
    "-->\n",
    "    | query_id | failure | fix |\n",
    "| q9 |\n",
    "||||\n",
    "|",
    "\\|\\\\|",
    "\x0b\x0c\x1c\x85\u2028\u2029\r",
    "日本語のテスト\n",
    "no line end",
]


# --- reading -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        TABLE,
        f"# Title\n\nSome words.\n\n{TABLE}\nMore words.\n",
        TABLE.replace("\n", "\r\n"),
        f"\ufeff{TABLE}",
        TABLE.rstrip("\n"),
        "query_id|failure|fix\n---|---|---\nq1|ranking|hybrid-weights\nq2|vocabulary-gap|query-rewrite\n",
        "query_id | failure | fix\nq1 | ranking | hybrid-weights\nq2 | vocabulary-gap | query-rewrite\n",
        TABLE.replace("| --- | --- | --- |", "|:---|:---------:|-:|"),
        TABLE.replace("| q1 | ranking |", "|   `q1`|\t**ranking** |"),
        TABLE.replace("query_id", "Query ID").replace("failure", "**Failure**").replace("fix", "`fix`"),
        f"  {TABLE}",
        TABLE.replace("| q2", "|  |  |  |\n| --- | --- | --- |\n| q2"),
        "| fix | seen by | query_id | failure |\n|-|-|-|-|\n| hybrid-weights | me | q1 | ranking |\n"
        "| query-rewrite |  | q2 | vocabulary-gap | too | many |\n",
        f"| query_id | kind |\n| --- | --- |\n| q9 | none |\n\n{TABLE}\n\n| a | b |\n|-|-|\n| q8 | c |\n",
        f"```\n{TABLE.replace('q1', 'fenced')}```\n\n<!--\n{TABLE.replace('q1', 'hidden')}-->\n{TABLE}",
        f"~~~~\n~~~\n{TABLE}~~~~\n{TABLE}",
        f"<!-- one line -->\n{TABLE}\n<!-- {TABLE} -->\n",
        "".join(f"    {line}\n" for line in TABLE.splitlines()) + f"\n{TABLE}",
        "| query_id | failure | fix |\n|-|-|-|\n| q1 | ranking | hybrid-weights |\n\nwords\n\n"
        "| query_id | failure | fix |\n|-|-|-|\n| q2 | vocabulary-gap | query-rewrite |\n",
    ],
)
def test_the_rows_are_found_however_they_are_written(text: str) -> None:
    assert parse(text).rows == ROWS


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "words\n",
        f"```\n{TABLE}",
        f"<!--\n{TABLE}",
        "query_id | failure | fix\n",
        "| query_id | failure |\n|-|-|\n",
    ],
)
def test_where_there_is_no_table_there_are_no_rows(text: str) -> None:
    found = parse(text)
    assert (found.tables, found.rows, found.paragraphs) == ((), (), ())


def test_a_row_knows_its_line_and_its_notes() -> None:
    text = "\n\n| query_id | failure | fix | notes |\n|-|-|-|-|\n| q1 | a | b | one \\| two<br>three |\n| q2 | c |\n"
    first, second = parse(text).rows
    assert (first, first.line) == (Row("q1", "a", "b", "one | two\nthree"), 5)
    assert (second, second.line) == (Row("q2", "c", "", ""), 6)


def test_paragraphs_are_blocks_of_text_below_the_table() -> None:
    text = (
        f"Above the table: vocabulary-gap.\n\n{TABLE}Right below.\nIts second line.\n\n"
        "- an item\n  of two lines\n- another item\n\n```\ncode\n```\n"
        "## Chunk boundary\n> quoted\n\n| a | b |\n|-|-|\n| c | d |\n"
        "## Other\nlast"
    )
    found = [(one.text, one.line, one.section) for one in parse(text).paragraphs]
    assert found == [
        ("Right below.\nIts second line.", 7, None),
        ("- an item\n  of two lines", 10, None),
        ("- another item", 12, None),
        ("> quoted", 18, Failure.CHUNK_BOUNDARY),
        ("last", 24, None),
    ]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("a vocabulary-gap it is", ["vocabulary-gap"]),
        ("Vocabulary gap. RANKING!", ["vocabulary-gap", "ranking"]),
        ("a `reranker-\ndemotion`", ["reranker-demotion"]),
        ("reranking, ranking-like, rankings, my-ranking, vocabulary-gaps", []),
        ("(chunk-boundary) and *anchor-ambiguity*", ["chunk-boundary", "anchor-ambiguity"]),
    ],
)
def test_a_paragraph_names_a_failure_as_a_word(text: str, named: list[str]) -> None:
    (paragraph,) = parse(f"{TABLE}\n{text}\n").paragraphs
    assert [kind for kind in Failure if paragraph.names(kind)] == named


def test_words_are_what_stands_between_white_space_and_has_a_letter_or_digit() -> None:
    (paragraph,) = parse(f"{TABLE}\n- one, two-three — don't *4*\n  ... |\u3000日本\n").paragraphs
    assert paragraph.words == 5  # one, two-three, don't, 4, 日本


@pytest.mark.parametrize("title", ["ranking", "Ranking", "`ranking`", "**ranking**", "ranking:", "ranking ##"])
def test_a_section_is_what_stands_below_the_name_of_a_failure(title: str) -> None:
    text = f"{TABLE}\n## {title}\n\nFirst.\n\n- second\n\n### deeper\nnot it\n"
    assert parse(text).paragraph(Failure.RANKING) == "First.\n\n- second"
    assert parse(text).paragraph(Failure.CHUNK_BOUNDARY) == ""


def test_every_kind_has_a_meaning_of_one_line() -> None:
    assert set(MEANINGS) == {*Failure, *Fix}
    assert all(meaning and "\n" not in meaning for meaning in MEANINGS.values())
    assert sorted(Failure) == sorted(
        ["vocabulary-gap", "chunk-boundary", "ranking", "reranker-demotion", "anchor-ambiguity"]
    )
    assert sorted(Fix) == sorted(
        ["hybrid-weights", "smaller-chunks", "contextual-chunk-headers", "query-rewrite", "better-embedder"]
    )


# --- writing back --------------------------------------------------------------------------------------------------


@given(st.text() | st.lists(st.sampled_from(FRAGMENTS), max_size=30).map("".join))
def test_what_is_read_is_written_back_to_the_byte(text: str) -> None:
    assert render(parse(text)) == text


documents = st.lists(st.sampled_from(FRAGMENTS), max_size=12).map("".join)
ids = st.sampled_from(["q1", "q7", "q9", "new", "q|8", "ключ", "🙂", "a b", "*x*", "-"])
notes = st.text(alphabet="ab |\\\n\r`<>*-é🙂", max_size=12)


def stripped(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n").strip()


def is_kept(before: str, after: str) -> bool:
    """Whether the lines before are among those after, in their order, but for a line end that was missing."""
    rest = iter(after.split("\n"))
    return all(any(line.rstrip("\r") == other.rstrip("\r") for other in rest) for line in before.split("\n") if line)


@given(documents, ids)
def test_adding_a_row_keeps_every_line(text: str, query_id: str) -> None:
    before = parse(text)
    try:
        after = add_rows(before, [Row(query_id)])
    except InputError:
        assert "```" in text or "~~~" in text or "<!--" in text
        return
    if before.row(query_id) is not None:
        assert render(after) == text
        return
    if text.strip("\ufeff \x0b\x0c\x1c\x85\u2028\u2029\r\n"):
        assert is_kept(text.removeprefix("\ufeff"), render(after).removeprefix("\ufeff"))
    assert after.rows == (*before.rows, Row(query_id))


@given(documents, ids, notes)
def test_setting_a_row_changes_its_line_alone(text: str, query_id: str, note: str) -> None:
    try:
        before = add_rows(parse(text), [Row(query_id)])
    except InputError:
        return
    after = set_row(before, query_id, failure="ranking", fix="smaller-chunks", notes=note)
    old, new = render(before).split("\n"), render(after).split("\n")
    assert len(old) == len(new)
    found = after.row(query_id)
    assert found is not None
    assert (found.failure, found.fix) == ("ranking", "smaller-chunks")
    changed = {number for number, (one, other) in enumerate(zip(old, new, strict=True), start=1) if one != other}
    headers = {number for table in before.tables for number in (table.header + 1, table.header + 2)}
    assert changed <= {found.line, *headers}
    others = [one for one in before.rows if one.line != found.line]
    assert [(one.query_id, one.failure, one.fix) for one in after.rows if one.line != found.line] == [
        (one.query_id, one.failure, one.fix) for one in others
    ]


@given(notes)
def test_notes_are_read_back_as_they_were_written(note: str) -> None:
    found = set_row(parse(TABLE), "q1", notes=note).row("q1")
    assert found is not None
    lines = [line.strip() for line in stripped(note).split("\n")]
    assert found.notes == "\n".join(lines).strip()


@given(documents, ids)
def test_removing_a_row_removes_its_lines_alone(text: str, query_id: str) -> None:
    before = parse(text)
    gone = {one.line for one in before.rows if one.query_id == query_id}
    lines = text.split("\n")
    expected = [line for number, line in enumerate(lines, start=1) if number not in gone]
    assert render(remove_row(before, query_id)).rstrip("\n") == "\n".join(expected).rstrip("\n")


@given(documents, st.sampled_from(list(Failure)), st.text(alphabet="ab #|`~-\n<>!", max_size=40))
def test_setting_a_paragraph_keeps_all_else_or_is_refused(text: str, kind: Failure, words: str) -> None:
    before = parse(text)
    try:
        after = set_paragraph(before, kind, words)
    except InputError:  # only what a text can do to the rest of the file
        assert any(mark in text + words for mark in ("#", "```", "~~~", "<!--"))
        return
    assert after.paragraph(kind) == stripped(words)
    assert after.rows == before.rows
    for other in set(Failure) - {kind}:
        assert after.paragraph(other) == before.paragraph(other)
    if before.section(kind) is None:
        assert is_kept(text, render(after))


# --- changes, one by one -------------------------------------------------------------------------------------------


ALIGNED = """\
Words of mine.  \r
\r
| failure        | query_id | seen | fix            |\r
|----------------|:--------:|------|----------------|\r
| todo           | q\\|1     | me   | todo           | left\r
| vocabulary-gap | `q2`     |      | query-rewrite  |\r
\r
The end, without a line end"""


def test_a_judgment_keeps_columns_alignment_and_line_ends() -> None:
    after = render(set_row(parse(ALIGNED), "q|1", failure="ranking", fix="better-embedder"))
    expected = ALIGNED.replace(
        "| todo           | q\\|1     | me   | todo           | left",
        "| ranking        | q\\|1     | me   | better-embedder | left",
    )
    assert after == expected


def test_a_judgment_that_is_there_already_changes_nothing() -> None:
    assert render(set_row(parse(ALIGNED), "q2", failure="vocabulary-gap", fix="query-rewrite")) == ALIGNED


def test_a_note_makes_a_column_where_there_is_none() -> None:
    after = render(set_row(parse(ALIGNED), "q2", notes="a | b\nc"))
    lines = ALIGNED.split("\n")
    lines[2] = lines[2].replace("\r", " notes |\r")
    lines[3] = lines[3].replace("\r", " --- |\r")
    lines[5] = lines[5].replace("\r", " a \\| b<br>c |\r")
    assert after == "\n".join(lines)


def test_a_new_row_stands_at_the_tables_end_with_all_its_columns() -> None:
    after = render(set_row(parse(ALIGNED), "new", failure="ranking"))
    assert after == ALIGNED.replace("query-rewrite  |\r\n", "query-rewrite  |\r\n| ranking | new |  | todo |\r\n")


def test_a_table_without_outer_pipes_keeps_its_style() -> None:
    text = "query_id|failure|fix\n-|-|-\nq1|todo|todo"
    assert (
        render(set_row(parse(text), "q1", fix="query-rewrite")) == "query_id|failure|fix\n-|-|-\nq1|todo| query-rewrite"
    )
    noted = render(set_row(parse(text), "q1", notes="n"))
    assert noted == "query_id|failure|fix | notes\n-|-|- | ---\nq1|todo|todo | n"


def test_a_row_is_completed_where_cells_are_missing() -> None:
    text = TABLE + "| q3 |\n"
    assert render(set_row(parse(text), "q3", fix="query-rewrite")) == TABLE + "| q3 |  | query-rewrite |\n"


def test_rows_are_added_in_order_each_once_behind_a_missing_line_end() -> None:
    after = add_rows(parse(TABLE.rstrip("\n")), [Row("q4"), Row("q2"), Row("q3"), Row("q4")])
    assert render(after) == TABLE + "| q4 | todo | todo |\n| q3 | todo | todo |\n"


def test_an_empty_document_gets_an_introduction_and_the_questions() -> None:
    for blank in ("", "\n", "\ufeff\r\n"):
        after = add_rows(parse(blank), [Row("q1")], queries={"q1": "a | b\n  c"})
        text = render(after)
        assert text.startswith("\ufeff" if blank.startswith("\ufeff") else "# ")
        assert text.endswith("\n")
        assert text.splitlines()[-1] == "| q1 | todo | todo | a \\| b c |  |"
        assert all(kind in text for kind in (*Failure, *Fix))
        assert after.rows == (Row("q1", TODO, TODO),)
        assert after.paragraphs == ()


def test_a_table_is_made_before_the_sections_that_stand_there() -> None:
    text = "\ufeff## ranking\n\nSome words.\n"
    after = add_rows(parse(text), [Row("q1")])
    assert after.paragraph(Failure.RANKING) == "Some words."
    assert [paragraph.text for paragraph in after.paragraphs] == ["Some words."]
    assert render(after).startswith("\ufeff| query_id | failure | fix |")
    assert render(after).endswith("\n\n## ranking\n\nSome words.\n")


def test_a_paragraph_is_made_replaced_and_removed() -> None:
    made = set_paragraph(parse(TABLE.rstrip("\n")), Failure.RANKING, "One.\r\n\r\nTwo.\n")
    assert render(made) == f"{TABLE}\n## ranking\n\nOne.\n\nTwo.\n"
    more = set_paragraph(made, Failure.CHUNK_BOUNDARY, "Cut.")
    assert render(more) == f"{TABLE}\n## ranking\n\nOne.\n\nTwo.\n\n## chunk-boundary\n\nCut.\n"
    other = set_paragraph(more, Failure.RANKING, "Three.")
    assert render(other) == f"{TABLE}\n## ranking\n\nThree.\n\n## chunk-boundary\n\nCut.\n"
    gone = set_paragraph(other, Failure.RANKING, "")
    assert gone.paragraph(Failure.RANKING) == ""
    again = set_paragraph(gone, Failure.RANKING, "Four.")
    assert render(again) == f"{TABLE}\n## ranking\n\nFour.\n\n## chunk-boundary\n\nCut.\n"


def test_a_paragraph_takes_the_level_and_the_line_ends_of_the_file() -> None:
    text = f"{TABLE}\n### Ranking\nWords.".replace("\n", "\r\n")
    after = render(set_paragraph(parse(text), Failure.CHUNK_BOUNDARY, "One\ntwo."))
    assert after == f"{text}\r\n\r\n### chunk-boundary\r\n\r\nOne\r\ntwo.\r\n"


def test_text_that_would_swallow_the_rest_is_refused() -> None:
    document = parse(f"{TABLE}\n## ranking\n\nOne.\n\n## chunk-boundary\n\nCut.\n")
    for text in (
        "```\nnever closed",
        "<!-- never closed",
        "words\n\n# a heading",
        TABLE,
        "Fine.\n\n## chunk-boundary\nx",
    ):
        with pytest.raises(InputError, match="would be read otherwise"):
            set_paragraph(document, Failure.RANKING, text)
    assert set_paragraph(document, Failure.RANKING, "```\nclosed\n```").paragraph(Failure.CHUNK_BOUNDARY) == "Cut."


def test_a_file_that_ends_in_an_open_fence_gets_no_table() -> None:
    with pytest.raises(InputError, match="never closed"):
        add_rows(parse("words\n```\n"), [Row("q1")])


@pytest.mark.parametrize("query_id", ["a\nb", " a", "a\u3000", "`a`", "a\rb", "\x00", "\ud800", ""])
def test_an_id_that_no_row_can_hold_is_refused(query_id: str) -> None:
    assert not can_hold(query_id)
    with pytest.raises(InputError, match="cannot stand in a row"):
        add_rows(parse(TABLE), [Row(query_id)])


@pytest.mark.parametrize(
    "query_id", ["a|b", "a\\", "a\\|b", "ключ", "日本", "🙂", "*a*", "_a_", "---", "<br>", "a\u2028b", "#1"]
)
def test_other_ids_are_held_as_they_are(query_id: str) -> None:
    after = set_row(parse(TABLE), query_id, failure="ranking", fix="query-rewrite")
    assert parse(render(after)).rows == (*ROWS, Row(query_id, "ranking", "query-rewrite"))


def test_cells_of_a_row() -> None:
    assert cells("| a |  | c\\|d | e\\\\|f |") == ["a", "", "c|d", "e\\|f"]
    assert cells("a|b") == ["a", "b"]
    assert cells("no pipe") == []
    assert cells("|") == []
    assert cells(row(["x|y", "\\", "\\|"])) == ["x|y", "\\", "\\|"]
    assert with_cells("|a|b|", {1: "c"}) == "|a| c |"
    assert with_cells("| a", {2: "c"}) == "| a |  | c"


def test_ten_thousand_rows_are_quick() -> None:
    rng = random.Random(5)
    ids = [f"q{number:05d}" for number in range(10_000)]
    rng.shuffle(ids)
    began = time.perf_counter()
    document = add_rows(parse("# Mine\n"), [Row(one) for one in ids], queries=dict.fromkeys(ids, "why?"))
    document = set_row(document, ids[-1], failure="ranking", notes="the last")
    document = remove_row(document, ids[0])
    document = set_paragraph(document, Failure.RANKING, "Words.")
    assert time.perf_counter() - began < 5
    assert [one.query_id for one in document.rows] == ids[1:]
    assert document.rows[-1] == Row(ids[-1], "ranking", TODO, "the last")
