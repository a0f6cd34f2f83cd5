"""The portable index against bm25s on the same tokens and against bare numpy, at two sizes of synthetic Zipf text.

`python -m tests.benchmarks.portable_index` also prints memory, the time to open an index, recall and the growth from
the smaller size to the larger.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from retrieval_lab.ragindex import BM25, IVF, PCG32, Index, IndexedChunk, flat_search, recall
from retrieval_lab.ragindex.exact import longest
from tests.benchmarks.timing import Ratio, compare

SIZES = (20_000, 100_000)
VOCABULARY, MEAN_WORDS, QUERY_WORDS, QUERIES, TOP = 50_000, 100, 6, 100, 50
DIMS, CLUSTERS, NLIST, NPROBE, ITERS = 256, 500, 32, 8, 10
RECALL = 0.95  # at 10, of IVF against exact search


@dataclass(frozen=True)
class Case:
    """`n` chunks of words that are as frequent as Zipf's law has it, and questions of the same words."""

    n: int

    @cached_property
    def documents(self) -> list[list[str]]:
        return _zipf(self.n, MEAN_WORDS, seed=0)

    @cached_property
    def queries(self) -> list[list[str]]:
        return _zipf(QUERIES, QUERY_WORDS, seed=1)

    @cached_property
    def questions(self) -> list[str]:
        return [" ".join(words) for words in self.queries]

    @cached_property
    def bm25(self) -> BM25:
        return built(self.documents)

    @cached_property
    def vectors(self) -> np.ndarray:
        return _clustered(self.n, seed=0)

    @cached_property
    def points(self) -> np.ndarray:
        return _clustered(QUERIES, seed=1)

    @cached_property
    def ivf(self) -> IVF:
        return IVF.build(self.vectors, NLIST, ITERS, PCG32(0))


def _zipf(n: int, mean: int, seed: int) -> list[list[str]]:
    rng = np.random.default_rng(seed)
    shares = np.cumsum(1 / np.arange(1, VOCABULARY + 1))
    lengths = rng.integers(mean // 2, mean + mean // 2 + 1, n)
    ranks = np.searchsorted(shares, rng.random(int(lengths.sum())) * shares[-1])
    words = np.array([f"w{rank}" for rank in range(VOCABULARY)])[ranks].tolist()
    ends = np.cumsum(lengths).tolist()
    return [words[end - length : end] for end, length in zip(ends, lengths.tolist(), strict=True)]


def _clustered(n: int, seed: int) -> np.ndarray:
    """Unit vectors around the same centres, whatever the seed."""
    centres = np.random.default_rng(99).normal(size=(CLUSTERS, DIMS))
    rng = np.random.default_rng(seed)
    vecs = centres[rng.integers(0, CLUSTERS, n)] + 0.7 * rng.normal(size=(n, DIMS))
    return (vecs / np.linalg.norm(vecs, axis=1, keepdims=True)).astype(np.float32)


def built(documents: Sequence[Sequence[str]]) -> BM25:
    index = BM25.from_terms(documents)
    index.prepare()  # bm25s weighs its postings when it is built
    return index


def peer(documents: list[list[str]], backend: str = "numpy") -> Any:
    import bm25s

    index = bm25s.BM25(method="lucene", k1=1.2, b=0.75, backend=backend)
    index.index(documents, show_progress=False)
    return index


def ratios(n: int = SIZES[0]) -> Iterator[Ratio]:
    case = Case(n)
    size = f"{n:,}"
    theirs = peer(case.documents)
    _same_scores(case, theirs)
    yield compare(
        f"BM25 of {size} chunks built / bm25s, numpy",
        lambda: built(case.documents),
        lambda: peer(case.documents),
        rounds=3,
        bound=1.0,
    )
    yield compare(
        f"BM25, top {TOP} of {size}, {QUERIES} queries / bm25s, one batch",
        _searches(case, lambda question: case.bm25.search(question, TOP)),
        lambda: theirs.retrieve(case.queries, k=TOP, show_progress=False),
        rounds=9,
        bound=1.0,
    )
    mask = np.random.default_rng(2).random(n) < 0.3
    yield compare(
        f"BM25 filtered to 30% of {size} / unfiltered",
        _searches(case, lambda question: case.bm25.search(question, TOP, mask)),
        _searches(case, lambda question: case.bm25.search(question, TOP)),
        rounds=9,
        bound=3.0,
    )
    yield from _vector_ratios(case, mask)


def _vector_ratios(case: Case, mask: np.ndarray) -> Iterator[Ratio]:
    size, most, points = f"{case.n:,}", longest(case.vectors), case.points[:20]

    def exact() -> None:
        for point in points:
            flat_search(case.vectors, point, 10, most=most)

    def filtered() -> None:
        for point in points:
            flat_search(case.vectors, point, 10, mask, most=most)

    def bare() -> None:
        for point in points:
            scores = case.vectors @ point
            first = np.argpartition(scores, len(scores) - 10)[-10:]
            first[np.argsort(-scores[first])]

    def through_lists() -> None:
        for point in points:
            case.ivf.search(point, 10, NPROBE)

    yield compare(f"flat search, {size} x {DIMS} / BLAS and argpartition", exact, bare, rounds=7)
    yield compare(f"flat search filtered to 30% of {size} / unfiltered", filtered, exact, rounds=7, bound=3.0)
    yield compare(f"IVF, {NPROBE} of {NLIST} lists, {size} x {DIMS} / flat search", through_lists, exact, rounds=7)


def _searches(case: Case, search: Callable[[str], object]) -> Callable[[], None]:
    def run() -> None:
        for question in case.questions:
            search(question)

    return run


def _same_scores(case: Case, theirs: Any) -> None:
    """Lucene's form leaves out the factor k1 + 1 and keeps float32."""
    for question, words in list(zip(case.questions, case.queries, strict=True))[:10]:
        assert np.allclose(case.bm25.scores(question), 2.2 * theirs.get_scores(words), rtol=1e-4, atol=1e-5)


# --- what is reported, not bound -----------------------------------------------------------------------------------


def report() -> Iterator[str]:
    taken: dict[str, list[float]] = {}
    for n in SIZES:
        case = Case(n)
        for name, seconds in _seconds(case):
            taken.setdefault(name, []).append(seconds)
        index = case.bm25
        sparse = sum(one.nbytes for one in (index.postings.docs, index.postings.tfs, index._weights))
        dense = sum(row.nbytes for row in index._dense.values())
        rows = f"{len(index._dense)} rows of common terms {dense / 1e6:.0f} MB"
        yield f"{n:,} chunks: postings {sparse / 1e6:.0f} MB, {rows}"
        found = [recall(case.ivf.search(q, 10, NPROBE), flat_search(case.vectors, q, 10)) for q in case.points]
        yield f"{n:,} chunks: recall@10 of {NPROBE} of {NLIST} lists {np.mean(found):.3f} (must be at least {RECALL})"
        assert np.mean(found) >= RECALL
        yield from _against_numba(case)
    for name, (smaller, larger) in taken.items():
        grown = larger / smaller
        yield f"{name:<40} {smaller * 1e3:9.2f} ms -> {larger * 1e3:9.2f} ms  {grown:5.1f}x for {SIZES[1] // SIZES[0]}x"


def _seconds(case: Case) -> Iterator[tuple[str, float]]:
    yield "BM25 build", _timed(lambda: built(case.documents), 2)
    yield "BM25 query", _timed(_searches(case, lambda q: case.bm25.search(q, TOP)), 5) / QUERIES
    data = case.bm25.to_bytes()
    yield "bm25.idx written", _timed(case.bm25.to_bytes, 2)
    yield "bm25.idx read", _timed(lambda: BM25.from_bytes(data), 2)
    yield "IVF build", _timed(lambda: IVF.build(case.vectors, NLIST, ITERS, PCG32(0)), 1)
    most = longest(case.vectors)
    yield "flat query", _timed(lambda: [flat_search(case.vectors, q, 10, most=most) for q in case.points], 3) / QUERIES
    yield "IVF query", _timed(lambda: [case.ivf.search(q, 10, NPROBE) for q in case.points], 3) / QUERIES
    with tempfile.TemporaryDirectory() as folder:
        chunks = [IndexedChunk.of(f"c{row}", "d", " ".join(words)) for row, words in enumerate(case.documents)]
        index = Index.build(chunks, case.vectors, embedding_model="none")
        yield "index written", _timed(lambda: index.write(Path(folder) / "index"), 1)
        yield "index opened", _timed(lambda: Index.open(Path(folder) / "index"), 2)


def _against_numba(case: Case) -> Iterator[str]:
    try:
        import numba  # noqa: F401
    except ImportError:
        yield "bm25s with numba: numba is not installed"
        return
    theirs = peer(case.documents, "numba")
    yield str(
        compare(
            f"BM25, top {TOP} of {case.n:,}, {QUERIES} queries / bm25s, numba",
            _searches(case, lambda question: case.bm25.search(question, TOP)),
            lambda: theirs.retrieve(case.queries, k=TOP, show_progress=False),
            rounds=9,
        )
    )


def _timed(work: Callable[[], object], rounds: int) -> float:
    """The best of the rounds, after one warm-up."""
    work()
    taken = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return min(taken)


if __name__ == "__main__":
    for number in SIZES:
        for ratio in ratios(number):
            print(ratio, flush=True)
    for line in report():
        print(line, flush=True)
