"""The chunker's rules: blocks, sections, greedy packing, overlap; and an independent chunker that must agree."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval_lab.chunker import chunk, load_documents
from retrieval_lab.errors import InputError
from retrieval_lab.types import Chunk, Document
from tests.core.test_markdown import TRAP_4

BLOCK_LINES = [
    "",
    "",
    "",
    "   ",
    "# Guide",
    "## Install",
    "### Linux",
    "###### Deep",
    "#hash",
    "####### seven",
    "one",
    "two words",
    "a line of text that is a good deal longer than the others",
    "  indented",
    "日本語 é 😀",
    "- item",
    "```",
    "```py",
    "````",
    "``` a`b",
    "~~~",
    "~~~~ x",
    "   ```",
    "    ```",
    "trailing  ",
]
DOCUMENTS = st.lists(st.sampled_from(BLOCK_LINES), max_size=30).map(lambda found: doc("\n".join(found)))
MAX_CHARS = st.sampled_from([1, 5, 12, 20, 35, 60, 100, 1200])
OVERLAPS = st.integers(0, 3)


def doc(text: str, doc_id: str = "d") -> Document:
    return Document(doc_id, "title", text)


def texts(text: str, **settings: int) -> list[str]:
    return [piece.text for piece in chunk(doc(text), **settings)]


def paths(text: str, **settings: int) -> list[str]:
    return [piece.heading_path for piece in chunk(doc(text), **settings)]


# --- the independent chunker -------------------------------------------------------------------------------------


def fence_of(line: str) -> tuple[str, int, str] | None:
    """(character, number of marks, what follows) of a line that looks like a fence."""
    bare = line.lstrip(" ")
    if len(line) - len(bare) > 3:
        return None
    for mark in "`~":
        width = len(bare) - len(bare.lstrip(mark))
        if width >= 3:
            return mark, width, bare[width:]
    return None


def heading_of(line: str) -> tuple[int, str] | None:
    marks, space, title = line.partition(" ")
    return (len(marks), title.strip()) if space and marks in {"#" * n for n in range(1, 7)} else None


def naive_sections(text: str) -> list[tuple[str, list[tuple[int, int]]]]:
    """(heading path, [(start, end) of each block]) of every section, line by line."""
    sections: list[tuple[str, list[tuple[int, int]]]] = [("", [])]
    titles: dict[int, str] = {}
    fence: tuple[str, int] | None = None
    continues = False  # whether the next line belongs to the last block
    offset = 0
    for line in text.split("\n"):
        start, offset = offset, offset + len(line) + 1
        end = start + len(line)
        marks = fence_of(line)
        inside = fence is not None
        if fence is not None:
            if marks and marks[0] == fence[0] and marks[1] >= fence[1] and not marks[2].strip():
                fence = None
        elif marks and not (marks[0] == "`" and "`" in marks[2]):
            fence = marks[:2]
        elif heading := heading_of(line):
            titles = {level: title for level, title in titles.items() if level < heading[0]}
            titles[heading[0]] = heading[1]
            sections.append((" > ".join(titles[level] for level in sorted(titles)), [(start, end)]))
            continues = False
            continue
        if not inside and fence is None and not line.strip():
            continues = False
            continue
        blocks = sections[-1][1]
        if continues:
            blocks[-1] = (blocks[-1][0], end)
        else:
            blocks.append((start, end))
        continues = True
    return sections


def naive_chunks(document: Document, max_chars: int, overlap: int) -> list[Chunk]:
    spans: list[tuple[str, int, int]] = []
    for path, blocks in naive_sections(document.text):
        new = 0  # the first block that is in no chunk yet
        while new < len(blocks):
            first = new
            # Carrying more than there is, or blocks without room for a new one, is not carrying.
            if new and new >= overlap and blocks[new][1] - blocks[new - overlap][0] <= max_chars:
                first = new - overlap
            fitting = [i for i in range(new, len(blocks)) if blocks[i][1] - blocks[first][0] <= max_chars]
            last = max(fitting, default=new)
            spans.append((path, blocks[first][0], blocks[last][1]))
            new = last + 1
    return [
        Chunk(f"{document.doc_id}#{i:03d}", document.doc_id, path, start, end, document.text[start:end])
        for i, (path, start, end) in enumerate(spans)
    ]


@settings(max_examples=400)
@given(DOCUMENTS, MAX_CHARS, OVERLAPS)
def test_agrees_with_an_independent_chunker_on_random_documents(
    document: Document, max_chars: int, overlap: int
) -> None:
    assert chunk(document, max_chars=max_chars, overlap=overlap) == naive_chunks(document, max_chars, overlap)


@pytest.mark.parametrize(("max_chars", "overlap"), [(1200, 1), (1200, 0), (300, 2), (80, 1), (1, 1), (10**9, 3)])
def test_agrees_with_an_independent_chunker_on_the_bundled_corpus(
    corpus_dir: Path, max_chars: int, overlap: int
) -> None:
    for document in load_documents(corpus_dir):
        assert chunk(document, max_chars=max_chars, overlap=overlap) == naive_chunks(document, max_chars, overlap)


def test_defaults_are_1200_characters_and_an_overlap_of_one_block(corpus_dir: Path) -> None:
    for document in load_documents(corpus_dir):
        assert chunk(document) == naive_chunks(document, 1200, 1)


# --- what holds for every document ---------------------------------------------------------------------------------


@settings(max_examples=200)
@given(DOCUMENTS, MAX_CHARS, OVERLAPS)
def test_a_chunk_is_the_slice_of_its_offsets(document: Document, max_chars: int, overlap: int) -> None:
    for piece in chunk(document, max_chars=max_chars, overlap=overlap):
        assert document.text[piece.start_char : piece.end_char] == piece.text
        assert piece.doc_id == document.doc_id
        assert piece.text.strip()


@settings(max_examples=200)
@given(DOCUMENTS, MAX_CHARS, OVERLAPS)
def test_every_non_blank_character_is_in_some_chunk(document: Document, max_chars: int, overlap: int) -> None:
    covered = [False] * len(document.text)
    for piece in chunk(document, max_chars=max_chars, overlap=overlap):
        for i in range(piece.start_char, piece.end_char):
            covered[i] = True
    assert [c for c, seen in zip(document.text, covered, strict=True) if not seen and not c.isspace()] == []


@settings(max_examples=200)
@given(DOCUMENTS, MAX_CHARS, OVERLAPS)
def test_index_is_continuous_and_every_chunk_brings_something_new(
    document: Document, max_chars: int, overlap: int
) -> None:
    pieces = chunk(document, max_chars=max_chars, overlap=overlap)
    assert [piece.chunk_id for piece in pieces] == [f"d#{i:03d}" for i in range(len(pieces))]
    ends = [piece.end_char for piece in pieces]
    assert ends == sorted(set(ends))


@settings(max_examples=200)
@given(DOCUMENTS, MAX_CHARS, OVERLAPS)
def test_a_block_is_never_cut(document: Document, max_chars: int, overlap: int) -> None:
    blocks = [block for _, section in naive_sections(document.text) for block in section]
    for piece in chunk(document, max_chars=max_chars, overlap=overlap):
        inside = [block for block in blocks if block[0] < piece.end_char and block[1] > piece.start_char]
        assert (inside[0][0], inside[-1][1]) == (piece.start_char, piece.end_char)
        assert piece.end_char - piece.start_char <= max_chars or len(inside) == 1


@settings(max_examples=100)
@given(DOCUMENTS, MAX_CHARS)
def test_without_overlap_no_character_is_in_two_chunks(document: Document, max_chars: int) -> None:
    pieces = chunk(document, max_chars=max_chars, overlap=0)
    assert all(a.end_char <= b.start_char for a, b in pairwise(pieces))


@settings(max_examples=50)
@given(DOCUMENTS, MAX_CHARS, OVERLAPS)
def test_same_input_same_chunks(document: Document, max_chars: int, overlap: int) -> None:
    again = Document(document.doc_id, "another title", str(document.text))
    assert chunk(document, max_chars=max_chars, overlap=overlap) == chunk(again, max_chars=max_chars, overlap=overlap)


@given(st.text(max_size=200))
def test_any_text_at_all_is_chunked_without_loss(text: str) -> None:
    pieces = chunk(doc(text), max_chars=20)
    assert bool(pieces) == bool(text.strip())
    for piece in pieces:
        assert text[piece.start_char : piece.end_char] == piece.text


# --- blocks --------------------------------------------------------------------------------------------------------


def test_blank_lines_part_blocks_however_many_and_whatever_white_they_hold() -> None:
    assert texts("a\n\nb\n \t \n\n\nc\nd", max_chars=1, overlap=0) == ["a", "b", "c\nd"]


def test_a_document_without_text_has_no_chunks() -> None:
    assert texts("") == texts("\n\n  \n") == []


def test_a_block_keeps_its_indentation_and_its_trailing_spaces() -> None:
    assert texts("\n\n  a  \n\n") == ["  a  "]


def test_a_fence_is_one_block_with_its_blank_lines_and_comments() -> None:
    fence = "```\na\n\n# b\n\n\nc\n```"
    assert texts(f"before\n\n{fence}\n\nafter", max_chars=8, overlap=0) == ["before", fence, "after"]
    assert paths(f"before\n\n{fence}\n\nafter") == [""]


def test_a_fence_right_below_text_belongs_to_the_block_of_the_text() -> None:
    text = "Run this:\n```\na\n\nb\n```\nand wait."
    assert texts(f"{text}\n\nnext", max_chars=1, overlap=0) == [text, "next"]


def test_a_fence_that_never_closes_runs_to_the_end_of_the_document() -> None:
    text = "a\n\n~~~\nb\n\n# c\n\nd"
    assert texts(text, max_chars=1, overlap=0) == ["a", "~~~\nb\n\n# c\n\nd"]


def test_trap_4_comments_in_fences_open_no_section() -> None:
    assert set(paths(TRAP_4, max_chars=1, overlap=0)) == {"Real"}
    pieces = texts(TRAP_4, max_chars=1, overlap=0)
    assert pieces[0] == "# Real"
    assert any(piece.startswith("````python") and "# still not\n````" in piece for piece in pieces)


# --- sections ------------------------------------------------------------------------------------------------------


def test_heading_path_joins_the_open_headings() -> None:
    text = "intro\n\n# Guide\n\na\n\n## Install\n\nb\n\n### Linux\n\nc\n\n## Use\n\nd\n\n# Notes\n\ne"
    assert paths(text) == [
        "",
        "Guide",
        "Guide > Install",
        "Guide > Install > Linux",
        "Guide > Use",
        "Notes",
    ]


def test_heading_levels_may_be_skipped() -> None:
    text = "### Deep\n\na\n\n# Top\n\nb\n\n#### Deeper\n\nc\n\n## Two\n\nd"
    assert paths(text) == ["Deep", "Top", "Top > Deeper", "Top > Two"]


def test_a_heading_is_the_first_block_of_its_section() -> None:
    assert texts("# A\n\nx\n\n## B\n\ny") == ["# A\n\nx", "## B\n\ny"]


def test_a_heading_is_a_block_of_its_own_even_without_a_blank_line_below_it() -> None:
    assert texts("# A\ntext of the section", max_chars=19, overlap=0) == ["# A", "text of the section"]


def test_a_heading_alone_is_a_chunk_of_its_section() -> None:
    assert texts("# A\n## B\n\nx") == ["# A", "## B\n\nx"]


def test_a_heading_ends_the_block_above_it() -> None:
    assert texts("text\n# A") == ["text", "# A"]


def test_a_chunk_lies_inside_one_section_and_nothing_is_carried_into_the_next() -> None:
    assert texts("a\n\n# B\n\nc", max_chars=1200, overlap=1) == ["a", "# B\n\nc"]


# --- packing -------------------------------------------------------------------------------------------------------


def test_packing_counts_characters_with_the_blank_lines_between() -> None:
    # "aaaa" + 2 newlines + "bbbb" is 10 characters.
    assert texts("aaaa\n\nbbbb", max_chars=4 + 2 + 4, overlap=0) == ["aaaa\n\nbbbb"]
    assert texts("aaaa\n\nbbbb", max_chars=4 + 2 + 4 - 1, overlap=0) == ["aaaa", "bbbb"]
    assert texts("aaaa\n\n\n\nbbbb", max_chars=4 + 2 + 4, overlap=0) == ["aaaa", "bbbb"]


def test_packing_counts_characters_not_bytes() -> None:
    assert texts("éééé\n\n😀😀😀😀", max_chars=10, overlap=0) == ["éééé\n\n😀😀😀😀"]


def test_packing_is_greedy() -> None:
    assert texts("a\n\nb\n\nc\n\nd\n\ne", max_chars=7, overlap=0) == ["a\n\nb\n\nc", "d\n\ne"]


def test_a_longer_block_is_a_chunk_of_its_own() -> None:
    assert texts("a\n\nxxxxxxxxxxxx\n\nb\n\nc", max_chars=5, overlap=0) == ["a", "xxxxxxxxxxxx", "b\n\nc"]
    assert texts("a\n\nxxxxxxxxxxxx\n\nb\n\nc", max_chars=5, overlap=1) == ["a", "xxxxxxxxxxxx", "b\n\nc"]


# --- overlap -------------------------------------------------------------------------------------------------------


def test_the_next_chunk_begins_overlap_blocks_earlier() -> None:
    text = "a\n\nb\n\nc\n\nd\n\ne"
    assert texts(text, max_chars=7, overlap=1) == ["a\n\nb\n\nc", "c\n\nd\n\ne"]
    assert texts(text, max_chars=7, overlap=2) == ["a\n\nb\n\nc", "b\n\nc\n\nd", "c\n\nd\n\ne"]


def test_blocks_that_leave_no_room_are_not_carried() -> None:
    # Carrying "bb" would make "bb\n\ncccc", 2 + 2 + 4 = 8 characters.
    assert texts("aa\n\nbb\n\ncccc", max_chars=6, overlap=1) == ["aa\n\nbb", "cccc"]
    assert texts("aa\n\nbb\n\ncccc", max_chars=8, overlap=1) == ["aa\n\nbb", "bb\n\ncccc"]


def test_carrying_is_all_or_nothing() -> None:
    # Two carried blocks would make "b\n\nc\n\ndddd", 10 characters; one alone would fit into 8.
    assert texts("a\n\nb\n\nc\n\ndddd", max_chars=8, overlap=2) == ["a\n\nb\n\nc", "dddd"]
    assert texts("a\n\nb\n\nc\n\ndddd", max_chars=8, overlap=1) == ["a\n\nb\n\nc", "c\n\ndddd"]


def test_more_overlap_than_blocks_carries_nothing() -> None:
    assert texts("aa\n\nbb\n\ncc", max_chars=6, overlap=3) == ["aa\n\nbb", "cc"]


def test_a_section_that_fits_is_one_chunk_whatever_the_overlap() -> None:
    assert texts("a\n\nb\n\nc", max_chars=7, overlap=2) == ["a\n\nb\n\nc"]


# --- ids and settings ----------------------------------------------------------------------------------------------


def test_index_has_three_digits_and_grows_beyond_them() -> None:
    pieces = chunk(doc("\n\n".join("x" for _ in range(1001)), "long"), max_chars=1, overlap=0)
    assert [pieces[i].chunk_id for i in (0, 9, 10, 999, 1000)] == [
        "long#000",
        "long#009",
        "long#010",
        "long#999",
        "long#1000",
    ]


@pytest.mark.parametrize("settings", [{"max_chars": 0}, {"max_chars": -1}, {"overlap": -1}])
def test_a_setting_that_makes_no_sense_is_refused_by_name(settings: dict[str, int]) -> None:
    with pytest.raises(InputError, match=next(iter(settings))):
        chunk(doc("a"), **settings)
