"""The index in memory and the table that it is made from: threads, tables of any kind, what is indexed, its parts."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest

from retrieval_lab import Lab, PipelineConfig, corpus_index
from retrieval_lab.corpus_index import CorpusIndex, IndexKeeper, Origin, chunk_of, indexed_chunk, table_stamp
from retrieval_lab.database import Database
from retrieval_lab.embed import HashEmbedder, QueryVectors
from retrieval_lab.ragindex import Index, IndexedChunk
from retrieval_lab.retrievers.base import Surroundings
from retrieval_lab.retrievers.bm25 import Bm25Search, StemmedBm25Search
from retrieval_lab.retrievers.dense import FlatSearch
from retrieval_lab.retrievers.tfidf import TfIdfSearch
from retrieval_lab.settings import NoReranker
from retrieval_lab.store import CHUNKS, Schema, upsert
from retrieval_lab.types import Chunk, Filter
from tests.core.memory import chunks_of, ids_of
from tests.core.ragindex import plain

Connection = psycopg.Connection[Any]


def put(conn: Connection, texts: list[str], doc_id: str) -> None:
    chunks = [Chunk(f"{doc_id}#{number:03}", doc_id, "", 0, len(text), text) for number, text in enumerate(texts)]
    upsert(conn, chunks, HashEmbedder(16))
    conn.execute("INSERT INTO indexed_documents VALUES (%s, %s, 'file', 'docs/x.md', '')", (doc_id, "".join(texts)))


def small_table(conn: Connection) -> Any:
    """Two documents of two chunks, as an indexed corpus has them."""
    Schema.create(conn, 16)
    conn.execute("CREATE TABLE indexed_documents (doc_id text, fingerprint text, source text, uri text, title text)")
    put(conn, ["one", "two"], "doc0")
    put(conn, ["three", "four"], "doc1")
    row = conn.execute("SELECT current_schema()").fetchone()
    assert row is not None
    return replace(CHUNKS, schema=row[0])


def test_what_changes_while_it_is_read_is_not_taken_for_what_was_there_before(
    fresh: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, folder = small_table(fresh), tmp_path / "kept"
    keeper = IndexKeeper(folder)
    build = corpus_index.index_of_table

    def meanwhile(*arguments: Any) -> Index:
        fresh.execute("DELETE FROM chunks WHERE doc_id = 'doc1'")
        fresh.execute("DELETE FROM indexed_documents WHERE doc_id = 'doc1'")
        return build(*arguments)

    monkeypatch.setattr(corpus_index, "index_of_table", meanwhile)
    assert keeper.current(fresh, table).chunk_ids == ("doc0#000", "doc0#001")
    assert not folder.exists()
    monkeypatch.undo()
    put(fresh, ["three", "four"], "doc1")
    assert len(keeper.current(fresh, table).chunk_ids) == 4
    assert len(IndexKeeper(folder).current(fresh, table).chunk_ids) == 4


def test_threads_that_ask_at_once_wait_for_one_index(
    fresh: Connection, database: Database, builds: list[str], tmp_path: Path
) -> None:
    table, keeper = small_table(fresh), IndexKeeper(tmp_path / "kept", Origin("hash", {"kind": "markdown"}))
    start = threading.Barrier(4)

    def ask() -> CorpusIndex:
        with database.connect() as conn:
            start.wait()
            return keeper.current(conn, table)

    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(ask) for _ in range(4)]
    assert {id(one.result()) for one in asked} == {id(asked[0].result())}
    assert len(builds) == 1
    meta = asked[0].result().index.meta
    assert (meta.embedding_model, meta.chunker, meta.n_chunks) == ("hash", {"kind": "markdown"}, 4)


def test_a_table_without_documents_works_in_memory(fresh: Connection, builds: list[str], tmp_path: Path) -> None:
    """Whatever stands in it may change without a sign, so nothing of it is kept."""
    Schema.create(fresh, 16)
    upsert(fresh, chunks_of(["tea cup", "ship", "tea", "harbour"]), HashEmbedder(16))
    assert table_stamp(fresh) is None
    folder = tmp_path / "kept"
    on = Surroundings(fresh, QueryVectors(HashEmbedder(16)), keeper=IndexKeeper(folder))
    for settings in (Bm25Search(), StemmedBm25Search(), TfIdfSearch()):
        retriever: Any = settings.build(on)
        assert ids_of(retriever.search("tea", 9)) == ["doc1#000", "doc0#000"]
        assert ids_of(retriever.search("tea", 9, Filter(doc_ids=("doc0",)))) == ["doc0#000"]
    assert not folder.exists()
    upsert(fresh, [Chunk("new#000", "new", "", 0, 3, "tea")], HashEmbedder(16))
    assert ids_of(Bm25Search().build(on).search("tea", 9)) == ["doc1#000", "new#000", "doc0#000"]
    assert len(builds) == 4


def test_the_rows_are_those_of_the_table(fresh: Connection) -> None:
    """In code point order, whatever the database sorts by, with unit vectors."""
    Schema.create(fresh, 16)
    texts = {"b#000": "tea", "B#000": "cup", "ä#000": "ship", "a#000": "the harbour", "Z#000": "!!!"}
    chunks = [Chunk(one, one[0], f"Of {one}", 3, 3 + len(text), text) for one, text in texts.items()]
    upsert(fresh, chunks, HashEmbedder(16))
    found = IndexKeeper().current(fresh, CHUNKS)
    assert found.chunk_ids == ("B#000", "Z#000", "a#000", "b#000", "ä#000")
    assert [chunk_of(one) for one in found.index.chunks] == sorted(chunks, key=lambda one: one.chunk_id)
    wanted = HashEmbedder(16).embed([texts[one] for one in found.chunk_ids])
    assert np.allclose(found.index.vecs, wanted, atol=1e-6)
    assert found.rows == {one: row for row, one in enumerate(found.chunk_ids)}


@pytest.mark.usefixtures("database")
@pytest.mark.parametrize("headers", [False, True])
def test_what_is_indexed_has_the_headers_that_the_configuration_has(tmp_path: Path, headers: bool) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "deep.md").write_text(
        "# Kitchen\n\nNothing.\n\n## Crockery\n\nA spoon.\n\nAnother one.\n\n### Below\n\nA saucer.\n", encoding="utf-8"
    )
    retrievers = (Bm25Search(), StemmedBm25Search(), TfIdfSearch(), FlatSearch())
    config = PipelineConfig(retrievers=retrievers, reranker=NoReranker(), mmr_lambda=None, contextual_headers=headers)
    for _ in range(2):  # made, and then opened
        with Lab.open(tmp_path, config) as lab:
            trace = lab.trace("kitchen crockery saucer")
            chunks = lab.chunks(ids_of(trace.lists["flat"]))
            below = next(one for one, chunk in chunks.items() if "A saucer." in chunk.text)
            # Its own heading stands in its text; those above it only in its heading path.
            assert "Kitchen" not in chunks[below].text
            assert all((below in ids_of(lab.trace("kitchen").lists[one.name])) == headers for one in retrievers[:3])
            assert ids_of(trace.lists["bm25"])[0] == below or not headers


# --- parts ---------------------------------------------------------------------------------------------------------


def test_a_chunk_comes_back_as_it_was() -> None:
    chunk = Chunk("a#001", "a", "One > Two", 17, 23, "saucer")
    assert chunk_of(indexed_chunk(chunk, source="file", uri="docs/a.md", title="A")) == chunk
    assert chunk_of(indexed_chunk(Chunk("b#000", "b", "", 0, 0, ""))) == Chunk("b#000", "b", "", 0, 0, "")


@pytest.mark.parametrize("extra", [{}, {"start_char": "7", "end_char": None}, {"start_char": -1, "heading_path": None}])
def test_a_chunk_of_another_program_has_what_there_is(extra: dict[str, Any]) -> None:
    stored = IndexedChunk.of("x#000", "x", "saucer", extra=extra)
    assert chunk_of(stored) == Chunk("x#000", "x", "", 0, 6, "saucer")


def test_what_is_made_of_an_index_is_made_once_and_keeps_nobody_else_waiting(tmp_path: Path) -> None:
    folder = plain.write_index(tmp_path / "index", ["tea"], [[1.0, 0.0, 0.0, 0.0]])
    index = CorpusIndex(Index.open(folder))
    made: list[int] = []
    busy, may_end = threading.Event(), threading.Event()

    def slowly() -> int:
        made.append(1)
        busy.set()
        assert may_end.wait(30)
        return 7

    with ThreadPoolExecutor(3) as pool:
        asked = [pool.submit(index.once, "slow", slowly) for _ in range(2)]
        assert busy.wait(30)
        assert pool.submit(index.once, "quick", lambda: 3).result(30) == 3
        may_end.set()
        assert [one.result(30) for one in asked] == [7, 7]
    assert len(made) == 1


def test_threads_share_the_masks_of_filters(tmp_path: Path) -> None:
    """More filters than are remembered, from several threads: each gets the mask of its own."""
    texts = [f"text {number}" for number in range(80)]
    index = Index.open(plain.write_index(tmp_path / "index", texts, [[1.0, 0.0, 0.0, 0.0]] * 80))
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    def wrong(start: int) -> list[int]:
        found = []
        for step in range(400):
            number = (start + 7 * step) % 40
            mask = index.mask(Filter(doc_ids=(f"d{number}",)))
            if mask is None or np.flatnonzero(mask).tolist() != [2 * number, 2 * number + 1]:
                found.append(number)
        return found

    try:
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(wrong, range(4))) == [[]] * 4
    finally:
        sys.setswitchinterval(interval)
