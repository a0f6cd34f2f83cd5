"""Both sides of an index fused, filtered and diversified, against the rules worked out plainly."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from retrieval_lab.embed import HashEmbedder, Vectors
from retrieval_lab.errors import InputError
from retrieval_lab.ragindex import Filter, Hybrid, Index, IndexedChunk, IndexError_
from retrieval_lab.ragindex import index as index_module
from retrieval_lab.types import Chunk
from tests.core.ragindex import plain

QUESTIONS = ["How many milliseconds does reranking 40 pairs take?", "who painted the inn sign?", "ef_search", "the the"]


@pytest.fixture(scope="module")
def index(corpus_chunks: list[Chunk], tmp_path_factory: pytest.TempPathFactory) -> Index:
    embedder = HashEmbedder()
    made = [
        IndexedChunk.of(one.chunk_id, one.doc_id, one.text, source="file" if row % 4 else "web", uri=f"{one.doc_id}.md")
        for row, one in enumerate(corpus_chunks)
    ]
    vectors = embedder.embed([one.text for one in corpus_chunks])
    path: Path = tmp_path_factory.mktemp("index") / "corpus"
    Index.build(made, vectors, embedding_model=embedder.name).write(path)
    return Index.open(path)


@pytest.fixture(scope="module")
def texts(corpus_chunks: list[Chunk]) -> list[str]:
    return [one.text for one in corpus_chunks]


def plain_retrieve(
    index: Index, texts: list[str], query: str, depth: int, rows: Sequence[int], *, dense: bool = True, k: float = 60
) -> list[tuple[int, float]]:
    """All fused rows with their scores."""
    lexical = plain.scores(texts, query)
    lists = [plain.top(lexical, depth, [row for row in rows if lexical[row] > 0])]
    if dense:
        products = (np.array(index.vecs, dtype=float) @ HashEmbedder().embed([query])[0].astype(float)).tolist()
        lists.append(plain.top([round(product, 12) for product in products], depth, rows))
    fused: dict[int, float] = {}
    for found in lists:
        for rank, (row, _) in enumerate(found, start=1):
            fused[row] = fused.get(row, 0) + 1 / (k + rank)
    return sorted(fused.items(), key=lambda one: (-round(one[1], 14), one[0]))


@pytest.mark.parametrize("query", QUESTIONS)
@pytest.mark.parametrize(("candidates", "k", "rrf_k"), [(50, 10, 60), (3, 10, 60), (20, 60, 1)])
def test_both_sides_are_fused_by_rank(
    index: Index, texts: list[str], query: str, candidates: int, k: int, rrf_k: int
) -> None:
    found = Hybrid(index, HashEmbedder(), candidates=candidates, rrf_k=rrf_k).retrieve(query, k)
    expected = plain_retrieve(index, texts, query, max(candidates, k), range(len(texts)), k=rrf_k)[:k]
    assert [hit.index for hit in found] == [row for row, _ in expected]
    assert [hit.score for hit in found] == pytest.approx([score for _, score in expected], abs=1e-12)
    assert [hit.rank for hit in found] == list(range(1, len(found) + 1))
    first, chunk = found[0], index.chunks[found[0].index]
    assert (first.chunk_id, first.doc_id, first.uri, first.text, first.n_tokens) == (
        chunk.chunk_id,
        chunk.doc_id,
        chunk.uri,
        chunk.text,
        len(plain.terms(chunk.text)),
    )


def test_without_an_embedder_bm25_is_the_only_side(index: Index, texts: list[str]) -> None:
    found = Hybrid(index).retrieve(QUESTIONS[0], 10)
    expected = plain_retrieve(index, texts, QUESTIONS[0], 50, range(len(texts)), dense=False)[:10]
    assert [(hit.index, hit.score) for hit in found] == [(row, pytest.approx(score)) for row, score in expected]


def test_filters_are_applied_inside_each_side_before_its_cut(index: Index, texts: list[str]) -> None:
    names = list(dict.fromkeys(chunk.doc_id for chunk in index.chunks))
    for filter_ in (Filter(doc_ids=(names[3], names[7])), Filter(sources=("web",)), Filter((names[3],), ("web",))):
        rows = [
            row
            for row, chunk in enumerate(index.chunks)
            if (not filter_.doc_ids or chunk.doc_id in filter_.doc_ids)
            and (not filter_.sources or chunk.source in filter_.sources)
        ]
        assert 2 < len(rows) < 300
        for query in QUESTIONS:
            found = Hybrid(index, HashEmbedder(), candidates=5).retrieve(query, 4, filter_)
            expected = plain_retrieve(index, texts, query, 5, rows)[:4]
            assert [hit.index for hit in found] == [row for row, _ in expected]
    assert Hybrid(index, HashEmbedder()).retrieve("rank", 4, Filter(doc_ids=("nowhere",))) == []
    with pytest.raises(InputError, match="doc_ids is a text"):
        Filter(doc_ids="bread")  # type: ignore[arg-type]


@pytest.mark.parametrize("lam", [0.3, 0.8, 1.0])
def test_mmr_picks_from_all_that_was_fused_by_the_product_with_the_query(
    index: Index, texts: list[str], lam: float
) -> None:
    query = QUESTIONS[0]
    found = Hybrid(index, HashEmbedder(), candidates=20, mmr_lambda=lam).retrieve(query, 8)
    fused = plain_retrieve(index, texts, query, 20, range(len(texts)))
    vecs = {row: np.array(index.vecs[row], dtype=float) for row, _ in fused}
    vector = HashEmbedder().embed([query])[0].astype(float)
    picked: list[int] = []
    while len(picked) < 8:
        values = {
            row: lam * float(vecs[row] @ vector)
            - (1 - lam) * max((float(vecs[row] @ vecs[other]) for other in picked), default=0.0)
            for row, _ in fused
            if row not in picked
        }
        best = max(values.values())
        picked.append(next(row for row, _ in fused if values.get(row, -9) >= best - 1e-12))
    assert [hit.index for hit in found] == picked
    scores = dict(fused)
    assert [hit.score for hit in found] == [pytest.approx(scores[row]) for row in picked]
    assert [hit.rank for hit in found] == list(range(1, 9))


def test_equal_scores_go_to_the_lower_row() -> None:
    @dataclass
    class Constant:
        dims: int = 2
        name: str = "constant"

        def embed(self, texts: Sequence[str]) -> Vectors:
            return np.tile(np.array([1, 0], dtype=np.float32), (len(texts), 1))

    # Row 2 is the first of BM25 and the third of vectors, row 0 the other way round, so both have the same sum.
    chunks = [IndexedChunk.of(f"c{row}", "d", text) for row, text in enumerate(["x y y y", "x y y", "x", "z"])]
    vectors = np.array([[1, 0], [0.9, 0.1], [0.8, 0.3], [0, 1]])
    found = Hybrid(Index.build(chunks, vectors, embedding_model="constant"), Constant()).retrieve("x", 4)
    assert [hit.index for hit in found] == [0, 2, 1, 3]
    assert found[0].score == found[1].score == pytest.approx(1 / 61 + 1 / 63)


@pytest.mark.parametrize("query", ["", "!!!", "😀", "\ud800"])
def test_a_question_without_words_finds_nothing(index: Index, query: str) -> None:
    assert Hybrid(index, HashEmbedder(), mmr_lambda=0.5).retrieve(query, 5) == []
    assert Hybrid(index).retrieve("zzzzqqq", 5) == []


def test_no_hits_asked_for_are_none(index: Index) -> None:
    assert Hybrid(index, HashEmbedder()).retrieve("rank", 0) == []
    with pytest.raises(InputError, match="-1 results"):
        Hybrid(index).retrieve("rank", -1)


def test_from_many_rows_on_and_once_built_the_inverted_file_is_used(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = Hybrid(index, HashEmbedder()).retrieve(QUESTIONS[1], 20)
    assert index.ivf is None
    with monkeypatch.context() as patched:
        patched.setattr(index_module, "IVF_FROM", len(index.chunks))
        assert Hybrid(index, HashEmbedder(), nprobe=32).retrieve(QUESTIONS[1], 20) == exact
    try:
        assert index.ivf is not None
        assert len(index.ivf.lists) == 32
        assert Hybrid(index, HashEmbedder(), nprobe=32).retrieve(QUESTIONS[1], 20) == exact
        assert Hybrid(index, HashEmbedder(), nprobe=1).retrieve(QUESTIONS[1], 20) != exact
    finally:
        index.ivf = None


def test_an_embedder_that_does_not_fit_is_an_error_and_another_one_is_told(
    index: Index, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(IndexError_, match="hash-32 makes vectors of 32 dimensions, the index 256"):
        Hybrid(index, HashEmbedder(32))

    class Renamed(HashEmbedder):
        def __init__(self) -> None:
            super().__init__()
            self.name = "other"

    with caplog.at_level(logging.WARNING):
        Hybrid(index, Renamed())
    assert "queries are embedded by other, the index by hash-256" in caplog.text


@pytest.mark.parametrize(
    "settings", [{"candidates": -1}, {"nprobe": 0}, {"mmr_lambda": 1.1}, {"mmr_lambda": float("nan")}, {"rrf_k": -1}]
)
def test_settings_out_of_range_are_errors(index: Index, settings: dict[str, float]) -> None:
    with pytest.raises(InputError):
        Hybrid(index, HashEmbedder(), **settings).retrieve("rank", 1)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="without an embedder"):
        Hybrid(index, mmr_lambda=0.5)
