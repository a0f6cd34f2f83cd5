"""Terms, varints and random numbers: what every program must find alike."""

from __future__ import annotations

import sys
from unicodedata import category

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval_lab.errors import InputError
from retrieval_lab.ragindex import PCG32, fnv1a64, put_uvarint, terms, uvarint
from retrieval_lab.ragindex.errors import FormatError
from retrieval_lab.ragindex.varint import put_uvarints, uvarints
from tests.core.ragindex import plain

EDGES = [0, 1, 127, 128, 300, 16383, 16384, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("Set hnsw.ef_search=40!", ["set", "hnsw", "ef_search", "40"]),
        ("İstanbul ΟΔΟΣ Σ ΑΣ.", ["istanbul", "οδοσ", "σ", "ασ"]),
        ("naïve ＡＢＣ Ⅷ ½ ²", ["naïve", "ａｂｃ", "ⅷ", "½", "²"]),
        ("cafe\u0301 日本語のテスト 😀", ["cafe", "日本語のテスト"]),
        ("ǅ Ǆ ẞ \ud800x", ["ǆ", "ǆ", "ß", "x"]),
    ],
)
def test_terms_are_runs_lowered_code_point_by_code_point(text: str, expected: list[str]) -> None:
    assert terms(text) == expected


def test_every_code_point_is_a_term_exactly_when_it_is_a_letter_or_a_number() -> None:
    for code in range(sys.maxunicode + 1):
        char = chr(code)
        found = terms(f"-{char}-")
        if char == "_" or category(char)[0] in "LN":
            assert found == [{"İ": "i"}.get(char, char.lower())], hex(code)
            assert len(found[0]) == 1, hex(code)
        else:
            assert found == [], hex(code)


@given(st.text())
def test_terms_are_those_of_the_plain_reading(text: str) -> None:
    assert tuple(terms(text)) == plain.terms(text)


def test_varints_of_known_bytes() -> None:
    assert [put_uvarint(value).hex() for value in (0, 1, 127, 128, 300, 2**64 - 1)] == [
        "00",
        "01",
        "7f",
        "8001",
        "ac02",
        "ffffffffffffffffff01",
    ]
    assert uvarint(b"\xff\xac\x02\x05", 1) == (300, 2)
    assert uvarint(b"\x80\x80\x00") == (0, 3)  # longer than it need be, and still 0


@pytest.mark.parametrize(
    "data", [b"", b"\x80", b"\xff" * 9, b"\xff" * 10, b"\xff" * 9 + b"\x02", b"\x80" * 10 + b"\x01"]
)
def test_varints_that_are_cut_short_or_too_large_are_none(data: bytes) -> None:
    assert uvarint(data) == (0, 0)
    with pytest.raises(FormatError):
        uvarints(np.frombuffer(data or b"\x80", dtype=np.uint8))


@pytest.mark.parametrize("value", [-1, 2**64])
def test_a_number_that_is_no_varint_is_an_error(value: int) -> None:
    with pytest.raises(InputError):
        put_uvarint(value)


@given(st.lists(st.one_of(st.sampled_from(EDGES), st.integers(0, 2**64 - 1), st.integers(0, 300))))
def test_many_varints_are_as_one_by_one(values: list[int]) -> None:
    data, starts = put_uvarints(np.array(values, dtype=np.uint64))
    assert data.tobytes() == b"".join(map(plain.varint, values)) == b"".join(map(put_uvarint, values))
    read, ends = uvarints(data)
    assert read.tolist() == values
    assert (ends + 1).tolist() == starts[1:].tolist()
    offset = 0
    for value in values:
        found, size = uvarint(data.tobytes(), offset)
        assert (found, size) == (value, len(plain.varint(value)))
        offset += size


def test_random_numbers_are_those_of_the_reference() -> None:
    rng = PCG32(42)
    assert [rng.step() for _ in range(6)] == [
        0xA15C02B7,
        0x7B47F409,
        0xBA1D3330,
        0x83D2F293,
        0xBFA4784B,
        0xCBED606E,
    ]
    rng = PCG32(0)
    assert [rng.below(2**32) for _ in range(3)] == [1203932051, 3113183783, 2101201694]


def test_bounded_draws_throw_away_what_would_favour_small_numbers() -> None:
    n = 3 * 2**30  # a quarter of all draws lies below the threshold
    raw, rng = PCG32(7), PCG32(7)
    drawn = [raw.step() for _ in range(1000)]
    expected = [value % n for value in drawn if value >= (2**32 - n) % n]
    assert 650 < len(expected) < 850
    assert [rng.below(n) for _ in expected] == expected


def test_random_fractions_have_53_bits_of_two_draws() -> None:
    raw, rng = PCG32(2**64 + 5), PCG32(5)
    for _ in range(50):
        high, low = raw.step(), raw.step()
        assert rng.random() == ((high >> 5) * 67108864 + (low >> 6)) / 9007199254740992


@pytest.mark.parametrize("n", [0, -1, 2**32 + 1])
def test_a_draw_needs_something_to_draw_from(n: int) -> None:
    with pytest.raises(ValueError, match="numbers to draw from"):
        PCG32(1).below(n)


def test_fnv_of_known_texts() -> None:
    assert [fnv1a64(text) for text in ("", "a", "foobar")] == [
        0xCBF29CE484222325,
        0xAF63DC4C8601EC8C,
        0x85944171F73967E8,
    ]
