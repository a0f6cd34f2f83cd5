"""Embedders: HashEmbedder against a plain one, FastEmbedder with a stand-in for fastembed, and checks of any."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval_lab.embed import FastEmbedder, HashEmbedder, QueryVectors, embed_checked, embed_query
from retrieval_lab.errors import EnvironmentMissing, InputError
from retrieval_lab.extras import MissingExtra
from retrieval_lab.types import Chunk
from tests.core.reference import Vector, hash_vector

SAMPLES = [
    "",
    "!!! 😀 ---",
    "a",
    "ab abc abcd",
    "the same word, the same word, the same word",
    "snake_case naïve İstanbul ΣΑΣ straße 日本語のテスト 42 x1",
    "café" + " " + "cafe\u0301",
    "nul \x00 soft\u00adhyphen zero\u200bwidth",
]


# --- HashEmbedder --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dims", [1, 2, 3, 64, 256, 1000])
def test_hash_embedder_equals_a_plain_one(dims: int) -> None:
    expected = np.array([hash_vector(text, dims) for text in SAMPLES])
    np.testing.assert_allclose(HashEmbedder(dims).embed(SAMPLES), expected, rtol=0, atol=1e-7)


@given(st.text(max_size=60), st.sampled_from([7, 256]))
def test_hash_embedder_equals_a_plain_one_on_any_text(text: str, dims: int) -> None:
    np.testing.assert_allclose(HashEmbedder(dims).embed([text])[0], hash_vector(text, dims), rtol=0, atol=1e-7)


def test_hash_embedder_equals_a_plain_one_on_the_bundled_corpus(corpus_chunks: list[Chunk]) -> None:
    some = [piece.text for piece in corpus_chunks[::25]]
    expected = np.array([hash_vector(text) for text in some])
    np.testing.assert_allclose(HashEmbedder().embed(some), expected, rtol=0, atol=1e-7)


def test_hash_embedder_by_hand() -> None:
    # blake2b-64 of "a" and of "b", read big-endian; the text has the tokens a, b and "a b".
    h = [int.from_bytes(hashlib.blake2b(t, digest_size=8).digest(), "big") for t in (b"a", b"b", b"a b")]
    expected = [0.0] * 5
    for value in h:
        expected[value % 5] += -1 if value >= 2**63 else 1
    expected = [value / sum(x * x for x in expected) ** 0.5 for value in expected]
    assert HashEmbedder(5).embed(["A  b!"])[0].tolist() == pytest.approx(expected, abs=1e-7)


def test_hash_embedder_counts_every_occurrence() -> None:
    once, twice = HashEmbedder(4096).embed(["abc x", "abc x abc"])
    assert not np.allclose(once, twice)


def test_hash_embedder_is_256_wide_unless_told_and_names_its_width() -> None:
    assert HashEmbedder().dims == 256
    assert "256" in HashEmbedder().name
    assert HashEmbedder(8).name != HashEmbedder(9).name


@pytest.mark.parametrize("texts", [[], ["a"], ["a", "b", ""]])
def test_hash_embedder_gives_float32_of_the_promised_shape(texts: list[str]) -> None:
    vectors = HashEmbedder(16).embed(texts)
    assert vectors.dtype == np.float32
    assert vectors.shape == (len(texts), 16)


def test_a_text_without_words_is_the_zero_vector_and_others_have_length_one() -> None:
    lengths = np.linalg.norm(HashEmbedder().embed(["", "!!! 😀 ---", "word", "two words"]), axis=1)
    assert lengths.tolist() == pytest.approx([0, 0, 1, 1], abs=1e-6)


def test_hash_embedder_folds_case_and_ignores_punctuation() -> None:
    plain, loud = HashEmbedder().embed(["index the corpus", "Index, THE corpus!"])
    assert plain.tolist() == loud.tolist()


def test_hash_embedder_is_equal_in_another_process_with_another_hash_seed() -> None:
    script = (
        "import sys; from hashlib import sha256; from retrieval_lab.embed import HashEmbedder\n"
        "print(sha256(HashEmbedder().embed(eval(sys.stdin.read())).tobytes()).hexdigest())"
    )
    here = hashlib.sha256(HashEmbedder().embed(SAMPLES).tobytes()).hexdigest()
    for seed in ("1", "4711"):
        run = subprocess.run(
            [sys.executable, "-c", script],
            input=ascii(SAMPLES),
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert run.stdout.strip() == here


@pytest.mark.parametrize("dims", [0, -1])
def test_hash_embedder_refuses_a_width_below_one(dims: int) -> None:
    with pytest.raises(InputError, match=str(dims)):
        HashEmbedder(dims)


# --- FastEmbedder --------------------------------------------------------------------------------------------------


class FakeTextEmbedding:
    """Takes the place of fastembed's class; remembers how it was made and called."""

    made: ClassVar[list[dict[str, Any]]] = []
    calls: ClassVar[list[list[str]]] = []

    def __init__(self, **arguments: Any) -> None:
        self.made.append(arguments)

    def embed(self, documents: list[str]) -> Any:
        self.calls.append(documents)
        return (np.full(384, len(document), dtype=np.float32) for document in documents)


@pytest.fixture
def fastembed(monkeypatch: pytest.MonkeyPatch) -> type[FakeTextEmbedding]:
    module = ModuleType("fastembed")
    module.TextEmbedding = FakeTextEmbedding  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "fastembed", module)
    monkeypatch.setattr(FakeTextEmbedding, "made", [])
    monkeypatch.setattr(FakeTextEmbedding, "calls", [])
    return FakeTextEmbedding


@pytest.fixture
def no_fastembed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastembed", None)  # makes the import fail as if it were not installed


def test_fast_embedder_has_384_dimensions_and_its_model_in_its_name() -> None:
    assert FastEmbedder().dims == 384
    assert "BAAI/bge-small-en-v1.5" in FastEmbedder().name
    assert "some/model" in FastEmbedder("some/model").name


def test_fast_embedder_makes_the_model_once_with_these_arguments(
    fastembed: type[FakeTextEmbedding], tmp_path: Path
) -> None:
    embedder = FastEmbedder("some/model", tmp_path)
    assert fastembed.made == []
    embedder.embed(["a"])
    vectors = embedder.embed(["bb", "ccc"])
    assert [{**call, "cache_dir": str(call["cache_dir"])} for call in fastembed.made] == [
        {"model_name": "some/model", "cache_dir": str(tmp_path)}
    ]
    assert fastembed.calls == [["a"], ["bb", "ccc"]]
    assert vectors.dtype == np.float32
    assert vectors.shape == (2, 384)
    assert vectors[:, 0].tolist() == [2, 3]


def test_fast_embedder_loads_from_the_cache_of_the_environment(
    fastembed: type[FakeTextEmbedding], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(tmp_path / "models"))
    FastEmbedder().embed(["a"])
    assert str(fastembed.made[0]["cache_dir"]) == str(tmp_path / "models")


def test_fast_embedder_loads_from_the_home_folder_without_that_variable(
    fastembed: type[FakeTextEmbedding], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("FASTEMBED_CACHE_PATH", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    FastEmbedder().embed(["a"])
    assert str(fastembed.made[0]["cache_dir"]) == str(tmp_path / ".cache" / "fastembed")


@pytest.mark.usefixtures("no_fastembed")
def test_nothing_to_embed_needs_no_fastembed() -> None:
    vectors = FastEmbedder().embed([])
    assert vectors.dtype == np.float32
    assert vectors.shape == (0, 384)


@pytest.mark.usefixtures("no_fastembed")
def test_without_fastembed_the_error_is_one_line_that_names_the_extra() -> None:
    with pytest.raises(MissingExtra) as raised:
        FastEmbedder().embed(["a"])
    message = str(raised.value)
    assert "fastembed" in message
    assert "retrieval-lab[models]" in message
    assert "\n" not in message
    assert raised.value.exit_code == 3


def test_a_model_that_cannot_be_loaded_is_one_line_that_names_it(
    fastembed: type[FakeTextEmbedding], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def unreachable(_self: object, **_arguments: object) -> None:
        raise OSError("no route\nto the hub")

    monkeypatch.setattr(fastembed, "__init__", unreachable)
    with pytest.raises(EnvironmentMissing) as raised:
        FastEmbedder("some/model", tmp_path).embed(["a"])
    message = str(raised.value)
    assert "some/model" in message
    assert str(tmp_path) in message
    assert "no route" in message
    assert "\n" not in message


# --- checks of any embedder ----------------------------------------------------------------------------------------


class Fixed:
    """Returns the same array whatever it is asked."""

    name = "fixed"

    def __init__(self, array: Any, dims: int = 2) -> None:
        self.array = array
        self.dims = dims

    def embed(self, texts: Sequence[str]) -> Vector:  # noqa: ARG002 - the protocol's signature
        return np.array(self.array, dtype=np.float32)


@pytest.mark.parametrize("array", [[[1, 2, 3]], [[1, 2], [3, 4]], [1, 2], []])
def test_an_array_of_another_shape_is_refused_with_both_shapes(array: Any) -> None:
    with pytest.raises(InputError, match=r"\(1, 2\)"):
        embed_checked(Fixed(array), ["a"])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_trap_16_a_vector_that_is_not_finite_is_refused_by_its_label(bad: float) -> None:
    with pytest.raises(InputError, match="second"):
        embed_checked(Fixed([[1, 0], [0, bad]]), ["a", "b"], ["first", "second"])


@pytest.mark.parametrize("query", ["", "  ", "!!!", "😀", "- | & ( )"])
def test_a_query_without_words_has_no_vector(query: str) -> None:
    assert embed_query(Fixed([[1, 0]]), query) is None


def test_trap_16_a_query_with_a_zero_vector_has_no_vector() -> None:
    assert embed_query(Fixed([[0, 0]]), "word") is None


def test_a_query_with_words_has_a_vector_of_the_embedders_width() -> None:
    vector = embed_query(HashEmbedder(), "word")
    assert vector is not None
    np.testing.assert_allclose(vector, hash_vector("word"), atol=1e-7)


@pytest.mark.parametrize(("kept", "asked"), [(1, list("abacba")), (2, list("abca")), (3, list("abc"))])
def test_as_many_query_vectors_are_remembered_as_asked(kept: int, asked: list[str]) -> None:
    """Of the queries a, a, b, a, c, b, a those are embedded whose vector was forgotten: the oldest goes first."""
    embedded: list[str] = []

    class Counting(HashEmbedder):
        def embed(self, texts: Sequence[str]) -> Vector:
            embedded.extend(texts)
            return super().embed(texts)

    vectors = QueryVectors(Counting(8), kept)
    for query in "aabacba":
        expected = HashEmbedder(8).embed([query])[0]
        assert np.array_equal(np.asarray(vectors.of(query)), expected)
    assert embedded == asked
