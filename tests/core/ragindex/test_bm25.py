"""BM25 against a plain computation and against bm25s, and its file byte for byte."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval_lab.errors import InputError
from retrieval_lab.ragindex import BM25, FormatError
from retrieval_lab.types import Chunk
from tests.core.ragindex import plain

HAND = ["kv cache", "kv cache eviction policy", "gateway rate limits"]
WORDS = st.sampled_from(["a", "b", "c", "dd", "Σ", "e_1", "İ", "-", "日本"])
TEXTS = st.lists(st.lists(WORDS, max_size=12).map(" ".join), max_size=12)


def zipf(n: int, seed: int = 0) -> list[str]:
    """Texts of common and rare words, some documents twice."""
    rng = np.random.default_rng(seed)
    texts = [" ".join(f"w{rank}" for rank in rng.zipf(1.3, rng.integers(1, 60)) if rank < 5000) for _ in range(n - 5)]
    return texts + texts[:5]


def test_the_hand_example() -> None:
    found = BM25.build(HAND).search("cache eviction", 10)
    assert [doc for doc, _ in found] == [1, 0]
    assert [score for _, score in found] == pytest.approx([1.276733, 0.544215], abs=1e-6)


@given(
    TEXTS, st.lists(WORDS, max_size=6).map(" ".join), st.sampled_from([0.0, 1.2, 2.5]), st.sampled_from([0, 0.75, 1])
)
def test_scores_are_those_of_a_plain_computation(texts: list[str], query: str, k1: float, b: float) -> None:
    index = BM25.build(texts, k1, b)
    expected = plain.scores(texts, query, k1, b)
    np.testing.assert_allclose(index.scores(query), expected, rtol=0, atol=1e-9)
    matching = [row for row, score in enumerate(expected) if score > 0]
    for k in (0, 1, 3, 50):
        assert index.search(query, k) == plain.top(index.scores(query).tolist(), k, matching)


def test_common_words_with_rows_of_their_own_score_alike() -> None:
    texts = zipf(400)
    index = BM25.build(texts)
    assert 3 < len(index._dense) < len(index.postings) / 10
    for query in ("w1", "w1 w2 w1 w900", "w3 w77 w2", "w1 w2 w3 w4 w5 w6"):
        np.testing.assert_allclose(index.scores(query), plain.scores(texts, query), rtol=0, atol=1e-9)


def test_the_bundled_corpus_scores_as_a_plain_computation(corpus_chunks: list[Chunk]) -> None:
    texts = [chunk.text for chunk in corpus_chunks]
    index = BM25.build(texts)
    for query in (
        "How many milliseconds does reranking 40 pairs take?",
        "who painted the inn sign",
        "ef_search the the",
    ):
        expected = plain.scores(texts, query)
        found = index.search(query, 50)
        wanted = plain.top(expected, 50, [row for row, score in enumerate(expected) if score > 0])
        assert [row for row, _ in found] == [row for row, _ in wanted]
        assert [score for _, score in found] == pytest.approx([score for _, score in wanted], abs=1e-9)


def test_scores_are_those_of_bm25s() -> None:
    bm25s = pytest.importorskip("bm25s")
    texts = zipf(300, seed=1)
    peer = bm25s.BM25(method="lucene", k1=1.5, b=0.6, dtype="float64")
    peer.index([text.split() for text in texts], show_progress=False)
    ours = BM25.build(texts, 1.5, 0.6)
    for query in ("w1 w2", "w8 w90 w2 w8", "w400"):
        # Lucene leaves out the factor (k1 + 1), which changes no order.
        np.testing.assert_allclose(ours.scores(query), 2.5 * peer.get_scores(query.split()), rtol=1e-9)


def test_what_the_index_says_of_itself() -> None:
    index = BM25.build(HAND)
    assert (index.n, index.avgdl, index.doc_len.tolist(), index.k1, index.b) == (3, 3.0, [2, 4, 3], 1.2, 0.75)
    assert dict(index.postings) == {term: sorted(docs.items()) for term, docs in plain.postings(HAND).items()}
    assert list(index.postings) == sorted(index.postings)
    assert index.idf("cache") == pytest.approx(np.log(1.6), abs=1e-12)
    assert index.idf("absent") == pytest.approx(np.log(8), abs=1e-12)


def test_a_repeated_word_of_the_query_counts_twice() -> None:
    index = BM25.build(HAND)
    np.testing.assert_allclose(index.scores("cache kv cache"), 2 * index.scores("cache") + index.scores("kv"))


def test_equal_scores_are_ordered_by_document_beyond_every_cut() -> None:
    texts = ["x y", "z"] * 2000
    index = BM25.build(texts)
    for k in (1, 7, 50, 1999, 2000, 3000):
        assert [doc for doc, _ in index.search("x", k)] == list(range(0, 4000, 2))[:k]


def test_no_match_is_no_hit() -> None:
    assert BM25.build(HAND).search("absent !!!", 5) == []
    assert BM25.build([]).search("x", 5) == []
    assert BM25.build(["", "!"]).search("x", 5) == []


FILTERS: list[Any] = [
    lambda wanted, _: wanted.__contains__,
    lambda wanted, n: np.isin(np.arange(n), list(wanted)),
    lambda wanted, _: wanted,
    lambda wanted, _: np.array(sorted(wanted), dtype=np.int64),
    lambda wanted, n: [row in wanted for row in range(n)],
]


@pytest.mark.parametrize("form", FILTERS)
@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 1.0])
def test_a_filter_is_applied_before_the_cut(form: Any, share: float) -> None:
    texts = zipf(600, seed=2)
    rng = np.random.default_rng(3)
    wanted = {row for row in range(600) if rng.random() < share}
    index = BM25.build(texts)
    scores = index.scores("w1 w2 w30").tolist()
    matching = [row for row in sorted(wanted) if scores[row] > 0]
    for k in (1, 10, 700):
        assert index.search("w1 w2 w30", k, form(wanted, 600)) == plain.top(scores, k, matching)


def test_wrong_settings_are_errors() -> None:
    for wrong in ((-1, 0.5), (1.2, 1.5), (float("nan"), 0.5), (1e9, 0.5)):
        with pytest.raises(InputError, match="BM25 k1 is"):
            BM25.build(HAND, *wrong)
    with pytest.raises(InputError, match="-1 results"):
        BM25.build(HAND).search("kv", -1)
    with pytest.raises(InputError, match="mask of shape"):
        BM25.build(HAND).search("kv", 1, np.ones(4, dtype=bool))


# --- the file ------------------------------------------------------------------------------------------------------


@given(TEXTS)
def test_the_file_is_byte_for_byte_that_of_a_plain_writer(texts: list[str]) -> None:
    data = BM25.build(texts).to_bytes()
    assert data == plain.bm25_file(texts)
    read = BM25.from_bytes(data, 1.2, 0.75)
    assert read.to_bytes() == data
    np.testing.assert_array_equal(read.scores("a dd 日本"), BM25.build(texts).scores("a dd 日本"))


def test_a_larger_file_too() -> None:
    texts = zipf(500, seed=4)
    data = BM25.build(texts).to_bytes()
    assert data == plain.bm25_file(texts)
    assert BM25.from_bytes(data, 1.2, 0.75).search("w1 w5", 20) == BM25.build(texts).search("w1 w5", 20)


def test_every_truncation_and_every_further_byte_is_noticed() -> None:
    data = plain.bm25_file([*HAND, "日本 " * 200])
    for size in range(len(data)):
        with pytest.raises(FormatError):
            BM25.from_bytes(data[:size], 1.2, 0.75)
    with pytest.raises(FormatError, match="1 bytes after the last term"):
        BM25.from_bytes(data + b"\0", 1.2, 0.75)


def entry(name: bytes, df: int, body: bytes) -> bytes:
    return struct.pack("<H", len(name)) + name + struct.pack("<II", df, len(body)) + body


def file(
    *entries: bytes, lengths: tuple[int, ...] = (2, 2), avgdl: float = 2.0, start: bytes = b"TLBM\1\0\0\0"
) -> bytes:
    head = start + struct.pack("<IId", len(lengths), len(entries), avgdl)
    return head + struct.pack(f"<{len(lengths)}I", *lengths) + b"".join(entries)


def test_a_file_made_by_hand_is_read() -> None:
    index = BM25.from_bytes(file(entry(b"a", 2, b"\0\1\1\2"), entry(b"b", 1, b"\0\x81\x00")), 1.2, 0.75)
    assert dict(index.postings) == {"a": [(0, 1), (1, 2)], "b": [(0, 1)]}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (file(start=b"TLBN\1\0\0\0"), "begins with"),
        (file(start=b"TLBM\2\0\0\0"), "version 2"),
        (file(lengths=(2,), avgdl=float("nan")), "average length"),
        (file(avgdl=-1.0), "average length"),
        (file(avgdl=0.0), "average length"),
        (file(avgdl=1e-310), "average length"),
        (file(entry(b"b", 1, b"\0\1"), entry(b"a", 1, b"\0\1")), "does not come after"),
        (file(entry(b"a", 1, b"\0\1"), entry(b"a", 1, b"\0\1")), "does not come after"),
        (file(entry(b"\xff", 1, b"\0\1")), "utf-8"),
        (file(entry(b"a", 0, b"")), "0 postings"),
        (file(entry(b"a", 2**32 - 1, b"\0\1")), "2 bytes for 4294967295 postings"),
        (file(entry(b"a", 1, b"\0\1\0\1")), "more or fewer"),
        (file(entry(b"a", 1, b"\0\1\1"), entry(b"b", 2, b"\1\x81\1\1")), "more or fewer"),
        (file(entry(b"a", 1, b"\0\x81"), entry(b"b", 1, b"\0\1")), "more or fewer"),
        (file(entry(b"a", 1, b"\0\x81")), "end within a number"),
        (file(entry(b"a", 1, b"\x80" * 10 + b"\0\1")), "beyond 64 bits"),
        (file(entry(b"a", 1, b"\2\1")), "past the last of 2"),
        (file(entry(b"a", 2, b"\1\1\1\1")), "do not ascend below 2"),
        (file(entry(b"a", 2, b"\0\1\0\1")), "do not ascend"),
        (file(entry(b"a", 1, b"\0\0")), "never in a document"),
        (file(entry(b"a", 1, b"\0\3")), "more often than it has terms"),
        (struct.pack("<4sIIId", b"TLBM", 1, 2**32 - 1, 0, 1.0), "lengths of its 4294967295 documents"),
        (struct.pack("<4sIIId", b"TLBM", 1, 0, 2**32 - 1, 0.0), "cut short within term 0 of 4294967295"),
    ],
)
def test_a_faulty_file_is_told_by_its_fault(data: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        BM25.from_bytes(data, 1.2, 0.75)


GOOD = plain.bm25_file([*HAND, "a b c " * 50])


@settings(max_examples=400)
@given(
    st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)), max_size=4), st.integers(-6, 6), st.binary()
)
def test_damaged_bytes_are_a_format_error_or_an_index_that_works(
    changes: list[tuple[int, int]], cut: int, more: bytes
) -> None:
    data = bytearray(GOOD)
    for place, byte in changes:
        data[place] = byte
    damaged = bytes(data[: len(data) + min(cut, 0)]) + (more if cut > 3 else b"")
    try:
        index = BM25.from_bytes(damaged, 1.2, 0.75)
    except FormatError:
        return
    found = index.search("cache a kv", 10)
    assert all(np.isfinite(score) and score > 0 for _, score in found)
    assert index.n == 4


@given(st.binary(max_size=200))
def test_any_bytes_after_the_magic_are_a_format_error_or_an_index(data: bytes) -> None:
    try:
        index = BM25.from_bytes(b"TLBM\1\0\0\0" + data, 1.2, 0.75)
    except FormatError:
        return
    assert BM25.from_bytes(index.to_bytes(), 1.2, 0.75).n == index.n


def test_a_term_that_is_too_long_for_the_format_is_named_when_it_is_written() -> None:
    index = BM25.build(["kv", "x" * 65_536])
    assert index.search("x" * 65_536, 1)[0][0] == 1
    with pytest.raises(InputError, match=r"65,536 bytes .* in document 1"):
        index.to_bytes()
    longest = BM25.build(["x" * 65_535])
    assert BM25.from_bytes(longest.to_bytes(), 1.2, 0.75).postings["x" * 65_535] == [(0, 1)]
