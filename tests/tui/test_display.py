"""Text from outside is shown as text, whatever it holds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from retrieval_lab.shorten import shorten_middle
from retrieval_lab_tui.display import marked, one_line, safe

ANY_TEXT = st.text(st.characters(codec=None, categories=None), max_size=200)


@given(ANY_TEXT)
def test_safe_text_has_the_same_length_and_no_control_characters(text: str) -> None:
    shown = safe(text)
    assert len(shown) == len(text)
    assert not any(ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0 for char in shown if char not in "\n\t")
    shown.encode()  # no lone surrogate is left


@given(ANY_TEXT)
def test_one_line_has_the_same_length_and_no_line_end(text: str) -> None:
    assert len(one_line(text)) == len(text)
    assert not set(one_line(text)) & set("\n\r\t\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred", "␛[31mred"),
        ("\x1b]52;c;aGk=\x07", "␛]52;c;aGk=␇"),
        ("a\x9bb", "a\ufffdb"),
        ("right\u202eleft", "right\ufffdleft"),
        ("👩\u200d🔬 می\u200cخواهم", "👩\u200d🔬 می\u200cخواهم"),
        ("lone \ud800", "lone \ufffd"),
    ],
)
def test_sequences_become_symbols_and_joiners_stay(text: str, shown: str) -> None:
    assert safe(text) == shown


@pytest.mark.parametrize("text", ["[/]", "[@click=app.quit]go[/]", "[tag=value:", "array[i] = list[str]", "- [x] done"])
def test_markup_is_text(text: str) -> None:
    assert marked(text).plain == text


def test_terms_and_anchor_are_marked_at_their_offsets() -> None:
    content = marked("set ef_search first", terms=[(4, 13)], anchors=[(0, 13)])
    assert {(span.start, span.end, str(span.style)) for span in content.spans} == {
        (4, 13, "bold underline"),
        (0, 13, "reverse"),
    }


@given(st.text(max_size=60), st.integers(0, 40))
def test_a_shortened_text_fits(text: str, width: int) -> None:
    assert cell_len(shorten_middle(text, width)) <= max(width, 0)


def test_a_shortened_id_keeps_its_number() -> None:
    assert shorten_middle("full-text-search-in-postgres#014", 20) == "full-text-…tgres#014"
    assert shorten_middle("short#001", 20) == "short#001"
