"""Literal text in Markdown: nothing of it becomes structure, and nothing of it is lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval_lab.chunker import chunk
from retrieval_lab.importing.literal import heading, literal
from retrieval_lab.markdown import LineKind, headings, lines
from retrieval_lab.types import Document


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("# not a heading", "\\# not a heading"),
        ("###### six", "\\###### six"),
        ("#hashtag\n####### seven", "#hashtag\n####### seven"),
        ("a\n```\n# b\n```", "a\n\\```\n\\# b\n\\```"),
        ("   ~~~ x", "   \\~~~ x"),
        ("``inline``", "``inline``"),
        ("C:\\# path", "C:\\# path"),
    ],
)
def test_what_would_be_structure_gets_a_backslash(text: str, written: str) -> None:
    assert literal(text).text == written


@given(st.text(alphabet="#`~ ab\\\n", max_size=60))
def test_no_line_is_structure_and_the_text_comes_back(text: str) -> None:
    made = literal(text)
    assert {line.kind for line in lines(made.text)} <= {LineKind.TEXT, LineKind.BLANK}
    places = [place + number for number, place in enumerate(made.escaped)]
    assert "".join(char for place, char in enumerate(made.text) if place not in places) == text
    assert all(made.text[place] == "\\" for place in places)


@given(st.text(alphabet="#` a\n", max_size=40), st.data())
def test_offsets_lead_to_the_same_characters(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    made = literal(text)
    assert made.text[made.offset(start) : made.offset(end)].replace("\\", "") == text[start:end]


@pytest.mark.parametrize("title", ["Plain", "C #", "C#", "a\nb", "# x", "## ", "ends ##"])
def test_a_title_is_one_heading(title: str) -> None:
    line = heading(title)
    found = list(headings(line))
    assert [one.level for one in found] == [1]
    assert found[0].title.replace("\\", "") == " ".join(title.split())


def test_a_blank_title_is_no_heading() -> None:
    assert heading(" \n") == ""


def test_a_document_is_one_section() -> None:
    body = literal("one\n\n# two\n\n```\n\nthree").text
    text = f"{heading('Title')}\n\n{body}\n"
    assert {one.heading_path for one in chunk(Document("d", "Title", text), max_chars=10)} == {"Title"}
