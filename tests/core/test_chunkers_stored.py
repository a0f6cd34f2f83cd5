"""Every chunker through the lab: what is stored, in which order, and what the heading path changes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from retrieval_lab import Lab, PipelineConfig
from retrieval_lab.assembly import Bench
from retrieval_lab.database import Database
from retrieval_lab.embed import HashEmbedder
from retrieval_lab.settings import ChunkerSettings, DocumentChunker, HashEmbedding, SentenceChunker, WordChunker
from retrieval_lab.store import chunks_of, fetch
from retrieval_lab.types import Chunk

TREE = "# Orchard\n\nThe pear is old. It bears well.\n\n## Cellar\n\nKeep it cool. Turn it weekly.\n"
BEE = "Bees come in May."

# (chunk_id, heading path, text) of every chunk, by hand.
CASES: list[tuple[ChunkerSettings, list[tuple[str, str, str]]]] = [
    (
        WordChunker(8, 2),
        [
            ("bee#000", "", BEE),
            ("tree#000", "Orchard", "# Orchard\n\nThe pear is old. It bears"),
            ("tree#001", "Orchard", "It bears well.\n\n## Cellar\n\nKeep it cool."),
            ("tree#002", "Orchard > Cellar", "it cool. Turn it weekly."),
        ],
    ),
    (
        SentenceChunker(3, 1),
        [
            ("bee#000", "", BEE),
            ("tree#000", "Orchard", "# Orchard\n\nThe pear is old. It bears well."),
            ("tree#001", "Orchard", "It bears well.\n\n## Cellar\n\nKeep it cool."),
            ("tree#002", "Orchard > Cellar", "Keep it cool. Turn it weekly."),
        ],
    ),
    (DocumentChunker(), [("bee#000", "", BEE), ("tree#000", "Orchard", TREE.strip())]),
]


@pytest.fixture(autouse=True)
def _server(database: Database) -> None:
    """Keeps the server up between labs."""


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    for name, text in (("tree", TREE), ("bee", f"{BEE}\n"), ("empty", "\n \n")):
        (tmp_path / "docs" / f"{name}.md").write_text(text, encoding="utf-8")
    return tmp_path


def stored(folder: Path, chunker: ChunkerSettings, headers: bool = False) -> list[tuple[Chunk, np.ndarray]]:
    """Every chunk of the corpus with its vector, in the order of the store."""
    config = PipelineConfig(chunker=chunker, contextual_headers=headers, embedder=HashEmbedding(64))
    with Lab.open(folder, config) as lab:

        def read(bench: Bench) -> list[tuple[Chunk, np.ndarray]]:
            chunks = chunks_of(bench.conn, ["bee", "empty", "tree"], table=bench.table)
            return list(fetch(bench.conn, [one.chunk_id for one in chunks], table=bench.table).values())

        return lab.work(read)


@pytest.mark.parametrize(("chunker", "expected"), CASES)
def test_chunks_are_stored_as_they_are_cut(
    corpus: Path, chunker: ChunkerSettings, expected: list[tuple[str, str, str]]
) -> None:
    found = [chunk for chunk, _ in stored(corpus, chunker)]
    assert [(one.chunk_id, one.heading_path, one.text) for one in found] == expected
    texts = {"tree": TREE, "bee": BEE}
    assert all(texts[one.doc_id][one.start_char : one.end_char] == one.text for one in found)


@pytest.mark.parametrize(("chunker", "expected"), CASES)
def test_contextual_headers_change_what_is_embedded_and_not_what_is_stored(
    corpus: Path, chunker: ChunkerSettings, expected: list[tuple[str, str, str]]
) -> None:
    plain, headed = stored(corpus, chunker), stored(corpus, chunker, headers=True)
    assert [chunk for chunk, _ in headed] == [chunk for chunk, _ in plain]
    for (chunk, before), (_, after), (_, path, text) in zip(plain, headed, expected, strict=True):
        np.testing.assert_allclose(before, HashEmbedder(64).embed([text])[0], atol=1e-6)
        np.testing.assert_allclose(after, HashEmbedder(64).embed([f"{path}\n\n{text}" if path else text])[0], atol=1e-6)
        assert np.allclose(before, after) == (not path), chunk.chunk_id


def test_the_heading_finds_a_window_that_lacks_its_word(corpus: Path) -> None:
    for headers, expected in ((False, set()), (True, {"tree#002"})):
        config = PipelineConfig(chunker=WordChunker(8, 2), contextual_headers=headers, embedder=HashEmbedding(64))
        with Lab.open(corpus, config) as lab:
            found = {hit.chunk_id for hit in lab.trace("cellar").lists["text"]} - {"tree#001"}  # which has the word
            assert found == expected


def test_more_than_a_thousand_chunks_stay_in_the_order_of_the_text(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "tree.md").write_text(" ".join(f"w{n}" for n in range(1101)), encoding="utf-8")
    found = [chunk for chunk, _ in stored(tmp_path, WordChunker(1, 0))]
    assert [one.text for one in found] == [f"w{n}" for n in range(1101)]
    assert [one.chunk_id for one in found[998:1002]] == ["tree#998", "tree#999", "tree#1000", "tree#1001"]
