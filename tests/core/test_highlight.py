"""Offsets that a reader should see."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from retrieval_lab.highlight import anchor_spans, best_window, word_spans


def test_words_are_found_whatever_their_case_and_never_inside_others() -> None:
    text = "Tokens, token; tokenise the TOKEN"
    assert [text[a:b] for a, b in word_spans(text, {"token", "tokens"})] == ["Tokens", "token", "TOKEN"]


def test_the_anchor_is_found_across_line_ends_and_case() -> None:
    text = "The  Limit\nis 1,500 tokens (hard)."
    assert [text[a:b] for a, b in anchor_spans(text, "the limit is 1,500 tokens (hard)")] == [text[:-1]]
    assert anchor_spans(text, "no such thing") == []
    assert anchor_spans(text, " ") == []


def test_the_window_begins_shortly_before_where_most_spans_are() -> None:
    spans = [(0, 4), (500, 504), (510, 514), (530, 534)]
    assert best_window(spans, 1000, 100, 10) == (490, 590)


def test_without_spans_or_need_the_window_is_the_beginning() -> None:
    assert best_window([], 1000, 100, 10) == (0, 100)
    assert best_window([(3, 5)], 50, 100, 10) == (0, 50)


@given(
    st.lists(st.tuples(st.integers(0, 400), st.integers(1, 20)), max_size=8),
    st.integers(0, 420),
    st.integers(1, 120),
    st.integers(0, 30),
)
def test_the_window_lies_in_the_text_and_is_no_wider_than_asked(
    places: list[tuple[int, int]], length: int, width: int, lead: int
) -> None:
    spans = sorted((start, start + size) for start, size in places if start + size <= length)
    left, right = best_window(spans, length, width, lead)
    assert 0 <= left <= right <= length
    assert right - left <= width


def test_ten_thousand_spans_take_no_time_to_speak_of() -> None:
    spans = [(start, start + 5) for start in range(0, 1_000_000, 10)]
    began = time.perf_counter()
    assert best_window(spans, 1_000_000, 160, 16) == (0, 160)
    assert time.perf_counter() - began < 1
