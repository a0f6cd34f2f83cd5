"""Headings and fences of Markdown, by hand, by the CommonMark rules and against markdown-it."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from retrieval_lab.markdown import LineKind, headings, lines

# TRAPS 4, "Code comments become headings".
TRAP_4 = """\
# Real
````python title="a.py" {1,3}
```
# not a heading
```
~~~
# still not
````
   ~~~sh
   # indented three, not a heading
   ~~~~
- item
    ```
    # fence inside a list
    ```
~~~ unclosed ```info
# to the end
"""


def found(text: str) -> list[tuple[int, str]]:
    return [(heading.level, heading.title) for heading in headings(text)]


def kinds(text: str) -> list[LineKind]:
    return [line.kind for line in lines(text)]


def test_trap_4_only_real_is_a_heading() -> None:
    assert found(TRAP_4) == [(1, "Real")]


@pytest.mark.parametrize("level", range(1, 7))
def test_one_to_six_marks_and_a_space_make_a_heading(level: int) -> None:
    assert found("#" * level + " Title") == [(level, "Title")]


@pytest.mark.parametrize("line", ["####### seven", "#Title", "#", "##", "\\# escaped", "text # Title", "#\tTab"])
def test_other_lines_with_marks_are_no_headings(line: str) -> None:
    assert found(line) == []


def test_a_heading_needs_no_blank_line_around_it() -> None:
    assert found("text\n# A\n## B\ntext") == [(1, "A"), (2, "B")]


@pytest.mark.parametrize(
    ("line", "title"),
    [("# Title ##", "Title"), ("# C#", "C#"), ("# F #  ", "F"), ("#   spaced   ", "spaced"), ("# a # b", "a # b")],
)
def test_the_title_is_without_its_closing_marks_and_outer_spaces(line: str, title: str) -> None:
    assert found(line) == [(1, title)]


@pytest.mark.parametrize(
    ("text", "titles"),
    [
        ("```\n# no\n```\n# yes", ["yes"]),
        ("~~~\n# no\n~~~\n# yes", ["yes"]),
        ("```\n# no\n~~~\n# no\n```\n# yes", ["yes"]),  # the other character does not close
        ("````\n# no\n```\n# no\n````\n# yes", ["yes"]),  # nor does a shorter fence
        ("```\n# no\n`````\n# yes", ["yes"]),  # a longer one does
        ("```\n# no\n``` info\n# no\n```\n# yes", ["yes"]),  # nor one with something after it
        ("```\n# no\n```   \n# yes", ["yes"]),  # spaces are nothing
        ("```\n# no\n   ```\n# yes", ["yes"]),  # up to three spaces before it
        ("```\n# no\n    ```\n# no", []),  # four are too many
        ("   ```\n# no\n```\n# yes", ["yes"]),
        ("    ```\n# yes\n    ```", ["yes"]),  # indented code opens no fence
        ("``\n# yes\n``", ["yes"]),  # two are no fence
        ("``` a`b\n# yes", ["yes"]),  # a backtick in the info string: no fence
        ("~~~ a`b~\n# no\n~~~\n# yes", ["yes"]),  # after tildes anything goes
        ("```\n# no to the end", []),
        ("~~~\n\n\n# no to the end\n\n", []),
        ("text\n```\n# no\n```\n# yes", ["yes"]),  # a fence needs no blank line before it
        ("```\n```\n# yes", ["yes"]),
    ],
)
def test_headings_inside_a_fence_do_not_count(text: str, titles: list[str]) -> None:
    assert [title for _, title in found(text)] == titles


def test_lines_of_a_fence_are_fenced_blank_ones_too() -> None:
    fenced, blank, text = LineKind.FENCED, LineKind.BLANK, LineKind.TEXT
    assert kinds("a\n```\n\n# x\n```\n\nb") == [text, fenced, fenced, fenced, fenced, blank, text]


@pytest.mark.parametrize("blank", ["", " ", "\t", " \t \u00a0 "])
def test_a_line_of_white_space_is_blank(blank: str) -> None:
    assert kinds(f"a\n{blank}\nb") == [LineKind.TEXT, LineKind.BLANK, LineKind.TEXT]


@given(st.text(alphabet="#`~ab \n\t\r\x0b\u2028é😀", max_size=80))
def test_lines_cover_the_text_in_order(text: str) -> None:
    assert [text[line.start : line.end] for line in lines(text)] == text.split("\n")
    assert "\n".join(text[line.start : line.end] for line in lines(text)) == text


# Lines at the top level of a document: no lists, quotes, HTML or setext underlines, whose lines CommonMark reads by
# rules that the chunker does not have.
TOP_LEVEL = st.sampled_from(
    [
        "",
        "plain words",
        "# One",
        "## Two words",
        "###### Six",
        "####### Seven",
        "#hash",
        "# C#",
        "# Closed ##",
        "```",
        "````",
        "`````",
        "```py",
        "``` a`b",
        "~~~",
        "~~~~",
        "~~~ a`b ~",
        "   ```",
        "  ~~~~",
        "    ```",
        "``",
        "```  ",
    ]
)


@given(st.lists(TOP_LEVEL, max_size=14))
def test_headings_agree_with_markdown_it(document: list[str]) -> None:
    text = "\n".join(document)
    tokens = MarkdownIt("commonmark").parse(text)
    expected = [
        (token.map[0], int(token.tag[1]), inline.content)
        for token, inline in pairwise(tokens)
        if token.type == "heading_open" and token.map
    ]
    assert [(text.count("\n", 0, line.start), line.level, line.title) for line in headings(text)] == expected


@pytest.mark.parametrize(
    ("line", "title"),
    [
        ("# Title", "Title"),
        ("# Title ##", "Title"),
        ("# Title#", "Title#"),
        ("# C# #", "C#"),
        ("## ##", ""),
        ("#   spaced   out   ", "spaced   out"),
    ],
)
def test_closing_marks_are_no_part_of_a_title(line: str, title: str) -> None:
    """CommonMark 0.31, section 4.2."""
    assert [heading.title for heading in headings(line)] == [title]


def test_blanks_inside_a_heading_cost_no_more_than_their_number() -> None:
    began = time.perf_counter()
    assert [len(heading.title) for heading in headings(f"# a{' ' * 1_000_000}b")] == [1_000_002]
    assert time.perf_counter() - began < 1
