"""Windows of words, windows of sentences and whole documents, against what a plain computation makes of them.

Where a document's sentences must be known, the document is built of them, so that nothing here reads Markdown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval_lab.chunker import load_documents
from retrieval_lab.chunkers import sentence_spans, sentence_windows, whole_document, word_windows
from retrieval_lab.errors import InputError
from retrieval_lab.types import Chunk, Document
from tests.core.test_chunker import DOCUMENTS, doc, naive_sections

WINDOWS = st.integers(1, 9).flatmap(lambda size: st.tuples(st.just(size), st.integers(0, size - 1)))
WINDOWED: list[Callable[..., list[Chunk]]] = [word_windows, sentence_windows]


def naive_windows(units: int, size: int, overlap: int) -> list[tuple[int, int]]:
    """(first unit, unit behind the last) of each window, one after another."""
    found: list[tuple[int, int]] = []
    first = 0
    while units:
        found.append((first, min(first + size, units)))
        if found[-1][1] == units:
            break
        first = found[-1][1] - overlap
    return found


def naive_path(text: str, place: int) -> str:
    """The path of the last section that begins at or before the place."""
    return [path for path, blocks in naive_sections(text) if blocks and blocks[0][0] <= place][-1]


def texts(pieces: list[Chunk]) -> list[str]:
    return [piece.text for piece in pieces]


# --- what holds for every chunker and every document -----------------------------------------------------------------


def assert_sound(document: Document, pieces: list[Chunk]) -> None:
    text = document.text
    assert bool(pieces) == bool(text.strip())
    assert [piece.chunk_id for piece in pieces] == [f"{document.doc_id}#{i:03d}" for i in range(len(pieces))]
    covered = [False] * len(text)
    for piece in pieces:
        assert text[piece.start_char : piece.end_char] == piece.text == piece.text.strip()
        assert piece.heading_path == naive_path(text, piece.start_char)
        covered[piece.start_char : piece.end_char] = [True] * len(piece.text)
    assert not "".join(char for char, held in zip(text, covered, strict=True) if not held).strip()
    for before, after in pairwise(pieces):
        assert before.start_char < after.start_char
        assert before.end_char < after.end_char


@settings(max_examples=200)
@given(DOCUMENTS, WINDOWS)
def test_offsets_ids_paths_and_coverage_on_random_markdown(document: Document, window: tuple[int, int]) -> None:
    size, overlap = window
    for cut in WINDOWED:
        assert_sound(document, cut(document, size=size, overlap=overlap))
    assert_sound(document, whole_document(document))


@settings(max_examples=200)
@given(st.text(st.sampled_from("ab.!? \t\n\r\x0c\x1c\x85\u2028\u3000#-`~|>[]1「」。é😀"), max_size=120), WINDOWS)
def test_offsets_ids_paths_and_coverage_on_any_text(text: str, window: tuple[int, int]) -> None:
    size, overlap = window
    for cut in WINDOWED:
        assert_sound(doc(text), cut(doc(text), size=size, overlap=overlap))
    assert_sound(doc(text), whole_document(doc(text)))


@pytest.mark.parametrize("cut", [word_windows, sentence_windows, whole_document])
def test_the_bundled_corpus_is_cut_soundly(corpus_dir: Path, cut: Callable[[Document], list[Chunk]]) -> None:
    for document in load_documents(corpus_dir):
        assert_sound(document, cut(document))


@pytest.mark.parametrize("cut", WINDOWED)
@pytest.mark.parametrize(("size", "overlap"), [(5, 5), (5, 6), (0, 0), (-1, 0), (5, -1)])
def test_a_window_that_would_not_advance_is_refused(cut: Callable[..., list[Chunk]], size: int, overlap: int) -> None:
    with pytest.raises(InputError, match=f"overlap is {overlap} and size {size}"):
        cut(doc("a b c"), size=size, overlap=overlap)


@pytest.mark.parametrize("cut", WINDOWED)
def test_ids_go_on_beyond_three_digits(cut: Callable[..., list[Chunk]]) -> None:
    pieces = cut(doc("Yes.\n\n" * 1002, "long"), size=1, overlap=0)
    assert [pieces[i].chunk_id for i in (0, 999, 1000, -1)] == ["long#000", "long#999", "long#1000", "long#1001"]
    assert pieces[1000].start_char == 6 * 1000


# --- words -----------------------------------------------------------------------------------------------------------


@settings(max_examples=200)
@given(DOCUMENTS, WINDOWS)
def test_windows_of_words_are_those_counted_one_by_one(document: Document, window: tuple[int, int]) -> None:
    words = document.text.split()
    pieces = word_windows(document, size=window[0], overlap=window[1])
    expected = [words[first:stop] for first, stop in naive_windows(len(words), *window)]
    assert [piece.text.split() for piece in pieces] == expected


def test_windows_of_words_by_hand() -> None:
    text = "  one two-2\n\n three\tfour, five  six seven. "
    assert texts(word_windows(doc(text), size=3, overlap=1)) == [
        "one two-2\n\n three",
        "three\tfour, five",
        "five  six seven.",
    ]
    assert texts(word_windows(doc(text), size=4, overlap=0)) == ["one two-2\n\n three\tfour,", "five  six seven."]


def test_the_last_window_has_something_that_no_other_has() -> None:
    # With 5 words, a third window of 3 by 2 would hold words 4 and 5 alone, which the second has.
    assert texts(word_windows(doc("1 2 3 4 5"), size=3, overlap=1)) == ["1 2 3", "3 4 5"]
    assert texts(word_windows(doc("1 2 3 4 5 6"), size=3, overlap=1)) == ["1 2 3", "3 4 5", "5 6"]
    assert texts(word_windows(doc("1 2"), size=3, overlap=2)) == ["1 2"]


def test_by_default_180_words_are_new_in_each_window() -> None:
    pieces = word_windows(doc(" ".join(map(str, range(600)))))
    assert [(piece.text.split()[0], piece.text.split()[-1]) for piece in pieces] == [
        ("0", "239"),
        ("180", "419"),
        ("360", "599"),
    ]


# --- sentences -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """A block of a document by its sentences; `glue` stands between them, `below` between it and what comes next."""

    sentences: tuple[str, ...]
    glue: str = " "
    below: str = "\n\n"


PLAIN = st.sampled_from(
    [
        "It rains.",
        "Does it\nor not?",
        "No!",
        "Dr. Lem, e.g., said so.",
        "He said “Wait. Go on.” twice.",
        "Use `a. B` at 3.5 m.",
    ]
)
PARTS = st.one_of(
    st.builds(Part, st.lists(PLAIN, min_size=1, max_size=4).map(tuple), st.sampled_from([" ", "\n", "  \n"])),
    # Without a stop; a paragraph ends it.
    st.builds(Part, PLAIN.map(lambda one: (one, "And so on")), below=st.sampled_from(["\n\n", "\n\n \n"])),
    st.builds(Part, st.sampled_from([("# Why. How?",), ("### Deep",)]), below=st.sampled_from(["\n", "\n\n"])),
    st.just(Part(("- It rains.", "No!"), " ", "\n")),
    st.just(Part(("1. First item", "2. Second item"), "\n")),
    st.just(Part(("| a. B | c |\n|---|---|", "| 1 | 2 |"), "\n")),
    st.just(Part(("```py\nx = 1. \n\n# no. heading\n```",))),
    st.just(Part(("See this:", "~~~\na! b\n~~~"), "\n")),
)
RULE = Part(("---",))


@st.composite
def built(draw: st.DrawFn) -> tuple[str, list[tuple[int, int]]]:
    """A text and where its sentences are. A list item stands right above another paragraph's list or a blank line."""
    text, spans = draw(st.sampled_from(["", "\n", "  \n\n"])), list[tuple[int, int]]()
    for part in draw(st.lists(PARTS | st.just(RULE), min_size=1, max_size=8)):
        for number, sentence in enumerate(part.sentences):
            text += part.glue if number else ""
            spans.append((len(text), len(text) + len(sentence)))
            text += sentence
        text += part.below if part.sentences[0][0] in "#-" or part.below != "\n" else "\n\n"
        text += "\n" if part.sentences[0].startswith("- ") else ""
    return text, with_rules_joined(text, spans)


def with_rules_joined(text: str, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """A rule belongs to the sentence before, the first ones to the first sentence, and alone they are one."""
    worded = [span for span in spans if text[slice(*span)] != "---"]
    starts = [spans[0][0], *(start for start, _ in worded[1:])]
    behind = [*starts[1:], len(text)]
    return [(start, max(end for _, end in spans if end <= stop)) for start, stop in zip(starts, behind, strict=True)]


@settings(max_examples=400)
@given(built(), WINDOWS)
def test_windows_of_sentences_are_those_that_the_text_was_built_of(
    made: tuple[str, list[tuple[int, int]]], window: tuple[int, int]
) -> None:
    text, spans = made
    assert [text[slice(*span)] for span in sentence_spans(text)] == [text[slice(*span)] for span in spans]
    assert sentence_spans(text) == spans
    pieces = sentence_windows(doc(text), size=window[0], overlap=window[1])
    expected = [(spans[first][0], spans[stop - 1][1]) for first, stop in naive_windows(len(spans), *window)]
    assert [(piece.start_char, piece.end_char) for piece in pieces] == expected


def test_by_default_five_sentences_of_which_the_last_comes_again() -> None:
    pieces = sentence_windows(doc(" ".join(f"Number {n} is here." for n in range(9))))
    assert [(piece.text[:8], piece.text[-17:]) for piece in pieces] == [
        ("Number 0", "Number 4 is here."),
        ("Number 4", "Number 8 is here."),
    ]


def spans_of(text: str) -> list[str]:
    return [text[slice(*span)] for span in sentence_spans(text)]


def test_a_fence_is_not_torn_whatever_stands_in_it() -> None:
    fence = "```\nOne. Two.\n\n# Three\n\nFour!\n```"
    assert spans_of(f"Look. Here:\n{fence}\nThen on.\n\n{fence}") == ["Look.", "Here:", fence, "Then on.", fence]
    assert spans_of("Look.\n\n~~~\nNever. Closed.\n\n# No") == ["Look.", "~~~\nNever. Closed.\n\n# No"]


def test_what_is_indented_like_code_is_cut_like_text_and_not_lost() -> None:
    assert spans_of("    ```\n    One. Two") == ["```\n    One.", "Two"]


def test_what_is_no_sentence_stays_with_one() -> None:
    assert spans_of("A title\n=======\n\nText.\n\n[x]: http://y.z\n\n***\n\nEnd") == [
        "A title\n=======",
        "Text.",
        "[x]: http://y.z\n\n***",
        "End",
    ]
    assert spans_of("***\n\n...\n\nFirst. Second") == ["***\n\n...\n\nFirst.", "Second"]
    assert spans_of(" ***\n\n... ") == ["***\n\n..."]
    assert spans_of(" \n") == []


def test_a_marker_behind_a_stop_belongs_to_the_sentence() -> None:
    assert spans_of("It rains. [1] It stops.") == ["It rains. [1]", "It stops."]


# --- whole documents -------------------------------------------------------------------------------------------------


@given(st.text(max_size=60))
def test_a_document_is_one_chunk_without_the_white_space_around_it(text: str) -> None:
    assert texts(whole_document(doc(text))) == ([text.strip()] if text.strip() else [])


# --- headings --------------------------------------------------------------------------------------------------------


def test_the_path_is_that_of_the_heading_open_where_the_chunk_begins() -> None:
    text = "before\n\n# Big top\na b\n\n## Low\nc d\n\n# Next\ne"
    found = {piece.text: piece.heading_path for piece in word_windows(doc(text), size=2, overlap=0)}
    assert found == {
        "before\n\n#": "",
        "Big top": "Big top",  # begins within the heading's line
        "a b": "Big top",
        "## Low": "Big top > Low",
        "c d": "Big top > Low",
        "# Next": "Next",
        "e": "Next",
    }
    assert [piece.heading_path for piece in whole_document(doc(text))] == [""]
    assert [piece.heading_path for piece in whole_document(doc(f"\n# One\n{text}"))] == ["One"]
    assert [piece.heading_path for piece in sentence_windows(doc(text), size=3, overlap=0)] == [
        "",
        "Big top > Low",
        "Next",
    ]


def test_a_heading_in_a_fence_is_none() -> None:
    text = "# A\n\n```\n# b\n```\n\nc d"
    assert {piece.heading_path for piece in word_windows(doc(text), size=1, overlap=0)} == {"A"}
